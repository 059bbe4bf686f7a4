import { ne, sql } from 'drizzle-orm';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { countSyncRequests, listFailingRequests } from '../../src/database/backlog.ts';
import { countPoints } from '../../src/database/github-rate-limits.ts';
import { organisations, syncRequests } from '../../src/database/schema.ts';
import { claimSyncTurn, writeDecisions } from '../../src/database/sync-requests.ts';
import { leaseSeconds } from '../../src/sync/renew-lease.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import {
  type GithubStandInRequest,
  htmlError,
  naming,
  queryTimeout,
  type ReplyFault,
  secondaryLimit,
  tooExpensive,
} from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { isoTime } from '../support/github/world.ts';
import { addTrigger } from '../support/trigger.ts';
import { setPoints } from '../support/world.ts';
import { post } from '../webhooks/support.ts';
import { type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service, executor } = world;
let tenant: SyncTenant;
let work: () => Promise<boolean>;
beforeEach(async () => {
  tenant = await world.newTenant();
  work = createRequestWorker(service);
});
afterEach(async () => {
  await executor.delete(syncRequests);
  await executor.update(organisations).set({ pointsUsed: 0 });
});

/** Never early; a little late, because of jitter. */
function expectAbout(seconds: number | null, expected: number): void {
  expect(seconds).toBeGreaterThan(expected - 3);
  expect(seconds).toBeLessThan(expected * 1.02 + 3);
}

/** Of a wait that has begun since then, so much has passed at most. */
const secondsSince = (startedAt: number) => (performance.now() - startedAt) / 1000;

/** As webhooks do. */
async function request({ acme }: SyncTenant, ...changed: PullRequest[]): Promise<void> {
  const replies = changed.map(({ id, nodeId, updatedAt }) =>
    post(service, {
      event: 'pull_request',
      payload: {
        action: 'edited',
        pull_request: { id, node_id: nodeId, updated_at: isoTime(updatedAt) },
        organization: { id: acme.id, login: acme.login },
      },
    }),
  );
  for (const reply of await Promise.all(replies)) expect(reply).toMatchObject({ status: 202 });
}

async function requestAndSync(tenant: SyncTenant, ...changed: PullRequest[]): Promise<void> {
  await request(tenant, ...changed);
  await untilIdle();
}

async function waiting(tenant: SyncTenant) {
  return executor
    .select({
      githubId: syncRequests.githubId,
      attempts: syncRequests.attempts,
      isIsolated: syncRequests.isIsolated,
      lastError: syncRequests.lastError,
      seconds: sql<number | null>`extract(epoch from due_at - now())::float8`,
    })
    .from(syncRequests)
    .where(tenant.owns(syncRequests))
    .orderBy(syncRequests.githubId);
}

const endLeases = () => executor.update(organisations).set({ syncLeasedUntil: sql`now()` });

/** Seconds until the organisation can have a turn. */
const pause = (tenant: SyncTenant) => tenant.secondsTo('sync_leased_until');

/** Lets time pass in the database. */
const makeRequestsDue = () => executor.update(syncRequests).set({ dueAt: sql`now()` });

/** Requests are made at once, and arrive in any order. From now on, the oldest pull request comes first. */
const orderByAge = () =>
  executor.update(syncRequests).set({ dueAt: sql`to_timestamp(${syncRequests.githubId} / 1e6)` });

/** How many pull requests each request asked for. */
const batchSizes = () => world.github.requests.map(({ variables }) => (variables.ids as string[]).length);

const askingForMoreThan =
  (count: number) =>
  ({ variables }: GithubStandInRequest) =>
    (variables.ids as string[]).length > count;

/** What failed alone is tried again after some seconds, which a slow machine takes: that counts once. */
const countBatches = () => new Set(world.github.requests.map(({ variables }) => String(variables.ids))).size;

async function untilIdle(worker = work): Promise<void> {
  while (await worker());
}

/** As often as given, lets the time pass until all that waits is due. */
async function retryAll(times = 1): Promise<void> {
  for (let turn = 0; turn < times; turn += 1) {
    await makeRequestsDue();
    await untilIdle();
  }
}

