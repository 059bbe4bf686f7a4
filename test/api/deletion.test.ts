import { beforeAll, expect, test } from 'vitest';
import type { PullRequest } from '../support/github/pull-request.ts';
import { startWorld } from '../support/world.ts';
import { post } from '../webhooks/support.ts';

const world = await startWorld();
beforeAll(async () => {
  world.github.clock.set(1_790_000_000);
  world.acme.member('ada');
});

const find = async ({ id }: PullRequest) =>
  (await world.listed()).find(({ external_id }) => external_id === String(id));
const remove = (id: string | undefined) =>
  world.client.delete<{ id: string; object: string; deleted: boolean }>(`/2025-04/pull-requests/${id}`, world.token);

async function deliver(event: { event: string; payload: object }) {
  expect((await post(world.service, event)).status).toBe(202);
  expect(await world.workOff()).toBeGreaterThan(0);
}

test('DELETE called ten times at once deletes once', async () => {
  const source = world.web.addPullRequest();
  await world.import();
  const { id } = (await find(source)) ?? {};
  const replies = await Promise.all(Array.from({ length: 10 }, () => remove(id)));
  expect(replies.map(({ status }) => status).toSorted()).toEqual([200, ...Array(9).fill(404)]);
});

test('a deleted pull request stays deleted while it does not change on GitHub, whatever fetches it', async () => {
  const source = world.web.addPullRequest();
  await world.import();
  await remove((await find(source))?.id);
  await world.import();
  expect(await find(source)).toBeUndefined();
  await deliver(source.open());
  expect(await find(source)).toBeUndefined();
  // No newer than what was deleted: GitHub's times are whole seconds.
  await deliver(source.edit({ title: 'Within the same second' }));
  expect(await find(source)).toBeUndefined();
});

test('a deleted pull request comes back complete, under a new id, after an update on GitHub', async () => {
  const source = world.web.addPullRequest({ title: 'Before' });
  await world.import();
  const before = await find(source);
  await remove(before?.id);
  world.github.clock.advance(1);
  await deliver(source.edit({ title: 'After' }));
  const after = await find(source);
  expect(after).toEqual({ ...before, id: after?.id, title: 'After' });
  expect(after?.id).not.toBe(before?.id);
  expect((await remove(before?.id)).status).toBe(404);
  expect((await world.client.put(`/2025-04/pull-requests/${after?.id}/sync`, world.token)).status).toBe(200);
  expect((await remove(after?.id)).status).toBe(200);
  await world.import();
  expect(await find(source)).toBeUndefined();
});

test('a pull request that is deleted during a sync stays deleted, and that sync gets 404', async () => {
  const source = world.web.addPullRequest();
  await world.import();
  const { id } = (await find(source)) ?? {};
  world.github.clock.advance(1);
  source.edit({ title: 'Newer' });
  const reply = world.github.hold('hold');
  const syncing = world.client.put(`/2025-04/pull-requests/${id}/sync`, world.token);
  await reply.begun;
  expect((await remove(id)).status).toBe(200);
  reply.release();
  const { status, body } = await syncing;
  expect([status, body.message]).toEqual([404, 'The pull request was deleted during the sync.']);
  expect(await find(source)).toBeUndefined();
});
