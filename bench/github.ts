import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { formatId } from '../src/ids.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import { type GithubStandIn, startGithub } from '../test/support/github/server.ts';
import { joinEmptied, withClient } from './database.ts';
import { environmentOf, secret, startProcess } from './processes.ts';
import type { Row } from './report.ts';

const pullRequests = 2_000;
const repositories = 10;
const perRequest = 50;
const syncs = 200;
const missed = 100;

/** By REST, which a plain client asks: the lists of repositories and their pull requests, and then each one, which alone has its counts. */
const requestsByRest = pullRequests + Math.ceil(pullRequests / 100) + repositories + 1;

/** More than are used. */
const allPoints = 1_000_000;

/** How many points an import takes, and how many requests GitHub gets for comparisons and for pull requests that changed, against a client that asks by REST. */
export async function measureGithubRequests(): Promise<Row[]> {
  const github = await startGithub();
  if (github.limit) Object.assign(github.limit, { limit: allPoints, remaining: allPoints });
  const organisation = fillOrganisation(github);
  const server = await joinEmptied('github', organisation);
  try {
    const environment = environmentOf(server.url, github);
    await promisify(execFile)(process.execPath, ['dist/main.js', 'import', '--organisation', organisation.login], {
      env: { PATH: process.env.PATH, ...environment },
    });
    const imported = allPoints - (github.limit?.remaining ?? 0);
    await requireStored(server.url, 'Pull request %');

    await deliverChanges(environment, github, organisation);
    const before = github.requests.length;
    await workOff(environment, server.url);
    const synced = github.requests.length - before;
    await requireStored(server.url, 'Changed %');

    const asked = github.requests.length;
    await syncAtOnce(environment, server);
    const refreshed = github.requests.length - asked;
    const maxRefreshed = Math.ceil(syncs / perRequest) + 1;

    const unchanged = await countFetches(github, () => compare(environment, server.url));
    const changed = organisation.repositories.flatMap(repository => repository.pullRequests).slice(0, missed);
    for (const pullRequest of changed) pullRequest.edit({ title: 'Changed without a webhook' });
    const healed = await countFetches(github, () => compare(environment, server.url));
    await requireStored(server.url, 'Changed without%', missed);

    // Fetching begins while the rest is listed.
    const maxHealed = Math.ceil(missed / perRequest) + repositories;
    const mostImported = 3 * Math.ceil(pullRequests / perRequest) + Math.ceil(pullRequests / 100) + repositories;
    const of = `${pullRequests.toLocaleString('en')} pull requests`;
    return [
      {
        what: `GitHub's points to import ${of} of ${repositories} repositories`,
        against: 'requests for pages of 100 and one each, by REST',
        ratio: imported / requestsByRest,
        target: rounded(mostImported / requestsByRest),
        comparison: 'at most',
        detail: `${imported} (at most ${mostImported}) to ${requestsByRest}`,
      },
      {
        what: `GitHub requests for ${of} that wait to be fetched`,
        against: 'one each, by REST',
        ratio: synced / pullRequests,
        target: rounded(Math.ceil(pullRequests / perRequest) / pullRequests),
        comparison: 'at most',
        detail: `${synced} (at most ${Math.ceil(pullRequests / perRequest)}) to ${pullRequests}`,
      },
      {
        what: `fetches of a comparison with nothing missed, of ${of} that webhooks brought`,
        against: `the ${Math.ceil(pullRequests / perRequest)} requests that fetch them`,
        ratio: unchanged / Math.ceil(pullRequests / perRequest),
        target: 0,
        comparison: 'at most',
        detail: `${unchanged} requests`,
      },
      {
        what: `fetches of a comparison with ${missed} missed`,
        against: 'one each',
        ratio: healed / missed,
        target: rounded(maxHealed / missed),
        comparison: 'at most',
        detail: `${healed} (at most ${maxHealed}) to ${missed}`,
      },
      {
        what: `GitHub requests for ${syncs} PUT syncs at once`,
        against: 'one each',
        ratio: refreshed / syncs,
        target: rounded(maxRefreshed / syncs),
        comparison: 'at most',
        detail: `${refreshed} (at most ${maxRefreshed}) to ${syncs}`,
      },
    ];
  } finally {
    await server.leave();
    await github.close();
  }
}

