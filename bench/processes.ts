import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Writable } from 'node:stream';
import { promisify } from 'node:util';

export const secret = 'a secret of the benchmark';

type Environment = Record<string, string>;

/**
 * As `npm start` has it, for the service and for what it is measured against.
 *
 * @param environment all that it gets, but for the path
 * @returns its first line, which says that it is ready, and its exit, too
 */
export function spawnNode(operands: readonly string[], environment: Environment, errors: Writable = process.stderr) {
  const child = spawn(process.execPath, ['--max-semi-space-size=32', ...operands], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stderr.pipe(errors, { end: false });
  const line = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  return { child, line, ended: once(child, 'exit') };
}

/** It stops when it is disposed of. */
export type Running = Awaited<ReturnType<typeof startProcess>>;

/** Starts one and waits until it is ready. @throws Error if it ends before that */
export async function startProcess(operands: readonly string[], environment: Environment = {}) {
  const { child, line, ended } = spawnNode(operands, environment);
  const failed = ended.then(([code, signal]) => {
    throw new Error(`${operands.join(' ')} has ended (${signal ?? `exit code ${code}`})`);
  });
  failed.catch(() => undefined);
  const [address] = await Promise.race([line, failed]);
  const { pid: id = 0 } = child;
  return {
    id,
    /** By the port at the end of the line. */
    origin: `http://127.0.0.1:${/(\d+)(?=\D*$)/.exec(address.split(' (')[0] ?? '')?.[0] ?? ''}`,
    async [Symbol.asyncDispose]() {
      child.kill('SIGINT');
      await ended;
    },
  };
}

export const startService = (command: 'serve' | 'worker', environment: Environment) =>
  startProcess(['dist/main.js', command], { PORT: '0', LOG_LEVEL: 'warn', ...environment });

/** Starts a service without background work. */
export const startReader = (databaseUrl: string) =>
  startService('serve', { DATABASE_URL: databaseUrl, WORKER: 'false', RATE_LIMIT: '0' });

export const runCommand = (operands: readonly string[], environment: Environment) =>
  promisify(execFile)(process.execPath, ['dist/main.js', ...operands], {
    env: { PATH: process.env.PATH, ...environment },
    maxBuffer: 16 * 1024 * 1024,
  });

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** @throws Error if it is refused */
export async function ask(url: string, token: string, init: RequestInit = {}): Promise<Response> {
  const reply = await fetch(url, { ...init, headers: { ...bearer(token), ...init.headers } });
  if (!reply.ok) throw new Error(`${url} got ${reply.status}: ${await reply.text()}`);
  return reply;
}
