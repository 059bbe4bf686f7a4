import pg from 'pg';
import { keepAliveDelay } from '../database/client.ts';
import { forgetOldDeliveries } from '../database/webhook-deliveries.ts';
import type { Deps } from '../deps.ts';
import { reconcileOrganisation } from './reconcile.ts';
import { createRequestWorker } from './requests.ts';
import { rescoreBatch } from './rescore.ts';

/** A loop that nothing wakes looks by itself: after a wait that ran out, or a notification that was lost. */
const defaultPollMs = 1_000;

/** Until a lost connection for notifications is opened again. */
const reconnectMs = 1_000;

/** Organisations that this process fetches pending pull requests for at once. */
const maxTurns = 4;

/** What keeps the stored state level with what it should be, in `serve` and in `worker`. */
export interface Loops {
  /** Resolves when the batches under way are done. */
  stop(): Promise<void>;
}

export function startLoops(deps: Deps, { pollMs = defaultPollMs }: { pollMs?: number } = {}): Loops {
  const { config, github } = deps;
  const start = (name: string, work: Work, width: number) => startLoop(deps, name, work, width, pollMs);
  const loops = new Map<string, Loop>([
    ['sync', start('sync', createRequestWorker(deps), maxTurns)],
    // Two, so that one reads and scores while the database writes what the other has scored.
    ['rescore', start('rescore', async () => (await rescoreBatch(deps)) > 0, 2)],
  ]);
  if (config.reconcileInterval > 0 && github.configured) {
    // Two, so that an organisation whose comparison takes long does not hold up the others.
    const compare = (signal: AbortSignal) => reconcileOrganisation(deps, { signal });
    loops.set('reconcile', start('reconcile', compare, 2));
  }
  const listener = listen(deps, work => loops.get(work)?.wake());
  const pruning = setInterval(
    () =>
      forgetOldDeliveries(deps.database.executor).catch((error: unknown) =>
        deps.log.warn({ err: error }, 'old deliveries were not forgotten; tried again in an hour'),
      ),
    3_600_000,
  );
  return {
    async stop() {
      clearInterval(pruning);
      await Promise.all([listener, ...loops.values()].map(each => each.stop()));
    },
  };
}

interface Loop {
  wake(): void;
  stop(): Promise<void>;
}

/** Does one batch and returns whether there may be another; `signal` asks it to leave the rest. */
type Work = (signal: AbortSignal) => Promise<boolean>;

/** @param width how many batches are under way at once */
function startLoop({ log }: Deps, name: string, work: Work, width: number, pollMs: number): Loop {
  const stopping = new AbortController();
  const { signal } = stopping;
  let failures = 0;
  const lanes = Array.from({ length: width }, () => ({ woken: false, rouse: () => {} }));

  const rest = (lane: (typeof lanes)[number]) =>
    new Promise<void>(resolve => {
      const timer = setTimeout(resolve, pollMs);
      lane.rouse = () => {
        clearTimeout(timer);
        resolve();
      };
      if (lane.woken || signal.aborted) lane.rouse();
    });

  const run = async (lane: (typeof lanes)[number]) => {
    while (!signal.aborted) {
      lane.woken = false;
      let more = false;
      try {
        more = await work(signal);
        failures = 0;
      } catch (error) {
        // An outage would fill the log: its first failure is logged, then one in about a minute.
        if (failures % (60 * width) === 0) {
          log.error({ err: error, loop: name, failures: failures + 1 }, 'a loop failed and tries again');
        }
        failures += 1;
      }
      if (!more) await rest(lane);
    }
  };
  const running = lanes.map(run);
  const rouse = () => {
    for (const lane of lanes) {
      lane.woken = true;
      lane.rouse();
    }
  };

  return {
    wake: rouse,
    async stop() {
      stopping.abort();
      rouse();
      await Promise.all(running);
    },
  };
}

/** Hears of new work at once; without a connection the loops' own poll finds it. */
function listen({ database, log }: Deps, wake: (payload: string) => void) {
  let client: pg.Client | undefined;
  let stopped = false;
  let retry: NodeJS.Timeout | undefined;

  const connect = async () => {
    const fresh = new pg.Client({
      connectionString: database.url,
      application_name: 'pullscore listener',
      connectionTimeoutMillis: 2_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveDelay,
    });
    client = fresh;
    let lost = false;
    const reconnect = () => {
      if (lost || stopped) return;
      lost = true;
      fresh.end().catch(() => undefined);
      retry = setTimeout(connect, reconnectMs);
    };
    fresh.on('error', reconnect);
    fresh.on('end', reconnect);
    fresh.on('notification', ({ payload }) => wake(payload ?? ''));
    try {
      await fresh.connect();
      await fresh.query('listen pullscore');
    } catch (error) {
      log.debug({ err: error }, 'not listening for notifications');
      reconnect();
    }
  };
  const connected = connect();

  return {
    async stop() {
      stopped = true;
      clearTimeout(retry);
      await connected;
      await client?.end().catch(() => undefined);
    },
  };
}