describe('pending pull requests', () => {
  test('of the organisation that was served longest ago come first, however long others have waited', async () => {
    const [large, small] = [await world.newTenant(), await world.newTenant()];
    await request(large, ...large.open(70));
    await work();
    await request(small, ...small.open(1));
    await executor
      .update(syncRequests)
      .set({ dueAt: sql`now() - interval '1 minute'` })
      .where(large.owns(syncRequests));
    await work();
    expect(await waiting(small)).toEqual([]);
    expect(await waiting(large)).toHaveLength(20);
  });

  test('of one organisation are never in two requests at the same time', async () => {
    const [large, small] = [await world.newTenant(), await world.newTenant()];
    await request(large, ...large.open(60));
    const { begun, release } = world.github.hold('hold');
    const working = work();
    await begun;
    const other = createRequestWorker(await world.replica());
    expect(await other()).toBe(false);
    await request(small, ...small.open(1));
    expect(await other()).toBe(true);
    expect(await waiting(small)).toEqual([]);
    expect(world.github.count()).toBe(2);
    release();
    await working;
    expect(await other()).toBe(true);
  });

  test('in the background come after those of webhooks, and fill up their requests', async () => {
    const [first, ...others] = tenant.open(60);
    await request(tenant, first, ...others);
    await executor
      .update(syncRequests)
      .set({ isBackground: true, dueAt: sql`now() - interval '1 hour'` })
      .where(ne(syncRequests.githubId, first.id));
    await work();
    expect(world.github.requests[0]?.variables.ids).toContain(first.nodeId);
    expect(await waiting(tenant)).toHaveLength(10);
  });

  test('need no more work if their author is not a member', async () => {
    await requestAndSync(tenant, tenant.web.openPullRequest({ author: null }));
    expect(await waiting(tenant)).toEqual([]);
    expect(await tenant.deliveryStates()).toEqual(['applied']);
  });

  test('stay pending if they change again while they are fetched', async () => {
    const [pullRequest] = tenant.open(1);
    await request(tenant, pullRequest);
    const { begun, release } = world.github.hold('late');
    const working = work();
    await begun;
    pullRequest.edit({ title: 'changed during the fetch' });
    await request(tenant, pullRequest);
    release();
    await working;
    expect(await waiting(tenant)).toMatchObject([{ githubId: pullRequest.id }]);
    expect(await tenant.deliveryStates()).toEqual(['pending', 'pending']);
    await untilIdle();
    expect(await tenant.deliveryStates()).toEqual(['applied', 'applied']);
    expect((await tenant.stored(pullRequest))?.title).toBe('changed during the fetch');
  });
});

