/**
 * The service's queue for the processes that run rules. A process that breaks a bound is ended and replaced, and the jobs
 * in it are done again.
 */
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Database } from '../database/client.ts';
import { suspendRules } from '../database/rules.ts';
import { badRequest, overloaded, rateLimited, rulesSuspended, ServiceError } from '../errors.ts';
import { type InputOf, type JobKind, type JobOptions, priorities, type ResultOf, type Scorer } from './jobs.ts';
import { type ScorerProcess, type ScorerProcessOptions, startScorerProcess } from './scorer-process.ts';
import type { JobError, Report } from './serve-jobs.ts';
import { maxServed, type RuleEntry } from './work.ts';

const maxProcesses = 2;

/** Input that a process is given at once, unless it is one job's. */
const maxInputCharacters = 16_000_000;

/** Until a check, a plan or an audit begins: a process has one of them at a time. */
const defaultMaxQueueMs = 30_000;

/** A plan of a million pull requests takes a minute. */
const maxJobMs = 600_000;

/** A cancelled job gives way within 100 ms, if its rules do. */
const maxCancellingMs = 1_000;

const watchIntervalMs = 250;

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
  place: Place | undefined;
  /** Why nobody waits for it any more. */
  cancelled: { reason: unknown } | undefined;
  settle(outcome: { result: unknown } | { error: unknown }): void;
  onProgress: JobOptions['onProgress'];
}

/** A process, and the jobs in it. */
interface Place {
  process: ScorerProcess;
  jobs: Map<number, Job>;
  isReady: boolean;
  /** What it said last. */
  current: { job: number; entry: RuleEntry | null } | undefined;
  endedFor: 'time' | 'cancelled' | undefined;
}

const isLong = ({ kind }: Job): boolean => kind === 'check' || kind === 'plan' || kind === 'audit';

/**
 * Starts processes when there is work.
 *
 * @param options `environment`: of the processes, without the database's address; `script`, `execArgv`: what they run
 */
