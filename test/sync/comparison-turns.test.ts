import { sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { claimComparison, requestComparison, saveMembersListed } from '../../src/database/comparisons.ts';
import { organisations } from '../../src/database/schema.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { leaseSeconds } from '../../src/sync/renew-lease.ts';
import { naming, secondaryLimit } from '../support/github/faults.ts';
import type { Repository } from '../support/github/repository.ts';
import { makeDue, runLoops, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, test } = world;

/** Repositories that no comparison has seen, with so many pull requests each. */
async function withRepositories(names: readonly string[], count: number) {
  const tenant = await world.newTenant();
  const made = names.map(name => tenant.acme.repository(name));
  for (const repository of made) for (let index = 0; index < count; index += 1) repository.openPullRequest();
  world.github.clock.advance(120);
  await makeDue(service, tenant);
  world.github.requests.length = 0;
  return { tenant, made };
}

/** How many pages of each were listed. */
const pagesOf = (made: readonly Repository[]) =>
  made.map(repository => world.github.requests.filter(naming(repository)).length);

const storedCount = async (tenant: SyncTenant) => (await tenant.storedPullRequests()).length;

describe('a comparison that is interrupted', () => {
  test('ends after the page under way if the service stops, and the next one finds the rest', async () => {
    const { tenant, made } = await withRepositories(['one', 'two'], 2);
    const stopping = new AbortController();
    world.github.fault({ kind: 'alter', change: () => stopping.abort() }, { when: naming(...made.slice(0, 1)) });
    expect(await compareOrganisation(service, stopping.signal)).toBe(true);
    expect(pagesOf(made)).toEqual([1, 0]);
    expect(await tenant.secondsTo('comparison_due_at')).toBeLessThanOrEqual(0);
    await tenant.compare();
    expect(await storedCount(tenant)).toBe(4);
    // The first was complete.
    expect(pagesOf(made)).toEqual([1, 1]);
  });

  test('asks no further at a rate limit, and continues there later', async () => {
    const { tenant, made } = await withRepositories(['one', 'two', 'three'], 2);
    world.github.fault(secondaryLimit('60'), { when: naming(...made.slice(1, 2)) });
    await compareOrganisation(service);
    expect(pagesOf(made)).toEqual([1, 1, 0]);
    expect(await tenant.secondsTo('comparison_due_at')).toBeGreaterThan(55);
    await executor.execute('delete from github_limits');
    await tenant.compare();
    expect(pagesOf(made)).toEqual([1, 2, 1]);
    expect(await storedCount(tenant)).toBe(6);
  });
});

test('an organisation is compared while GitHub keeps another one waiting', async () => {
  const { tenant: slow } = await withRepositories(['web'], 1);
  const { tenant: other } = await withRepositories(['web'], 1);
  const reply = world.github.hold('hold', ({ variables }) => variables.id === slow.acme.nodeId);
  await makeDue(service, slow, other);
  await slow.update({ comparisonDueAt: sql`now() - interval '1 second'` });
  runLoops(service);
  await expect.poll(() => storedCount(other)).toBe(1);
  expect(await storedCount(slow)).toBe(0);
  reply.release();
  await expect.poll(() => storedCount(slow)).toBe(1);
});

test('the organisation that has been due for longest is compared first', async () => {
  const [one, other] = [await world.newTenant(), await world.newTenant()];
  await executor.update(organisations).set({ comparisonDueAt: sql`now() + interval '1 hour'` });
  await one.update({ comparisonDueAt: sql`now() - interval '1 second'` });
  await other.update({ comparisonDueAt: sql`now() - interval '1 minute'` });
  expect(await claimComparison(executor, leaseSeconds)).toMatchObject({ organisationId: other.id });
});

test('organisations are compared at different times, never later than RECONCILE_INTERVAL says', async () => {
  const { tenant } = await withRepositories([], 0);
  const random = vi.spyOn(Math, 'random');
  onTestFinished(() => random.mockRestore());
  for (const [value, seconds] of [
    [0, 810],
    [0.999, 900],
  ] as const) {
    random.mockReturnValue(value);
    await tenant.compare();
    const found = (await tenant.secondsTo('comparison_due_at')) ?? 0;
    expect([found > seconds - 60, found <= seconds]).toEqual([true, true]);
  }
});

describe('a comparison that a webhook requests', () => {
  const request = (tenant: SyncTenant, options?: { members: boolean }) =>
    requestComparison(executor, tenant.id, 60, options);

  test('is made at once, and again a minute later', async () => {
    const { tenant } = await withRepositories(['web'], 1);
    await tenant.update({ comparisonDueAt: sql`now() + interval '1 hour'` });
    await request(tenant);
    expect(await compareOrganisation(service)).toBe(true);
    expect(await tenant.secondsTo('comparison_due_at')).toBeGreaterThan(50);
    expect(await tenant.secondsTo('comparison_due_at')).toBeLessThanOrEqual(60);
    // A minute later.
    await tenant.update({ comparisonDueAt: sql`now()`, comparisonAgainAt: sql`now()` });
    expect(await compareOrganisation(service)).toBe(true);
    expect(await tenant.secondsTo('comparison_due_at')).toBeGreaterThan(800);
    expect((await tenant.row()).comparisonAgainAt).toBeNull();
  });

  test('is repeated at once if it took longer than a minute', async () => {
    const { tenant } = await withRepositories(['one', 'two'], 1);
    const { begun, release } = world.github.hold('late', 'Repositories');
    const comparing = compareOrganisation(service);
    await begun;
    await request(tenant);
    await tenant.update({ comparisonAgainAt: sql`now() - interval '1 second'` });
    release();
    await comparing;
    expect(await tenant.secondsTo('comparison_due_at')).toBeLessThanOrEqual(0);
    await compareOrganisation(service);
    expect(await tenant.secondsTo('comparison_due_at')).toBeGreaterThan(800);
  });

  test('is made after the one under way, by which nobody else makes it', async () => {
    const { tenant } = await withRepositories(['one'], 1);
    const first = world.github.hold('late', 'Repositories');
    const comparing = compareOrganisation(service);
    await first.begun;
    // However long it takes, a request makes it due earlier.
    expect(await tenant.secondsTo('comparison_due_at')).toBeGreaterThan(3_600);
    await request(tenant);
    expect(await compareOrganisation(service)).toBe(false);
    first.release();
    await comparing;
    expect(await tenant.secondsTo('comparison_due_at')).toBeLessThanOrEqual(0);
    expect(await compareOrganisation(service)).toBe(true);
    expect(await tenant.secondsTo('comparison_due_at')).toBeGreaterThan(50);
  });

  test('waits six seconds for each hundred repositories of the one before, as does its repetition', async () => {
    const names = Array.from({ length: 201 }, (_, index) => `repository-${index}`);
    const { tenant } = await withRepositories(names, 0);
    const { begun, release } = world.github.hold('late', 'Repositories');
    const comparing = compareOrganisation(service);
    await begun;
    await request(tenant);
    await tenant.update({ comparisonAgainAt: sql`now() - interval '1 second'` });
    release();
    await comparing;
    const isPaced = async () => {
      const seconds = (await tenant.secondsTo('comparison_due_at')) ?? 0;
      return [seconds > 6, seconds <= 12];
    };
    expect(await isPaced()).toEqual([true, true]);
    await tenant.update({ comparisonDueAt: sql`now() + interval '1 hour'` });
    await request(tenant);
    expect(await isPaced()).toEqual([true, true]);
  });

  test('waits for the members until they may be listed again', async () => {
    const { tenant } = await withRepositories([], 0);
    await tenant.compare();
    await saveMembersListed(executor, tenant.id, 3_000);
    await request(tenant, { members: true });
    for (const column of ['comparison_due_at', 'comparison_again_at', 'members_due_at'] as const) {
      const seconds = (await tenant.secondsTo(column)) ?? 0;
      expect(seconds).toBeGreaterThan(column === 'comparison_due_at' ? 800 : 2_900);
    }
    world.github.requests.length = 0;
    await tenant.compare();
    expect(world.github.count('Members')).toBe(0);
  });
});

test('members that GitHub does not list because of its rate limit are compared once that ends', async () => {
  const { tenant } = await withRepositories([], 0);
  world.github.fault(secondaryLimit('7'), { when: 'Members' });
  await tenant.compare();
  expect(await tenant.secondsTo('comparison_due_at')).toBeLessThanOrEqual(7);
  expect(await tenant.memberLogins()).toEqual([]);
});