describe('a fetch that fails', () => {
  test('is repeated later and later, until GitHub answers', async () => {
    await request(tenant, ...tenant.open(3));
    world.github.fault(htmlError(500), { times: Infinity });
    for (const [index, expected] of [5, 30].entries()) {
      const startedAt = performance.now();
      await retryAll();
      const rows = await waiting(tenant);
      expect(rows.map(({ attempts }) => attempts)).toEqual(Array(3).fill(index + 1));
      expect(rows[0]?.lastError).toContain('GitHub failed with status 500');
      // Part of the wait has passed already: on a busy machine, more than the jitter.
      expect(rows[0]?.seconds).toBeGreaterThan(expected * 0.8 - secondsSince(startedAt));
      expect(rows[0]?.seconds).toBeLessThan(expected * 1.2);
    }
    expect(await work()).toBe(false);
    world.github.clearFaults();
    await retryAll();
    expect(await waiting(tenant)).toEqual([]);
    expect(await tenant.deliveryStates()).toEqual(Array(3).fill('applied'));
  });

  test('does not make a new request wait as long as the old ones that failed with it', async () => {
    const [old, fresh] = tenant.open(2);
    await request(tenant, old);
    await executor.update(syncRequests).set({ attempts: 6 });
    await request(tenant, fresh);
    world.github.fault(htmlError(500), { times: Infinity });
    await untilIdle();
    const rows = await waiting(tenant);
    expect(rows.map(({ attempts }) => attempts)).toEqual([6, 1]);
    expect(rows[0]?.seconds).toBeGreaterThan(2_000);
    expect(rows[1]?.seconds).toBeLessThan(10);
  });

  test('is repeated within a minute of a new delivery, which does not reset its failures', async () => {
    const opened = tenant.open(1);
    await request(tenant, ...opened);
    await executor
      .update(syncRequests)
      .set({ attempts: 6, lastError: 'It failed.', dueAt: sql`now() + interval '1 hour'` });
    await request(tenant, ...opened);
    const [row] = await waiting(tenant);
    expect(row?.attempts).toBe(6);
    expectAbout(row?.seconds ?? null, 60);
    await retryAll();
    expect(await waiting(tenant)).toEqual([]);
  });

  test('is split without a wait if it asks for too much', async () => {
    await request(tenant, ...tenant.open(20));
    world.github.fault(queryTimeout(), { times: Infinity, when: askingForMoreThan(5) });
    await untilIdle();
    expect(await waiting(tenant)).toEqual([]);
    expect(await tenant.storedPullRequests()).toHaveLength(20);
    expect(world.github.count()).toBeLessThan(20);
  });

  test('saves the others, and defers the one that GitHub names', async () => {
    const opened = tenant.open(5);
    const [broken, ...others] = opened;
    await request(tenant, ...opened);
    world.github.fault({ kind: 'broken', nodeIds: [broken.nodeId] });
    await untilIdle();
    expect((await tenant.storedPullRequests()).map(({ githubId }) => githubId)).toEqual(others.map(({ id }) => id));
    expect(await waiting(tenant)).toMatchObject([{ githubId: broken.id, attempts: 1 }]);
    expect(await tenant.deliveryStates()).toEqual(['applied', 'applied', 'applied', 'applied', 'pending']);
    await retryAll();
    expect(await tenant.deliveryStates()).toEqual(Array(5).fill('applied'));
  });

  test('on a further page of files defers that pull request, and saves nothing of it', async () => {
    const [large, small] = tenant.open(2);
    await tenant.sync(large, small);
    const files = Array.from({ length: 101 }, (_, index) => ({ path: `${index}`, additions: 2, deletions: 1 }));
    world.github.clock.advance(1);
    for (const pullRequest of [large, small]) pullRequest.push({ files: pullRequest === large ? files : [] });
    await request(tenant, large, small);
    const failure = { message: 'A page is missing.', path: ['page0'] };
    const reply = { data: { page0: null }, errors: [failure] };
    world.github.fault({ kind: 'alter', change: () => reply }, { when: 'FurtherPages' });
    await untilIdle();
    const commitsAndFiles = async () =>
      (await tenant.storedPullRequests()).map(({ commits, files, fileChanges }) => [
        commits,
        files.length,
        fileChanges?.length,
      ]);
    expect(await commitsAndFiles()).toEqual([
      [1, 0, 0],
      [2, 0, 0],
    ]);
    expect(await waiting(tenant)).toMatchObject([
      { githubId: large.id, attempts: 1, lastError: expect.stringContaining('A page is missing.') },
    ]);
    expect(await tenant.deliveryStates()).toEqual(['applied', 'pending']);
    await retryAll();
    expect(await commitsAndFiles()).toEqual([
      [2, 101, 202],
      [2, 0, 0],
    ]);
    expect(await tenant.deliveryStates()).toEqual(['applied', 'applied']);
  });

  test('at a rate limit on a further page defers all pull requests, and none counts as failed', async () => {
    const opened = tenant.open(2);
    opened[0]?.push({
      files: Array.from({ length: 101 }, (_, index) => ({ path: `${index}`, additions: 1, deletions: 0 })),
    });
    await request(tenant, ...opened);
    world.github.fault(secondaryLimit('90'), { when: 'FurtherPages' });
    await untilIdle();
    const left = await waiting(tenant);
    expect(left).toMatchObject([{ attempts: 0 }, { attempts: 0 }]);
    for (const { seconds } of left) expectAbout(seconds, 90);
    const asked = world.github.count();
    await retryAll();
    expect(world.github.count()).toBe(asked);
  });

  test('because of refused credentials says so, and keeps all requests', async () => {
    await request(tenant, ...tenant.open(1));
    world.github.fault({ kind: 'reply', status: 401, body: { message: 'Bad credentials' } });
    await untilIdle();
    expect((await waiting(tenant))[0]?.lastError).toContain('GITHUB_TOKEN');
    expect(service.complaints.at(-1)).toMatchObject({
      organisation: tenant.acme.login,
      reason: expect.stringContaining('GITHUB_TOKEN'),
    });
    expect(JSON.stringify(service.complaints)).not.toContain(world.github.token);
  });
});

