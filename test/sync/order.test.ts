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

async function storedFacts(tenant: SyncTenant, pullRequest: PullRequest) {
  const row = await tenant.stored(pullRequest);
  if (row === undefined) throw new Error('not stored');
  return factsOf(row);
}

describe('what an older fetch found', () => {
  test('of two fetches in the same second, the one that began later wins, whichever ends first', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    for (const laterEndsFirst of [true, false]) {
      const early = await tenant.fetchedSync(pullRequest);
      change(pullRequest, laterEndsFirst ? 1 : 2);
      const late = await tenant.fetchedSync(pullRequest);
      const outcomes = laterEndsFirst
        ? [await late.save(), await early.save()]
        : [await early.save(), await late.save()];
      expect(outcomes).toEqual(['saved', laterEndsFirst ? 'outdated' : 'saved']);
      expect(await storedFacts(tenant, pullRequest)).toEqual(snapshot(pullRequest));
    }
  });

  test('a reply that is outdated for one pull request still saves the others', async ({ tenant }) => {
    const [one, other] = tenant.open(2);
    await tenant.sync(one, other);
    await executor.execute(
      `update pull_requests set source_updated_at = now() + interval '10 years' where github_id = ${one.id}`,
    );
    other.edit({ title: 'changed' });
    expect(await tenant.sync(one, other)).toEqual(['outdated', 'saved']);
    expect(await storedFacts(tenant, other)).toEqual(snapshot(other));
  });
});

const repositoryNames = async (tenant: SyncTenant) =>
  (await tenant.storedRepositories()).map(({ name }) => name.replace(`${tenant.acme.login}/`, ''));

test('a fetch that finds nothing new for clients leaves the tags of their pages', async ({ tenant }) => {
  const pullRequest = tenant.web.openPullRequest();
  const headers = { authorization: `Bearer ${tenant.token}` };
  const tag = async () => (await service.app.inject({ url: '/2025-04/pull-requests', headers })).headers.etag;
  await tenant.sync(pullRequest);
  const first = await tag();
  pullRequest.comment(null);
  expect(await tenant.sync(pullRequest)).toEqual(['saved']);
  expect(await tenant.stored(pullRequest)).toMatchObject({ comments: 1 });
  expect(await tag()).toBe(first);
  pullRequest.edit({ title: 'Seen' });
  await tenant.sync(pullRequest);
  expect(await tag()).not.toBe(first);
});

test('a save says which facts its release knows: a column that a later one has added is unknown then', async () => {
  const tenant = await world.newTenant();
  const pullRequest = tenant.web.openPullRequest();
  const { executor } = service.database;
  await tenant.sync(pullRequest);
  await executor.execute(sql`alter table pull_requests add column later integer`);
  onTestFinished(async () => void (await executor.execute(sql`alter table pull_requests drop column later`)));
  await executor.execute(sql`update pull_requests set later = 7, facts_version = 99`);
  pullRequest.edit({ title: 'Saved by this release' });
  await tenant.sync(pullRequest);
  const { rows } = await executor.execute(sql`select later, facts_version < 99 as is_unknown from pull_requests
    where organisation_id = ${tenant.id}`);
  expect(rows).toEqual([{ later: 7, is_unknown: true }]);
});

test('a fetch does not bring back a name that a repository had for a while, after a comparison', async ({ tenant }) => {
  const { web } = tenant;
  const pullRequest = web.openPullRequest();
  await tenant.compareLater();
  web.rename('site');
  const early = await tenant.fetchedSync(pullRequest);
  web.rename('web');
  await tenant.compare();
  expect(await early.save()).toBe('saved');
  expect(await repositoryNames(tenant)).toEqual(['web']);
});

describe('somebody who left after a fetch began', () => {
  test('is not brought back by the fetch, which is saved', async ({ tenant }) => {
    await tenant.syncMembers();
    const pullRequest = tenant.web.openPullRequest();
    const early = await tenant.fetchedSync(pullRequest);
    await tenant.left(tenant.ada);
    expect(await early.save()).toBe('saved');
    expect(await tenant.memberLogins()).toEqual([]);
  });

  test('has left after the next list even if the fetch made them known; its result stays', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    const early = await tenant.fetchedSync(pullRequest);
    tenant.acme.leave(tenant.ada);
    expect(await early.save()).toBe('saved');
    await tenant.syncMembers();
    expect(await tenant.memberLogins()).toEqual([]);
    expect(await tenant.storedPullRequests()).toHaveLength(1);
  });

  test('is a member again after the first fetch that follows their return, even with the same profile', async () => {
    const tenant = await world.newTenant();
    const author = tenant.ada;
    const pullRequest = tenant.web.openPullRequest();
    await tenant.syncMembers();
    await tenant.left(author);
    expect(await tenant.memberLogins()).toEqual([]);
    tenant.acme.join(author);
    await tenant.sync(pullRequest);
    expect(await tenant.memberLogins()).toEqual([author.login]);
  });
});

test('a list of members that began before another one and ends after it undoes nothing', async ({ tenant }) => {
  const comer = world.github.account(`comer-${tenant.acme.login}`);
  const leaver = tenant.acme.member(`leaver-${tenant.acme.login}`);
  for (let index = 0; index < 100; index += 1) tenant.acme.member(`m${index}-${tenant.acme.login}`);
  await tenant.syncMembers();
  const secondPage = world.github.hold('hold', furtherPage('Members'));
  const early = tenant.syncMembers();
  await secondPage.begun;
  // Its second page is on its way, without those who were not on the first one yet.
  tenant.acme.leave(leaver);
  await tenant.joined(comer);
  secondPage.release();
  expect(await early).toMatchObject({ left: 0 });
  const known = await tenant.memberLogins();
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
        const tenant = await world.newTenant();
        const pullRequest = tenant.web.openPullRequest();
        const author = tenant.ada;
        const fetches: Awaited<ReturnType<SyncTenant['fetchedSync']>>[] = [];
        for (const [turn, pause] of pauses.entries()) {
          world.github.clock.advance(pause);
          change(pullRequest, turn + 1);
          author.login = `turn-${turn}-${tenant.acme.login}`;
          pullRequest.repository.rename(`turn-${turn}`);
          fetches.push(await tenant.on(turn % 2 === 0 ? service : second).fetchedSync(pullRequest));
        }
        await Promise.all(order.map(index => fetches[index]?.save()));
        expect(await storedFacts(tenant, pullRequest)).toEqual(snapshot(pullRequest));
        expect(await tenant.storedPullRequests()).toHaveLength(1);
        expect(await repositoryNames(tenant)).toEqual(['turn-3']);
        expect(await tenant.memberLogins()).toEqual([author.login]);
      },
    ),
    { numRuns: 6 },
  );
});

test('three replicas that first see a pull request at once store one row and one first score', async () => {
  const replicas = [service, await world.replica(), await world.replica()];
  for (let round = 0; round < 3; round += 1) {
    const tenant = await world.newTenant();
    const opened = tenant.open(3);
    const saves = await Promise.all(
      replicas.flatMap(replica => opened.map(pullRequest => tenant.on(replica).fetchedSync(pullRequest))),
    );
    await Promise.all(saves.map(({ save }) => save()));
    expect(await tenant.storedPullRequests()).toHaveLength(3);
    expect(await tenant.scoreHistory()).toEqual(Array(3).fill('null → 0 (pull_request, 0)'));
  }
});
