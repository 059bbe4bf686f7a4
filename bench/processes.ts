import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

export const secret = 'a secret of the benchmark';

type Environment = Record<string, string>;

/** A Node process that has said that it is ready. It stops when it is disposed of. */
export interface Running extends AsyncDisposable {
  readonly id: number;
  /** By the port at the end of the first line that it printed. */
  readonly origin: string;
  /** Resident now (VmRSS), or at most so far (VmHWM), without processes that it has started. */
  megabytes(field: 'VmRSS' | 'VmHWM'): number;
}

/**
 * Starts one and waits until it has printed a line.
 *
 * @param environment all that it gets, but for the path
 * @throws Error if it ends before that
 */
export async function startProcess(operands: readonly string[], environment: Environment = {}): Promise<Running> {
  // As `npm start` has it, for the service and for what it is measured against.
  const child = spawn(process.execPath, ['--max-semi-space-size=32', ...operands], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const failed = ended.then(([code, signal]) => {
    throw new Error(`${operands.join(' ')} has ended (${signal ?? `exit code ${code}`})`);
  });
  failed.catch(() => undefined);
  const ready = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  const [line] = await Promise.race([ready, failed]);
  const { pid: id = 0 } = child;
  return {
    id,
    origin: `http://127.0.0.1:${/(\d+)(?=\D*$)/.exec(line.split(' (')[0] ?? '')?.[0] ?? ''}`,
    megabytes: field =>
      Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1]) / 1024,
    async [Symbol.asyncDispose]() {
      child.kill('SIGINT');
      await ended;
    },
  };
}

/** Starts the service, or only its worker. */
export const startService = (command: 'serve' | 'worker', environment: Environment): Promise<Running> =>
  startProcess(['dist/main.js', command], { PORT: '0', LOG_LEVEL: 'warn', ...environment });

/** Starts a service without background work. */
export const startReader = (databaseUrl: string): Promise<Running> =>
  startService('serve', { DATABASE_URL: databaseUrl, WORKER: 'false', RATE_LIMIT: '0' });

/** Runs a command from its beginning to its end. */
export const runCommand = (operands: readonly string[], environment: Environment) =>
  promisify(execFile)(process.execPath, ['dist/main.js', ...operands], {
    env: { PATH: process.env.PATH, ...environment },
    maxBuffer: 16 * 1024 * 1024,
  });
