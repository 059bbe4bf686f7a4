import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { clientOptions, openSession } from '../database/connection.ts';
import { isDatabaseUnavailable } from '../database/driver-errors.ts';
import { isOrganisationGone } from '../database/organisations.ts';
import { findOutdatedOrganisation } from '../database/rescore-ranges.ts';
import type { Deps } from '../deps.ts';
import { compareOrganisation } from './compare.ts';
import { pruneOrganisation } from './prune.ts';
import { publishCheckRuns } from './publish-check-runs.ts';
import { createRequestWorker } from './serve-requests.ts';

/** How often a loop looks for work that became due, or whose notification was lost. */
const defaultPollMs = 1_000;

/** How long until a loop that failed tries again, and until a lost connection for notifications is opened again. */
const retryMs = 1_000;

/** How often the same failure of a loop is logged. */
const logIntervalMs = 60_000;

/** How many organisations this process works for at once. Most of the time they wait for GitHub. */
const widths = { sync: 48, compare: 16, checks: 8 };

/** If a search for work takes longer, the database or this process is slow, so no more work is begun at once. */
const maxSearchMs = 250;

/** The background work of `serve` and `worker`. */
export interface Loops {
  /** Resolves when the batches under way have ended. */
  stop(): Promise<void>;
}

export function startLoops(deps: Deps, { pollMs = defaultPollMs }: { pollMs?: number } = {}): Loops {
  const { database, github, scorer } = deps;
  const loops = new Map<string, Loop>();
  const start = (name: string, width: number, work: Work) =>
    loops.set(name, startLoop(deps, name, work, width, pollMs));
  // Two: one reads and scores while the database writes what the other has scored.
  start('rescore', 2, async (_, onFound) => {
    const organisationId = await findOutdatedOrganisation(database.executor);
    if (organisationId === undefined) return false;
    onFound();
    return (await scorer.run('rescore', { organisationId })) > 0;
  });
  start('prune', 1, signal => pruneOrganisation(deps, signal));
  if (github.configured) {
    start('compare', widths.compare, (signal, onFound) => compareOrganisation(deps, signal, onFound));
  }
  if (github.canWriteChecks) start('checks', widths.checks, (_, onFound) => publishCheckRuns(deps, { onFound }));
  start('sync', widths.sync, createRequestWorker(deps));
  const wakeAll = () => {
    for (const loop of loops.values()) loop.wake();
  };
  // Without a connection, notifications were missed.
  const listener = listen(deps, work => loops.get(work)?.wake(), wakeAll);
  return {
    async stop() {
      await Promise.all([listener, ...loops.values()].map(each => each.stop()));
    },
  };
}

interface Loop {
  wake(): void;
  stop(): Promise<void>;
}

/**
 * Does one batch and returns whether there may be another; `signal` asks it to stop early.
 *
 * @param onFound called when it has found its batch: another one may start beside it
 */
export type Work = (signal: AbortSignal, onFound: () => void) => Promise<boolean>;

/** @param width how many batches run at once; only one at a time looks for work */
function startLoop({ log }: Deps, name: string, work: Work, width: number, pollMs: number): Loop {
  const stopping = new AbortController();
  const { signal } = stopping;
  const failures = createFailureLog(log, name);
  let waking = new AbortController();
  const wake = () => {
    waking.abort();
    waking = new AbortController();
  };

  /** @returns how long to wait before work is looked for again */
  const attempt = async (onFound: () => void): Promise<number> => {
    const begunAt = performance.now();
    let isFound = false;
    try {
      const mayGoOn = await work(signal, () => {
        isFound = true;
        onFound();
      });
      failures.end(begunAt);
      return mayGoOn ? 0 : pollMs;
    } catch (error) {
      if (!isOrganisationGone(error)) failures.add(error);
      // Others have begun beside it: it keeps its place until it may be tried again.
      if (isFound) await delay(retryMs, undefined, { signal }).catch(() => undefined);
      return Math.min(pollMs, retryMs);
    }
  };

  const batches = new Set<Promise<void>>();
  const run = async () => {
    while (!signal.aborted) {
      // A wake-up during the search counts, too: it may be for something that the search did not see.
      const woken = waking.signal;
      let pauseMs = pollMs;
      if (batches.size < width) {
        const begun = performance.now();
        pauseMs = await new Promise<number>(resolve => {
          const batch: Promise<void> = attempt(() => resolve(0)).then(pause => {
            batches.delete(batch);
            resolve(pause);
            if (pause === 0) wake();
          });
          batches.add(batch);
        });
        if (pauseMs === 0 && performance.now() - begun < maxSearchMs) continue;
      }
      await delay(pauseMs || retryMs, undefined, { signal: woken }).catch(() => undefined);
    }
    await Promise.all(batches);
  };
  const done = run();

  return {
    wake,
    async stop() {
      stopping.abort();
      wake();
      await done;
    },
  };
}

/** Logs that a loop fails, and that it works again. */
function createFailureLog(log: Deps['log'], loop: string) {
  let logged = { kind: '', at: 0 };
  let failing: { since: number; latest: number; isLogged: boolean } | undefined;
  return {
    add(error: unknown): void {
      const at = performance.now();
      const kind = isDatabaseUnavailable(error) ? 'outage' : String(error);
      // Each try of an outage fails, which would fill the log.
      const isNews = kind !== logged.kind || at - logged.at >= logIntervalMs;
      failing = { since: failing?.since ?? at, latest: at, isLogged: isNews || failing?.isLogged === true };
      if (!isNews) return;
      logged = { kind, at };
      log.error({ err: error, loop }, 'a loop failed and tries again');
    },
    /** @param begunAt when work began that did not fail: it says nothing about later failures */
    end(begunAt: number): void {
      if (failing === undefined || begunAt < failing.latest) return;
      const { since, isLogged } = failing;
      failing = undefined;
      const seconds = Math.round((performance.now() - since) / 1000);
      if (isLogged) log.info({ loop, seconds }, 'a loop that failed works again');
    },
  };
}

/** Wakes loops as soon as there is work; without a connection the loops find it by polling. */
function listen({ database, log }: Deps, wake: (payload: string) => void, listening: () => void) {
  let client: pg.Client | undefined;
  let isStopped = false;
  let retry: NodeJS.Timeout | undefined;

  const connect = async () => {
    const fresh = new pg.Client(clientOptions(database.url, { application_name: 'pullscore listener' }));
    client = fresh;
    let isLost = false;
    const reconnect = () => {
      if (isLost || isStopped) return;
      isLost = true;
      fresh.end().catch(() => undefined);
      retry = setTimeout(connect, retryMs);
    };
    fresh.on('error', reconnect);
    fresh.on('end', reconnect);
    fresh.on('notification', ({ payload }) => wake(payload ?? ''));
    try {
      await openSession(fresh);
      await fresh.query('listen pullscore');
      listening();
    } catch (error) {
      log.debug({ err: error }, 'not listening for notifications');
      reconnect();
    }
  };
  const connected = connect();

  return {
    async stop() {
      isStopped = true;
      clearTimeout(retry);
      await connected;
      await client?.end().catch(() => undefined);
    },
  };
}
