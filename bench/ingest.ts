import { randomUUID } from 'node:crypto';
import type autocannon from 'autocannon';
import { startGithub } from '../test/support/github/server.ts';
import { signature } from '../test/support/github/webhooks.ts';
import { joinEmptied } from './database.ts';
import { load } from './load.ts';
import { secret, startProcess, startService } from './processes.ts';
import { atLeast, median, takeTurns } from './report.ts';

const rounds = 5;
const seconds = 5;

const payloadBytes = 25_000;
/** Each delivery has a GUID of its own; the pull requests come again after so many. */
const pullRequests = 4_000;

/**
 * Webhooks accepted a second, each durable before its answer, against the same application with nothing to store in.
 * The loops are off: what deliveries bring about later is not part of accepting them.
 */
export async function measure(): Promise<void> {
  const { organisation, request } = await makeDeliveries(pullRequests);
  await using server = await joinEmptied('ingest', [organisation]);
  const environment = { DATABASE_URL: server.url, GITHUB_WEBHOOK_SECRET: secret, WORKER: 'false', LOG_LEVEL: 'warn' };
  await using own = await startService('serve', environment);
  await using bare = await startProcess(['--import', 'tsx', 'bench/webhook-server.ts'], environment);
  const accept = (origin: string, duration: number) =>
    load({ url: `${origin}/webhooks/github`, connections: 32, requests: [request()], duration });

  const warm = await accept(own.origin, 2);
  await accept(bare.origin, 2);
  const origins = { own: own.origin, bare: bare.origin };
  const measured = await takeTurns(rounds, origins, origin => accept(origin, seconds));
  const answered = [warm, ...measured.own].reduce((sum, result) => sum + result['2xx'], 0);
  const stored = await server.count('webhook_deliveries');
  if (stored < answered) throw new Error(`of ${answered} acknowledged only ${stored} are stored`);
  const middle = (name: keyof typeof origins, pick: (result: autocannon.Result) => number) =>
    median(measured[name].map(pick));
  const rate = (name: keyof typeof origins) => middle(name, ({ requests }) => requests.average);
  const show = (name: keyof typeof origins) =>
    `${Math.round(rate(name))}/s, p50 ${middle(name, ({ latency }) => latency.p50)} ms, p99 ${middle(name, ({ latency }) => latency.p99)} ms`;
  const what = `accepting webhooks of ${payloadBytes / 1000} KB, durable before the answer, WORKER=false`;
  atLeast(0.8, what, 'the same application without a database', {
    ratio: rate('own') / rate('bare'),
    detail: `${show('own')} to ${show('bare')}`,
  });
}

/**
 * Payloads as GitHub's, each of another pull request.
 *
 * @returns with what makes a request that sends them one after the other, each time as a delivery of its own
 */
export async function makeDeliveries(count: number) {
  const github = await startGithub();
  const organisation = github.organisation('bench');
  organisation.member('ada');
  const repository = organisation.repository('web');
  const deliveries = Array.from({ length: count }, () => {
    const { payload } = repository.addPullRequest().open();
    const missing = payloadBytes - Buffer.byteLength(JSON.stringify(payload));
    const text = `## Why\n"${'because '.repeat(missing)}`.slice(0, missing - 4);
    const body = Buffer.from(JSON.stringify({ ...payload, pull_request: { ...payload.pull_request, body: text } }));
    return { body, signature: signature(secret, body) };
  });
  await github.close();
  const request = (): autocannon.Request => {
    let next = 0;
    return {
      method: 'POST',
      setupRequest: request => {
        const delivery = deliveries[next % deliveries.length];
        next += 1;
        return {
          ...request,
          headers: {
            'content-type': 'application/json',
            'user-agent': 'GitHub-Hookshot/044aadd',
            'x-github-event': 'pull_request',
            'x-github-delivery': randomUUID(),
            'x-hub-signature-256': delivery?.signature ?? '',
          },
          body: delivery?.body ?? '',
        };
      },
    };
  };
  return { organisation, request };
}
