import { describe, expect } from 'vitest';
import { CommitUnknown } from '../../src/database/driver-errors.ts';
import { deletedPullRequests } from '../../src/database/schema.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { startProxy } from '../support/proxy.ts';
import { closing } from '../support/service.ts';
import { lockWaits, openTransaction, type SyncTenant, startSyncWorld, waitUntil } from './support.ts';

const world = await startSyncWorld();
const { service, test } = world;

const remove = async (tenant: SyncTenant, pullRequest: PullRequest) =>
  tenant.remove((await tenant.stored(pullRequest))?.id);

const tombstones = (tenant: SyncTenant) => tenant.rowsOf(deletedPullRequests);

async function newStored() {
  const tenant = await world.newTenant();
  const pullRequest = await tenant.openStored();
  return { tenant, pullRequest };
}

describe('a deleted pull request', () => {
  test('stays deleted while GitHub has nothing newer', async () => {
    const { tenant, pullRequest } = await newStored();
    expect(await remove(tenant, pullRequest)).toBe(true);
    pullRequest.edit({ title: 'changed within the same second' });
    expect(await tenant.sync(pullRequest)).toEqual(['deleted']);
    expect(await tenant.storedPullRequests()).toEqual([]);
  });

  test('a fetch that began before a deletion does not undo it, even if it found something newer', async () => {
    const { tenant, pullRequest } = await newStored();
    world.github.clock.advance(5);
    pullRequest.edit({ title: 'newer' });
    const under = await tenant.fetchedSync(pullRequest);
    await remove(tenant, pullRequest);
    expect(await under.save()).toBe('deleted');
    expect(await tenant.storedPullRequests()).toEqual([]);
  });

  test('comes back with its next change, under a new id and with a new history', async () => {
    const { tenant, pullRequest } = await newStored();
    const before = await tenant.stored(pullRequest);
    await remove(tenant, pullRequest);
    world.github.clock.advance(1);
    pullRequest.edit({ title: 'newer' });
    expect(await tenant.sync(pullRequest)).toEqual(['saved']);
    const after = await tenant.stored(pullRequest);
    expect(after?.title).toBe('newer');
    expect(after?.id).not.toBe(before?.id);
    expect(await tombstones(tenant)).toEqual([]);
    expect(await tenant.scoreHistory()).toEqual(['null → 0 (pull_request, 0)']);
  });

  test('does not affect others in the same reply', async () => {
    const { tenant, pullRequest } = await newStored();
    const other = tenant.web.openPullRequest();
    await remove(tenant, pullRequest);
    expect(await tenant.sync(pullRequest, other)).toEqual(['deleted', 'saved']);
  });
});

test('a deletion whose commit loses its reply is not called done; another try leaves one tombstone', async () => {
  const { tenant, pullRequest } = await newStored();
  const proxy = closing(await startProxy(service.database.url));
  const replica = await world.replica(proxy.through(service.database.url));
  const id = (await tenant.stored(pullRequest))?.id;
  proxy.loseReplyTo('commit\0');
  await expect(tenant.on(replica).remove(id)).rejects.toThrow(CommitUnknown);
  expect(await tenant.on(replica).remove(id)).toBe(false);
  expect(await tombstones(tenant)).toHaveLength(1);
});

test('a save that began before the pull request was stored does not undo a deletion', async ({ tenant }) => {
  const { web } = tenant;
  const bert = tenant.acme.member(`bert-${tenant.acme.login}`, { name: 'Bert' });
  const other = web.openPullRequest({ author: bert });
  // Both authors are known from now on.
  await tenant.sync(other, web.openPullRequest());
  const one = web.openPullRequest();
  bert.name = 'Bert Now';
  const lock = await openTransaction(world, 'select from members where github_id = $1 for update', [bert.id]);
  // It has found no tombstone, and waits to save the other author's name.
  const saving = tenant.sync(one, other);
  await waitUntil(async () => (await lockWaits(service)) === 1);
  expect(await tenant.sync(one)).toEqual(['saved']);
  const removing = remove(tenant, one);
  await Promise.race([removing, waitUntil(async () => (await lockWaits(service)) === 2)]);
  await lock.query('rollback');
  await saving;
  expect(await removing).toBe(true);
  expect(await tenant.stored(one)).toBeUndefined();
  expect(await tombstones(tenant)).toHaveLength(1);
});
