import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { databaseUnavailable, ServiceError } from '../errors.ts';
import { type AdvisoryLock, type LockWait, takeAdvisoryLock } from './advisory-lock.ts';
import { type Cluster, type ClusterOptions, environment, openCluster } from './embedded-folder.ts';

export interface EmbeddedDatabase {
  /** `postgres://…`, for a superuser of a database named `pullscore`. It stays the same over restarts. */
  readonly url: string;
  readonly dataDirectory: string;
  /** Leaves the server. The last process to leave stops it and waits until it is down. */
  leave(): Promise<void>;
}

/** A connection that a process keeps while it uses the server. It holds the advisory lock below, shared. */
interface Session {
  client: pg.Client;
  /** The server's process id. */
  serverId: string;
}

/** Every process that uses the server shares it. The last one takes it alone, and stops the server. */
const usersLock: AdvisoryLock = { key: 1_886_743_661, name: "the embedded server's users", isShared: true };

/** The recovery after a crash can take a while. */
const maxWaitMs = 120_000;
const maxLogBytes = 4 * 1024 * 1024;
const stopTimeoutMs = 10_000;

const settings = {
  listen_addresses: '',
  // Ten processes with a pool of ten each, and room for people.
  max_connections: '200',
  // The default is 128 MB. A month of a large organisation has more, and each statement would read it from files.
  shared_buffers: '256MB',
  // The client reports what is wrong with its statement. In this log it would only fill the disk.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
};

/**
 * Joins the embedded server of `home`, starting it first if none runs. If the server is killed, its users start
 * it again, and connections made after that work again.
 *
 * @param options.signal ends a wait for another process that stops the server
 * @throws ServiceError `database_unavailable`, with what to do
 */
export async function joinEmbeddedDatabase({
  home,
  create = true,
  log = () => undefined,
  signal,
}: Partial<ClusterOptions> & { home: string; signal?: AbortSignal | undefined }): Promise<EmbeddedDatabase> {
  const wait = { log, signal, maxWaitMs };
  const cluster = await openCluster({ home, create, log }).catch(error => {
    throw error instanceof ServiceError ? error : unavailable(home, reasonIn(error.stderr || error.message), error);
  });
  let hasLeft = false;
  let session: Promise<Session | undefined> = watch(await openSession(cluster, wait));

  async function watch(opened: Session): Promise<Session> {
    opened.client.once('end', () => {
      if (!hasLeft) session = rejoin();
    });
    return opened;
  }

  async function rejoin(): Promise<Session | undefined> {
    log('the connection to the embedded database was lost: joining it again');
    for (; !hasLeft; await delay(1000)) {
      try {
        return await watch(await openSession(cluster, { log, maxWaitMs }));
      } catch (error) {
        log(error instanceof ServiceError ? error.text : (error as Error).message);
      }
    }
    return undefined;
  }

  return {
    url: cluster.url,
    dataDirectory: cluster.data,
    async leave() {
      hasLeft = true;
      const opened = await session;
      if (opened !== undefined) await closeSession(cluster, opened);
    },
  };
}

