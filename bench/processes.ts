import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export const secret = 'a secret of the benchmark';

/** What a process needs that asks this stand-in for GitHub. It compares nothing by itself. */
export const environmentOf = (databaseUrl: string, { apiUrl, token }: { apiUrl: string; token: string }) => ({
  DATABASE_URL: databaseUrl,
  GITHUB_API_URL: apiUrl,
  GITHUB_TOKEN: token,
  GITHUB_WEBHOOK_SECRET: secret,
  RECONCILE_INTERVAL: '0',
  PORT: '0',
  LOG_LEVEL: 'error',
});

/** A Node process that has said that it is ready. */
export interface Running {
  readonly id: number | undefined;
  /** Where it listens on loopback, by the first line that it printed. */
  readonly port: string;
  stop(): Promise<void>;
}

/**
 * Starts one and waits until it has printed a line.
 *
 * @param environment all that it gets, but for the path
 * @throws where it ends before
 */
export async function startProcess(
  operands: readonly string[],
  environment: Record<string, string> = {},
): Promise<Running> {
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
  return {
    id: child.pid,
    port: /(\d+)(?=\D*$)/.exec(line.split(' (')[0] ?? '')?.[0] ?? '',
    async stop() {
      child.kill('SIGINT');
      await ended;
    },
  };
}

/** Starts a service without background work. */
export const startReader = (databaseUrl: string): Promise<Running> =>
  startProcess(['dist/main.js', 'serve'], {
    DATABASE_URL: databaseUrl,
    PORT: '0',
    WORKER: 'false',
    RATE_LIMIT: '0',
    LOG_LEVEL: 'warn',
  });
