import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { dirname, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ServiceError } from '../errors.ts';
import {
  type ControlAnswer,
  errorCode,
  giveToFolderOwner,
  homeFiles,
  readServerFile,
  type ServerFile,
  type StartMessage,
} from './embedded-files.ts';
import { isGuardian, isIdTaken } from './embedded-processes.ts';

export interface EmbeddedDatabase {
  /**
   * `postgres://…` of a database named `pullscore`, whose role may do everything. It stays the same, also over restarts,
   * unless some other program took the port while the server was down.
   */
  readonly url: string;
  readonly dataDirectory: string;
  /** Gives the server back, and resolves when that is done: for the last user when it is down. */
  leave(): Promise<void>;
}

interface Options {
  home: string;
  durable?: boolean;
  log?: (message: string) => void;
}

interface Lease {
  url: string;
  dataDirectory: string;
  /** Resolves when the guardian is gone, or has taken the lease back. */
  closed: Promise<void>;
  release(): Promise<void>;
}

/** A recovery after a crash can take a while; no sign of life for so long, in milliseconds, is a failure. */
const patience = 120_000;
/** How long the guardian may take to stop the server, in milliseconds. */
const leavePatience = 10_000;
/** A process that starts a guardian says so at least this often, in milliseconds. */
const claimLifetime = 5000;

/**
 * Joins the embedded server of `home`, starting it first where none runs. All processes that join the same home share
 * one server; it ends with the last of them, however that one ends. If the server or its guardian is killed, both come
 * back by themselves, and connections made after that work again.
 * @param options.durable false for tests: a crash of the machine may then lose or damage the data
 * @param options.log gets what is worth telling the operator: where the data lies, a server that had to be restarted
 * @throws ServiceError `database_unavailable`, with what to do
 */
export async function joinEmbeddedDatabase(options: Options): Promise<EmbeddedDatabase> {
  const { durable = true, log = () => undefined } = options;
  const home = prepareHome(options.home);
  let lease = await acquire(home, durable, log);
  let hasLeft = false;
  let rejoining = Promise.resolve();

  async function rejoin(): Promise<void> {
    log('the embedded database has lost its guardian: starting it again');
    while (!hasLeft) {
      try {
        const { url } = lease;
        lease = await acquire(home, durable, log);
        if (lease.url !== url) log('the embedded database had to take another port: restart pullscore');
        watch();
        return;
      } catch (error) {
        log((error as Error).message);
        await sleep(1000, undefined, { ref: false });
      }
    }
  }

  function watch(): void {
    void lease.closed.then(() => {
      if (!hasLeft) rejoining = rejoin();
    });
  }

  watch();
  return {
    get url() {
      return lease.url;
    },
    get dataDirectory() {
      return lease.dataDirectory;
    },
    async leave() {
      hasLeft = true;
      await rejoining;
      await lease.release();
    },
  };
}

/** Makes the folder, and answers its one true name, by which guardians are told apart. */
function prepareHome(given: string): string {
  const home = resolve(given);
  if (process.platform === 'win32') {
    throw unavailable('the embedded database needs Linux or macOS: set DATABASE_URL');
  }
  try {
    mkdirSync(dirname(home), { recursive: true });
    try {
      mkdirSync(home);
      // PostgreSQL's user has to pass through a home that root made; the guardian gives it the group.
      chmodSync(home, process.getuid?.() === 0 && !isOthers(dirname(home)) ? 0o710 : 0o700);
      giveToFolderOwner(home);
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
    }
    return realpathSync(home);
  } catch (error) {
    throw unwritable(home, error);
  }
}

function isOthers(folder: string): boolean {
  return statSync(folder).uid !== 0;
}

async function acquire(home: string, durable: boolean, log: (message: string) => void): Promise<Lease> {
  const deadline = Date.now() + patience;
  for (let wait = 10; Date.now() < deadline; ) {
    const server = readServer(home);
    const lease = server === undefined ? undefined : await connectTo(server, home, durable, deadline);
    if (lease !== undefined) return lease;
    const claim = claimStart(home);
    if (claim !== undefined) {
      try {
        // The one who had the claim before us may have finished just now.
        if (readServer(home)?.secret === server?.secret && (await startGuardian(home, durable, log))) continue;
      } finally {
        claim();
      }
      wait = Math.min(wait * 2, 250);
    }
    await sleep(wait);
  }
  throw unavailable(`the embedded database did not become ready: see ${homeFiles(home).log}, or set DATABASE_URL`);
}

