import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { describe, expect, onTestFinished } from 'vitest';
import { furtherPage } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

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

async function storedFacts(home: SyncTenant, pullRequest: PullRequest) {
  const row = await home.stored(pullRequest);
  if (row === undefined) throw new Error('not stored');
  return factsOf(row);
}

describe('what an older fetch found', () => {
  test('of two fetches in the same second, the one that began later wins, whichever ends first', async ({ home }) => {
    const pullRequest = home.web.openPullRequest();
    for (const laterEndsFirst of [true, false]) {
      const early = await home.fetchedSync(pullRequest);
      change(pullRequest, laterEndsFirst ? 1 : 2);
      const late = await home.fetchedSync(pullRequest);
      const outcomes = laterEndsFirst
        ? [await late.save(), await early.save()]
        : [await early.save(), await late.save()];
      expect(outcomes).toEqual(['saved', laterEndsFirst ? 'outdated' : 'saved']);
      expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
    }
  });

  test('a reply that is outdated for one pull request still saves the others', async ({ home }) => {
    const [one, other] = home.open(2);
    await home.sync(one, other);
    await executor.execute(
      `update pull_requests set source_updated_at = now() + interval '10 years' where github_id = ${one.id}`,
    );
    other.edit({ title: 'changed' });
    expect(await home.sync(one, other)).toEqual(['outdated', 'saved']);
    expect(await storedFacts(home, other)).toEqual(snapshot(other));
  });
});

const repositoryNames = async (home: SyncTenant) =>
  (await home.storedRepositories()).map(({ name }) => name.replace(`${home.acme.login}/`, ''));

test('a fetch that finds nothing new for clients leaves the tags of their pages', async ({ home }) => {
  const pullRequest = home.web.openPullRequest();
  const headers = { authorization: `Bearer ${home.token}` };
  const tag = async () => (await service.app.inject({ url: '/2025-04/pull-requests', headers })).headers.etag;
  await home.sync(pullRequest);
  const first = await tag();
  pullRequest.comment(null);
  expect(await home.sync(pullRequest)).toEqual(['saved']);
  expect(await home.stored(pullRequest)).toMatchObject({ comments: 1 });
  expect(await tag()).toBe(first);
  pullRequest.edit({ title: 'Seen' });
  await home.sync(pullRequest);
  expect(await tag()).not.toBe(first);
});

test('a save says which facts its release knows: a column that a later one has added is unknown then', async () => {
  const home = await world.newTenant();
  const pullRequest = home.web.openPullRequest();
  const { executor } = service.database;
  await home.sync(pullRequest);
  await executor.execute(sql`alter table pull_requests add column later integer`);
  onTestFinished(async () => void (await executor.execute(sql`alter table pull_requests drop column later`)));
  await executor.execute(sql`update pull_requests set later = 7, facts_version = 99`);
  pullRequest.edit({ title: 'Saved by this release' });
  await home.sync(pullRequest);
  const { rows } = await executor.execute(sql`select later, facts_version < 99 as is_unknown from pull_requests
    where organisation_id = ${home.organisation.id}`);
  expect(rows).toEqual([{ later: 7, is_unknown: true }]);
});

test('a fetch does not bring back a name that a repository had for a while, after a comparison', async ({ home }) => {
  const { web } = home;
  const pullRequest = web.openPullRequest();
  await home.compareLater();
  web.rename('site');
  const early = await home.fetchedSync(pullRequest);
  web.rename('web');
  await home.compare();
  expect(await early.save()).toBe('saved');
  expect(await repositoryNames(home)).toEqual(['web']);
});

describe('somebody who left after a fetch began', () => {
  test('is not brought back by the fetch, which is saved', async ({ home }) => {
    await home.syncMembers();
    const pullRequest = home.web.openPullRequest();
    const early = await home.fetchedSync(pullRequest);
    await home.left(home.ada);
    expect(await early.save()).toBe('saved');
    expect(await home.memberLogins()).toEqual([]);
  });

  test('has left after the next list even if the fetch made them known; its result stays', async ({ home }) => {
    const pullRequest = home.web.openPullRequest();
    const early = await home.fetchedSync(pullRequest);
    home.acme.leave(home.ada);
    expect(await early.save()).toBe('saved');
    await home.syncMembers();
    expect(await home.memberLogins()).toEqual([]);
    expect(await home.storedPullRequests()).toHaveLength(1);
  });

  test('is a member again after the first fetch that follows their return, even with the same profile', async () => {
    const home = await world.newTenant();
    const author = home.ada;
    const pullRequest = home.web.openPullRequest();
    await home.syncMembers();
    await home.left(author);
    expect(await home.memberLogins()).toEqual([]);
    home.acme.join(author);
    await home.sync(pullRequest);
    expect(await home.memberLogins()).toEqual([author.login]);
  });
});

test('a list of members that began before another one and ends after it undoes nothing', async ({ home }) => {
  const comer = world.github.account(`comer-${home.acme.login}`);
  const leaver = home.acme.member(`leaver-${home.acme.login}`);
  for (let index = 0; index < 100; index += 1) home.acme.member(`m${index}-${home.acme.login}`);
  await home.syncMembers();
  const secondPage = world.github.hold('hold', furtherPage('Members'));
  const early = home.syncMembers();
  await secondPage.begun;
  // Its second page is on its way, without those who were not on the first one yet.
  home.acme.leave(leaver);
  await home.joined(comer);
  secondPage.release();
  expect(await early).toMatchObject({ left: 0 });
  const known = await home.memberLogins();
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
        const pullRequest = home.web.openPullRequest();
        const author = home.ada;
        const fetches: Awaited<ReturnType<SyncTenant['fetchedSync']>>[] = [];
        for (const [turn, pause] of pauses.entries()) {
          world.github.clock.advance(pause);
          change(pullRequest, turn + 1);
          author.login = `turn-${turn}-${home.acme.login}`;
          pullRequest.repository.rename(`turn-${turn}`);
          fetches.push(await home.on(turn % 2 === 0 ? service : second).fetchedSync(pullRequest));
        }
        await Promise.all(order.map(index => fetches[index]?.save()));
        expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
        expect(await home.storedPullRequests()).toHaveLength(1);
        expect(await repositoryNames(home)).toEqual(['turn-3']);
        expect(await home.memberLogins()).toEqual([author.login]);
      },
    ),
    { numRuns: 6 },
  );
});

test('three replicas that first see a pull request at once store one row and one first score', async () => {
  const replicas = [service, await world.replica(), await world.replica()];
  for (let round = 0; round < 3; round += 1) {
    const home = await world.newTenant();
    const opened = home.open(3);
    const saves = await Promise.all(
      replicas.flatMap(replica => opened.map(pullRequest => home.on(replica).fetchedSync(pullRequest))),
    );
    await Promise.all(saves.map(({ save }) => save()));
    expect(await home.storedPullRequests()).toHaveLength(3);
    expect(await home.scoreHistory()).toEqual(Array(3).fill('null → 0 (pull_request, 0)'));
  }
});
