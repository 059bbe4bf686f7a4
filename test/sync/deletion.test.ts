import { eq } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { CommitUnknown } from '../../src/database/driver-errors.ts';
import { deletedPullRequests } from '../../src/database/schema.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { startProxy } from '../support/proxy.ts';
import { closing } from '../support/service.ts';
import { lockWaits, openTransaction, type SyncTenant, startSyncWorld, waitUntil } from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

const remove = async (home: SyncTenant, pullRequest: PullRequest) => home.remove((await home.stored(pullRequest))?.id);

const tombstones = (home: SyncTenant) =>
  executor.select().from(deletedPullRequests).where(eq(deletedPullRequests.organisationId, home.organisation.id));

async function newStored() {
  const home = await world.newTenant();
  const pullRequest = await home.openStored();
  return { home, pullRequest };
}

describe('a deleted pull request', () => {
  test('stays deleted while GitHub has nothing newer', async () => {
    const { home, pullRequest } = await newStored();
    expect(await remove(home, pullRequest)).toBe(true);
    pullRequest.edit({ title: 'changed within the same second' });
    expect(await home.sync(pullRequest)).toEqual(['deleted']);
    expect(await home.storedPullRequests()).toEqual([]);
  });

  test('a fetch that began before a deletion does not undo it, even if it found something newer', async () => {
    const { home, pullRequest } = await newStored();
    world.github.clock.advance(5);
    pullRequest.edit({ title: 'newer' });
    const under = await home.fetchedSync(pullRequest);
    await remove(home, pullRequest);
    expect(await under.save()).toBe('deleted');
    expect(await home.storedPullRequests()).toEqual([]);
  });

  test('comes back with its next change, under a new id and with a new history', async () => {
    const { home, pullRequest } = await newStored();
    const before = await home.stored(pullRequest);
    await remove(home, pullRequest);
    world.github.clock.advance(1);
    pullRequest.edit({ title: 'newer' });
    expect(await home.sync(pullRequest)).toEqual(['saved']);
    const after = await home.stored(pullRequest);
    expect(after?.title).toBe('newer');
    expect(after?.id).not.toBe(before?.id);
    expect(await tombstones(home)).toEqual([]);
    expect(await home.scoreHistory()).toEqual(['null → 0 (pull_request, 0)']);
  });

  test('does not affect others in the same reply', async () => {
    const { home, pullRequest } = await newStored();
    const other = home.web.openPullRequest();
    await remove(home, pullRequest);
    expect(await home.sync(pullRequest, other)).toEqual(['deleted', 'saved']);
  });
});

test('a deletion whose commit loses its reply is not called done; another try leaves one tombstone', async () => {
  const { home, pullRequest } = await newStored();
  const proxy = closing(await startProxy(service.database.url));
  const replica = await world.replica(proxy.through(service.database.url));
  const id = (await home.stored(pullRequest))?.id;
  proxy.loseReplyTo('commit\0');
  await expect(home.on(replica).remove(id)).rejects.toThrow(CommitUnknown);
  expect(await home.on(replica).remove(id)).toBe(false);
  expect(await tombstones(home)).toHaveLength(1);
});

test('a save that began before the pull request was stored does not undo a deletion', async ({ home }) => {
  const { web } = home;
  const bert = home.acme.member(`bert-${home.acme.login}`, { name: 'Bert' });
  const other = web.openPullRequest({ author: bert });
  // Both authors are known from now on.
  await home.sync(other, web.openPullRequest());
  const one = web.openPullRequest();
  bert.name = 'Bert Now';
  const lock = await openTransaction(world, 'select from members where github_id = $1 for update', [bert.id]);
  // It has found no tombstone, and waits to save the other author's name.
  const saving = home.sync(one, other);
  await waitUntil(async () => (await lockWaits(service)) === 1);
  expect(await home.sync(one)).toEqual(['saved']);
  const removing = remove(home, one);
  await Promise.race([removing, waitUntil(async () => (await lockWaits(service)) === 2)]);
  await lock.query('rollback');
  await saving;
  expect(await removing).toBe(true);
  expect(await home.stored(one)).toBeUndefined();
  expect(await tombstones(home)).toHaveLength(1);
});
