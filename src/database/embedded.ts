import { chmodSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ControlAnswer,
  errorCode,
  giveToFolderOwner,
  homeFiles,
  readServerFile,
  type ServerFile,
} from './embedded/files.ts';
import { isGuardian } from './embedded/processes.ts';
import { claimStart, startGuardian, unavailable, unwritable } from './embedded/start.ts';

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
    log('the embedded database has lost its guardian process: starting it again');
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