describe('a pull request that makes every request for it fail', () => {
  const poison = (source: PullRequest) => world.github.fault(htmlError(502), { times: Infinity, when: naming(source) });

  test.each([0, 25, 49])('is found among fifty, at place %i, in nine requests, which store the rest', async place => {
    const opened = tenant.open(50);
    const poisoned = opened[place] as PullRequest;
    poison(poisoned);
    await request(tenant, ...opened);
    await orderByAge();
    await untilIdle();
    expect(countBatches()).toBeLessThanOrEqual(9);
    expect(await tenant.storedPullRequests()).toHaveLength(49);
    expect(await waiting(tenant)).toMatchObject([{ githubId: poisoned.id, attempts: 1, isIsolated: true }]);
  });

  test('is fetched alone, and batches of others keep their size', async () => {
    const opened = tenant.open(3);
    const [, poisoned] = opened;
    const heal = poison(poisoned);
    await requestAndSync(tenant, ...opened);
    for (let turn = 0; turn < 2; turn += 1) {
      world.github.requests.length = 0;
      await request(tenant, poisoned, ...tenant.open(59));
      await retryAll();
      expect(batchSizes()).toEqual([50, 9, 1]);
    }
    expect(await tenant.storedPullRequests()).toHaveLength(2 + 2 * 59);
    heal();
    await retryAll();
    expect(await waiting(tenant)).toEqual([]);
  });

  test('is isolated even if a webhook asks for it during its last failure', async () => {
    const opened = tenant.open(2);
    const [poisoned] = opened;
    const isAlone = naming(poisoned);
    const { begun, release } = world.github.hold('hold', each => isAlone(each) && world.github.count() === 2);
    poison(poisoned);
    await request(tenant, ...opened);
    const working = untilIdle();
    await begun;
    await request(tenant, poisoned);
    release();
    await working;
    expect(await waiting(tenant)).toMatchObject([{ githubId: poisoned.id, isIsolated: true }]);
  });

  test('does not wait for ever in a busy organisation', async () => {
    const opened = tenant.open(2);
    const [poisoned] = opened;
    const heal = poison(poisoned);
    await requestAndSync(tenant, ...opened);
    heal();
    const isStored = [];
    for (const secondsAgo of [20, 40]) {
      await executor.update(syncRequests).set({ dueAt: sql`now() - make_interval(secs => ${secondsAgo})` });
      await request(tenant, ...tenant.open(1));
      await work();
      isStored.push((await tenant.stored(poisoned)) !== undefined);
    }
    expect(isStored).toEqual([false, true]);
  });

  // If the first of all fails and then the rest, GitHub may serve none at all: the search goes on at the next try.
  test.each([
    [0, 30],
    [48, 49],
  ])('is found with another one among fifty, at places %i and %i, in seventeen requests', async (...places) => {
    const opened = tenant.open(50);
    for (const place of places) poison(opened[place] as PullRequest);
    await request(tenant, ...opened);
    await orderByAge();
    await untilIdle();
    // If the first one fails, GitHub has shown nothing so far: it may serve none at all.
    if (places[0] === 0) expect(await tenant.storedPullRequests()).toEqual([]);
    await retryAll();
    expect(countBatches()).toBeLessThanOrEqual(17);
    expect(await tenant.storedPullRequests()).toHaveLength(48);
  });

  test('leaves other organisations their turns while it is looked for', async () => {
    const other = await world.newTenant();
    const opened = tenant.open(4);
    const [poisoned] = opened;
    poison(poisoned);
    await request(tenant, ...opened);
    await work();
    await request(other, ...other.open(1));
    await work();
    expect(batchSizes()).toEqual([4, 1]);
    expect(await waiting(other)).toEqual([]);
  });

  test('does not make others wait if only it is too expensive inside a reply', async () => {
    const opened = tenant.open(10);
    const [, expensive] = opened;
    world.github.fault(tooExpensive(expensive), { times: Infinity });
    await requestAndSync(tenant, ...opened);
    expect(batchSizes()).toEqual([10, 1]);
    expect(await waiting(tenant)).toMatchObject([{ githubId: expensive.id, attempts: 1, isIsolated: true }]);
  });

  test('pull requests do not count as failed if only their number is too expensive', async () => {
    const opened = tenant.open(10);
    world.github.fault(tooExpensive(...opened.slice(6)), { times: Infinity, when: askingForMoreThan(6) });
    await requestAndSync(tenant, ...opened);
    expect(await waiting(tenant)).toEqual([]);
    expect(batchSizes()).toEqual([10, 2, 1, 1]);
  });

  test('is found among others, which are saved, if the service cannot save it', async () => {
    const opened = tenant.open(5);
    const [, broken] = opened;
    const when = `before insert on pull_requests for each row when (new.github_id = ${broken.id})`;
    await addTrigger(executor, when, "raise 'refused'");
    await request(tenant, ...opened);
    // The loop logs what the worker throws, and continues.
    while (await work().catch(() => true));
    expect(await tenant.storedPullRequests()).toHaveLength(4);
    expect(await waiting(tenant)).toMatchObject([{ githubId: broken.id, attempts: 1 }]);
  });
});

