/**
 * The service's side of the processes that run rules: the queue, and the bounds. A process that breaks one is ended
 * and replaced, and the jobs in it are done again.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Database } from '../database/client.ts';
import { suspendRules } from '../database/rules.ts';
import { badRequest, overloaded, rateLimited, rulesSuspended, ServiceError } from '../errors.ts';
import { type InputOf, type JobKind, type JobOptions, priorities, type ResultOf, type Scorer } from './jobs.ts';
import type { JobError, Order, Report } from './serve-jobs.ts';
import { maxPullRequestMs, type RuleEntry } from './work.ts';

const maxProcesses = 2;

/** Of the JavaScript heap: the rules of an organisation at the limits, and the facts of some large pull requests. */
const maxHeapMb = 256;

/** Input that a process is given at once, unless it is one job's. */
const maxInputCharacters = 16_000_000;

/** Until a check, a plan or an audit begins: a process has one of them at a time. */
const defaultMaxQueueMs = 30_000;

/** A plan of a million pull requests takes a minute. */
const maxJobMs = 600_000;

/** A cancelled job gives way within 100 ms, if its rules do. */
const maxCancellingMs = 1_000;

const watchIntervalMs = 250;

/** A process on a busy machine hardly runs: processor time is what counts, and this is for one that does not run at all. */
const maxSilenceMs = 20_000;

/** Of one job, by whatever ends processes: then it fails. */
const maxEnds = 3;
const maxFailedStarts = 3;
const maxStartPauseMs = 5_000;

interface Job {
  id: number;
  kind: JobKind;
  organisationId: string;
  input: string;
  isCareful: boolean;
  /** Processes that ended while they ran it. */
  ends: number;
  waitsSince: number;
  process: ScorerProcess | undefined;
  /** Why nobody waits for it any more. */
  cancelled: { reason: unknown } | undefined;
  settle(outcome: { result: unknown } | { error: unknown }): void;
  onProgress: JobOptions['onProgress'];
}

interface ScorerProcess {
  child: ChildProcess;
  jobs: Map<number, Job>;
  isReady: boolean;
  /** What it said last. */
  current: { job: number; entry: RuleEntry | null } | undefined;
  /** Since its last report. */
  quiet: { since: number; cpuMs: number | undefined };
  endedFor: 'time' | 'cancelled' | undefined;
}

const isLong = ({ kind }: Job): boolean => kind === 'check' || kind === 'plan' || kind === 'audit';

const bundled = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../dist/scorer.js' : 'scorer.js', import.meta.url),
);

/**
 * Starts processes when there is work.
 *
 * @param options `script`, `execArgv`: what they run
 */
