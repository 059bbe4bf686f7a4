import { setTimeout as delay } from 'node:timers/promises';
import { createBackground } from './background.ts';

/** Counts what happened how often. */
export const count = <What>(counted: Map<What, number>, what: What) => counted.set(what, (counted.get(what) ?? 0) + 1);

/** Begins works at a steady rate, so many a second, whether earlier ones are over or not. */
export function startSteadily(rate: number, work: (underWay: number) => Promise<void>) {
  const underWay = createBackground();
  const begin = performance.now();
  let begun = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - begin) / 1000) * rate; begun < due; begun += 1) {
      underWay.add(work(underWay.size));
    }
  }, 5);
  /** Begins no more, and resolves when all are over. */
  return async (): Promise<void> => {
    clearInterval(timer);
    await underWay.join();
  };
}

/** Reads at a steady rate. @param nextUrl the address for the next request */
export function startReads({ nextUrl, token, rate }: { nextUrl: () => string; token: string; rate: number }) {
  const headers = { authorization: `Bearer ${token}` };
  /** Milliseconds of each request, in order. */
  const latencies: number[] = [];
  /** Requests that failed, counted by status or reason. */
  const failures = new Map<string, number>();
  const stop = startSteadily(rate, async () => {
    const begin = performance.now();
    try {
      const reply = await fetch(nextUrl(), { headers, signal: AbortSignal.timeout(10_000) });
      const body = await reply.text();
      if (reply.status !== 200) count(failures, `${reply.status} ${body}`);
    } catch (error) {
      count(failures, String(error instanceof Error ? (error.cause ?? error) : error));
    }
    latencies.push(performance.now() - begin);
  });
  return { latencies, failures, stop };
}

const probeIntervalMs = 200;

/** A load balancer's list: the replicas whose `/readyz` answered 200 lately. */
export function startBalancer(all: readonly string[]) {
  /** Changes as replicas come and go. */
  const urls = [...all];
  const controller = new AbortController();
  let turn = 0;
  const probe = async (url: string) => {
    const isReady = await fetch(`${url}/readyz`).then(
      reply => reply.ok,
      () => false,
    );
    const place = urls.indexOf(url);
    if (isReady && place === -1) urls.push(url);
    // The last one stays: a load balancer that knows no better sends requests there.
    if (!isReady && place !== -1 && urls.length > 1) urls.splice(place, 1);
  };
  const probing = (async () => {
    while (!controller.signal.aborted) {
      await Promise.all(all.map(probe));
      await delay(probeIntervalMs);
    }
  })();
  return {
    urls,
    /** Each in turn. */
    next(): string {
      turn += 1;
      return urls[turn % urls.length] ?? '';
    },
    /** Resolves when all are in the list. */
    async whole(): Promise<void> {
      while (urls.length < all.length) await delay(probeIntervalMs);
    },
    async stop(): Promise<void> {
      controller.abort();
      await probing;
    },
  };
}
