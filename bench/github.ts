import { setTimeout as delay } from 'node:timers/promises';
import { formatId } from '../src/ids.ts';
import { htmlError, naming } from '../test/support/github/faults.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { maxPoints } from '../test/support/github/server.ts';
import { ask, runCommand } from './processes.ts';
import { atMost } from './report.ts';
import { type GithubWorld, openGithub } from './world.ts';

const pullRequests = 2_000;
const repositories = 10;
/** Pull requests in one request to GitHub. */
const perRequest = 50;
const syncs = 200;
const missed = 100;

const burst = 100;
const pending = 800;
const responseMs = 1_000;

/** By REST, which a plain client asks: the lists of repositories and their pull requests, and then each one, which alone has its counts. */
const requestsByRest = pullRequests + Math.ceil(pullRequests / 100) + repositories + 1;

export async function measure(): Promise<void> {
  await measureRequests();
  await using world = await openGithub('bench/.data/github');
  for (const login of ['large', 'small']) await world.add(login);
  await measurePoison(world);
  await measureWait(world);
}

/** How many points an import takes, and how many requests GitHub gets for comparisons and for pull requests that changed, against a client that asks by REST. */
async function measureRequests(): Promise<void> {
  await using world = await openGithub('bench/.data/github');
  const { github, count } = world;
  const { onGithub, token } = await world.add('bench');
  const all = addPullRequests(onGithub);
  const requireStored = async (title: string, expected = pullRequests) => {
    const stored = await count('pull_requests where title like $1', [title]);
    if (stored !== expected) throw new Error(`${stored} of ${expected} are stored: ${title}`);
  };
  const requestsOf = async (work: () => Promise<unknown>) => {
    const before = github.requests.length;
    await work();
    return github.requests.slice(before);
  };
  /** Requests for pull requests by their ids; lists are others. */
  const fetchesOf = async (work: () => Promise<unknown>) =>
    (await requestsOf(work)).filter(({ variables }) => Array.isArray(variables.ids)).length;

  const fetches = Math.ceil(pullRequests / perRequest);
  const of = `${pullRequests.toLocaleString('en')} pull requests`;

  await runCommand(['import', '--organisation', 'bench'], world.environment);
  const imported = maxPoints - (github.limit?.remaining ?? 0);
  await requireStored('Pull request %');
  const importing = `GitHub's points to import ${of} of ${repositories} repositories`;
  const maxImported = 3 * fetches + Math.ceil(pullRequests / 100) + repositories;
  compareRequests(imported, maxImported, importing, 'requests for pages of 100 and one each, by REST', requestsByRest);

  await deliverIdly(world, edit(all, 'Changed'));
  const synced = (await requestsOf(() => workOff(world))).length;
  await requireStored('Changed');
  const waiting = `GitHub requests for ${of} that wait to be fetched`;
  compareRequests(synced, fetches, waiting, 'one each, by REST', pullRequests);

  const refreshed = (await requestsOf(() => syncAtOnce(world, token))).length;
  const maxRefreshed = Math.ceil(syncs / perRequest) + 1;
  compareRequests(refreshed, maxRefreshed, `GitHub requests for ${syncs} PUT syncs at once`, 'one each', syncs);

  const unchanged = await fetchesOf(() => compare(world));
  const nothing = `fetches of a comparison with nothing missed, of ${of} that webhooks brought`;
  compareRequests(unchanged, 0, nothing, `the ${fetches} requests that fetch them`, fetches);

  edit(all.slice(0, missed), 'Changed without a webhook');
  const healed = await fetchesOf(() => compare(world));
  await requireStored('Changed without a webhook', missed);
  // Fetching begins while the rest is listed.
  const maxHealed = Math.ceil(missed / perRequest) + repositories;
  compareRequests(healed, maxHealed, `fetches of a comparison with ${missed} missed`, 'one each', missed);
}

/** Ours, which may be `max`, against theirs. */
function compareRequests(sent: number, max: number, what: string, against: string, theirs: number): void {
  // Up, to be read.
  const target = Math.ceil((max / theirs) * 10_000) / 10_000;
  atMost(target, what, against, { ratio: sent / theirs, detail: `${sent} (at most ${max}) to ${theirs}` });
}

