import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Organisation } from '../test/support/github/organisation.ts';
import { type GithubStandIn, startGithub } from '../test/support/github/server.ts';
import { joinEmptied, withClient } from './database.ts';
import { type Running, secret, startProcess } from './processes.ts';
import type { Row } from './report.ts';

const organisations = 1_000;
const responseMs = 1_000;
const webhooksPerSecond = 25;
const webhookSeconds = 30;
const intervalSeconds = 900;

/** One process for many organisations, through a GitHub App, while GitHub takes a second for each answer. */
export async function measureTenants(): Promise<Row[]> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const github = await startGithub({ app: { id: '4711', publicKey } });
  // Each installation has points of its own; the stand-in counts those of all together.
  if (github.limit) Object.assign(github.limit, { limit: 1_000_000, remaining: 1_000_000 });
  const tenants = Array.from({ length: organisations }, (_, index) => addTenant(github, `tenant-${index}`));
  const server = await joinEmptied('tenants', ...tenants);
  try {
    const service = await startProcess(['dist/main.js', 'serve'], {
      DATABASE_URL: server.url,
      GITHUB_API_URL: github.apiUrl,
      GITHUB_APP_ID: '4711',
      GITHUB_APP_PRIVATE_KEY: privateKey,
      GITHUB_WEBHOOK_SECRET: secret,
      RECONCILE_INTERVAL: String(intervalSeconds),
      PORT: '0',
      LOG_LEVEL: 'error',
    });
    try {
      // The first comparison stores what there is.
      await untilCompared(server.url);
      github.fault({ kind: 'delay', milliseconds: responseMs }, { times: Number.POSITIVE_INFINITY, when: () => true });
      const waits = await measureWebhooks(server.url, github, service, tenants);
      const comparison = await measureComparison(server.url, github);
      const p99 = waits[Math.ceil(waits.length * 0.99) - 1] ?? Number.NaN;
      const p50 = waits[Math.ceil(waits.length * 0.5) - 1] ?? Number.NaN;
      const memory = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${service.id}/status`, 'utf8'))?.[1]) / 1024;
      return [
        {
          what: `p99 until stored, ${webhooksPerSecond} webhooks a second for ${organisations} organisations`,
          against: "GitHub's response time",
          ratio: p99 / responseMs,
          target: 3,
          comparison: 'at most',
          detail: `${Math.round(p99)} ms (p50 ${Math.round(p50)} ms) to ${responseMs} ms; at most ${Math.round(memory)} MB resident`,
        },
        {
          what: `comparison of ${organisations} organisations in which nothing changed`,
          against: `the interval of ${intervalSeconds} s`,
          ratio: comparison.seconds / intervalSeconds,
          target: 1 / 3,
          comparison: 'at most',
          detail: `${Math.round(comparison.seconds)} s, ${(comparison.requests / organisations).toFixed(1)} requests each`,
        },
      ];
    } finally {
      await service.stop();
    }
  } finally {
    await server.leave();
    await github.close();
  }
}

function addTenant(github: GithubStandIn, login: string): Organisation {
  const organisation = github.organisation(login);
  const author = organisation.member('ada');
  organisation.repository('web').addPullRequest({ author });
  github.installApp(organisation);
  return organisation;
}

/** Resolves when no organisation is due, or being compared. */
async function untilCompared(url: string): Promise<void> {
  await withClient(url, async client => {
    for (;;) {
      const { rows } = await client.query<{ open: number }>(
        `select (select count(*) from organisations where comparison_due_at < now() + interval '1 minute')::int
          + (select count(*) from sync_requests)::int as open`,
      );
      if (rows[0]?.open === 0) return;
      await delay(200);
    }
  });
}

/** @returns milliseconds from each delivery until its change was stored, sorted */
async function measureWebhooks(
  url: string,
  github: GithubStandIn,
  { port }: Running,
  tenants: readonly Organisation[],
): Promise<number[]> {
  const sent = new Map<string, number>();
  const waits: number[] = [];
  const total = webhooksPerSecond * webhookSeconds;
  const watching = withClient(url, async client => {
    while (waits.length < total) {
      const { rows } = await client.query<{ title: string }>(
        'select title from pull_requests where title = any($1::text[])',
        [[...sent.keys()]],
      );
      const now = performance.now();
      for (const { title } of rows) {
        waits.push(now - (sent.get(title) ?? now));
        sent.delete(title);
      }
      await delay(20);
    }
  });
  const begin = performance.now();
  const deliveries: Promise<unknown>[] = [];
  for (let index = 0; index < total; index += 1) {
    await delay(Math.max(0, begin + (index * 1_000) / webhooksPerSecond - performance.now()));
    // Each organisation in turn, in an order without a pattern.
    const [pullRequest] = tenants[(index * 617) % tenants.length]?.repository('web').pullRequests ?? [];
    if (pullRequest === undefined) throw new Error('there is no pull request');
    const title = `Change ${index}`;
    const event = pullRequest.edit({ title });
    sent.set(title, performance.now());
    deliveries.push(github.deliver(`http://127.0.0.1:${port}/webhooks/github`, secret, event));
  }
  await Promise.all(deliveries);
  await watching;
  return waits.sort((a, b) => a - b);
}

async function measureComparison(url: string, github: GithubStandIn) {
  // The last minute of a change is listed again, so nothing may have changed for longer.
  github.clock.advance(120);
  await withClient(url, client => client.query('update organisations set comparison_due_at = now()'));
  await untilCompared(url);
  github.clock.advance(120);
  const before = github.requests.length;
  const begin = performance.now();
  await withClient(url, client => client.query('update organisations set comparison_due_at = now()'));
  await untilCompared(url);
  return { seconds: (performance.now() - begin) / 1_000, requests: github.requests.length - before };
}
