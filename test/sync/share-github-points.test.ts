import { sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { blockGithub, countPoints, findLimits, saveReply } from '../../src/database/github-rate-limits.ts';
import type { Deps } from '../../src/deps.ts';
import { newId } from '../../src/ids.ts';
import { previewImport } from '../../src/sync/scope-import.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { credentialOf, keepToLimits } from '../../src/sync/share-github-points.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { createLatch, htmlError, replacing } from '../support/github/faults.ts';
import { appOptions, setPoints } from '../support/world.ts';
import { deliver, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, test } = world;

const limitsOf = ({ config, database }: Pick<Deps, 'config' | 'database'>, { organisation }: SyncTenant) =>
  findLimits(database.executor, credentialOf(config, organisation), organisation.id);

/** An organisation with pull requests. One has just been fetched, and few points were left. */
async function withFewPoints(remaining: number): Promise<SyncTenant> {
  const tenant = await world.newTenant();
  const opened = tenant.open(3);
  setPoints(world.github, 5_000, remaining);
  await tenant.sync(...opened.slice(0, 1));
  return tenant;
}

const whatReserveSays =
  /^\d+ of GitHub's 5,000 points are left: they are kept for webhooks and PUT syncs until \d\d:\d\d UTC\.$/;

describe('a tenth of the hourly points', () => {
  test('estimates, comparisons and lists of members leave a tenth of the points, even on another replica', async () => {
    const tenant = await withFewPoints(500);
    const replica = await world.replica();
    const before = world.github.count();
    const refusal = { code: 'github_rate_limited', message: expect.stringMatching(whatReserveSays) };
    for (const each of [service, replica]) {
      await expect(previewImport(each, tenant.organisation)).rejects.toMatchObject(refusal);
      await expect(syncMembers(each, tenant.organisation)).rejects.toMatchObject(refusal);
    }
    await tenant.compare();
    expect(world.github.count()).toBe(before);
    const seconds = await tenant.secondsTo('comparison_due_at');
    const { points } = await limitsOf(service, tenant);
    expect(seconds).toBeCloseTo(points?.secondsToReset ?? 0, -1);
  });

  test('requests in the background wait, not fail, if only a tenth of the hourly points is left', async () => {
    const tenant = await withFewPoints(500);
    await tenant.request({ id: 1, nodeId: 'PR_1' }, { isBackground: true });
    const before = world.github.count();
    expect(await createRequestWorker(service)()).toBe(true);
    const [waiting] = await tenant.waitingSyncs();
    expect(waiting).toMatchObject({ attempts: 0, lastError: null });
    expect(world.github.count()).toBe(before);
  });

  test.each([
    ['that the sweep has requested', 1],
    ['also if its request is filled up by a sweep', 2],
  ])('a webhook may use the last tenth of the points for a pull request %s', async (_, place) => {
    const tenant = await withFewPoints(500);
    const [, swept, other] = tenant.web.pullRequests;
    const changed = place === 1 ? swept : other;
    if (swept === undefined || changed === undefined) throw new Error('none');
    await tenant.request(swept, { isBackground: true });
    await deliver(service, changed.edit({ title: 'Changed' }));
    const before = world.github.count();
    expect(await createRequestWorker(service)()).toBe(true);
    expect(world.github.count()).toBe(before + 1);
    expect(await tenant.waitingSyncs()).toEqual([]);
    expect(await tenant.storedPullRequests()).toContainEqual(expect.objectContaining({ title: 'Changed' }));
  });

  test('an import at the last tenth of the points waits, and says until when and why, without a request', async () => {
    const tenant = await withFewPoints(500);
    const before = world.github.count();
    const interruption = new AbortController();
    const waits: unknown[] = [];
    const waiting = tenant.import({
      signal: interruption.signal,
      onProgress: ({ waitingSeconds, waitingReason }) => {
        waits.push({ waitingSeconds, waitingReason });
        interruption.abort();
      },
    });
    await expect(waiting).rejects.toThrow('aborted');
    expect(waits).toEqual([
      { waitingSeconds: expect.any(Number), waitingReason: expect.stringMatching(whatReserveSays) },
    ]);
    expect(world.github.count()).toBe(before);
  });

  test('an import no longer waits once GitHub has reset the points', async () => {
    const tenant = await withFewPoints(500);
    await executor.execute("update github_limits set reset_at = now() - interval '1 second'");
    setPoints(world.github, 5_000);
    expect(await tenant.import()).toMatchObject({ seen: 3 });
  });

  test('an import does not wait while more than a tenth of the hourly points is left', async () => {
    const tenant = await withFewPoints(600);
    expect(await tenant.import()).toMatchObject({ seen: 3 });
  });
});

describe('the stored number of points', () => {
  const now = () => Math.floor(Date.now() / 1000);
  const report = (remaining: number, resetAt: number) =>
    saveReply(executor, 'reported', { limit: 5_000, remaining, resetAt });
  const known = async () => (await findLimits(executor, 'reported', newId())).points;

  test("is the lowest that the hour's replies report, in whatever order", async () => {
    const resetAt = now() + 600;
    for (const remaining of [400, 300, 350]) await report(remaining, resetAt);
    expect(await known()).toMatchObject({ limit: 5_000, remaining: 300, resetAt });
  });

  test('is that of the latest hour', async () => {
    const resetAt = now() + 600;
    await report(300, resetAt - 60);
    await report(4_000, resetAt);
    await report(100, resetAt - 60);
    expect(await known()).toMatchObject({ remaining: 4_000, resetAt });
  });

  test("expires after an hour, even if GitHub's clock is ahead", async () => {
    await report(0, now() + 86_400);
    expect((await known())?.secondsToReset).toBeLessThanOrEqual(3_601);
  });

  test('the first reply does not block a request that began at the same moment', async () => {
    const blocked = await service.database.transaction(async executor => {
      await executor.execute('select now()');
      await report(300, now() + 600);
      return (await findLimits(executor, 'reported', newId())).secondsBlocked;
    });
    expect(blocked).toBe(0);
  });

  test('a server without rate limits leaves no stored number of points', async () => {
    await saveReply(executor, 'reported', undefined);
    const { rows } = await executor.execute('select from github_limits');
    expect(rows).toEqual([]);
  });
});

describe("an App's limits", () => {
  test("an App's requests for one organisation leave its limits for another as they are", async () => {
    const { service, newTenant } = await startSyncWorld(...appOptions());
    const [asked, other] = [await newTenant(), await newTenant()];
    const { released, release } = createLatch();
    const silent = keepToLimits(service, other.organisation, () => released);
    await asked.sync(asked.acme.repository('web').openPullRequest());
    release();
    await silent;
    expect((await limitsOf(service, asked)).points).toMatchObject({ limit: 5_000 });
    expect((await limitsOf(service, other)).points).toBeUndefined();
  });
});

describe('the points that an organisation has used', () => {
  const used = async (tenant: SyncTenant) => (await limitsOf(service, tenant)).points?.used;

  test('are those of its webhooks and PUT syncs alone', async () => {
    const [tenant, other] = [await world.newTenant(), await world.newTenant()];
    const opened = tenant.open(3);
    for (const pullRequest of opened) await tenant.sync(pullRequest);
    await other.sync(other.acme.repository('web').openPullRequest());
    await tenant.syncMembers();
    await tenant.import();
    expect([await used(tenant), await used(other)]).toEqual([3, 1]);
  });

  test('count two exchanges at the same time once each', async ({ tenant }) => {
    const opened = tenant.open(2);
    await tenant.sync(...opened);
    const before = await used(tenant);
    const { released, release } = createLatch();
    world.github.fault({ kind: 'hold', until: released }, { times: 2 });
    const asked = world.github.count();
    const syncs = opened.map(each => tenant.sync(each));
    await expect.poll(() => world.github.count()).toBe(asked + 2);
    release();
    await Promise.all(syncs);
    expect(await used(tenant)).toBe((before ?? 0) + 2);
  });

  test('count requests that fail', async ({ tenant }) => {
    const opened = await tenant.openStored();
    world.github.fault(htmlError(502));
    await expect(tenant.sync(opened)).rejects.toMatchObject({ code: 'github_failed' });
    expect(await used(tenant)).toBe(2);
  });

  test('start anew in the next hour, not if the reset moves by seconds', async ({ tenant }) => {
    await tenant.sync(tenant.web.openPullRequest());
    const { limit } = world.github;
    const resetAt = limit?.resetAt ?? 0;
    const count = (points: number, until: number) => countPoints(executor, tenant.id, points, until);
    await count(10, resetAt + 2);
    await count(100, resetAt - 2);
    expect(await used(tenant)).toBe(111);
    // As if these were of the hour before.
    await tenant.update({ pointsResetAt: resetAt - 3_600 });
    await count(5, resetAt);
    expect(await used(tenant)).toBe(5);
    await executor.execute(sql`update github_limits set reset_at = now() + interval '3 hours'`);
    expect(await used(tenant)).toBe(0);
  });

  test('start anew in the next hour, also after a reset that was years ahead', async ({ tenant }) => {
    const opened = tenant.web.openPullRequest();
    world.github.fault(replacing(/"resetAt":"[^"]*"/, '"resetAt":"9999-01-01T00:00:00Z"'));
    for (let times = 0; times < 2; times += 1) await tenant.sync(opened);
    expect(await used(tenant)).toBe(2);
    await executor.execute(sql`update github_limits set reset_at = now() + interval '2 hours'`);
    expect(await used(tenant)).toBe(0);
  });

  test('count by a replica whose clock is an hour behind, too', async ({ tenant }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
    onTestFinished(() => void vi.useRealTimers());
    await tenant.sync(tenant.web.openPullRequest());
    expect(await used(tenant)).toBe(1);
  });

  test('are counted up to what can be stored', async ({ tenant }) => {
    await tenant.sync(tenant.web.openPullRequest());
    for (const points of [2 ** 31, 1]) {
      await countPoints(executor, tenant.id, points, world.github.limit?.resetAt ?? 0);
    }
    expect(await used(tenant)).toBe(2 ** 31 - 1);
  });

  test('stay counted if a reply from the hour before is counted late', async ({ tenant }) => {
    await tenant.sync(tenant.web.openPullRequest());
    const before = (world.github.limit?.resetAt ?? 0) - 3_600;
    await countPoints(executor, tenant.id, 100, before);
    expect(await used(tenant)).toBe(101);
  });
});

describe('a limit of a token', () => {
  test("a token's limit does not pass to the next token", async ({ tenant }) => {
    const renewed = await world.replica(undefined, { GITHUB_TOKEN: 'ghp_renewed' });
    const same = await world.replica();
    await blockGithub(executor, credentialOf(service.config, tenant.organisation), 600);
    const ask = (service: Deps) => keepToLimits(service, tenant.organisation, async () => 'asked');
    await expect(ask(same)).rejects.toMatchObject({ code: 'github_rate_limited' });
    expect(await ask(renewed)).toBe('asked');
    const { rows } = await executor.execute('select credential from github_limits');
    expect(JSON.stringify(rows)).not.toContain(world.github.token);
  });

  test("a token's short limit does not end a longer one", async ({ tenant }) => {
    const credential = credentialOf(service.config, tenant.organisation);
    for (const seconds of [600, 10]) await blockGithub(executor, credential, seconds);
    expect((await limitsOf(service, tenant)).secondsBlocked).toBeGreaterThan(500);
  });
});