export function createScorer(
  database: Pick<Database, 'url' | 'transaction'>,
  log: Logger,
  {
    environment,
    maxQueueMs = defaultMaxQueueMs,
    ...script
  }: Omit<ScorerProcessOptions, 'onReport' | 'onEnd'> & { maxQueueMs?: number },
): Scorer {
  const places = new Set<Place>();
  const waiting: Job[] = [];
  const servedAt = new LRUCache<string, number>({ max: maxServed });
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
    for (const place of places) {
      if (place.jobs.size === 0 || wasBlocked) place.process.listen();
      else if (place.process.isOverdue()) end(place, 'time');
    }
    for (const job of waiting.filter(each => isLong(each) && now - each.waitsSince > maxQueueMs)) {
      const error = rateLimited('Other rules files are being worked on.', 'Try again later.', { retryAfter: 30 });
      remove(job);
      job.settle({ error });
    }
    dispatch();
  }, watchIntervalMs).unref();

  function dispatch(): void {
    // Those to be tried again come first.
    waiting.sort(
      (a, b) =>
        b.ends - a.ends ||
        priorities[a.kind] - priorities[b.kind] ||
        (servedAt.get(a.organisationId) ?? 0) - (servedAt.get(b.organisationId) ?? 0) ||
        a.id - b.id,
    );
    for (const job of [...waiting]) {
      const place = placeFor(job);
      if (place === undefined) continue;
      const { id, kind, organisationId, isCareful, input } = job;
      remove(job);
      job.place = place;
      place.jobs.set(id, job);
      if (place.jobs.size === 1) place.process.listen();
      servedAt.set(organisationId, performance.now());
      place.process.tell({ job: id, kind, organisationId, priority: priorities[kind], isCareful, input });
    }
  }

  /** The one with the fewest jobs, or a new one. */
  function placeFor(job: Job): Place | undefined {
    const hasRoom = ({ jobs, endedFor }: Place) => {
      if (endedFor !== undefined) return false;
      const others = [...jobs.values()];
      if (isLong(job)) return !others.some(isLong);
      return (
        jobs.size === 0 || others.reduce((sum, { input }) => sum + input.length, job.input.length) <= maxInputCharacters
      );
    };
    const [least] = [...places].filter(hasRoom).sort((a, b) => a.jobs.size - b.jobs.size);
    const canStart = places.size < maxProcesses && performance.now() >= mayStartAt;
    return canStart && (least === undefined || least.jobs.size > 0) ? start() : least;
  }

  function start(): Place {
    const place: Place = {
      process: startScorerProcess({
        ...script,
        environment: { ...environment, DATABASE_URL: database.url, LOG_LEVEL: log.level },
        onReport: report => receive(place, report),
        onEnd: how => recover(place, how),
      }),
      jobs: new Map(),
      isReady: false,
      current: undefined,
      endedFor: undefined,
    };
    places.add(place);
    return place;
  }

  function receive(place: Place, report: Report): void {
    if (report.is === 'ready') {
      place.isReady = true;
      failedStarts = 0;
    } else if (report.is === 'at') {
      place.current = report;
    } else if (report.is !== 'alive') {
      const job = place.jobs.get(report.job);
      if (job === undefined) return;
      if (report.is === 'progress') {
        job.onProgress?.(report.done);
        return;
      }
      place.jobs.delete(job.id);
      if (job.cancelled !== undefined) job.settle({ error: job.cancelled.reason });
      else if (report.is === 'done') job.settle(report);
      else fail(job, report.error);
      dispatch();
    }
  }

  function fail(job: Job, error: JobError): void {
    if (error.is === 'bound') void suspend(job, error.entry);
    else if (error.is === 'service') {
      const { code, message, ...options } = error;
      job.settle({ error: new ServiceError(code, message, options) });
    } else job.settle({ error: Object.assign(new Error(error.message), { stack: error.stack }) });
  }

  function end(place: Place, reason: 'time' | 'cancelled'): void {
    place.endedFor ??= reason;
    void place.process.kill();
  }

  /** A process has ended: all its jobs are done again, the one that it was at with care. */
  function recover(place: Place, how: string): void {
    places.delete(place);
    if (isClosed) return;
    const { jobs, current, endedFor, isReady } = place;
    const atIt = endedFor === 'cancelled' || !isReady ? undefined : jobs.get(current?.job ?? 0);
    for (const job of jobs.values()) {
      job.place = undefined;
      if (job.cancelled !== undefined) job.settle({ error: job.cancelled.reason });
      else if (job === atIt) tryAgain(job, endedFor ?? how, current?.entry ?? undefined);
      else queue(job);
    }
    if (endedFor !== 'cancelled') {
      const { kind, organisationId } = atIt ?? {};
      log.error({ reason: endedFor ?? how, kind, organisationId }, 'a process that runs rules ended');
    }
    if (!isReady && endedFor === undefined) pauseStarts();
    dispatch();
  }

  function pauseStarts(): void {
    failedStarts += 1;
    const pauseMs = Math.min(maxStartPauseMs, 100 * 2 ** failedStarts);
    mayStartAt = performance.now() + pauseMs;
    if (failedStarts < maxFailedStarts || places.size > 0) setTimeout(dispatch, pauseMs).unref();
    else for (const job of waiting.splice(0)) job.settle({ error: outOfOrder("can't be started") });
  }

  /** @param entry in which the process ended, if it is known */
  function tryAgain(job: Job, how: string, entry: RuleEntry | undefined): void {
    job.ends += 1;
    // What somebody else has ended says nothing about the rules.
    const isOwnFault = how === 'time' || how === 'SIGABRT' || how === 'exit code 134';
    if (job.isCareful && isOwnFault && entry !== undefined) void suspend(job, entry);
    else if (job.ends === maxEnds || (job.isCareful && isOwnFault)) {
      // Only with a file of the caller's own is it the caller who can do something.
      const error =
        isOwnFault && isLong(job)
          ? badRequest('These rules take too much time or memory.', 'Use fewer or simpler ones.')
          : outOfOrder('was ended');
      job.settle({ error });
    } else {
      job.isCareful = true;
      queue(job);
    }
  }

  /** Takes the rules in force out of use: they break a bound. */
  async function suspend({ organisationId, settle }: Job, { version, rule, entry }: RuleEntry): Promise<void> {
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
    const { place } = job;
    if (place === undefined) {
      remove(job);
      job.settle({ error: reason });
      return;
    }
    place.process.tell({ cancel: job.id });
    setTimeout(() => place.jobs.has(job.id) && end(place, 'cancelled'), maxCancellingMs).unref();
  }

  return {
    async run<Kind extends JobKind>(kind: Kind, input: InputOf<Kind>, { signal, onProgress }: JobOptions = {}) {
      signal?.throwIfAborted();
      if (isClosed) throw stopping();
      let settle: Job['settle'] = () => undefined;
      const outcome = new Promise<ResultOf<Kind>>((resolve, reject) => {
        settle = end => ('result' in end ? resolve(end.result as ResultOf<Kind>) : reject(end.error));
      });
      const job: Job = {
        id: ++lastId,
        kind,
        organisationId: input.organisationId,
        input: JSON.stringify(input),
        isCareful: false,
        ends: 0,
        waitsSince: 0,
        place: undefined,
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
        return await outcome;
      } finally {
        signal?.removeEventListener('abort', abort);
        clearTimeout(limit);
      }
    },
    async close() {
      isClosed = true;
      clearInterval(watch);
      for (const job of [...waiting, ...[...places].flatMap(({ jobs }) => [...jobs.values()])]) {
        job.settle({ error: stopping() });
      }
      await Promise.all(Array.from(places, ({ process }) => process.kill()));
    },
  };
}

const stopping = () => overloaded('The service is stopping.');

const outOfOrder = (what: string) =>
  overloaded(`The process that runs rules ${what}.`, 'See the log; try again later.', { retryAfter: 5 });