/** Connects, starting the server if none answers. */
async function openSession(cluster: Cluster, wait: LockWait): Promise<Session> {
  let started: Promise<string> | undefined;
  let reason = '';
  for (const begin = Date.now(); Date.now() - begin < maxWaitMs; await delay(10)) {
    const client = new pg.Client({
      connectionString: cluster.url,
      application_name: 'pullscore embedded',
      connectionTimeoutMillis: 10_000,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      // Waits while the last user stops the server.
      await takeAdvisoryLock(client, usersLock, wait);
      // A server that stops says so in its file before it cuts the last user off, which frees the lock.
      const { id, state } = readPidFile(cluster.data);
      if (state === 'ready') return { client, serverId: id };
      throw new Error('it is stopping');
    } catch (error) {
      client.end().catch(() => undefined);
      // Others held the lock, or we were asked to stop meanwhile.
      if (error instanceof ServiceError || (error as Error).name === 'AbortError') throw error;
      const isAnswer = error instanceof pg.DatabaseError;
      // Class 57: it is starting, stopping or recovering.
      if (isAnswer && !error.code?.startsWith('57')) throw unavailable(cluster.data, error.message, error);
      if (!isAnswer) started ??= startServer(cluster);
      reason = (error as Error).message;
    }
    const written = await Promise.race([started, delay(10)]);
    if (typeof written !== 'string') continue;
    started = undefined;
    reason = written === '' ? 'it was stopped' : reasonIn(written);
    // Another process was faster, or sessions of a killed server are still ending.
    const isTaken = /lock file ".*" already exists|shared memory block .* is still in use/.test(written);
    if (written !== '' && !isTaken) break;
  }
  throw unavailable(cluster.data, `${reason}; see ${cluster.log}`);
}

/** Closes the session, and stops the server if no other process has one. */
async function closeSession(cluster: Cluster, { client, serverId }: Session): Promise<void> {
  try {
    await client.query('select pg_advisory_unlock_shared($1)', [usersLock.key]);
    const { rows } = await client.query<{ isLast: boolean }>('select pg_try_advisory_lock($1) as "isLast"', [
      usersLock.key,
    ]);
    // A process that joins now waits for the lock, finds the server gone, and starts it again.
    if (rows[0]?.isLast) await stopServer(cluster, serverId);
  } catch {
    // The server is gone already.
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Starts a server, which outlives us. PostgreSQL's own lock allows one per data directory.
 * @returns what it wrote if it failed; an empty text if it was stopped or killed. Resolves when it has ended.
 */
function startServer({ data, log, socketFolder, binaries, user }: Cluster): Promise<string> {
  const all = { ...settings, unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"` };
  const parameters = Object.entries(all).flatMap(([setting, value]) => ['-c', `${setting}=${value}`]);
  // A killed server leaves its id in the file, and another process may have it now: this tells PostgreSQL to ignore it.
  // If the server is alive after all, PostgreSQL still sees that its shared memory is in use.
  const { id, state } = readPidFile(data);
  const stale = state === 'ready' ? { PG_GRANDPARENT_PID: id } : {};

  const file = openSync(log, 'a', 0o600);
  if (fstatSync(file).size > maxLogBytes) ftruncateSync(file);
  const { size } = fstatSync(file);
  const child = spawn(join(binaries, 'postgres'), ['-D', data, ...parameters], {
    ...user,
    cwd: '/',
    env: { ...environment, ...stale },
    // A session of its own: what Ctrl-C or a closed terminal sends to ours does not reach it.
    detached: true,
    stdio: ['ignore', file, file],
  });
  closeSync(file);
  child.unref();
  return new Promise(settle => {
    child.once('error', error => settle(error.message));
    child.once('exit', code => settle(code ? readFileSync(log).subarray(size).toString() : ''));
  });
}

/** Ends all sessions, and brings everything to disk. Resolves when the server is down, or after ten seconds. */
async function stopServer({ data, binaries, user }: Cluster, id: string): Promise<void> {
  // As its own user, which can end no other processes; in a session of its own, where Ctrl-C does not end it first.
  const options = { ...user, cwd: '/', env: environment, detached: true, stdio: 'ignore' } as const;
  const [code] = await once(spawn(join(binaries, 'pg_ctl'), ['kill', 'INT', id], options), 'exit');
  if (code !== 0) throw new Error(`pg_ctl ended with ${code}`);
  for (const begin = Date.now(); readPidFile(data).id === id; await delay(5)) {
    if (Date.now() - begin > stopTimeoutMs) return;
  }
}

/** The server's process id, and `starting`, `ready` or `stopping`, by its own file. Empty texts without a server. */
function readPidFile(data: string): { id: string; state: string } {
  try {
    const [id = '', , , , , , , state = ''] = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
    return { id, state: state.trim() };
  } catch {
    return { id: '', state: '' };
  }
}

/** What a failed program says about why, among all that it wrote. */
function reasonIn(written: string): string {
  const lines = written.matchAll(/(?:error|FATAL|PANIC|DETAIL): +(?!the database system is)(.*)/g);
  return [...lines].map(([, line]) => line).join(' ') || written.trim();
}

function unavailable(place: string, reason: string, cause?: unknown): ServiceError {
  const message = `The embedded database in ${place} cannot be used (${reason}).`;
  const action = 'Fix that, or set PULLSCORE_HOME or DATABASE_URL.';
  return databaseUnavailable(message, action, { cause });
}
