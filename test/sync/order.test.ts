import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { syncMembers } from '../../src/sync/sync-members.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { startWorld, type TenantOnGithub } from '../support/world.ts';
import {
  adaOf,
  compare,
  fetchedSync,
  memberLogins,
  repositoryRows,
  scoreHistory,
  stored,
  storedPullRequests,
  sync,
} from './support.ts';

const world = await startWorld();
const { service, executor } = world;
let home: TenantOnGithub;
beforeEach(async () => {
  home = await world.newTenant();
});

/** Changes as many facts as possible. */
function change(pullRequest: PullRequest, turn: number): void {
  pullRequest.edit({ title: `title ${turn}`, body: `body ${turn}`, base: `base-${turn}` });
  pullRequest.push({ files: [{ path: `${turn}.ts`, additions: turn, deletions: 1 }] });
  pullRequest.label(`label ${turn}`);
  pullRequest.setMilestone(`milestone ${turn}`);
  pullRequest.comment(null);
  if (turn % 3 === 2) pullRequest.close();
  if (turn % 3 === 0) pullRequest.reopen();
  if (turn % 2 === 1) pullRequest.convertToDraft();
  else pullRequest.markReady();
}

const columns = [
  ...(['title', 'body', 'base', 'additions', 'deletions'] as const),
  ...(['labels', 'milestone', 'comments', 'draft'] as const),
];
const factsOf = (from: Pick<PullRequest, (typeof columns)[number]>) =>
  Object.fromEntries(columns.map(name => [name, from[name]]));
const snapshot = (pullRequest: PullRequest) => structuredClone(factsOf(pullRequest));

async function storedFacts(home: TenantOnGithub, pullRequest: PullRequest) {
  const row = await stored(service, home, pullRequest);
  if (row === undefined) throw new Error('not stored');
  return factsOf(row);
}

describe('what an older fetch found', () => {
  test('of two fetches in the same second, the one that began later wins, whichever ends first', async () => {
    const pullRequest = home.acme.repository('web').openPullRequest();
    for (const laterEndsFirst of [true, false]) {
      const early = await fetchedSync(service, home, pullRequest);
      change(pullRequest, laterEndsFirst ? 1 : 2);
      const late = await fetchedSync(service, home, pullRequest);
      const outcomes = laterEndsFirst
        ? [await late.save(), await early.save()]
        : [await early.save(), await late.save()];
      expect(outcomes).toEqual(['saved', laterEndsFirst ? 'outdated' : 'saved']);
      expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
    }
  });

  test('a reply that is outdated for one pull request still saves the others', async () => {
    const web = home.acme.repository('web');
    const [one, other] = [web.openPullRequest(), web.openPullRequest()];
    await sync(service, home, one, other);
    await executor.execute(
      `update pull_requests set source_updated_at = now() + interval '10 years' where github_id = ${one.id}`,
    );
    other.edit({ title: 'changed' });
    expect(await sync(service, home, one, other)).toEqual(['outdated', 'saved']);
    expect(await storedFacts(home, other)).toEqual(snapshot(other));
  });
});

const logins = (home: TenantOnGithub) => memberLogins(service, home);

const repositoryNames = async (home: TenantOnGithub) =>
  (await repositoryRows(service, home)).map(({ name }) => name.replace(`${home.acme.login}/`, ''));

test('a fetch that finds nothing new for clients leaves the tags of their pages', async () => {
  const pullRequest = home.acme.repository('web').openPullRequest();
  const headers = { authorization: `Bearer ${home.token}` };
  const tag = async () => (await service.app.inject({ url: '/2025-04/pull-requests', headers })).headers.etag;
  await sync(service, home, pullRequest);
  const first = await tag();
  pullRequest.comment(null);
  expect(await sync(service, home, pullRequest)).toEqual(['saved']);
  expect(await stored(service, home, pullRequest)).toMatchObject({ comments: 1 });
  expect(await tag()).toBe(first);
  pullRequest.edit({ title: 'Seen' });
  await sync(service, home, pullRequest);
  expect(await tag()).not.toBe(first);
});

test('a save says which facts its release knows: a column that a later one has added is unknown then', async () => {
  const pullRequest = home.acme.repository('web').openPullRequest();
  const { executor } = service.database;
  await sync(service, home, pullRequest);
  await executor.execute(sql`alter table pull_requests add column later integer`);
  onTestFinished(async () => void (await executor.execute(sql`alter table pull_requests drop column later`)));
  await executor.execute(sql`update pull_requests set later = 7, facts_version = 99`);
  pullRequest.edit({ title: 'Saved by this release' });
  await sync(service, home, pullRequest);
  const { rows } = await executor.execute(sql`select later, facts_version < 99 as is_unknown from pull_requests
    where organisation_id = ${home.organisation.id}`);
  expect(rows).toEqual([{ later: 7, is_unknown: true }]);
});

