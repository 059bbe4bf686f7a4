import { randomUUID } from 'node:crypto';
import autocannon from 'autocannon';
import { startGithub } from '../test/support/github/server.ts';
import { signature } from '../test/support/github/webhooks.ts';
import { joinEmptied, withClient } from './database.ts';
import { type Running, secret, startProcess } from './processes.ts';
import { median, type Row } from './report.ts';

const rounds = 5;
const seconds = 5;
const connections = 32;

const payloadBytes = 25_000;
/** Each delivery has a GUID of its own; the pull requests come again after so many. */
const pullRequests = 4_000;

/**
 * Webhooks accepted a second, each durable before its answer, against the same application with nothing to store in.
 * The loops are off: what deliveries bring about later is not part of accepting them.
 */
export async function measureIngest(): Promise<Row[]> {
  const { organisation, deliveries } = await makeDeliveries(pullRequests);
  const server = await joinEmptied('ingest', organisation);
  const processes: Running[] = [];
  try {
    const start = async (...command: string[]) => {
      const running = await startProcess(command, {
        DATABASE_URL: server.url,
        GITHUB_WEBHOOK_SECRET: secret,
        PORT: '0',
        WORKER: 'false',
        LOG_LEVEL: 'warn',
      });
      processes.push(running);
      return `http://127.0.0.1:${running.port}/webhooks/github`;
    };
    const targets = {
      own: await start('dist/main.js', 'serve'),
      bare: await start('--import', 'tsx', 'bench/webhook-server.ts'),
    };

    const measured = { own: [] as autocannon.Result[], bare: [] as autocannon.Result[] };
    const warm = [await load(targets.own, deliveries, 2)];
    await load(targets.bare, deliveries, 2);
    for (let round = 0; round < rounds; round += 1) {
      for (const name of ['own', 'bare'] as const) measured[name].push(await load(targets[name], deliveries, seconds));
    }
    await requireStored(server.url, [...warm, ...measured.own]);
    const middle = (name: 'own' | 'bare', pick: (result: autocannon.Result) => number) =>
      median(measured[name].map(pick));
    const show = (name: 'own' | 'bare') =>
      `${Math.round(middle(name, result => result.requests.average))}/s, p50 ${middle(name, result => result.latency.p50)} ms, p99 ${middle(name, result => result.latency.p99)} ms`;
    return [
      {
        what: `accepting webhooks of ${payloadBytes / 1000} KB, durable before the answer, WORKER=false`,
        against: 'the same application without a database',
        ratio: middle('own', result => result.requests.average) / middle('bare', result => result.requests.average),
        target: 0.8,
        comparison: 'at least',
        detail: `${show('own')} to ${show('bare')}`,
      },
    ];
  } finally {
    for (const running of processes) await running.stop();
    await server.leave();
  }
}

interface SignedDelivery {
  body: Buffer;
  signature: string;
}

/** Payloads as GitHub's, each of another pull request. */
export async function makeDeliveries(count: number) {
  const github = await startGithub();
  const organisation = github.organisation('bench');
  organisation.member('ada');
  const repository = organisation.repository('web');
  const deliveries: SignedDelivery[] = [];
  for (let index = 0; index < count; index += 1) {
    const { payload } = repository.addPullRequest().open();
    const missing = payloadBytes - Buffer.byteLength(JSON.stringify(payload));
    const pullRequest = {
      ...payload.pull_request,
      body: `## Why\n"${'because '.repeat(missing)}`.slice(0, missing - 4),
    };
    const body = Buffer.from(JSON.stringify({ ...payload, pull_request: pullRequest }));
    deliveries.push({ body, signature: signature(secret, body) });
  }
  await github.close();
  return { organisation, deliveries };
}

async function load(url: string, deliveries: readonly SignedDelivery[], duration: number): Promise<autocannon.Result> {
  const result = await autocannon({ url, duration, connections, requests: [deliveryRequest(deliveries)] });
  if (result.non2xx + result.errors > 0) throw new Error(`${url} failed ${result.non2xx + result.errors} times`);
  return result;
}

/** One after the other, each time as a delivery of its own. */
export function deliveryRequest(deliveries: readonly SignedDelivery[]): autocannon.Request {
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
}

/** Durable, not only answered. */
async function requireStored(url: string, results: readonly autocannon.Result[]): Promise<void> {
  const answered = results.reduce((sum, result) => sum + result['2xx'], 0);
  const { rows } = await withClient(url, client =>
    client.query<{ count: number }>('select count(*)::int from webhook_deliveries'),
  );
  if ((rows[0]?.count ?? 0) < answered)
    throw new Error(`of ${answered} acknowledged only ${rows[0]?.count} are stored`);
}
