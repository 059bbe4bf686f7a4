import { setTimeout as delay } from 'node:timers/promises';
import autocannon from 'autocannon';
import { repeat } from '../soak/background.ts';
import { startSteadily } from '../soak/reads.ts';
import { bearer, type Running } from './processes.ts';
import { median } from './report.ts';

/** @throws Error if a request fails */
export async function load(options: autocannon.Options): Promise<autocannon.Result> {
  const result = await autocannon(options);
  const failed = result.non2xx - (result.statusCodeStats?.['304']?.count ?? 0) + result.errors;
  if (failed > 0) throw new Error(`${options.url} failed ${failed} times`);
  return result;
}

/** Medians of several runs. */
export function summarise(results: readonly autocannon.Result[]) {
  const middle = (pick: (result: autocannon.Result) => number) => median(results.map(pick));
  const rate = middle(({ requests }) => requests.average);
  const [p50, p99] = [middle(({ latency }) => latency.p50), middle(({ latency }) => latency.p99)];
  return { rate, p99, shown: `${Math.round(rate)} requests/s, p50 ${p50} ms, p99 ${p99} ms` };
}

type Summary = ReturnType<typeof summarise>;

/** By their requests a second. */
export const rateAgainst = (own: Summary, theirs: Summary) => ({
  ratio: own.rate / theirs.rate,
  detail: `${own.shown} to ${theirs.shown}`,
});

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

/**
 * Fifty requests a second. Autocannon would correct latencies as if each connection sent a request every millisecond: one
 * that takes 200 ms would count 200 times, and be the p99 of five hundred.
 */
export const steadily = { connections: 4, overallRate: 50, ignoreCoordinatedOmission: true };

/** Pages at a steady rate while some work is repeated, one time after another. @returns their p99 in milliseconds */
export async function loadBeside(pages: autocannon.Options, work: () => Promise<void>): Promise<number> {
  const stop = repeat(0, work);
  await delay(1_000);
  const { latency } = await load({ ...pages, ...steadily });
  await stop();
  return latency.p99;
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
  let index = 0;
  const stop = startSteadily(perSecond, async () => {
    if (index < count) await begin(index++, key => begunAt.set(key, performance.now()));
  });
  for (; begunAt.size < count || missing().length > 0; await delay(pauseMs)) {
    const keys = await arrived(missing());
    const now = performance.now();
    for (const key of keys) if (!arrivedAt.has(key)) arrivedAt.set(key, now);
  }
  await stop();
  return [...begunAt].map(([key, at]) => (arrivedAt.get(key) ?? Number.NaN) - at);
}