describe('a pull request that keeps failing', () => {
  /** One that fails, next to a stored one that does not. */
  async function startFailing() {
    const tenant = await world.newTenant();
    const [broken, sound] = tenant.open(2);
    await requestAndSync(tenant, sound);
    await request(tenant, broken);
    world.github.fault({ kind: 'broken', nodeIds: [broken.nodeId] }, { times: Infinity });
    return { tenant, broken, sound };
  }

  /** GitHub shows another one after each failure. */
  async function failAlone({ tenant, sound }: Awaited<ReturnType<typeof startFailing>>, times: number): Promise<void> {
    for (let turn = 0; turn < times; turn += 1) {
      await retryAll();
      await requestAndSync(tenant, sound);
    }
  }

  /** It has failed seven times, and fails once more. */
  async function park(failing: Awaited<ReturnType<typeof startFailing>>) {
    await failAlone(failing, 1);
    await executor.update(syncRequests).set({ attempts: 7 });
    await failAlone(failing, 1);
    return failing;
  }
  const parked = { attempts: 8, seconds: null };

  test('is parked by its eighth failure, which is logged once', async () => {
    const failing = await startFailing();
    const { tenant, broken } = failing;
    service.complaints.length = 0;
    await failAlone(failing, 7);
    expect(await waiting(tenant)).toMatchObject([{ attempts: 7, seconds: expect.any(Number) }]);
    await failAlone(failing, 1);
    expect(await waiting(tenant)).toMatchObject([
      { ...parked, githubId: broken.id, lastError: expect.stringContaining(broken.nodeId) },
    ]);
    const asked = world.github.count();
    expect(await work()).toBe(false);
    expect(world.github.count()).toBe(asked);
    expect(service.complaints.filter(({ msg }) => msg.includes('is parked'))).toMatchObject([
      { level: 50, organisation: tenant.acme.login, nodeId: broken.nodeId, attempts: 8 },
    ]);
    expect(await countSyncRequests(executor, tenant.id)).toEqual({
      total: 1,
      behind: 0,
      failed: 1,
      parked: 1,
      overdueSeconds: 0,
    });
  });

  test('is tried after its next delivery, and parked again if it fails', async () => {
    const failing = await park(await startFailing());
    const { tenant, broken } = failing;
    await request(tenant, broken);
    expect(await waiting(tenant)).toMatchObject([{ attempts: 8, seconds: expect.any(Number) }]);
    await failAlone(failing, 1);
    expect(await waiting(tenant)).toMatchObject([{ attempts: 9, seconds: null }]);
    await request(tenant, broken);
    world.github.clearFaults();
    await retryAll();
    expect(new Set(await tenant.deliveryStates())).toEqual(new Set(['applied']));
  });

  test('is tried by a retry, like all that failed, but not in other organisations', async () => {
    const [{ tenant, broken }, other] = [await park(await startFailing()), await world.newTenant()];
    const [limited, fresh] = tenant.open(2);
    // As if it had moved from there.
    await request(other, limited);
    await request(tenant, limited, fresh);
    await executor
      .update(syncRequests)
      .set({ lastError: 'The rate limit.', attempts: 0, dueAt: sql`now() + interval '1 hour'` })
      .where(sql`github_id = ${limited.id} or organisation_id = ${other.id}`);
    expect(await listFailingRequests(executor, tenant.id, 10)).toMatchObject([
      { githubId: broken.id, name: null, attempts: 8, dueAt: null },
      { githubId: limited.id, attempts: 0, reason: 'The rate limit.', dueAt: expect.any(Date) },
    ]);
    expect(await tenant.retryFailed()).toEqual({ retried: 2, parked: 1 });
    expect(await waiting(tenant)).toMatchObject(Array(3).fill({ attempts: 0, lastError: null }));
    expect(await waiting(other)).toMatchObject([{ lastError: 'The rate limit.' }]);
    world.github.clearFaults();
    await untilIdle();
    expect(await waiting(tenant)).toEqual([]);
    expect(await tenant.retryFailed()).toEqual({ retried: 0, parked: 0 });
  });

  test('is tried once more by each sweep if it is stored', async () => {
    const failing = await startFailing();
    const { tenant, broken } = failing;
    world.github.clearFaults();
    await untilIdle();
    await request(tenant, broken);
    world.github.fault({ kind: 'broken', nodeIds: [broken.nodeId] }, { times: Infinity });
    await park(failing);
    expect(await waiting(tenant)).toMatchObject([parked]);
    await executor.execute(sql`update pull_requests set fetched_at = now() - interval '2 days'`);
    await tenant.refetch(10);
    await untilIdle();
    expect(await waiting(tenant)).toMatchObject([{ attempts: 9, seconds: null }]);
    world.github.clearFaults();
    await executor.execute(sql`update pull_requests set fetched_at = now() - interval '2 days'`);
    await tenant.refetch(10);
    await untilIdle();
    expect(await waiting(tenant)).toEqual([]);
  });

  test('needs no retry once it was fetched another way', async () => {
    const { tenant, broken } = await park(await startFailing());
    const idle = createRequestWorker(service);
    world.github.clearFaults();
    expect(await tenant.sync(broken)).toEqual(['saved']);
    expect(await idle()).toBe(false);
    expect(await waiting(tenant)).toEqual([]);
    expect(new Set(await tenant.deliveryStates())).toEqual(new Set(['applied']));
  });
});

