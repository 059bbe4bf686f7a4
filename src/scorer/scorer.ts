/**
 * The service's queue for the processes that run rules. A process that breaks a bound is ended and replaced, and the jobs
 * in it are done again.
 */
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Database } from '../database/client.ts';
import { suspendRules } from '../database/rules.ts';
import { badRequest, overloaded, rateLimited, rulesSuspended, ServiceError } from '../errors.ts';
import type { RuleEntry } from './bounds.ts';
import { type InputOf, type JobKind, type JobOptions, priorities, type ResultOf, type Scorer } from './jobs.ts';
import { type ScorerProcess, type ScorerProcessOptions, startScorerProcess } from './scorer-process.ts';
import type { JobError, Report } from './serve-jobs.ts';
import { maxServed } from './turns.ts';

const maxProcesses = 2;

/** How much input a process gets at once. A single job may have more. */
const maxInputCharacters = 16_000_000;

/** How long a check, a plan or an audit waits: a process has one of them at a time. */
const defaultMaxQueueMs = 30_000;

/** A plan of a million pull requests takes a minute. */
const maxJobMs = 600_000;

/** A cancelled job gives way within 100 ms, if its rules do. */
const maxCancellingMs = 1_000;

const watchIntervalMs = 250;

/** How many processes may end in one job before it fails. */
const maxEnds = 3;

/** How long no other process starts after one that ended before it was ready. */
const startPauseMs = 500;

interface Job {
  id: number;
  kind: JobKind;
  organisationId: string;
  input: string;
  /** A process ended with it: it is done again, alone in one, so that no job is blamed for what another takes. */
  isCareful: boolean;
  /** Processes that ended while they ran it. */
  ends: number;
  place: Place | undefined;
  /** Why nobody waits for it any more. */
  cancelled: { reason: unknown } | undefined;
  settle(outcome: { result: unknown } | { error: unknown }): void;
  onProgress: JobOptions['onProgress'];
}

/** Why this process ends another one. */
type EndReason = 'time' | 'silence' | 'cancelled';

