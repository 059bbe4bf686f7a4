import { sql } from 'drizzle-orm';
import { expect, test } from 'vitest';
import { connect, createMirror, follow, list } from '../../../demo/client.ts';
import { rescoreAll } from '../../support/rescore.ts';
import { waitUntilSettled } from '../../support/settled.ts';
import { startWorld } from '../../support/world.ts';
import { rule } from '../../sync/support.ts';

const world = await startWorld();
const { client, token, web, acme } = world;
const { database } = world.service;
const api = connect('http://localhost', token, { fetch: client.fetch });
const mirror = createMirror();

async function listed(filter?: Parameters<typeof list>[1]) {
  const all = [];
  for await (const pullRequest of list(api, filter)) all.push(pullRequest);
  return all;
}

/** Follows the changes to their end. */
async function expectMirrored(): Promise<void> {
  await waitUntilSettled(database);
  while ((await follow(api, mirror, 2)).length > 0);
  expect(mirror.pullRequests).toEqual(new Map((await listed()).map(each => [each.id, each])));
}

const sources = Array.from({ length: 5 }, (_, index) =>
  web.addPullRequest({
    author: acme.member(index < 3 ? 'ada' : 'bert'),
    title: `Change ${index}`,
    state: index % 2 === 0 ? 'OPEN' : 'MERGED',
  }),
);
await world.import();
await world.workOff();

test("the demo's client lists what the filter lets through, over several pages", async () => {
  const numbersOf = async (filter: Parameters<typeof list>[1]) =>
    (await listed({ per_page: 2, ...filter })).map(({ number }) => number).sort();
  expect(await numbersOf({})).toEqual([1, 2, 3, 4, 5]);
  expect(await numbersOf({ state: 'open' })).toEqual([1, 3, 5]);
  expect(await numbersOf({ repository: web.fullName, number: 4 })).toEqual([4]);
  await expect(listed({ repository: 'web' })).rejects.toThrow(/owner\/name/);
});

test("the demo's client has what the list has: syncs, new rules, deletions and all", async () => {
  await expectMirrored();
  expect(mirror.pullRequests.size).toBe(5);

  const [first, second, third] = [...mirror.pullRequests.values()];
  expect((await client.delete(`/2026-12/pull-requests/${first?.id}`, token)).status).toBe(200);
  sources.find(({ number }) => number === second?.number)?.edit({ title: 'Ünïcode 🎉' });
  expect((await client.put(`/2026-12/pull-requests/${second?.id}/sync`, token)).status).toBe(200);
  await expectMirrored();
  expect(mirror.pullRequests.size).toBe(4);
  expect(mirror.pullRequests.get(second?.id ?? '')?.title).toBe('Ünïcode 🎉');

  await world.applyRules([rule('7', `number == ${third?.number}`)]);
  await rescoreAll(world.service, world.organisation.id);
  await expectMirrored();
  expect(mirror.pullRequests.get(third?.id ?? '')?.score).toBe(7);
});

test("the demo's client starts again if its cursor has expired, and drops what does not come again", async () => {
  await expectMirrored();
  const [gone] = mirror.pullRequests.keys();
  expect((await client.delete(`/2026-12/pull-requests/${gone}`, token)).status).toBe(200);
  // As if it had been away for more than 30 days: the deletion is not in the feed any more.
  await database.executor.execute(sql`delete from changes`);
  await expectMirrored();
  expect(mirror.pullRequests.has(gone ?? '')).toBe(false);
});
