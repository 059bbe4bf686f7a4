import { newAppKeys } from '../test/support/app-keys.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { measureArrivals } from './load.ts';
import type { Running } from './processes.ts';
import { atMost, percentile, timed } from './report.ts';
import { type GithubWorld, openGithub } from './world.ts';

const organisations = 1_000;
const responseMs = 1_000;
const webhooksPerSecond = 25;
const webhookSeconds = 30;
const intervalSeconds = 900;

/** One process for many organisations, through a GitHub App, while GitHub takes a second for each answer. */
export async function measure(): Promise<void> {
  await using world = await openGithub('bench/.data/tenants', { id: '4711', ...newAppKeys('pkcs8', 2_048) });
  const { github } = world;
  const pullRequests: PullRequest[] = [];
  for (let index = 0; index < organisations; index += 1) {
    const { onGithub } = await world.add(`tenant-${index}`);
    pullRequests.push(onGithub.repository('web').addPullRequest());
    github.installApp(onGithub);
  }
  await using service = await world.start('serve', { RECONCILE_INTERVAL: String(intervalSeconds) });
  // The first comparison stores what there is.
  await untilCompared(world);
  github.fault({ kind: 'delay', milliseconds: responseMs }, { times: Number.POSITIVE_INFINITY, when: () => true });
  const waits = await measureWebhooks(world, service, pullRequests);
  const compared = await measureComparison(world);
  const [p50, p99] = [percentile(waits, 0.5), percentile(waits, 0.99)];
  const memory = `at most ${Math.round(memoryOf(service.id, 'VmHWM'))} MB resident`;
  const what = `p99 until stored, ${webhooksPerSecond} webhooks a second for ${organisations} organisations`;
  atMost(3, what, "GitHub's response time", {
    ratio: p99 / responseMs,
    detail: `${Math.round(p99)} ms (p50 ${Math.round(p50)} ms) to ${responseMs} ms; ${memory}`,
  });
  const comparison = `comparison of ${organisations} organisations in which nothing changed`;
  atMost(1 / 3, comparison, `the interval of ${intervalSeconds} s`, {
    ratio: compared.seconds / intervalSeconds,
    detail: `${Math.round(compared.seconds)} s, ${(compared.requests / organisations).toFixed(1)} requests each`,
  });
}

/** Resolves when no organisation is due, or being compared. */
const untilCompared = ({ until }: GithubWorld) =>
  until(`not exists (select from organisations where comparison_due_at < now() + interval '1 minute')
    and not exists (select from sync_requests)`);

/** @returns milliseconds from each delivery until its change was stored */
const measureWebhooks = ({ query, deliver }: GithubWorld, service: Running, pullRequests: readonly PullRequest[]) =>
  measureArrivals(
    { perSecond: webhooksPerSecond, count: webhooksPerSecond * webhookSeconds, pauseMs: 20 },
    async (index, hasBegun) => {
      // Each organisation in turn, in an order without a pattern.
      const pullRequest = pullRequests[(index * 617) % pullRequests.length] as PullRequest;
      const title = `Change ${index}`;
      const event = pullRequest.edit({ title });
      hasBegun(title);
      await deliver(service, [event]);
    },
    async titles => {
      const stored = 'select title from pull_requests where title = any($1::text[])';
      return (await query<{ title: string }>(stored, [titles])).map(({ title }) => title);
    },
  );

async function measureComparison(world: GithubWorld) {
  const compare = async () => {
    // The last minute of a change is listed again, so nothing may have changed for longer.
    world.github.clock.advance(120);
    await world.query('update organisations set comparison_due_at = now()');
    await untilCompared(world);
  };
  await compare();
  const before = world.github.requests.length;
  return { seconds: await timed(compare), requests: world.github.requests.length - before };
}
