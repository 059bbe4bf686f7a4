import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { joinEmbeddedDatabase } from '../src/database/embedded.ts';

const pollIntervalMs = 10;
const startTimeoutMs = 60_000;

export type KilledServer = Awaited<ReturnType<typeof startKilledServer>>;

/**
 * The service's own PostgreSQL, joined by this process so that it comes back when it is told to. Both kills resolve
 * when it takes connections again.
 */
export async function startKilledServer(home: string) {
  let server = await joinEmbeddedDatabase({ home });
  const { url, dataDirectory } = server;
  let isUp = true;

  return {
    url,
    /** False from a kill until it takes connections again. */
    get isUp() {
      return isUp;
    },
    /** Kills every process of the server with SIGKILL, and starts it again after `pause` milliseconds. */
    async killAll(pause: number): Promise<void> {
      isUp = false;
      const { main, others } = processesOf(dataDirectory);
      for (const id of [main, ...others]) kill(id);
      // Before it notices: otherwise it starts the server again at once.
      await server.leave();
      await delay(pause);
      server = await joinEmbeddedDatabase({ home });
      isUp = true;
    },
    /** Kills one of the server's processes with SIGKILL: the server drops every session and recovers. */
    async killOne(choose: (ids: readonly number[]) => number | undefined): Promise<void> {
      isUp = false;
      // It is dropped with all others, when the kill has taken effect.
      const witness = await untilConnected(url);
      const dropped = new Promise(resolve => witness.once('end', resolve));
      const chosen = choose(processesOf(dataDirectory).others);
      if (chosen !== undefined) kill(chosen);
      await Promise.race([dropped, delay(5_000)]);
      leave(await untilConnected(url));
      isUp = true;
    },
    stop: () => server.leave(),
  };
}

/** The server's process, and those that it has started. */
function processesOf(dataDirectory: string): { main: number; others: number[] } {
  const main = Number.parseInt(readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8'), 10);
  const listed = execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' });
  const others = [...listed.matchAll(/(\d+)\s+(\d+)/g)].filter(([, , parent]) => Number(parent) === main);
  return { main, others: others.map(([, id]) => Number(id)) };
}

async function untilConnected(url: string): Promise<pg.Client> {
  for (const begin = performance.now(); ; ) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.query('select 1');
      return client;
    } catch (error) {
      leave(client);
      if (performance.now() - begin > startTimeoutMs) throw error;
      await delay(pollIntervalMs);
    }
  }
}

/** Not awaited: if the connection breaks meanwhile, it may never end. */
function leave(client: pg.Client): void {
  client.end().catch(() => undefined);
}

function kill(id: number): void {
  try {
    process.kill(id, 'SIGKILL');
  } catch {
    // It ended before the kill.
  }
}

export type KilledReplica = ReturnType<typeof superviseReplica>;

/** `dist/main.js serve` under a supervisor that starts it again whenever it ends, as an orchestrator does. */
export function superviseReplica(port: number, logFile: string, environment: Record<string, string>) {
  const log = createWriteStream(logFile, { flags: 'a' });
  /** Unexpected ends after it was ready, and stops that were not clean. */
  const ends: string[] = [];
  let child: ChildProcess;
  let isReady = false;
  /** Whether its end is meant. */
  let isEnding = false;
  let stopped = false;
  let pauseMs = 0;

  const supervise = async () => {
    for (; !stopped; await delay(pauseMs)) {
      isEnding = false;
      pauseMs = 200;
      // As `npm start` has it.
      const own = spawn(process.execPath, ['--max-semi-space-size=32', 'dist/main.js', 'serve'], {
        env: { PATH: process.env.PATH ?? '', PORT: String(port), ...environment },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      child = own;
      own.stderr.pipe(log, { end: false });
      createInterface(own.stdout).once('line', () => {
        // Its output may arrive only after its end.
        isReady = !isEnding && own.exitCode === null && own.signalCode === null;
      });
      const [code, signal] = await once(own, 'exit');
      // It can't start without PostgreSQL.
      if (!isEnding && isReady) ends.push(`the replica on port ${port} ended unexpectedly (${signal ?? code})`);
      isReady = false;
    }
  };
  const supervised = supervise();
  process.once('exit', () => child.kill('SIGKILL'));

  const end = (signal: 'SIGKILL' | 'SIGTERM', milliseconds: number) => {
    isEnding = true;
    isReady = false;
    pauseMs = milliseconds;
    child.kill(signal);
  };

  /** @throws if it does not start within a minute */
  async function ready(): Promise<void> {
    for (const begin = performance.now(); !isReady; await delay(pollIntervalMs)) {
      if (performance.now() - begin > startTimeoutMs) throw new Error(`the replica on port ${port} does not start`);
    }
  }

  return {
    port,
    get processId() {
      return child.pid;
    },
    ends,
    ready,
    /** Kills it with SIGKILL, and starts it again after `milliseconds`. */
    kill: (milliseconds: number) => end('SIGKILL', milliseconds),
    /** Stops it with SIGTERM and starts it again. @throws if it does not start within a minute */
    async restart(): Promise<void> {
      const exited = once(child, 'exit');
      end('SIGTERM', 0);
      const [code, signal] = await exited;
      if (code !== 0) ends.push(`the replica on port ${port} did not stop cleanly (${signal ?? code})`);
      await ready();
    },
    async stop(): Promise<void> {
      stopped = true;
      end('SIGKILL', 0);
      await supervised;
      log.end();
    },
  };
}