/** Repositories of uneven sizes: the last page of most is not full. */
const addPullRequests = (organisation: Organisation): PullRequest[] =>
  Array.from({ length: pullRequests }, (_, index) => {
    // Of ten, the first gets one in 55, the last ten.
    const place = Math.floor((Math.sqrt(1 + 8 * (index % 55)) - 1) / 2);
    return organisation.repository(`repository-${place % repositories}`).addPullRequest();
  });

const edit = (changed: readonly PullRequest[], title: string) =>
  changed.map(pullRequest => pullRequest.edit({ title }));

/** To a service that takes webhooks and does nothing about them. */
async function deliverIdly(world: GithubWorld, events: ReturnType<typeof edit>): Promise<void> {
  await using service = await world.startIdle();
  await world.deliver(service, events);
}

const isFetched = 'not exists (select from sync_requests)';

async function workOff({ start, until }: GithubWorld, isDone = isFetched): Promise<void> {
  await using _ = await start('worker');
  await until(isDone);
}

async function compare(world: GithubWorld): Promise<void> {
  await world.query(
    'update organisations set comparison_due_at = now(), comparison_requested = true, compared_at = null',
  );
  await workOff(world, `not exists (select from organisations where compared_at is null) and ${isFetched}`);
}

/** PUT syncs of different pull requests, all sent before the first is answered. */
async function syncAtOnce({ query, startIdle }: GithubWorld, token: string): Promise<void> {
  const rows = await query<{ id: string }>('select id from pull_requests limit $1', [syncs]);
  await using service = await startIdle();
  if (rows.length !== syncs) throw new Error(`only ${rows.length} pull requests are stored`);
  const sync = async ({ id }: { id: string }) => {
    const address = `${service.origin}/2025-04/pull-requests/${formatId('pr', id)}/sync`;
    const reply = await ask(address, token, { method: 'PUT' });
    await reply.body?.cancel();
  };
  await Promise.all(rows.map(sync));
}

/** Resolves when so many have the title. @returns milliseconds */
const untilStored = ({ until }: GithubWorld, title: string, count: number): Promise<number> =>
  until('(select count(*) from pull_requests where title = $1) = $2', [title, count]);

/** What GitHub costs others while it fails for one pull request. */
async function measurePoison(world: GithubWorld): Promise<void> {
  const { github } = world;
  const large = github.organisation('large').repository('web');
  const all = Array.from({ length: burst }, () => large.addPullRequest());
  const when = naming(all[burst / 2] as PullRequest);
  await deliverIdly(world, edit(all, 'Beside a failing one'));
  const heal = github.fault(htmlError(502), { times: Number.POSITIVE_INFINITY, when });
  const before = github.requests.length;
  await using _ = await world.start('worker');
  await untilStored(world, 'Beside a failing one', burst - 1);
  const sent = github.requests.length - before;
  heal();
  const expected = Math.ceil(burst / perRequest);
  const what = `GitHub requests for ${burst} pull requests, on one of which GitHub fails`;
  compareRequests(sent, expected + 8, what, 'without it', expected);
}

/** What an organisation costs others while GitHub takes its time. */
async function measureWait(world: GithubWorld): Promise<void> {
  const { github, deliver, start, startIdle } = world;
  const large = github.organisation('large').repository('web');
  const small = github.organisation('small').repository('web');
  await using service = await startIdle();
  const all = Array.from({ length: pending }, () => large.addPullRequest());
  await deliver(service, edit(all, 'One of many'));
  const stopDelaying = github.fault({ kind: 'delay', milliseconds: responseMs }, { times: Number.POSITIVE_INFINITY });
  await using _ = await start('worker');
  const waits: number[] = [];
  // While about twelve of the large organisation's sixteen requests are answered.
  for (let turn = 0; turn < 6; turn += 1) {
    await deliver(service, edit([small.addPullRequest()], `Small ${turn}`));
    waits.push(await untilStored(world, `Small ${turn}`, 1));
    await delay(responseMs * Math.random());
  }
  await untilStored(world, 'One of many', pending);
  stopDelaying();
  const what = `the longest wait of a small organisation beside one with ${pending} pending pull requests`;
  atMost(3, what, "GitHub's response time", {
    ratio: Math.max(...waits) / responseMs,
    detail: `${waits.map(Math.round).join(', ')} ms to ${responseMs} ms`,
  });
}
