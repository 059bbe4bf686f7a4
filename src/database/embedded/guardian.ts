/**
 * The guardian of an embedded PostgreSQL: a process of its own, so that the server outlives the command that happened
 * to start it and ends with the last one that uses it. Every user holds a connection to the control port as its lease;
 * the kernel closes that even on `kill -9`. It imports nothing but Node's own modules, to start quickly.
 *
 * Usage: node guardian.js --home=FOLDER [--not-durable]
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, openCluster, rememberPort } from './cluster.ts';
import {
  type ControlAnswer,
  errorCode,
  giveToFolderOwner,
  homeFiles,
  readServerFile,
  type ServerFile,
  type StartMessage,
  writeOwnFile,
} from './files.ts';
import { type Postmaster, startPostmaster } from './postmaster.ts';

/** How long a guardian that nobody has joined yet waits, in milliseconds. */
const firstLeasePatience = 10_000;
const largestLog = 4 * 1024 * 1024;

const home = process.argv.find(argument => argument.startsWith('--home='))?.slice('--home='.length) ?? '';
const durable = !process.argv.includes('--not-durable');
const files = homeFiles(home);

process.umask(0o077);
// Whoever stops the service stops it first: it drains with the database still up, then gives its lease back.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
// The process that started us may be gone by now.
process.stdout.on('error', () => undefined);

const tell = (message: StartMessage) => process.stdout.write(`${JSON.stringify(message)}\n`);

try {
  await guard();
} catch (error) {
  tell({ error: explain(error) });
  process.exit(1);
}

async function guard(): Promise<void> {
  const cluster = await openCluster(home, durable, text => tell({ note: text }));
  const onLog = openLog();
  const first = await startPostmaster(cluster, { home, durable, onLog });
  if (first === 'taken') {
    tell({ retry: true });
    return;
  }
  if (first.port !== cluster.port) rememberPort(cluster, first.port);
  await serveLeases(cluster, first, onLog);
}

async function serveLeases(cluster: Cluster, first: Postmaster, onLog: (text: string) => void): Promise<void> {
  const secret = randomBytes(24).toString('base64url');
  const leases = new Set<Socket>();
  /** Sockets that gave their lease back, and are closed when the server is down. */
  const leaving = new Set<Socket>();
  let running: Promise<Postmaster> = Promise.resolve(first);
  let ending = false;

  // Half-open: a client ends its side, and we end ours when what it waits for is done.
  const control = createServer({ allowHalfOpen: true }, socket => {
    socket.setNoDelay(true).setTimeout(2000, () => socket.destroy());
    socket.on('error', () => socket.destroy());
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      if (leases.has(socket)) return;
      received += text;
      const line = received.split('\n', 1)[0] ?? '';
      if (line.length === received.length && received.length < 200) return;
      if (!isSecret(line)) socket.destroy();
      else if (ending) answer(socket, { retry: true });
      else {
        socket.setTimeout(0);
        leases.add(socket);
        void running.then(({ url }) => answer(socket, { url, dataDirectory: cluster.data, durable }));
      }
    });
    socket.on('end', () => giveBack(socket));
    socket.on('close', () => giveBack(socket));
  });

  function isSecret(text: string): boolean {
    const digest = (value: string) => createHash('sha256').update(value).digest();
    return timingSafeEqual(digest(text), digest(secret));
  }

  function answer(socket: Socket, content: ControlAnswer): void {
    if (socket.writable) socket.write(`${JSON.stringify(content)}\n`);
  }

  function giveBack(socket: Socket): void {
    if (!leases.delete(socket)) {
      if (!leaving.has(socket)) socket.end();
    } else if (leases.size > 0) socket.end();
    else {
      leaving.add(socket);
      void end();
    }
  }

  async function end(): Promise<void> {
    if (ending) return;
    ending = true;
    // First of all, so that nobody finds us any more; those that did are told to look again.
    removeServerFile(secret);
    await running.then(postmaster => postmaster.stop()).catch(() => undefined);
    process.exit(0);
  }

  function keepRunning(postmaster: Postmaster): void {
    const since = Date.now();
    void postmaster.ended.then(async () => {
      if (Date.now() - since < 1000) await sleep(500);
      if (ending) return;
      onLog('pullscore: the server ended unexpectedly; starting it again\n');
      running = restart(postmaster.port);
      keepRunning(await running);
    });
  }

  /** On the same port, as its users know no other. Where that fails they come back to a new guardian. */
  async function restart(port: number): Promise<Postmaster> {
    try {
      const again = await startPostmaster(cluster, { home, durable, port, onLog });
      if (again !== 'taken') return again;
    } catch (error) {
      onLog(`pullscore: ${explain(error)}\n`);
    }
    removeServerFile(secret);
    process.exit(1);
  }

  keepRunning(first);
  await new Promise<void>((resolve, reject) => {
    control.once('error', reject);
    control.listen({ host: '127.0.0.1', port: 0 }, resolve);
  });
  const { port } = control.address() as AddressInfo;
  writeOwnFile(files.server, JSON.stringify({ pid: process.pid, port, secret } satisfies ServerFile));
  tell({ ready: true });
  setTimeout(() => {
    if (leases.size === 0) void end();
  }, firstLeasePatience);
}

/** Unless a later guardian has put its own there. */
function removeServerFile(secret: string): void {
  if (readServerFile(home)?.secret === secret) rmSync(files.server, { force: true });
}

/** Keeps the log, and one older one, at a bounded size. */
function openLog(): (text: string) => void {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
  let file: number | undefined;
  let size = 0;
  return text => {
    try {
      if (file !== undefined && size > largestLog) {
        closeSync(file);
        file = undefined;
        renameSync(files.log, `${files.log}.1`);
      }
      if (file === undefined) {
        file = openSync(files.log, O_APPEND | O_CREAT | O_NOFOLLOW | O_WRONLY, 0o600);
        giveToFolderOwner(files.log);
        size = fstatSync(file).size;
      }
      size += writeSync(file, text);
    } catch {
      // A full disk or a deleted home is no reason to end.
      file = undefined;
    }
  };
}

function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const line = message.split('\n')[0] ?? '';
  if (errorCode(error) !== 'EACCES' && errorCode(error) !== 'EPERM') return line;
  return `${line}: run pullscore as the owner of ${home}, or set PULLSCORE_HOME or DATABASE_URL`;
}
