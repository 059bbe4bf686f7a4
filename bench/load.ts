import { setTimeout as delay } from 'node:timers/promises';
import autocannon from 'autocannon';
import { bearer } from './database.ts';
import type { Running } from './processes.ts';

/** @throws Error if a request fails */
export async function load(options: autocannon.Options): Promise<autocannon.Result> {
  const result = await autocannon(options);
  const failed = result.non2xx - (result.statusCodeStats?.['304']?.count ?? 0) + result.errors;
  if (failed > 0) throw new Error(`${options.url} failed ${failed} times`);
  return result;
}

/** More than one connection sends. */
const maxRequests = 1_000;
let made = 0;

/** Gives every request an address of its own, made before the measurement: no page comes from memory. */
export const neverTheSame = (path: string): Pick<autocannon.Options, 'setupClient'> => ({
  setupClient: client =>
    client.setRequests(
      Array.from({ length: maxRequests }, () => {
        made += 1;
        return { method: 'GET', path: `${path}${path.includes('?') ? '&' : '?'}unseen=${made}` };
      }),
    ),
});

/** Requests for pages of pull requests, none of which was seen before. */
export const unseenPages = ({ origin }: Pick<Running, 'origin'>, token: string): autocannon.Options => ({
  url: origin,
  headers: bearer(token),
  ...neverTheSame('/2025-04/pull-requests'),
});

/** Fifty requests a second. */
export const steadily = { connections: 4, overallRate: 50 };

/**
 * Pages at a steady rate while callers repeat some work, one time after another.
 *
 * @returns how often the work has ended, too
 */
export async function loadBeside(pages: autocannon.Options, callers: number, work: () => Promise<void>) {
  let isOver = false;
  let ended = 0;
  const working = Array.from({ length: callers }, async () => {
    for (; !isOver; ended += 1) await work();
  });
  await delay(1_000);
  const { latency } = await load({ ...pages, ...steadily });
  const endedMeanwhile = ended;
  isOver = true;
  await Promise.all(working);
  return { p99: latency.p99, ended: endedMeanwhile };
}

/**
 * Begins so many things at a steady rate, whether or not the ones before have arrived.
 *
 * @param begin calls back with the thing's key at the moment from which it counts
 * @param arrived finds those that have arrived, of the given ones or of others
 * @returns the milliseconds that each took
 */
export async function measureArrivals(
  { perSecond, count, pauseMs }: { perSecond: number; count: number; pauseMs: number },
  begin: (index: number, hasBegun: (key: string) => void) => Promise<void>,
  arrived: (missing: string[]) => Promise<string[]>,
): Promise<number[]> {
  const begunAt = new Map<string, number>();
  const arrivedAt = new Map<string, number>();
  const missing = () => [...begunAt.keys()].filter(key => !arrivedAt.has(key));
  const watch = async () => {
    for (; begunAt.size < count || missing().length > 0; await delay(pauseMs)) {
      const keys = await arrived(missing());
      const now = performance.now();
      for (const key of keys) if (!arrivedAt.has(key)) arrivedAt.set(key, now);
    }
  };
  const send = async () => {
    const start = performance.now();
    const sent: Promise<void>[] = [];
    for (let index = 0; index < count; index += 1) {
      await delay(Math.max(0, start + (index * 1_000) / perSecond - performance.now()));
      sent.push(begin(index, key => begunAt.set(key, performance.now())));
    }
    await Promise.all(sent);
  };
  await Promise.all([watch(), send()]);
  return [...begunAt].map(([key, at]) => (arrivedAt.get(key) ?? Number.NaN) - at);
}