function readServer(home: string): ServerFile | undefined {
  try {
    return readServerFile(home);
  } catch (error) {
    throw unwritable(home, error);
  }
}

/** Undefined if no guardian of this home is there any more. */
async function connectTo(
  server: ServerFile,
  home: string,
  durable: boolean,
  deadline: number,
): Promise<Lease | undefined> {
  // Some other program may have got the port of a killed guardian.
  if (!isGuardian(server.pid, home)) return undefined;
  return new Promise((settle, reject) => {
    const socket = connect({ host: '127.0.0.1', port: server.port });
    const timeout = setTimeout(() => socket.destroy(), Math.max(0, deadline - Date.now()));
    const closed = new Promise<void>(gone => socket.once('close', () => gone()));
    const settled = (lease?: Lease) => {
      clearTimeout(timeout);
      settle(lease);
    };
    void closed.then(() => settled());
    socket.on('error', () => undefined);
    socket.setNoDelay(true).write(`${server.secret}\n`);
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text;
      if (!received.endsWith('\n')) return;
      const answer = parseAnswer(received);
      if (answer?.url === undefined || answer.dataDirectory === undefined) {
        socket.destroy();
      } else if (durable && answer.durable === false) {
        socket.destroy();
        reject(unavailable(`the embedded database in ${home} runs for tests, and may lose data: stop it first`));
      } else {
        // The lease by itself keeps no process alive.
        socket.unref();
        settled({ url: answer.url, dataDirectory: answer.dataDirectory, closed, release });
      }
    });

    async function release(): Promise<void> {
      socket.ref();
      socket.end();
      const timeout = setTimeout(() => socket.destroy(), leavePatience);
      await closed;
      clearTimeout(timeout);
    }
  });
}

function parseAnswer(text: string): ControlAnswer | undefined {
  try {
    return JSON.parse(text) as ControlAnswer;
  } catch {
    return undefined;
  }
}

/**
 * Of many that find no server, one starts it. This only spares the others the work: what keeps two servers off one
 * data directory is PostgreSQL's lock. Answers the function that gives the claim back, undefined if another has it.
 */
function claimStart(home: string): (() => void) | undefined {
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
 * Starts a guardian, and waits until it has a server. False if another guardian has the data directory.
 * @throws ServiceError with the guardian's own reason
 */
async function startGuardian(home: string, durable: boolean, log: (message: string) => void): Promise<boolean> {
  const child = spawn(
    process.execPath,
    [...guardianProgram(), `--home=${home}`, ...(durable ? [] : ['--not-durable'])],
    // A session of its own: what Ctrl-C or a closed terminal sends to ours does not reach it.
    { detached: true, cwd: '/', env: guardianEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let errors = '';
  child.on('error', error => {
    errors += error.message;
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
    const reason =
      errors
        .trim()
        .split('\n')
        .find(text => text.includes('Error')) ?? errors.trim().split('\n').at(-1);
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
  if (!import.meta.url.endsWith('.ts')) return [fileURLToPath(new URL('./embedded-server.js', import.meta.url))];
  const source = fileURLToPath(new URL('./embedded-server.ts', import.meta.url));
  if (Reflect.get(process.features, 'typescript')) return [source];
  return ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href, source];
}

/** None of our secrets: the environment of a process that outlives us is not the place for them. */
function guardianEnvironment(): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH'];
  return Object.fromEntries(names.map(name => [name, process.env[name]]).filter(([, value]) => value !== undefined));
}

function unwritable(home: string, cause: unknown): ServiceError {
  const message = `${home} cannot be used (${(cause as Error).message}): set PULLSCORE_HOME or DATABASE_URL`;
  return new ServiceError('database_unavailable', message, { cause });
}

function unavailable(message: string): ServiceError {
  return new ServiceError('database_unavailable', message);
}