/** Up, to be read. */
const rounded = (value: number) => Math.ceil(value * 10_000) / 10_000;

/** Repositories of uneven sizes: the last page of most is not full. */
function fillOrganisation(github: GithubStandIn): Organisation {
  const organisation = github.organisation('bench');
  const author = organisation.member('ada');
  for (let index = 0; index < pullRequests; index += 1) {
    // Of ten, the first gets one in 55, the last ten.
    const place = Math.floor((Math.sqrt(1 + 8 * (index % 55)) - 1) / 2);
    organisation.repository(`repository-${place % repositories}`).addPullRequest({ author });
  }
  return organisation;
}

/** Requests for pull requests by their ids; lists are others. */
async function countFetches(github: GithubStandIn, work: () => Promise<void>): Promise<number> {
  const before = github.requests.length;
  await work();
  return github.requests.slice(before).filter(({ variables }) => Array.isArray(variables.ids)).length;
}

/** A comparison, and the fetches that it asks for. */
async function compare(environment: Environment, url: string): Promise<void> {
  await withClient(url, client =>
    client.query('update organisations set comparison_due_at = now(), comparison_requested = true, compared_at = null'),
  );
  const worker = await startProcess(['dist/main.js', 'worker'], environment);
  try {
    await withClient(url, async client => {
      for (;;) {
        const { rows } = await client.query<{ left: boolean }>(
          `select exists (select from organisations where compared_at is null)
            or exists (select from sync_requests) as left`,
        );
        if (!rows[0]?.left) return;
        await delay(50);
      }
    });
  } finally {
    await worker.stop();
  }
}

async function requireStored(url: string, title: string, expected = pullRequests): Promise<void> {
  const { rows } = await withClient(url, client =>
    client.query<{ count: number }>('select count(*)::int from pull_requests where title like $1', [title]),
  );
  if (rows[0]?.count !== expected) throw new Error(`${rows[0]?.count} of ${expected} are stored: ${title}`);
}

type Environment = Record<string, string>;

/** A webhook of each pull request, taken by a service that only answers. */
async function deliverChanges(environment: Environment, github: GithubStandIn, { repositories }: Organisation) {
  const service = await startProcess(['dist/main.js', 'serve'], { ...environment, WORKER: 'false' });
  const url = `http://127.0.0.1:${service.port}/webhooks/github`;
  const all = repositories.flatMap(repository => repository.pullRequests);
  try {
    while (all.length > 0) {
      const events = all.splice(0, 50).map(pullRequest => pullRequest.edit({ title: `Changed ${pullRequest.number}` }));
      const deliveries = await Promise.all(events.map(event => github.deliver(url, secret, event)));
      const refused = deliveries.find(({ status }) => status !== 202);
      if (refused !== undefined) throw new Error(`a webhook was not taken: ${refused.status} ${refused.answer}`);
    }
  } finally {
    await service.stop();
  }
}

async function workOff(environment: Environment, url: string): Promise<void> {
  const worker = await startProcess(['dist/main.js', 'worker'], environment);
  try {
    await withClient(url, async client => {
      for (;;) {
        const { rows } = await client.query<{ count: number }>('select count(*)::int from sync_requests');
        if (rows[0]?.count === 0) return;
        await delay(100);
      }
    });
  } finally {
    await worker.stop();
  }
}

/** PUT syncs of different pull requests, all sent before the first is answered. */
async function syncAtOnce(environment: Environment, { url, token }: { url: string; token: string }): Promise<void> {
  const ids = await withClient(url, async client => {
    const { rows } = await client.query<{ id: string }>('select id from pull_requests limit $1', [syncs]);
    return rows.map(({ id }) => formatId('pr', id));
  });
  const service = await startProcess(['dist/main.js', 'serve'], { ...environment, WORKER: 'false' });
  try {
    const statuses = await Promise.all(
      ids.map(async id => {
        const address = `http://127.0.0.1:${service.port}/2025-04/pull-requests/${id}/sync`;
        const reply = await fetch(address, { method: 'PUT', headers: { authorization: `Bearer ${token}` } });
        await reply.body?.cancel();
        return reply.status;
      }),
    );
    const failed = statuses.find(status => status !== 200);
    if (failed !== undefined || statuses.length !== syncs) throw new Error(`a sync was answered with ${failed}`);
  } finally {
    await service.stop();
  }
}
