import { eq } from 'drizzle-orm';
import { describe, expect, test } from 'vitest';
import { CommitUnknown } from '../../src/database/driver-errors.ts';
import { deletedPullRequests } from '../../src/database/schema.ts';
import type { Deps } from '../../src/deps.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { startProxy } from '../support/proxy.ts';
import { closing } from '../support/service.ts';
import { startWorld, type TenantOnGithub } from '../support/world.ts';
import {
  fetchedSync,
  lockWaits,
  openTransaction,
  remove as removeById,
  scoreHistory,
  stored,
  storedPullRequests,
  sync,
  waitUntil,
} from './support.ts';

const world = await startWorld();
const { service, executor } = world;

const remove = async (deps: Pick<Deps, 'database'>, home: TenantOnGithub, pullRequest: PullRequest) =>
  removeById(deps, home, (await stored(service, home, pullRequest))?.id);

const tombstones = (home: TenantOnGithub) =>
  executor.select().from(deletedPullRequests).where(eq(deletedPullRequests.organisationId, home.organisation.id));

async function newStored() {
  const home = await world.newTenant();
  const pullRequest = home.acme.repository('web').openPullRequest();
  await sync(service, home, pullRequest);
  return { home, pullRequest };
}

describe('a deleted pull request', () => {
  test('stays deleted while GitHub has nothing newer', async () => {
    const { home, pullRequest } = await newStored();
    expect(await remove(service, home, pullRequest)).toBe(true);
    pullRequest.edit({ title: 'changed within the same second' });
    expect(await sync(service, home, pullRequest)).toEqual(['deleted']);
    expect(await storedPullRequests(service, home)).toEqual([]);
  });

  test('a fetch that began before a deletion does not undo it, even if it found something newer', async () => {
    const { home, pullRequest } = await newStored();
    world.github.clock.advance(5);
    pullRequest.edit({ title: 'newer' });
    const under = await fetchedSync(service, home, pullRequest);
    await remove(service, home, pullRequest);
    expect(await under.save()).toBe('deleted');
    expect(await storedPullRequests(service, home)).toEqual([]);
  });

  test('comes back with its next change, under a new id and with a new history', async () => {
    const { home, pullRequest } = await newStored();
    const before = await stored(service, home, pullRequest);
    await remove(service, home, pullRequest);
    world.github.clock.advance(1);
    pullRequest.edit({ title: 'newer' });
    expect(await sync(service, home, pullRequest)).toEqual(['saved']);
    const after = await stored(service, home, pullRequest);
    expect(after?.title).toBe('newer');
    expect(after?.id).not.toBe(before?.id);
    expect(await tombstones(home)).toEqual([]);
    expect(await scoreHistory(service, home)).toEqual(['null → 0 (pull_request, 0)']);
  });

  test('does not affect others in the same reply', async () => {
    const { home, pullRequest } = await newStored();
    const other = home.acme.repository('web').openPullRequest();
    await remove(service, home, pullRequest);
    expect(await sync(service, home, pullRequest, other)).toEqual(['deleted', 'saved']);
  });
});

test('a deletion whose commit loses its reply is not called done; another try leaves one tombstone', async () => {
  const { home, pullRequest } = await newStored();
  const proxy = closing(await startProxy(service.database.url));
  const replica = await world.replica(proxy.through(service.database.url));
  const id = (await stored(service, home, pullRequest))?.id;
  proxy.loseReplyTo('commit\0');
  await expect(removeById(replica, home, id)).rejects.toThrow(CommitUnknown);
  expect(await removeById(replica, home, id)).toBe(false);
  expect(await tombstones(home)).toHaveLength(1);
});

test('a save that began before the pull request was stored does not undo a deletion', async () => {
  const home = await world.newTenant();
  const web = home.acme.repository('web');
  const bert = home.acme.member(`bert-${home.acme.login}`, { name: 'Bert' });
  const other = web.openPullRequest({ author: bert });
  // Both authors are known from now on.
  await sync(service, home, other, web.openPullRequest());
  const one = web.openPullRequest();
  bert.name = 'Bert Now';
  const lock = await openTransaction(world, 'select from members where github_id = $1 for update', [bert.id]);
  // It has found no tombstone, and waits to save the other author's name.
  const saving = sync(service, home, one, other);
  await waitUntil(async () => (await lockWaits(service)) === 1);
  expect(await sync(service, home, one)).toEqual(['saved']);
  const removing = remove(service, home, one);
  await Promise.race([removing, waitUntil(async () => (await lockWaits(service)) === 2)]);
  await lock.query('rollback');
  await saving;
  expect(await removing).toBe(true);
  expect(await stored(service, home, one)).toBeUndefined();
  expect(await tombstones(home)).toHaveLength(1);
});
