import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

interface ReadsOptions {
  /** The address for the next request. */
  nextUrl: () => string;
  token: string;
  /** Requests a second. */
  rate: number;
}

/** Reads at a steady rate, whether the replies come or not. */
export function startReads({ nextUrl, token, rate }: ReadsOptions) {
  const headers = { authorization: `Bearer ${token}` };
  /** Milliseconds of each request, in order. */
  const latencies: number[] = [];
  /** Requests that failed, counted by status or reason. */
  const failures = new Map<string, number>();
  const underWay = new Set<Promise<void>>();

  async function read(): Promise<void> {
    const begin = performance.now();
    let failure: string | undefined;
    try {
      const reply = await fetch(nextUrl(), { headers, signal: AbortSignal.timeout(10_000) });
      const body = await reply.text();
      if (reply.status !== 200) failure = `${reply.status} ${body}`;
    } catch (error) {
      failure = String(error instanceof Error ? (error.cause ?? error) : error);
    }
    latencies.push(performance.now() - begin);
    if (failure !== undefined) failures.set(failure, (failures.get(failure) ?? 0) + 1);
  }

  const begin = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - begin) / 1000) * rate; sent < due; sent += 1) {
      const reading = read().finally(() => underWay.delete(reading));
      underWay.add(reading);
    }
  }, 5);

  return {
    latencies,
    failures,
    /** Stops sending, and resolves when all requests are answered. */
    async stop(): Promise<void> {
      clearInterval(timer);
      await Promise.all(underWay);
    },
  };
}

export interface MeasuredReads {
  /** Milliseconds. */
  p99: number;
  failures: readonly (readonly [reason: string, count: number])[];
}

interface UnseenReads extends Omit<ReadsOptions, 'nextUrl'> {
  /** Ends with what a number makes unique, so that no page comes from memory. */
  url: string;
}

const warmUpMs = 1_500;

const script = fileURLToPath(import.meta.url);

/**
 * Reads in a process of its own: what else this one does delays no measurement.
 *
 * @returns ends the reading, and gives what was measured
 */
export async function startUnseenReads(options: UnseenReads): Promise<() => Promise<MeasuredReads>> {
  const child = fork(script, [JSON.stringify(options)]);
  await once(child, 'message');
  return async () => {
    child.send('stop');
    const [{ latencies, failures }] = await once(child, 'message');
    return { p99: latencies.sort((a: number, b: number) => a - b)[Math.floor(latencies.length * 0.99)], failures };
  };
}

if (process.argv[1] === script) {
  const { url, ...options }: UnseenReads = JSON.parse(process.argv[2] ?? '');
  // Numbers of processes before this one are lower.
  let unseen = Date.now();
  const begin = () => startReads({ ...options, nextUrl: () => `${url}${unseen++}` });
  // With the process that measures, however that ends.
  process.once('disconnect', () => process.exit());
  // The first ones compile this program and open connections.
  const first = begin();
  await delay(warmUpMs);
  await first.stop();
  const reads = begin();
  process.send?.('reading');
  process.once('message', async () => {
    await reads.stop();
    const measured = { latencies: reads.latencies, failures: [...reads.failures] };
    process.send?.(measured, () => process.disconnect());
  });
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
