import autocannon from 'autocannon';
import { deliveryRequest, makeDeliveries } from './ingest.ts';
import { secret, startProcess } from './processes.ts';

const seconds = 10;

/** Requests a second, of each kind. */
const rate = 50;

/**
 * What callers notice of a re-scoring by the very process that answers them: pages and webhooks at a steady rate, at
 * rest and after `begin`.
 *
 * @returns lines to print
 */
export async function measureLatency(
  { url, token }: { url: string; token: string },
  begin: () => Promise<unknown>,
): Promise<string[]> {
  const { deliveries } = await makeDeliveries(500);
  const service = await startProcess(['dist/main.js', 'serve'], {
    DATABASE_URL: url,
    GITHUB_WEBHOOK_SECRET: secret,
    PORT: '0',
    RATE_LIMIT: '0',
    LOG_LEVEL: 'error',
  });
  try {
    const steadily = (path: string, options: Partial<autocannon.Options>, duration: number) =>
      autocannon({
        url: `http://127.0.0.1:${service.port}${path}`,
        connections: 4,
        overallRate: rate,
        duration,
        ...options,
      });
    const measure = (duration: number) =>
      Promise.all([
        steadily(
          '/2025-04/pull-requests?unseen=[<id>]',
          { headers: { authorization: `Bearer ${token}` }, idReplacement: true },
          duration,
        ),
        steadily('/webhooks/github', { requests: [deliveryRequest(deliveries)] }, duration),
      ]);
    await measure(2);
    const atRest = await measure(seconds);
    await begin();
    const meanwhile = await measure(seconds);
    return ['pages', 'webhooks'].map((what, index) => {
      const show = (result: autocannon.Result | undefined) =>
        `p50 ${result?.latency.p50} ms, p99 ${result?.latency.p99} ms, ${(result?.non2xx ?? 0) + (result?.errors ?? 0)} failed`;
      return `${what} at ${rate}/s: ${show(atRest[index])} at rest; ${show(meanwhile[index])} while the same process re-scores`;
    });
  } finally {
    await service.stop();
  }
}