/** A process, and the jobs in it. */
interface Place {
  process: ScorerProcess;
  jobs: Map<number, Job>;
  isReady: boolean;
  /** The last message of the process. */
  current: { job: number; entry: RuleEntry | null } | undefined;
  endReason: EndReason | undefined;
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
    ...ofProcess
  }: Omit<ScorerProcessOptions, 'onReport' | 'onEnd'> & { maxQueueMs?: number },
): Scorer {
  const places = new Set<Place>();
  /** With the time since when. */
  const waiting = new Map<Job, number>();
  const servedAt = new LRUCache<string, number>({ max: maxServed });
  let lastId = 0;
  let isClosed = false;
  let mayStartAt = 0;
  let watchedAt = performance.now();

  const watch = setInterval(() => {
    const now = performance.now();
    // This process was blocked itself: reports may wait to be read.
    const wasBlocked = now - watchedAt > 2 * watchIntervalMs;
    watchedAt = now;
    for (const place of places) {
      if (place.jobs.size === 0 || wasBlocked) {
        place.process.resetClock();
        continue;
      }
      const overdue = place.process.overdue(place.isReady);
      if (overdue !== undefined) end(place, overdue);
    }
    for (const [job, since] of waiting) {
      if (!isLong(job) || now - since <= maxQueueMs) continue;
      waiting.delete(job);
      const error = rateLimited('Other rules files are being worked on.', 'Try again later.', { retryAfter: 30 });
      job.settle({ error });
    }
    dispatch();
  }, watchIntervalMs).unref();

  function dispatch(): void {
    // Those to be done again come first.
    const inOrder = [...waiting.keys()].sort(
      (a, b) =>
        Number(b.isCareful) - Number(a.isCareful) ||
        b.ends - a.ends ||
        priorities[a.kind] - priorities[b.kind] ||
        (servedAt.get(a.organisationId) ?? 0) - (servedAt.get(b.organisationId) ?? 0) ||
        a.id - b.id,
    );
    for (const job of inOrder) {
      const place = placeFor(job);
      if (place === undefined) continue;
      const { id, kind, organisationId, isCareful, input } = job;
      waiting.delete(job);
      job.place = place;
      place.jobs.set(id, job);
      if (place.jobs.size === 1) place.process.resetClock();
      servedAt.set(organisationId, performance.now());
      place.process.send({ job: id, kind, organisationId, priority: priorities[kind], isCareful, input });
    }
  }

  /** The one with the organisation's other jobs, that with the fewest, or a new one. */
  function placeFor(job: Job): Place | undefined {
    const hasRoom = ({ jobs, endReason }: Place) => {
      if (endReason !== undefined) return false;
      if (jobs.size === 0) return true;
      const others = [...jobs.values()];
      if (job.isCareful || others.some(({ isCareful }) => isCareful)) return false;
      if (isLong(job)) return !others.some(isLong);
      return others.reduce((sum, { input }) => sum + input.length, job.input.length) <= maxInputCharacters;
    };
    const findPlace = (isWanted: (each: Job) => boolean) =>
      [...places].find(({ jobs }) => [...jobs.values()].some(each => isWanted(each)));
    // One process is left to all others, however long such a job takes.
    const isLongAlone = (each: Job) => each.isCareful && isLong(each);
    if (isLongAlone(job) && findPlace(isLongAlone) !== undefined) return undefined;
    // An organisation has one process at a time: the other one is for others, and its compiled rules are in memory once.
    const isOwn = (each: Job) => each.organisationId === job.organisationId && !isLongAlone(each);
    // A job that needs one for itself would wait until those that came later leave it one.
    const own = job.isCareful ? undefined : findPlace(isOwn);
    if (own !== undefined) return hasRoom(own) ? own : undefined;
    const [least] = [...places].filter(hasRoom).sort((a, b) => a.jobs.size - b.jobs.size);
    const canStart = places.size < maxProcesses && performance.now() >= mayStartAt;
    return canStart && (least === undefined || least.jobs.size > 0) ? start() : least;
  }

  function start(): Place {
    const place: Place = {
      process: startScorerProcess({
        ...ofProcess,
        environment: { ...environment, DATABASE_URL: database.url, LOG_LEVEL: log.level },
        onReport: report => receive(place, report),
        onEnd: how => recover(place, how),
      }),
      jobs: new Map(),
      isReady: false,
      current: undefined,
      endReason: undefined,
    };
    places.add(place);
    return place;
  }

  function receive(place: Place, report: Report): void {
    const job = 'job' in report ? place.jobs.get(report.job) : undefined;
    if (report.is === 'ready') place.isReady = true;
    else if (report.is === 'at') place.current = report;
    else if (report.is === 'progress') job?.onProgress?.(report.done);
    else if (report.is !== 'alive' && job !== undefined) {
      place.jobs.delete(job.id);
      if (job.cancelled !== undefined) job.settle({ error: job.cancelled.reason });
      else if (report.is === 'done') job.settle(report);
      else fail(job, report.error);
      dispatch();
    }
  }

  function fail(job: Job, error: JobError): void {
    if (error.is === 'bound') void suspend(job, error.entry);
    else if (error.is === 'service') job.settle({ error: new ServiceError(error.code, error.message, error) });
    else job.settle({ error: Object.assign(new Error(error.message), { stack: error.stack }) });
  }

  function end(place: Place, reason: EndReason): void {
    place.endReason ??= reason;
    void place.process.kill();
  }

  /** A process has ended: all its jobs are done again. */
  function recover(place: Place, how: string): void {
    places.delete(place);
    if (isClosed) return;
    const { jobs, current, endReason, isReady } = place;
    const isFault = endReason !== 'cancelled';
    const running = isFault && isReady ? jobs.get(current?.job ?? 0) : undefined;
    for (const job of jobs.values()) {
      job.place = undefined;
      if (job.cancelled !== undefined) job.settle({ error: job.cancelled.reason });
      else if (job === running) tryAgain(job, endReason ?? how, current?.entry ?? undefined);
      else if (isFault && !isReady && ++job.ends === maxEnds) job.settle({ error: outOfOrder("can't be started") });
      else {
        job.isCareful ||= isFault && isReady;
        waiting.set(job, performance.now());
      }
    }
    if (isFault) {
      const { kind, organisationId } = running ?? {};
      log.error({ reason: endReason ?? how, kind, organisationId }, 'a process that runs rules ended');
    }
    if (isFault && !isReady) mayStartAt = performance.now() + startPauseMs;
    dispatch();
  }

  /** @param entry in which the process ended, if it is known */
  function tryAgain(job: Job, how: string, entry: RuleEntry | undefined): void {
    job.ends += 1;
    // A process that was ended from outside says nothing about the rules.
    const isOwnFault = how === 'time' || how === 'SIGABRT' || how === 'exit code 134';
    if (job.isCareful && isOwnFault && entry !== undefined) void suspend(job, entry);
    else if (job.ends === maxEnds || (job.isCareful && isOwnFault)) {
      // Only rules that came with the job can be changed by its caller.
      const error =
        isOwnFault && isLong(job)
          ? badRequest('These rules take too much time or memory.', 'Use fewer or simpler ones.')
          : outOfOrder('was ended');
      job.settle({ error });
    } else {
      job.isCareful = true;
      waiting.set(job, performance.now());
    }
  }

  /** Takes the rules in force out of use: they break a bound. */
  async function suspend({ organisationId, settle }: Job, { version, rule, entry }: RuleEntry): Promise<void> {
    const place = `rule ${JSON.stringify(rule)}, entry ${entry}`;
    try {
      await database.transaction(executor => suspendRules(executor, organisationId, version, place));
      log.error({ organisationId, rulesetVersion: version, rule, entry }, 'rules are suspended');
      settle({ error: rulesSuspended() });
    } catch (error) {
      settle({ error });
    }
  }

  function cancel(job: Job, reason: unknown): void {
    job.cancelled ??= { reason };
    const { place } = job;
    if (place === undefined) {
      waiting.delete(job);
      job.settle({ error: reason });
      return;
    }
    place.process.send({ cancel: job.id });
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
        place: undefined,
        cancelled: undefined,
        settle,
        onProgress,
      };
      const abort = () => cancel(job, signal?.reason);
      signal?.addEventListener('abort', abort);
      const limit = setTimeout(() => cancel(job, overloaded('The rules took too long.', 'Try again later.')), maxJobMs);
      waiting.set(job, performance.now());
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
      for (const job of [...waiting.keys(), ...[...places].flatMap(({ jobs }) => [...jobs.values()])]) {
        job.settle({ error: stopping() });
      }
      await Promise.all(Array.from(places, ({ process }) => process.kill()));
    },
  };
}

const stopping = () => overloaded('The service is stopping.');

const outOfOrder = (what: string) =>
  overloaded(`The process that runs rules ${what}.`, 'See the log; try again later.', { retryAfter: 5 });