test('pull requests that all fail cost one request at a time, however many there are', async () => {
  const failing = tenant.open(20);
  const nodeIds = failing.map(({ nodeId }) => nodeId);
  world.github.fault({ kind: 'broken', nodeIds, type: 'FORBIDDEN' }, { times: Infinity });
  await request(tenant, ...failing);
  await retryAll(6);
  expect(batchSizes()).toEqual(Array(6).fill(20));
});

test.each<[string, ReplyFault]>([
  ['an outage of GitHub', htmlError(502)],
  ['a refusal of the credentials', { kind: 'reply', status: 401, body: { message: 'Bad credentials' } }],
  ['an empty reply from GitHub', { kind: 'reply', status: 200, body: { data: {} } }],
])('%s parks no pull request, however long it lasts', async (_, fault) => {
  const [stored, ...others] = tenant.open(3);
  await requestAndSync(tenant, stored);
  await request(tenant, ...others);
  world.github.fault(fault, { times: Infinity });
  await executor.update(syncRequests).set({ attempts: 4 });
  // A pull request would be parked after eight.
  await retryAll(5);
  expect(await waiting(tenant)).toMatchObject(Array(2).fill({ attempts: 5, seconds: expect.any(Number) }));
  world.github.clearFaults();
  await retryAll();
  expect(await waiting(tenant)).toEqual([]);
  expect(await tenant.deliveryStates()).toEqual(Array(3).fill('applied'));
});

