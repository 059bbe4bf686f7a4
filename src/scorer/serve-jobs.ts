import { writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { Worker } from 'node:worker_threads';
import { connectDatabase } from '../database/client.ts';
import { isDatabaseUnavailable } from '../database/driver-errors.ts';
import { databaseUnavailable, ServiceError } from '../errors.ts';
import { createLog } from '../log.ts';
import { BoundBroken, type RuleEntry } from './bounds.ts';
import type { JobKind } from './jobs.ts';
import { createTurns } from './turns.ts';
import type { Work } from './work.ts';

/** What the service sends. `input` is JSON: its length is known, and it is written once. */
export type Order = JobOrder | { cancel: number };

interface JobOrder {
  job: number;
  kind: JobKind;
  organisationId: string;
  priority: number;
  isCareful: boolean;
  input: string;
}

/** What a process that runs rules sends. */
export type Report =
  | { is: 'ready' }
  /** The event loop turns: no job takes too long. */
  | { is: 'alive' }
  /** A job goes on, with this entry if it is known. */
  | { is: 'at'; job: number; entry: RuleEntry | null }
  | { is: 'progress'; job: number; done: number }
  | { is: 'done'; job: number; result: unknown }
  | { is: 'failed'; job: number; error: JobError };

/** An error, as JSON carries it. */
export type JobError =
  | { is: 'service'; code: ServiceError['code']; message: string; action?: string; retryAfter?: number }
  | { is: 'bound'; entry: RuleEntry }
  | { is: 'other'; message: string; stack: string };

/** For two batches of re-scoring, and a ruleset. A plan has a connection of its own. */
const maxConnections = 3;

/** A third of the service's share of a processor that both want. */
const niceness = 5;

const reportIntervalMs = 500;

/** A job that can't give way reports this often. */
const aliveIntervalMs = 100;

/** Runs the jobs that come as messages, several at once, until the service is gone. */
export function serveJobs(
  jobs: Readonly<Record<JobKind, (work: Work, input: never) => Promise<unknown>>>,
  { DATABASE_URL = '', LOG_LEVEL: logLevel = 'info' }: Readonly<Record<string, string | undefined>>,
): void {
  yieldToTheService();
  endWithParent();
  const send = (report: Report) => void process.send?.(report);
  const log = createLog({ logLevel });
  const database = connectDatabase(DATABASE_URL, log, maxConnections);
  const takeTurns = createTurns();
  const running = new Map<number, AbortController>();

  async function run(order: JobOrder): Promise<void> {
    const { job, kind, organisationId, priority, isCareful, input } = order;
    const cancelling = new AbortController();
    const { signal } = cancelling;
    running.set(job, cancelling);
    let reportedAt = performance.now();
    const report = (entry: RuleEntry | null = null) => {
      reportedAt = performance.now();
      send({ is: 'at', job, entry });
    };
    const work: Work = {
      database,
      log,
      signal,
      isCareful,
      turn: takeTurns({ organisationId, priority, signal, begin: report }),
      alive(entry) {
        if (isCareful || performance.now() - reportedAt >= aliveIntervalMs) report(entry);
      },
      progress: done => send({ is: 'progress', job, done }),
    };
    try {
      await work.turn();
      const result = await jobs[kind](work, JSON.parse(input) as never);
      send({ is: 'done', job, result });
    } catch (error) {
      send({ is: 'failed', job, error: describe(error) });
    } finally {
      running.delete(job);
    }
  }

  process.on('message', (order: Order) => {
    if ('cancel' in order) running.get(order.cancel)?.abort();
    else void run(order);
  });
  setInterval(() => {
    if (running.size > 0) send({ is: 'alive' });
  }, reportIntervalMs);
  send({ is: 'ready' });
}

/** The service goes first, and the kernel ends this process before the service if memory runs out. */
function yieldToTheService(): void {
  setPriority(niceness);
  try {
    writeFileSync('/proc/self/oom_score_adj', '500');
  } catch {
    // Not on Linux.
  }
}

/** Ends this process with the service, even while a job that never ends blocks the event loop. */
function endWithParent(): void {
  // The service ends it. A terminal sends Ctrl-C to both.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
  const watch = `const parent = ${process.ppid}; setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 500)`;
  new Worker(watch, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 8 } }).unref();
}

function describe(error: unknown): JobError {
  if (error instanceof BoundBroken) return { is: 'bound', entry: error.entry };
  const known = isDatabaseUnavailable(error)
    ? databaseUnavailable('The database is not available.', 'Try again shortly.', { retryAfter: 1 })
    : error;
  if (known instanceof ServiceError) {
    const { code, message, action, retryAfter } = known;
    return { is: 'service', code, message, ...(action && { action }), ...(retryAfter && { retryAfter }) };
  }
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  return { is: 'other', message, stack };
}