describe('a name that changed after a fetch began', () => {
  test('is not changed back if a comparison has saved it', async () => {
    const web = home.acme.repository('web');
    const pullRequest = web.openPullRequest();
    await sync(service, home, pullRequest);
    const early = await fetchedSync(service, home, pullRequest);
    web.rename('site');
    await compare(world, home);
    expect(await early.save()).toBe('saved');
    expect(await repositoryNames(home)).toEqual(['site']);
  });

  test('is not brought back to one that a repository had for a while, after a comparison', async () => {
    const web = home.acme.repository('web');
    const pullRequest = web.openPullRequest();
    world.github.clock.advance(120);
    await compare(world, home);
    web.rename('site');
    const early = await fetchedSync(service, home, pullRequest);
    web.rename('web');
    await compare(world, home);
    expect(await early.save()).toBe('saved');
    expect(await repositoryNames(home)).toEqual(['web']);
  });
});

describe('somebody who left after a fetch began', () => {
  test('is not brought back by the fetch, which is saved', async () => {
    await syncMembers(service, home.organisation);
    const pullRequest = home.acme.repository('web').openPullRequest();
    const early = await fetchedSync(service, home, pullRequest);
    home.acme.leave(adaOf(home));
    await syncMembers(service, home.organisation);
    expect(await early.save()).toBe('saved');
    expect(await logins(home)).toEqual([]);
  });

  test('has left after the next list even if the fetch made them known; its result stays', async () => {
    const pullRequest = home.acme.repository('web').openPullRequest();
    const early = await fetchedSync(service, home, pullRequest);
    home.acme.leave(adaOf(home));
    expect(await early.save()).toBe('saved');
    await syncMembers(service, home.organisation);
    expect(await logins(home)).toEqual([]);
    expect(await storedPullRequests(service, home)).toHaveLength(1);
  });

  test('is a member again after the first fetch that follows their return, even with the same profile', async () => {
    const author = adaOf(home);
    const pullRequest = home.acme.repository('web').openPullRequest();
    await syncMembers(service, home.organisation);
    home.acme.leave(author);
    await syncMembers(service, home.organisation);
    expect(await logins(home)).toEqual([]);
    home.acme.join(author);
    await sync(service, home, pullRequest);
    expect(await logins(home)).toEqual([author.login]);
  });
});

test('a list of members that began before another one and ends after it undoes nothing', async () => {
  const comer = world.github.account(`comer-${home.acme.login}`);
  const leaver = home.acme.member(`leaver-${home.acme.login}`);
  for (let index = 0; index < 100; index += 1) home.acme.member(`m${index}-${home.acme.login}`);
  await syncMembers(service, home.organisation);
  const secondPage = world.github.hold(
    'hold',
    ({ operation, variables }) => operation === 'Members' && variables.after !== null,
  );
  const early = syncMembers(service, home.organisation);
  await secondPage.begun;
  // Its second page is on its way, without those who were not on the first one yet.
  home.acme.leave(leaver);
  home.acme.join(comer);
  await syncMembers(service, home.organisation);
  secondPage.release();
  expect(await early).toMatchObject({ left: 0 });
  const known = await logins(home);
  expect(known).not.toContain(leaver.login);
  expect(known).toContain(comer.login);
  expect(known).toHaveLength(102);
});

test('in whatever order fetches end, each row is completely what the latest of them found', async () => {
  const second = await world.replica();
  await fc.assert(
    fc.asyncProperty(
      // Seconds between the changes, and the order in which fetches are saved.
      fc.array(fc.nat(1), { minLength: 4, maxLength: 4 }),
      fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4, maxLength: 4 }),
      async (pauses, order) => {
        const home = await world.newTenant();
        const pullRequest = home.acme.repository('web').openPullRequest();
        const author = adaOf(home);
        const fetches: Awaited<ReturnType<typeof fetchedSync>>[] = [];
        for (const [turn, pause] of pauses.entries()) {
          world.github.clock.advance(pause);
          change(pullRequest, turn + 1);
          author.login = `turn-${turn}-${home.acme.login}`;
          pullRequest.repository.rename(`turn-${turn}`);
          fetches.push(await fetchedSync(turn % 2 === 0 ? service : second, home, pullRequest));
        }
        await Promise.all(order.map(index => fetches[index]?.save()));
        expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
        expect(await storedPullRequests(service, home)).toHaveLength(1);
        expect(await repositoryNames(home)).toEqual(['turn-3']);
        expect(await logins(home)).toEqual([author.login]);
      },
    ),
    { numRuns: 6 },
  );
});

test('three replicas that first see a pull request at once store one row and one first score', async () => {
  const replicas = [service, await world.replica(), await world.replica()];
  for (let round = 0; round < 3; round += 1) {
    const home = await world.newTenant();
    const web = home.acme.repository('web');
    const opened = [web.openPullRequest(), web.openPullRequest(), web.openPullRequest()];
    const saves = await Promise.all(
      replicas.flatMap(replica => opened.map(pullRequest => fetchedSync(replica, home, pullRequest))),
    );
    await Promise.all(saves.map(({ save }) => save()));
    expect(await storedPullRequests(service, home)).toHaveLength(3);
    expect(await scoreHistory(service, home)).toEqual(Array(3).fill('null → 0 (pull_request, 0)'));
  }
});