describe('a rate limit', () => {
  const endBlock = () => executor.execute(sql`update github_limits set blocked_until = now()`);

  const blockedSeconds = async () => {
    const { rows } = await executor.execute<{ seconds: number }>(
      sql`select ceil(extract(epoch from blocked_until - now()) / 10)::int * 10 as seconds from github_limits`,
    );
    return rows[0]?.seconds;
  };

  test('keeps two replicas from calling early, and costs no attempt', async () => {
    const replica = createRequestWorker(await world.replica());
    const opened = tenant.open(2);
    await request(tenant, ...opened);
    world.github.fault(secondaryLimit('40'));
    await untilIdle();
    for (const row of await waiting(tenant)) {
      expect(row.attempts).toBe(0);
      expectAbout(row.seconds, 40);
    }
    // Even if a request is due, neither replica calls GitHub.
    await request(tenant, ...opened);
    await makeRequestsDue();
    await untilIdle(replica);
    await retryAll();
    expect(world.github.count()).toBe(1);
    for (const row of await waiting(tenant)) expectAbout(row.seconds, 40);
    await endBlock();
    await makeRequestsDue();
    await untilIdle(replica);
    expect(world.github.count()).toBe(2);
    expect(await waiting(tenant)).toEqual([]);
  });

  test('without a time doubles the wait from a minute to an hour, until GitHub answers', async () => {
    await request(tenant, ...tenant.open(1));
    world.github.fault(secondaryLimit(), { times: 8 });
    const waits: (number | undefined)[] = [];
    for (let turn = 0; turn < 8; turn += 1) {
      await work();
      waits.push(await blockedSeconds());
      await endBlock();
      await makeRequestsDue();
    }
    expect(waits).toEqual([60, 120, 240, 480, 960, 1920, 3600, 3600]);
    await untilIdle();
    world.github.fault(secondaryLimit());
    await request(tenant, ...tenant.open(1));
    await work();
    expect(await blockedSeconds()).toBe(60);
  });

  test('with a time does not lengthen the wait of a later one without', async () => {
    await request(tenant, ...tenant.open(1));
    for (const fault of [secondaryLimit('1'), secondaryLimit('1'), secondaryLimit()]) {
      await endBlock();
      await makeRequestsDue();
      world.github.fault(fault);
      await work();
    }
    expect(await blockedSeconds()).toBe(60);
  });
});

test('what PostgreSQL cannot hold is replaced in the reason of a failure', async () => {
  await request(tenant, ...tenant.open(1));
  const [due] = await tenant.dueRequests(1);
  if (due === undefined) throw new Error('none is due');
  const decision = {
    kind: 'retry',
    seconds: 5,
    attempts: 1,
    reason: 'nul \0, lone \ud800',
    isIsolated: false,
  } as const;
  await writeDecisions(service.database, tenant.id, [{ request: due, decision }]);
  expect(await waiting(tenant)).toMatchObject([{ lastError: 'nul \uFFFD, lone \uFFFD' }]);
});

