import { spawn } from 'node:child_process';
import { readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ServiceError } from '../../errors.ts';
import { errorCode, giveToFolderOwner, homeFiles, type StartMessage } from './files.ts';
import { isIdTaken } from './processes.ts';

/** A process that starts a guardian says so at least this often, in milliseconds. */
const claimLifetime = 5000;

/**
 * Of many that find no server, one starts it. This only spares the others the work: what keeps two servers off one
 * data directory is PostgreSQL's lock. Answers the function that gives the claim back, undefined if another has it.
 */
export function claimStart(home: string): (() => void) | undefined {
  const path = homeFiles(home).starting;
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx', mode: 0o600 });
    giveToFolderOwner(path);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw unwritable(home, error);
    removeStaleClaim(path);
    return undefined;
  }
  const renewal = setInterval(() => {
    try {
      utimesSync(path, new Date(), new Date());
    } catch {
      // It was taken for stale; that does no harm.
    }
  }, claimLifetime / 5);
  return () => {
    clearInterval(renewal);
    rmSync(path, { force: true });
  };
}

function removeStaleClaim(path: string): void {
  try {
    const owner = Number(readFileSync(path, 'utf8'));
    const age = Math.abs(Date.now() - statSync(path).mtimeMs);
    // A file that is still empty was made just now.
    if (age > claimLifetime || (owner > 0 && !isIdTaken(owner))) rmSync(path, { force: true });
  } catch {
    // Its owner removed it.
  }
}

/**
 * Starts a guardian, and waits until it has a server. False if another guardian has the data directory, or this one
 * was killed.
 * @throws ServiceError with the guardian's own reason
 */
export async function startGuardian(home: string, durable: boolean, log: (message: string) => void): Promise<boolean> {
  const child = spawn(
    process.execPath,
    [...guardianProgram(), `--home=${home}`, ...(durable ? [] : ['--not-durable'])],
    // A session of its own: what Ctrl-C or a closed terminal sends to ours does not reach it.
    { detached: true, cwd: '/', env: guardianEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let errors = '';
  const killedBy = new Promise<NodeJS.Signals | null>(resolve => {
    child.once('exit', (_code, signal) => resolve(signal));
    child.once('error', error => {
      errors += error.message;
      resolve(null);
    });
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const slow = setInterval(() => log('still waiting for the embedded database to start'), 10_000);
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const message = JSON.parse(line) as StartMessage;
      if (message.note !== undefined) log(message.note);
      if (message.error !== undefined) throw unavailable(message.error);
      if (message.retry !== undefined) return false;
      if (message.ready !== undefined) return true;
    }
    if ((await killedBy) !== null) return false;
    const lines = errors.trim().split('\n');
    const reason = lines.find(text => text.includes('Error')) ?? lines.at(-1);
    throw unavailable(`the embedded database's guardian did not start: ${reason || 'it was ended'}`);
  } finally {
    clearInterval(slow);
    child.unref();
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/**
 * The guardian's program lies beside this one. In a checkout (tests, development) that is TypeScript, which newer
 * Nodes run as it is; older ones run it by tsx, which is installed wherever the sources are worked on. The built one
 * in dist is not taken there: it may be older than the source.
 */
function guardianProgram(): string[] {
  if (!import.meta.url.endsWith('.ts')) return [fileURLToPath(new URL('./guardian.js', import.meta.url))];
  const source = fileURLToPath(new URL('./guardian.ts', import.meta.url));
  if (Reflect.get(process.features, 'typescript')) return [source];
  return ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href, source];
}

/** None of our secrets: the environment of a process that outlives us is not the place for them. */
function guardianEnvironment(): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH'];
  return Object.fromEntries(names.map(name => [name, process.env[name]]).filter(([, value]) => value !== undefined));
}

export function unwritable(home: string, cause: unknown): ServiceError {
  const message = `${home} cannot be used (${(cause as Error).message}): set PULLSCORE_HOME or DATABASE_URL`;
  return new ServiceError('database_unavailable', message, { cause });
}

export function unavailable(message: string): ServiceError {
  return new ServiceError('database_unavailable', message);
}
