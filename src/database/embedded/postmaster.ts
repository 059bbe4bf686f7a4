import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { serverEnvironment } from './binaries.ts';
import { type Cluster, databaseName } from './cluster.ts';
import { homeFiles } from './files.ts';
import { isGuardian, isIdTaken, isServerProcess, parentOf, serverProcesses } from './processes.ts';

/** A PostgreSQL server that accepts connections. */
export interface Postmaster {
  port: number;
  url: string;
  /** Resolves when the process is gone, whatever ended it. */
  ended: Promise<void>;
  /** Ends all sessions, and brings everything to disk. Resolves when the process is gone. */
  stop(): Promise<void>;
}

export interface PostmasterOptions {
  home: string;
  durable: boolean;
  /** Take this port only, waiting for it if need be. */
  port?: number;
  /** Gets what the server writes to its log. */
  onLog: (text: string) => void;
}

const settings = {
  listen_addresses: '127.0.0.1',
  // A socket's path has a length limit that a folder's has not.
  unix_socket_directories: '',
  // Ten processes with a pool of ten each, and room for people.
  max_connections: '200',
  // What a statement did wrong is reported by whoever sent it; here it would only fill the disk.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
};
/** A killed server still loses nothing that it acknowledged, as the system keeps what was written; a crashed one does. */
const notDurable = { fsync: 'off', full_page_writes: 'off' };

/**
 * Starts the server of a cluster, after ending what a killed guardian left of an earlier one. PostgreSQL's own lock on
 * the data directory decides between guardians: `'taken'` means that another has it.
 */
export async function startPostmaster(cluster: Cluster, options: PostmasterOptions): Promise<Postmaster | 'taken'> {
  let last = '';
  let failures = 0;
  let port = options.port ?? cluster.port;
  for (const started = Date.now(); Date.now() - started < 15_000; ) {
    const predecessor = await endPredecessor(cluster.data, options.home);
    if (predecessor === 'taken') return 'taken';
    if (port === undefined || !(await isFree(port))) {
      if (options.port === undefined) port = await freePort();
      else await sleep(50);
      if (port === undefined || options.port !== undefined) continue;
    }
    const outcome = await launch(cluster, port, predecessor, options);
    if (typeof outcome !== 'string') return outcome;
    last = outcome;
    if (/lock file ".*" already exists/.test(outcome)) return 'taken';
    if (/could not create any TCP\/IP sockets/.test(outcome)) port = options.port;
    // The last processes of a killed server need a moment to notice.
    else if (!/shared memory block .* is still in use/.test(outcome)) failures += 1;
    // One that was killed while it started is not at fault.
    if (failures === 3) break;
    await sleep(50);
  }
  const lines = last.split('\n').filter(line => !line.includes('the database system is'));
  const reason = lines.find(line => /FATAL|PANIC/.test(line))?.replace(/^.*?(FATAL|PANIC): +/, '') ?? lines.at(-2);
  throw new Error(
    `the embedded PostgreSQL in ${cluster.data} did not start (${reason || 'no port is free'}): ` +
      `see ${homeFiles(options.home).log}, or set DATABASE_URL`,
  );
}