describe('a turn', () => {
  test('fetches nothing once the service is told to stop, and loses nothing', async () => {
    await request(tenant, ...tenant.open(3));
    await createRequestWorker(service)(AbortSignal.abort());
    expect(world.github.count()).toBe(0);
    expect(await waiting(tenant)).toHaveLength(3);
  });

  test('of a dead replica is taken over when its lease ends', async () => {
    await request(tenant, ...tenant.open(3));
    await claimSyncTurn(executor, leaseSeconds);
    expect(await work()).toBe(false);
    await endLeases();
    await untilIdle();
    expect(await waiting(tenant)).toEqual([]);
    expect(await tenant.storedPullRequests()).toHaveLength(3);
  });

  test('is followed by half a minute at most for each point, if more points are used than left', async () => {
    const [busy, other] = [await world.newTenant(), await world.newTenant()];
    setPoints(world.github, 20);
    const pullRequests = busy.open(4);
    const [first, ...later] = pullRequests;
    const turn = async (tenant: SyncTenant, pullRequest: PullRequest) => {
      await request(tenant, pullRequest);
      return work();
    };
    // 10 points are used then, and 10 are left.
    for (let turns = 0; turns < 10; turns += 1) expect(await turn(busy, first)).toBe(true);
    expect(await pause(busy)).toBeLessThan(0.1);
    const startedAt = performance.now();
    await turn(busy, first);
    const found = await pause(busy);
    expect(found).toBeGreaterThan(29 - secondsSince(startedAt));
    expect(found).toBeLessThanOrEqual(30);
    // What changes in the pause shares a request.
    for (const pullRequest of later) expect(await turn(busy, pullRequest)).toBe(false);
    const asked = world.github.count();
    await endLeases();
    await work();
    expect(await waiting(busy)).toEqual([]);
    expect(world.github.count()).toBe(asked + 1);
    const [opened] = other.open(1);
    for (let turns = 0; turns < 3; turns += 1) expect(await turn(other, opened)).toBe(true);
    expect(await pause(other)).toBeLessThan(0.1);
  });

  test('that costs thirty points is paced by them, and leaves other organisations their points', async () => {
    const [large, small] = [await world.newTenant(), await world.newTenant()];
    setPoints(world.github, 450);
    const [edited] = large.open(1);
    const [other] = small.open(1);
    const { limit } = world.github;
    if (limit === null) throw new Error('no limit');
    const hourEnd = limit.resetAt;
    onTestFinished(() => void Object.assign(limit, { resetAt: hourEnd }));
    // As one with 3,000 files does.
    const costThirty = (reply: { data?: unknown }) => {
      limit.remaining -= 29;
      Object.assign((reply.data as { rateLimit: object }).rateLimit, { cost: 30, remaining: limit.remaining });
      return reply;
    };
    world.github.fault({ kind: 'alter', change: costThirty }, { times: Infinity, when: naming(edited) });
    const untilReset = () => limit.resetAt - Date.now() / 1000;
    /** Lets time pass: the end of the hour comes closer. */
    const pass = async (seconds: number) => {
      limit.resetAt -= seconds;
      const resetAt = sql`to_timestamp(${limit.resetAt}::float8)`;
      await executor.execute(sql`update github_limits set reset_at = ${resetAt}`);
      await executor.execute(sql`update organisations set points_reset_at = ${resetAt}, sync_leased_until = now()`);
    };
    let turns = 0;
    while (untilReset() > 60) {
      edited.edit({ title: `Edit ${turns}` });
      await request(large, edited);
      if (await work()) turns += 1;
      await pass(Math.max(2, Math.ceil((await pause(large)) ?? 0)));
      // It has its turn at once, with one request, and no pause follows.
      if (turns % 5 !== 0) continue;
      await request(small, other);
      world.github.requests.length = 0;
      await executor.execute(sql`update organisations set sync_served_at = now() where id = ${large.id}`);
      expect(await work()).toBe(true);
      expect(world.github.count()).toBe(1);
      expect(await waiting(small)).toEqual([]);
      expect(await pause(small)).toBeLessThan(0.1);
    }
    // It is not starved either.
    expect(turns).toBeGreaterThan(10);
    expect(limit.remaining).toBeGreaterThan(30);
  });

  test.each([1, 2])(
    'of %i that have used more points than are left is paced, and these last until the reset',
    async count => {
      const tenants = await Promise.all(Array.from({ length: count }, () => world.newTenant()));
      const opened = tenants.map(tenant => [tenant, tenant.open(1)[0]] as const);
      for (const [tenant, pullRequest] of opened) await request(tenant, pullRequest);
      await untilIdle();
      // Each takes one, and 500 above the reserve are left.
      setPoints(world.github, 5_000, 1_000 + count);
      const resetAt = world.github.limit?.resetAt ?? 0;
      for (const { id } of tenants) await countPoints(executor, id, 1_100, resetAt);
      for (const [tenant, pullRequest] of opened) await request(tenant, pullRequest);
      const startedAt = performance.now();
      const share = (count * (resetAt - Date.now() / 1000)) / 500;
      await untilIdle();
      for (const tenant of tenants) {
        const found = await pause(tenant);
        expect(found).toBeGreaterThan((share * 500) / (500 + count) - 1 - secondsSince(startedAt));
        expect(found).toBeLessThanOrEqual(share + 0.1);
      }
    },
  );

  test('goes to each organisation once if replicas ask at the same moment', async () => {
    const tenants = [await world.newTenant(), await world.newTenant(), await world.newTenant()];
    for (const tenant of tenants) await request(tenant, ...tenant.open(1));
    // Connections are open from here on: none of the claims waits for its own.
    await Promise.all(tenants.map(() => executor.execute(sql`select pg_sleep(0.1)`)));
    const turns = await Promise.all(tenants.map(() => claimSyncTurn(executor, leaseSeconds)));
    expect(turns.map(turn => turn?.organisationId).sort()).toEqual(tenants.map(tenant => tenant.id).sort());
  });
});
