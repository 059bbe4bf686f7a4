import { connect, createMirror, follow } from '../demo/client.ts';
import { measureArrivals } from './load.ts';
import { ask, startReader } from './processes.ts';
import { atLeast, percentile, speedAgainst, takeTurns, timed, within } from './report.ts';
import { allPullRequests, joinStored, pullRequests, type Stored } from './stored.ts';
import { openGithub } from './world.ts';

const rounds = 3;
const perPage = 100;

const webhooks = 750;
const webhooksPerSecond = 25;
const pauseMs = 100;
const maxMs = 1_000;

export async function measure(): Promise<void> {
  await measureFollowing();
  await measureReading();
}

/** How long after each webhook was accepted its pull request is in a copy that a client keeps by the feed. */
async function measureFollowing(): Promise<void> {
  await using world = await openGithub('bench/.data/changes');
  const { onGithub, token } = await world.add('bench');
  await using service = await world.start('serve');
  const repository = onGithub.repository('web');
  const client = connect(service.origin, token);
  const mirror = createMirror();
  const arrivals = (count: number) =>
    measureArrivals(
      { perSecond: webhooksPerSecond, count, pauseMs },
      async (_, hasBegun) => {
        const pullRequest = repository.addPullRequest();
        await world.deliver(service, [pullRequest.open()]);
        hasBegun(String(pullRequest.id));
      },
      async () => {
        await follow(client, mirror);
        return [...mirror.pullRequests.values()].map(({ external_id: id }) => id);
      },
    );
  // The first one starts the scorer.
  await arrivals(1);
  const waits = await arrivals(webhooks);
  const share = (part: number) => Math.round(percentile(waits, part));
  const what = `a client that asks /changes every ${pauseMs} ms has what a webhook brought`;
  const detail = `p50 ${share(0.5)} ms, p99 ${share(0.99)} ms, max ${share(1)} ms`;
  within(maxMs, 'ms', `max until ${what}, ${webhooksPerSecond} webhooks a second`, share(1), detail);
}

/** The feed of changes from its beginning, a page after the other, against the same rows by hand, as many at once. */
async function measureReading(): Promise<void> {
  await using server = await joinStored();
  await using service = await startReader(server.url);
  const readers = {
    own: () => readFeed(`${service.origin}/2026-12/changes`, server.token),
    plain: () => readRows(server),
  };
  const measured = await takeTurns(rounds, readers, read =>
    timed(async () => {
      const rows = await read();
      if (rows !== pullRequests) throw new Error(`read ${rows} pull requests, not ${pullRequests}`);
    }),
  );
  const what = `${allPullRequests} from /changes, ${perPage} on a page`;
  const against = 'select of the same rows by hand, without HTTP';
  atLeast(0.5, what, against, speedAgainst(measured.own, measured.plain));
}

async function readFeed(feed: string, token: string): Promise<number> {
  let rows = 0;
  for (let url = `${feed}?per_page=${perPage}`; ; ) {
    const reply = await ask(url, token);
    const { data, links } = (await reply.json()) as { data: unknown[]; links: { next: string } };
    if (data.length === 0) return rows;
    rows += data.length;
    url = links.next;
  }
}

async function readRows({ query, organisationId }: Stored): Promise<number> {
  let count = 0;
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const rows = await query<{ id: string }>({
      name: 'page',
      text: `select p.id, p.github_id, p.number, p.url, p.state, p.title, p.body, p.additions, p.deletions, p.commits,
          p.changed_files, p.score, p.score_breakdown, p.created_at, p.member_id, p.author, p.labels, p.base,
          p.source_updated_at, p.merged_at, p.closed_at, p.ruleset_version, r.name as repository
        from pull_requests p
        join repositories r on r.organisation_id = p.organisation_id and r.id = p.repository_id
        where p.organisation_id = $1 and p.id > $2 order by p.id limit ${perPage}`,
      values: [organisationId, after],
    });
    const last = rows.at(-1);
    if (last === undefined) return count;
    count += rows.length;
    after = last.id;
  }
}