export function createScorer(
  database: Pick<Database, 'url' | 'transaction'>,
  log: Logger,
  { script = bundled, execArgv = [] as string[], maxQueueMs = defaultMaxQueueMs } = {},
): Scorer {
  const processes = new Set<ScorerProcess>();
  /** Those to be tried again come first. */
  const waiting: Job[] = [];
  const servedAt = new Map<string, number>();
  let lastId = 0;
  let isClosed = false;
  let failedStarts = 0;
  let mayStartAt = 0;
  let watchedAt = performance.now();

  const watch = setInterval(() => {
    const now = performance.now();
    // This process was blocked itself: reports may wait to be read.
    const wasBlocked = now - watchedAt > 2 * watchIntervalMs;
    watchedAt = now;
    for (const process of processes) {
      if (process.jobs.size === 0 || wasBlocked) heard(process);
      else if (isOverdue(process)) end(process, 'time');
    }
    for (const job of waiting) {
      if (isLong(job) && now - job.waitsSince > maxQueueMs) {
        remove(job);
        job.settle({
          error: rateLimited('Other rules files are being worked on.', 'Try again later.', { retryAfter: 30 }),
        });
      }
    }
    dispatch();
  }, watchIntervalMs).unref();

  function dispatch(): void {
    waiting.sort(
      (a, b) =>
        b.ends - a.ends ||
        priorities[a.kind] - priorities[b.kind] ||
        (servedAt.get(a.organisationId) ?? 0) - (servedAt.get(b.organisationId) ?? 0) ||
        a.id - b.id,
    );
    for (const job of [...waiting]) {
      const process = processFor(job);
      if (process === undefined) continue;
      remove(job);
      job.process = process;
      process.jobs.set(job.id, job);
      if (process.jobs.size === 1) heard(process);
      servedAt.delete(job.organisationId);
      servedAt.set(job.organisationId, performance.now());
      const { id, kind, organisationId, isCareful, input } = job;
      tell(process, { job: id, kind, organisationId, priority: priorities[kind], isCareful, input });
    }
  }

  /** The one with the fewest jobs, or a new one. */
  function processFor(job: Job): ScorerProcess | undefined {
    const hasRoom = ({ jobs, endedFor }: ScorerProcess) =>
      endedFor === undefined &&
      (isLong(job)
        ? ![...jobs.values()].some(isLong)
        : jobs.size === 0 ||
          [...jobs.values()].reduce((sum, { input }) => sum + input.length, job.input.length) <= maxInputCharacters);
    const [least] = [...processes].filter(hasRoom).sort((a, b) => a.jobs.size - b.jobs.size);
    const canStart = processes.size < maxProcesses && performance.now() >= mayStartAt;
    return canStart && (least === undefined || least.jobs.size > 0) ? start() : least;
  }

  function start(): ScorerProcess {
    const { PATH, HOME, NODE_EXTRA_CA_CERTS } = globalThis.process.env;
    const postgres = Object.entries(globalThis.process.env).filter(([name]) => name.startsWith('PG'));
    const child = fork(script, [], {
      // No secret but the database's.
      env: {
        PATH,
        HOME,
        NODE_EXTRA_CA_CERTS,
        ...Object.fromEntries(postgres),
        DATABASE_URL: database.url,
        LOG_LEVEL: log.level,
      },
      execArgv: [`--max-old-space-size=${maxHeapMb}`, ...execArgv],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const process: ScorerProcess = {
      child,
      jobs: new Map(),
      isReady: false,
      current: undefined,
      quiet: { since: performance.now(), cpuMs: undefined },
      endedFor: undefined,
    };
    processes.add(process);
    child.on('message', report => receive(process, report as Report));
    // It could not be started, or a message could not be sent: it ends, or never began.
    child.on('error', () => child.pid === undefined && ended(process, 'could not start'));
    child.on('exit', (code, signal) => ended(process, signal ?? `exit code ${code}`));
    return process;
  }

  function tell({ child }: ScorerProcess, order: Order): void {
    // If the process is gone, its jobs are done again once that is known.
    child.send(order, () => undefined);
  }

  function heard(process: ScorerProcess): void {
    process.quiet = { since: performance.now(), cpuMs: undefined };
  }

  /** Whether a pull request, or an entry of a check, takes too long. */
  function isOverdue({ child, quiet }: ScorerProcess): boolean {
    const cpuMs = cpuTimeMs(child.pid);
    quiet.cpuMs ??= cpuMs;
    const silentMs = performance.now() - quiet.since;
    return silentMs > maxSilenceMs || (cpuMs === undefined ? silentMs : cpuMs - (quiet.cpuMs ?? 0)) > maxPullRequestMs;
  }

  function receive(process: ScorerProcess, report: Report): void {
    heard(process);
    if (report.is === 'ready') {
      process.isReady = true;
      failedStarts = 0;
    } else if (report.is === 'at') {
      process.current = report;
    } else if (report.is !== 'alive') {
      const job = process.jobs.get(report.job);
      if (job === undefined) return;
      if (report.is === 'progress') {
        job.onProgress?.(report.done);
        return;
      }
      process.jobs.delete(job.id);
      if (job.cancelled !== undefined) job.settle({ error: job.cancelled.reason });
      else if (report.is === 'done') job.settle(report);
      else fail(job, report.error);
      dispatch();
    }
  }

  function fail(job: Job, error: JobError): void {
    if (error.is === 'bound') void breakBound(job, error.entry);
    else if (error.is === 'service') {
      const { code, message, ...options } = error;
      job.settle({ error: new ServiceError(code, message, options) });
    } else job.settle({ error: Object.assign(new Error(error.message), { stack: error.stack }) });
  }

  function end(process: ScorerProcess, reason: 'time' | 'cancelled'): void {
    process.endedFor ??= reason;
    process.child.kill('SIGKILL');
  }

  /** All its jobs are done again; the one that it was at with care. */
  function ended(process: ScorerProcess, how: string): void {
    if (!processes.delete(process)) return;
    const { jobs, current, endedFor, isReady } = process;
    const guilty = endedFor === 'cancelled' || !isReady ? undefined : jobs.get(current?.job ?? 0);
    for (const job of jobs.values()) {
      job.process = undefined;
      if (job.cancelled !== undefined) job.settle({ error: job.cancelled.reason });
      else if (job !== guilty) queue(job);
    }
    if (guilty !== undefined && guilty.cancelled === undefined)
      blame(guilty, endedFor ?? how, current?.entry ?? undefined);
    if (!isClosed && endedFor !== 'cancelled') {
      const { kind, organisationId } = guilty ?? {};
      log.error({ reason: endedFor ?? how, kind, organisationId }, 'a process that runs rules ended');
    }
    if (!isReady && !isClosed && endedFor === undefined) {
      failedStarts += 1;
      const pauseMs = Math.min(maxStartPauseMs, 100 * 2 ** failedStarts);
      mayStartAt = performance.now() + pauseMs;
      if (failedStarts >= maxFailedStarts && processes.size === 0) {
        const error = () =>
          overloaded("The process that runs rules can't be started.", 'See the log; try again later.', {
            retryAfter: 5,
          });
        for (const job of waiting.splice(0)) job.settle({ error: error() });
      } else setTimeout(dispatch, pauseMs).unref();
    }
    if (!isClosed) dispatch();
  }

  function blame(job: Job, how: string, entry: RuleEntry | undefined): void {
    job.ends += 1;
    // What somebody else has ended says nothing about the rules.
    const isOwnFault = how === 'time' || how === 'SIGABRT' || how === 'exit code 134';
    if (job.isCareful && isOwnFault) {
      if (entry !== undefined) void breakBound(job, entry);
      else job.settle({ error: badRequest('These rules take too much time or memory.', 'Use fewer or simpler ones.') });
    } else if (job.ends < maxEnds) {
      job.isCareful = true;
      queue(job);
    } else {
      job.settle({
        error: overloaded('The process that runs rules was ended.', 'Try again later.', { retryAfter: 5 }),
      });
    }
  }

  /** The rules in force wait for others. */
  async function breakBound({ organisationId, settle }: Job, { version, rule, entry }: RuleEntry): Promise<void> {
    const place = `rule ${JSON.stringify(rule)}, entry ${entry},`;
    try {
      await database.transaction(executor => suspendRules(executor, organisationId, version, place));
      log.error({ organisationId, rulesetVersion: version, rule, entry }, 'rules are suspended');
      settle({ error: rulesSuspended() });
    } catch (error) {
      settle({ error });
    }
  }

  function queue(job: Job): void {
    job.waitsSince = performance.now();
    waiting.push(job);
  }

  function remove(job: Job): void {
    const index = waiting.indexOf(job);
    if (index !== -1) waiting.splice(index, 1);
  }

  function cancel(job: Job, reason: unknown): void {
    job.cancelled ??= { reason };
    const { process } = job;
    if (process === undefined) {
      remove(job);
      job.settle({ error: reason });
      return;
    }
    tell(process, { cancel: job.id });
    setTimeout(() => process.jobs.has(job.id) && end(process, 'cancelled'), maxCancellingMs).unref();
  }

  return {
    async run<Kind extends JobKind>(kind: Kind, input: InputOf<Kind>, { signal, onProgress }: JobOptions = {}) {
      signal?.throwIfAborted();
      if (isClosed) throw overloaded('The service is stopping.');
      let settle: Job['settle'] = () => undefined;
      const ended = new Promise<ResultOf<Kind>>((resolve, reject) => {
        settle = outcome => ('result' in outcome ? resolve(outcome.result as ResultOf<Kind>) : reject(outcome.error));
      });
      const job: Job = {
        id: ++lastId,
        kind,
        organisationId: input.organisationId,
        input: JSON.stringify(input),
        isCareful: false,
        ends: 0,
        waitsSince: 0,
        process: undefined,
        cancelled: undefined,
        settle,
        onProgress,
      };
      const abort = () => cancel(job, signal?.reason);
      signal?.addEventListener('abort', abort);
      const limit = setTimeout(() => cancel(job, overloaded('The rules took too long.', 'Try again later.')), maxJobMs);
      queue(job);
      dispatch();
      try {
        return await ended;
      } finally {
        signal?.removeEventListener('abort', abort);
        clearTimeout(limit);
      }
    },
    async close() {
      isClosed = true;
      clearInterval(watch);
      for (const job of waiting.splice(0)) job.settle({ error: overloaded('The service is stopping.') });
      await Promise.all(
        [...processes].map(({ child, jobs }) => {
          for (const job of jobs.values()) job.settle({ error: overloaded('The service is stopping.') });
          jobs.clear();
          child.kill('SIGKILL');
          return new Promise(resolve => child.once('exit', resolve));
        }),
      );
    },
  };
}

/** Processor time that a process has used; undefined if the system does not say. */
function cpuTimeMs(pid: number | undefined): number | undefined {
  try {
    // See proc(5): fields 14 and 15, counted from the end of the name, in hundredths of a second.
    const [, fields = ''] = /\) (.*)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? [];
    const [user, system] = fields.split(' ').slice(11, 13).map(Number);
    return 10 * ((user ?? 0) + (system ?? 0));
  } catch {
    return undefined;
  }
}
