import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { setVariables } from '../src/config.ts';
import { joinEmbeddedDatabase } from '../src/database/embedded-server.ts';
import { shellWord } from '../src/text/terminal.ts';

/** A failure that the user can fix. */
export class DemoError extends Error {}

const checkout = fileURLToPath(new URL('..', import.meta.url));
const program = join(checkout, 'dist', 'main.js');

/**
 * Ends a process when the demo ends: the kernel then closes their channel, even if the demo is killed. The service also
 * removes the home, with retries for ten seconds, because another command may still write to it. A command that was about
 * to start may make the home again: then it removes that.
 */
const tether = (home: string, isService: boolean) => `
  import { existsSync, realpathSync, rmSync } from 'node:fs';
  const home = ${JSON.stringify(home)};
  const database = home + '/postgresql';
  const remove = folder => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  const end = () => {
    if (${isService}) process.once('exit', () => [realpathSync(database), home].forEach(remove));
    else if (!existsSync(database)) remove(home);
    process.kill(process.pid, 'SIGTERM');
  };
  process.once('disconnect', end);
  process.channel?.unref();`;

/** The service and its database stop sooner. */
const stopTimeoutMs = 12_000;

export type Environment = Record<string, string>;

/** The user's other variables, which would change what commands do, as empty ones: a command would read them in `.env`. */
const others = (settings: Environment, envFile: string): Environment => {
  const inFile = existsSync(envFile) ? parseEnv(readFileSync(envFile, 'utf8')) : {};
  const names = setVariables({ ...inFile, ...process.env }).filter(name => !(name in settings));
  return Object.fromEntries(names.map(name => [name, '']));
};

/** Inherits only what programs need to run, not the user's DATABASE_URL or GITHUB_TOKEN. */
export function createEnvironment(settings: Environment, envFile = join(checkout, '.env')): Environment {
  const inherited = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'LC_ALL', 'TZ', 'LD_LIBRARY_PATH'].flatMap(name => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(inherited), ...others(settings, envFile), ...settings };
}

/** With what commands in another shell need: the settings, and none of the user's own that would change what they do. */
export function exportLine(settings: Environment, envFile = join(checkout, '.env')): string {
  const values = { ...others(settings, envFile), ...settings };
  return `export ${Object.entries(values)
    .map(([name, value]) => `${name}=${value === '' ? '' : shellWord(value)}`)
    .join(' ')}`;
}

/** @throws DemoError with what to do */
export function requireBuild(): void {
  if (!existsSync(program)) throw new DemoError('pullscore is not built (dist/main.js is missing): run npm ci first.');
}

/** Starts it in its own session: Ctrl-C reaches only the demo, which then stops everything in order. */
function start(environment: Environment, operands: readonly string[], stderr: 'pipe' | number) {
  const { PULLSCORE_HOME: home = '' } = environment;
  const tethered = ['--import', `data:text/javascript,${encodeURIComponent(tether(home, operands[0] === 'serve'))}`];
  return spawn(process.execPath, [...tethered, program, ...operands], {
    cwd: checkout,
    env: environment,
    detached: true,
    stdio: ['ignore', 'pipe', stderr, 'ipc'],
  });
}

/** Runs a command. @returns what it printed @throws DemoError with its error message */
export async function runCommand(
  environment: Environment,
  operands: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  const child = start(environment, operands, 'pipe');
  const interrupt = () => child.kill('SIGINT');
  signal.addEventListener('abort', interrupt);
  const [output, errors, [code, endedBy]] = await Promise.all([
    text(child.stdout as Readable),
    text(child.stderr as Readable),
    once(child, 'close') as Promise<[number | null, string | null]>,
  ]);
  signal.removeEventListener('abort', interrupt);
  signal.throwIfAborted();
  if (code === 0) return output.trim();
  throw new DemoError(
    `pullscore ${operands.join(' ')} failed (${endedBy ?? `exit code ${code}`}):\n${lastLines(errors)}`,
  );
}

/** The last lines of a log, shortened. */
const lastLines = (text: string): string =>
  text
    .trim()
    .split('\n')
    .slice(-5)
    .map(line => line.slice(0, 400))
    .join('\n');

interface Service {
  url: string;
  /** Rejects if the service ends unexpectedly. */
  failed: Promise<never>;
}

/**
 * Starts `pullscore serve` and waits until it is ready.
 *
 * @param onStart gets a function that stops the service, even during its start, and resolves when it and its database
 * have ended
 */
export async function startService(
  environment: Environment & { PULLSCORE_HOME: string },
  signal: AbortSignal,
  onStart: (stop: () => Promise<void>) => void,
): Promise<Service> {
  const log = join(environment.PULLSCORE_HOME, 'service.log');
  const file = openSync(log, 'a');
  const child = start(environment, ['serve', '--json'], file);
  closeSync(file);
  const ended = once(child, 'exit');
  let stopping = false;
  onStart(() => {
    stopping = true;
    return stop(child, environment.PULLSCORE_HOME);
  });

  const failed = ended.then(([code, signal]) => {
    if (stopping) return new Promise<never>(() => undefined);
    throw new DemoError(
      `the service has ended (${signal ?? `exit code ${code}`}):\n${lastLines(readFileSync(log, 'utf8'))}`,
    );
  });
  failed.catch(() => undefined);
  if (child.stdout === null) throw new Error('the service has no standard output');
  const ready = once(createInterface({ input: child.stdout }), 'line', { signal }) as Promise<[string]>;
  const [line] = await Promise.race([ready, failed]);
  // A failure is a document of several lines.
  if (line === '{') await failed;
  const { url } = JSON.parse(line) as { url: string };
  return { url, failed };
}

async function stop(child: ChildProcess, home: string): Promise<void> {
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const gone = isRunning() ? once(child, 'exit') : undefined;
  if (isRunning()) child.kill('SIGINT');
  await Promise.race([gone, delay(stopTimeoutMs, undefined, { ref: false })]);
  if (isRunning()) child.kill('SIGKILL');
  await gone;
  // A service that was killed leaves its database running. To join and leave it stops it.
  if (child.signalCode === 'SIGKILL') await (await joinEmbeddedDatabase({ home })).leave();
}

/** PORT, or else the default port, if it is free; otherwise any port. */
export async function choosePort(): Promise<string> {
  const server = createServer();
  try {
    server.listen({ host: '127.0.0.1', port: process.env.PORT || '3000' });
    await once(server, 'listening');
    return process.env.PORT || '3000';
  } catch {
    return '0';
  } finally {
    server.close();
  }
}
