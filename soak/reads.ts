import { createBackground } from './background.ts';

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
