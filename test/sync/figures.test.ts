/*
 * How many GitHub requests the service promises to need, counted on the stand-in. A full-size outage takes too long for
 * every run; try it with: OUTAGE_PULL_REQUESTS=10000 npx vitest run test/sync/figures.test.ts
 */

import { sql } from 'drizzle-orm';
import { expect, test } from 'vitest';
import { saveProgress, saveRepositories } from '../../src/database/repositories.ts';
import { post } from '../webhooks/support.ts';
import { runLoops, startSyncWorld } from './support.ts';

const world = await startSyncWorld();

test('three hundred webhooks for 100 pull requests cost at most 4 requests while the loop is busy', async () => {
  const tenant = await world.newTenant();
  const repositories = ['web', 'api'].map(name => tenant.acme.repository(name));
  const opened = repositories.flatMap(repository => Array.from({ length: 50 }, () => repository.addPullRequest()));
  // As if another replica had the organisation's turn.
  await tenant.update({ syncLeasedUntil: sql`now() + interval '1 hour'` });
  runLoops(world.service);
  const before = world.github.count();
  const deliver = async (index: number) => {
    const event = opened[index % opened.length]?.push({ additions: 1 });
    expect((await post(world.service, event ?? { event: 'none' })).status).toBe(202);
  };
  let next = 0;
  const deliverOthers = async () => {
    while (next < 300) await deliver(next++);
  };
  await Promise.all(Array.from({ length: 20 }, deliverOthers));
  expect(world.github.count()).toBe(before);
  await tenant.update({ syncLeasedUntil: sql`now()` });
  await expect.poll(async () => (await tenant.waitingSyncs()).length).toBe(0);
  expect(world.github.count() - before).toBeLessThanOrEqual(4);
  const stored = await tenant.storedPullRequests();
  expect(stored.map(({ additions }) => additions)).toEqual(opened.map(({ additions }) => additions));
  expect(await tenant.deliveryStates()).toEqual(Array(300).fill('applied'));
});

const outage = Number(process.env.OUTAGE_PULL_REQUESTS ?? 300);

test(`an outage with ${outage} changes costs a request per 50 fetched, per 100 listed, and two per repository`, async () => {
  const tenant = await world.newTenant();
  const day = 86_400;
  const begin = world.github.clock.now() - 3 * day;
  const names = Array.from({ length: Math.ceil(outage / 500) }, (_, index) => `repository-${index}`);
  const share = outage / names.length;
  for (const name of names) {
    const repository = tenant.acme.repository(name);
    // What was there before and has not changed, and what was opened, pushed to, reviewed or merged meanwhile.
    for (let index = 0; index < 60; index += 1) repository.addPullRequest({ createdAt: begin - day });
    for (let index = 0; index < share; index += 1) {
      const updatedAt = begin + 1 + Math.floor((index * 3 * day) / share);
      const state = (['OPEN', 'CLOSED', 'MERGED'] as const)[index % 3];
      repository.addPullRequest({ createdAt: begin - day, updatedAt, ...(state !== undefined && { state }) });
    }
    const { id, nodeId, fullName } = repository;
    const values = [{ githubId: id, nodeId, name: fullName }];
    await world.service.database.transaction(executor => saveRepositories(executor, tenant.id, 0, values));
    await saveProgress(world.service.database.executor, tenant.id, id, { comparedAt: begin });
  }
  const first = await tenant.compare();
  expect(await tenant.storedPullRequests()).toHaveLength(outage);
  // The last second of each repository is listed again; then there is nothing to do.
  const second = await tenant.compare();
  expect(first + second).toBeLessThanOrEqual(outage / 50 + outage / 100 + 2 * names.length + 2);
  expect(await tenant.compare()).toBe(1);
}, 120_000);
