import { setTimeout as delay } from 'node:timers/promises';
import type { WebhookEvent } from '../test/support/github/events.ts';
import { htmlError, naming } from '../test/support/github/faults.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { type GithubStandIn, startGithub } from '../test/support/github/server.ts';
import { joinEmptied, withClient } from './database.ts';
import { environmentOf, type Running, secret, startProcess } from './processes.ts';
import type { Row } from './report.ts';

/** Pull requests in one request to GitHub. */
const perRequest = 50;

const burst = 100;
const pending = 800;
const responseMs = 1_000;

/** What GitHub costs others while it fails for one pull request, or takes its time. */
export async function measureGithubAsItIs(): Promise<Row[]> {
  const bench = await openBench();
  try {
    return [await measurePoison(bench), await measureWait(bench)];
  } finally {
    await bench.close();
  }
}

type Bench = Awaited<ReturnType<typeof openBench>>;

async function openBench() {
  const github = await startGithub();
  const [large, small] = [github.organisation('large'), github.organisation('small')];
  for (const organisation of [large, small]) organisation.member('ada');
  const server = await joinEmptied('github', large, small);
  const start = (command: string, environment: Record<string, string> = {}) =>
    startProcess(['dist/main.js', command], { ...environmentOf(server.url, github), ...environment });
  return {
    github,
    large: large.repository('web'),
    small: small.repository('web'),
    start,
    /** Takes webhooks and does nothing about them. */
    startIdle: () => start('serve', { WORKER: 'false' }),
    /** Milliseconds until so many have the title. */
    async untilStored(title: string, count: number): Promise<number> {
      const begin = performance.now();
      await withClient(server.url, async client => {
        for (;;) {
          const { rows } = await client.query<{ count: number }>(
            'select count(*)::int from pull_requests where title = $1',
            [title],
          );
          if (rows[0]?.count === count) return;
          await delay(10);
        }
      });
      return performance.now() - begin;
    },
    async close() {
      await server.leave();
      await github.close();
    },
  };
}

async function deliver(github: GithubStandIn, { port }: Running, events: readonly WebhookEvent[]): Promise<void> {
  const url = `http://127.0.0.1:${port}/webhooks/github`;
  for (let start = 0; start < events.length; start += 50) {
    const some = events.slice(start, start + 50);
    const deliveries = await Promise.all(some.map(event => github.deliver(url, secret, event)));
    const refused = deliveries.find(({ status }) => status !== 202);
    if (refused !== undefined) throw new Error(`a webhook was not taken: ${refused.status} ${refused.answer}`);
  }
}

const edit = (pullRequests: readonly PullRequest[], title: string) =>
  pullRequests.map(pullRequest => pullRequest.edit({ title }));

async function measurePoison({ github, large, startIdle, start, untilStored }: Bench): Promise<Row> {
  const pullRequests = Array.from({ length: burst }, () => large.addPullRequest());
  const [poisoned] = pullRequests.slice(burst / 2);
  if (poisoned === undefined) throw new Error('there is no pull request');
  const service = await startIdle();
  await deliver(github, service, edit(pullRequests, 'Beside a failing one'));
  await service.stop();
  const heal = github.fault(htmlError(502), { times: Number.POSITIVE_INFINITY, when: naming(poisoned) });
  const before = github.requests.length;
  const worker = await start('worker');
  await untilStored('Beside a failing one', burst - 1);
  const requests = github.requests.length - before;
  heal();
  await worker.stop();
  const expected = Math.ceil(burst / perRequest);
  const max = expected + 8;
  return {
    what: `GitHub requests for ${burst} pull requests, on one of which GitHub fails`,
    against: 'without it',
    ratio: requests / expected,
    target: max / expected,
    comparison: 'at most',
    detail: `${requests} (at most ${max}) to ${expected}`,
  };
}

async function measureWait({ github, large, small, startIdle, start, untilStored }: Bench): Promise<Row> {
  const service = await startIdle();
  const pullRequests = Array.from({ length: pending }, () => large.addPullRequest());
  await deliver(github, service, edit(pullRequests, 'One of many'));
  const stopDelaying = github.fault({ kind: 'delay', milliseconds: responseMs }, { times: Number.POSITIVE_INFINITY });
  const worker = await start('worker');
  const waits: number[] = [];
  // While about twelve of the large organisation's sixteen requests are answered.
  for (let turn = 0; turn < 6; turn += 1) {
    await deliver(github, service, edit([small.addPullRequest()], `Small ${turn}`));
    waits.push(await untilStored(`Small ${turn}`, 1));
    await delay(responseMs * Math.random());
  }
  await untilStored('One of many', pending);
  stopDelaying();
  await Promise.all([worker.stop(), service.stop()]);
  const longest = Math.max(...waits);
  return {
    what: `the longest wait of a small organisation beside one with ${pending} pending pull requests`,
    against: "GitHub's response time",
    ratio: longest / responseMs,
    target: 3,
    comparison: 'at most',
    detail: `${waits.map(Math.round).join(', ')} ms to ${responseMs} ms`,
  };
}
