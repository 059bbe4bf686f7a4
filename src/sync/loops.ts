import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { keepAliveDelayMs } from '../database/client.ts';
import { isDatabaseUnavailable } from '../database/failures.ts';
import type { Deps } from '../deps.ts';
import { pruneOrganisation } from './prune.ts';
import { reconcileOrganisation } from './reconcile.ts';
import { createRequestWorker } from './request-worker.ts';
import { rescoreBatch } from './rescore.ts';

/** How often a loop looks for work that became due, or whose notification was lost. */
const defaultPollMs = 1_000;

/** How long until a loop that failed tries again, and until a lost connection for notifications is opened again. */
const retryMs = 1_000;

/** How often the same failure of a loop is logged. */
const logIntervalMs = 60_000;

/** Organisations for which this process syncs at once. */
const maxTurns = 4;

/** The background work of `serve` and `worker`. */
export interface Loops {
  /** Resolves when the batches under way have ended. */
  stop(): Promise<void>;
}

export function startLoops(deps: Deps, { pollMs = defaultPollMs }: { pollMs?: number } = {}): Loops {
  const { github } = deps;
  const start = (name: string, work: Work, width: number) => startLoop(deps, name, work, width, pollMs);
  const loops = new Map<string, Loop>([
    ['sync', start('sync', createRequestWorker(deps), maxTurns)],
    // Two: one reads and scores while the database writes what the other has scored.
    ['rescore', start('rescore', async () => (await rescoreBatch(deps)) > 0, 2)],
    ['prune', start('prune', signal => pruneOrganisation(deps, signal), 1)],
  ]);
  if (github.configured) {
    // Two: a long comparison does not hold up the other organisations.
    const compare = (signal: AbortSignal) => reconcileOrganisation(deps, { signal });
    loops.set('reconcile', start('reconcile', compare, 2));
  }
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

/** Does one batch and returns whether there may be another; `signal` asks it to stop early. */
type Work = (signal: AbortSignal) => Promise<boolean>;

/** @param width how many batches run at once */
function startLoop({ log }: Deps, name: string, work: Work, width: number, pollMs: number): Loop {
  const stopping = new AbortController();
  const { signal } = stopping;
  const failures = createFailureLog(log, name);
  let waking = new AbortController();
  const wake = () => {
    waking.abort();
    waking = new AbortController();
  };

  const run = async () => {
    while (!signal.aborted) {
      // A wake-up during the work counts, too: it may be for something that the work did not see.
      const woken = waking.signal;
      const begunAt = performance.now();
      let pauseMs = pollMs;
      try {
        if (await work(signal)) pauseMs = 0;
        failures.end(begunAt);
      } catch (error) {
        failures.add(error);
        pauseMs = Math.min(pollMs, retryMs);
      }
      if (pauseMs > 0) await delay(pauseMs, undefined, { signal: woken }).catch(() => undefined);
    }
  };
  const running = Array.from({ length: width }, run);

  return {
    wake,
    async stop() {
      stopping.abort();
      wake();
      await Promise.all(running);
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
    /** @param begunAt of work that did not fail. If something failed after that, the work says nothing about it. */
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
    const fresh = new pg.Client({
      connectionString: database.url,
      application_name: 'pullscore listener',
      connectionTimeoutMillis: 2_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveDelayMs,
    });
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
      await fresh.connect();
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
