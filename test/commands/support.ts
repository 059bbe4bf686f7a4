import { type ChildProcess, type SpawnOptions, type SpawnSyncOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, onTestFinished } from 'vitest';
import type { Context } from '../../src/commands/context.ts';
import { runProgram } from '../../src/commands/program.ts';
import { loadConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { lineWidth } from '../../src/text/terminal.ts';
import { createHome, removeHome } from '../support/home.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const main = join(root, 'dist/main.js');
/** As on the PATH of the image: messages then call it `pullscore`. */
const program = join(root, 'node_modules/.cache/pullscore');

const newestIn = (folder: string): number =>
  Math.max(
    ...readdirSync(folder, { recursive: true, withFileTypes: true }).map(entry =>
      entry.isFile() ? statSync(join(entry.parentPath, entry.name)).mtimeMs : 0,
    ),
  );

let isBuilt = false;

/** @throws if the program is missing or older than its sources; `npm test` builds it first */
export function requireBuild(): void {
  if (isBuilt) return;
  if (!existsSync(main) || newestIn(join(root, 'dist')) < newestIn(join(root, 'src'))) {
    throw new Error('dist is older than src: run npm run build.');
  }
  isBuilt = true;
  if (existsSync(program)) return;
  mkdirSync(dirname(program), { recursive: true });
  try {
    symlinkSync(main, program);
  } catch (error) {
    // Another worker was faster.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** A folder for the files of the tests in one file, which calls this at its top. */
export function createFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'pullscore-tests-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const write = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  /** Rules of one entry each. JSON is YAML. */
  const writeRules = (name: string, ...rules: (readonly [name: string, expression: string, value: string])[]): string =>
    write(name, JSON.stringify({ rules: rules.map(([rule, ...entry]) => ruleWith(rule, entry)) }));
  return { folder, write, writeRules };
}

/** A folder that ends with the test, with the embedded database that a command may make there. */
export function newHome(name: string): string {
  const home = createHome(name);
  onTestFinished(() => removeHome(home));
  return home;
}

/** As a rules file has it. */
export const ruleWith = (name: string, ...entries: (readonly [expression: string, value: string])[]) => ({
  name,
  logic: entries.map(([expression, value]) => ({ expression, effect: { action: 'ADD', value } })),
});

export type Environment = Record<string, string>;

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Running {
  child: ChildProcess;
  /** What it has written so far. */
  output: Pick<Ended, 'stdout' | 'stderr'>;
  /** Waits until standard output or standard error matches; fails if the command ends first. */
  shows(pattern: RegExp): Promise<RegExpExecArray>;
  ended: Promise<Ended>;
}

type Settings = Readonly<Record<string, string | undefined>>;

/** For a process that inherits only PATH from the environment of the tests. */
const settingsOf = (environment: Settings) => ({
  cwd: tmpdir(),
  env: {
    PATH: process.env.PATH ?? '',
    // From Node 22 on, processes share compiled code here.
    NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/pullscore-tests'),
    // A command without DATABASE_URL must not start an embedded server.
    PULLSCORE_HOME: '/nonexistent/pullscore',
    ...environment,
  },
});

/** The words of a command line. The first string may have several, as in `'rules apply', file`. */
const wordsOf = (line: readonly string[]) => line.flatMap((part, index) => (index === 0 ? part.split(' ') : part));

/** Runs a command with its own standard input, standard output or user. */
export function runWith(options: SpawnSyncOptions, environment: Environment, ...line: string[]) {
  requireBuild();
  const settings = { ...settingsOf(environment), ...options, encoding: 'utf8' } as const;
  const { status: code, stdout, stderr } = spawnSync(process.execPath, [program, ...wordsOf(line)], settings);
  return { code, stdout, stderr };
}

export const start = (environment: Environment, ...line: string[]): Running =>
  startProcess(environment, [process.execPath, program, ...wordsOf(line)]);

/** Starts a whole command line, by default in a folder that is not the checkout. */
export function startProcess(
  environment: Environment,
  [file = '', ...operands]: readonly string[],
  options: SpawnOptions = {},
): Running {
  requireBuild();
  const child = spawn(file, operands, {
    ...settingsOf(environment),
    ...options,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = read(child.stdout, child.stderr);
  const ended = once(child, 'close').then(([code]) => ({ code, ...output }));
  return {
    child,
    output,
    ended,
    shows: pattern => show(output, pattern, () => child.exitCode),
  };
}

/** What a command has written so far. */
function read(stdout: Readable, stderr: Readable) {
  const output = { stdout: '', stderr: '' };
  stdout.setEncoding('utf8').on('data', text => {
    output.stdout += text;
  });
  stderr.setEncoding('utf8').on('data', text => {
    output.stderr += text;
  });
  return output;
}

async function show(output: ReturnType<typeof read>, pattern: RegExp, exitCode: () => number | null) {
  for (;;) {
    const found = pattern.exec(output.stdout) ?? pattern.exec(output.stderr);
    if (found !== null) return found;
    if (exitCode() !== null) throw new Error(`ended with ${exitCode()}: ${output.stderr}`);
    await delay(10);
  }
}

/** Like {@link start}, but killed when the test ends. */
export function startForTest(environment: Environment, ...line: string[]): Running {
  const running = start(environment, ...line);
  onTestFinished(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
  });
  return running;
}

/**
 * Types a command in the checkout, as the documentation shows it. npm asks no registry. All that the command starts is
 * killed when the test ends.
 */
export function typeForTest(environment: Environment, line: string): Running {
  const settings = { npm_config_cache: join(root, 'node_modules/.cache/npm'), npm_config_offline: 'true' };
  const running = startProcess({ ...environment, ...settings }, line.split(' '), { cwd: root, detached: true });
  onTestFinished(async () => {
    try {
      process.kill(-Number(running.child.pid), 'SIGKILL');
    } catch {
      // It has ended.
    }
    await running.ended;
  });
  return running;
}

/** Starts a command in this process. Its configuration is `environment`, but `pg` also reads the tests' `PG…` variables. */
export function startHere(environment: Settings, ...line: string[]) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const output = read(stdout, stderr);
  const interruption = new AbortController();
  const context: Context = {
    get config() {
      return loadConfig(settingsOf(environment).env);
    },
    get log() {
      return createLog(this.config, stderr);
    },
    program: 'pullscore',
    interrupted: interruption.signal,
    stdout,
    columns: lineWidth({}, environment.COLUMNS),
    stderr,
  };
  let exitCode: number | null = null;
  const ended = runProgram(context, wordsOf(line)).then(async code => {
    exitCode = code;
    await Promise.all([stdout, stderr].map(stream => finished(stream.end())));
    return { code, ...output };
  });
  return {
    ended,
    shows: (pattern: RegExp) => show(output, pattern, () => exitCode),
    /** As a signal does. */
    interrupt: () => interruption.abort(),
  };
}

/** Runs a command in this process. */
export const runHere = (environment: Settings, ...line: string[]) => startHere(environment, ...line).ended;

/** Runs a command that must succeed in this process, and parses its JSON document. */
export async function runJson<Answer = Record<string, unknown>>(
  environment: Environment,
  ...line: string[]
): Promise<Answer> {
  const { code, stdout, stderr } = await runHere(environment, ...line, '--json');
  if (code !== 0) throw new Error(`${line.join(' ')} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

/** Commands that all have this environment. */
export const commandsWith = (environment: Environment) => ({
  run: (...line: string[]) => runHere(environment, ...line),
  runJson: <Answer = Record<string, unknown>>(...line: string[]) => runJson<Answer>(environment, ...line),
});

/**
 * What a command writes that ends with this code and without an answer: one line for people, and perhaps lines of the log.
 * The last one is without its end.
 */
export async function complaintOf(running: Promise<Ended> | Ended, code = 1): Promise<string> {
  const { stderr, ...ended } = await running;
  expect(ended).toEqual({ code, stdout: '' });
  expect(stderr.split('\n').filter(line => !line.startsWith('{'))).toEqual([/^pullscore: /, '']);
  return stderr.slice(0, -1);
}