/** One try. A text is what the server wrote before it ended. */
async function launch(cluster: Cluster, port: number, stalePid: number | undefined, options: PostmasterOptions) {
  const { data, user, binaries, password } = cluster;
  const all = Object.entries({ ...settings, ...(options.durable ? {} : notDurable) });
  const child = spawn(
    binaries.postgres,
    ['-D', data, '-p', String(port), ...all.flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    {
      ...user,
      cwd: '/',
      // The one way to tell PostgreSQL that an id in postmaster.pid is not a server's but was given to another process
      // since; pg_ctl does so too. Its other interlock, by shared memory, stays.
      env: { ...serverEnvironment, ...(stalePid === undefined ? {} : { PG_GRANDPARENT_PID: String(stalePid) }) },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let written = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (written.length < 10_000) written += text;
    options.onLog(text);
  });
  const exited = new Promise<void>(resolve => {
    child.once('error', error => {
      written += error.message;
      resolve();
    });
    // Sessions that outlive a killed server for a moment hold the pipe open: what is in it already is enough.
    child.once('exit', () => setTimeout(resolve, 100));
    child.once('close', () => resolve());
  });
  const endWatch = watchOver(child, cluster);
  let hasEnded = false;
  const ended = exited.then(endWatch).then(() => {
    hasEnded = true;
  });

  while (!hasEnded) {
    if (isReady(data, child.pid)) {
      const url = `postgres://${databaseName}:${password}@127.0.0.1:${port}/${databaseName}`;
      return { port, url, ended, stop: () => stop(child, ended) } satisfies Postmaster;
    }
    await Promise.race([ended, sleep(5)]);
  }
  return written;
}

/** PostgreSQL keeps its process id in the first line of postmaster.pid, and its state in the eighth. */
function isReady(data: string, pid: number | undefined): boolean {
  const lines = readPidFile(data);
  return lines[0] === String(pid) && lines[7]?.trim() === 'ready';
}

function readPidFile(data: string): string[] {
  try {
    return readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
  } catch {
    return [];
  }
}

/**
 * Stops the server if this process is killed: a shell waits for the end of a pipe that only we hold open. A line in it
 * means that the server is gone. Answers what ends the shell, and waits for that, to leave no zombie.
 */
function watchOver(child: ChildProcess, cluster: Cluster): () => Promise<void> {
  if (child.pid === undefined) return async () => undefined;
  const watch = spawn('/bin/sh', ['-c', 'read -r _ || kill -INT "$0"', String(child.pid)], {
    ...cluster.user,
    cwd: '/',
    env: serverEnvironment,
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const gone = new Promise<void>(resolve => {
    watch.once('error', () => resolve());
    watch.once('exit', () => resolve());
  });
  watch.stdin?.on('error', () => undefined);
  return () => {
    watch.stdin?.end('\n');
    return gone;
  };
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  // Fast, immediate, and by force: each leaves a directory that starts again.
  for (const [signal, patience] of [
    ['SIGINT', 8000],
    ['SIGQUIT', 3000],
    ['SIGKILL', 3000],
  ] as const) {
    child.kill(signal);
    const timeout = new AbortController();
    await Promise.race([ended, sleep(patience, undefined, { signal: timeout.signal }).catch(() => undefined)]);
    timeout.abort();
    if (child.exitCode !== null || child.signalCode !== null) return;
  }
}

/**
 * Ends a server whose guardian is gone, and the sessions of one that was itself killed. `'taken'` if a living guardian
 * has one; a number is the id in a stale postmaster.pid that some other process has now.
 */
async function endPredecessor(data: string, home: string): Promise<'taken' | number | undefined> {
  const pid = Number(readPidFile(data)[0]);
  const isServer = () => Number.isInteger(pid) && pid > 0 && isServerProcess(pid, data);
  for (let waited = 0; isServer(); waited += 25) {
    const parent = parentOf(pid);
    if (parent !== undefined && parent !== process.pid && isGuardian(parent, home)) return 'taken';
    if (waited % 5000 === 0) signal(pid, (['SIGINT', 'SIGQUIT'] as const)[waited / 5000] ?? 'SIGKILL');
    await sleep(25);
  }
  for (let waited = 0; ; waited += 25) {
    const servers = serverProcesses(data);
    const orphans = servers.filter(id => {
      const parent = parentOf(id);
      return parent !== undefined && !servers.includes(parent) && !isGuardian(parent, home);
    });
    if (orphans.length === 0) break;
    for (const id of orphans) signal(id, waited < 1000 ? 'SIGQUIT' : 'SIGKILL');
    await sleep(25);
  }
  return pid > 0 && pid !== process.pid && isIdTaken(pid) ? pid : undefined;
}

function signal(id: number, name: NodeJS.Signals): void {
  try {
    process.kill(id, name);
  } catch {
    // It is gone already.
  }
}

/** Below the ports that systems give to outgoing connections: one of those could take ours while the server restarts. */
async function freePort(): Promise<number | undefined> {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    const port = randomInt(15_000, 32_000);
    if (await isFree(port)) return port;
  }
  return undefined;
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
