import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { afterEach, describe, expect, onTestFinished } from 'vitest';
import { beginRemoval } from '../../src/database/erasure.ts';
import { createGithub } from '../../src/github/github.ts';
import type { Scorer } from '../../src/scorer/jobs.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { type Loops, startLoops } from '../../src/sync/start-loops.ts';
import { createLatch } from '../support/github/faults.ts';
import { startProxy, type TcpProxy } from '../support/proxy.ts';
import { closing, type Service } from '../support/service.ts';
import { post } from '../webhooks/support.ts';
import { deliver, makeDue, rule, type SyncTenant, startSyncWorld, waitUntil } from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

const running: Loops[] = [];
function start(replica: Service = service): Loops {
  const loops = startLoops(replica);
  running.push(loops);
  return loops;
}
async function stopLoops(): Promise<void> {
  await Promise.all(running.splice(0).map(loops => loops.stop()));
}
afterEach(stopLoops);

const countRequests = async (tenant: SyncTenant) => (await tenant.waitingSyncs()).length;

async function listeners(): Promise<number[]> {
  const { rows } = await executor.execute<{ pid: number }>(
    sql`select pid from pg_stat_activity where datname = current_database()
      and application_name = 'pullscore listener' and state = 'idle'`,
  );
  return rows.map(({ pid }) => pid);
}

describe('an idle service', () => {
  /** So slow that a loop finds work during the test only if it is woken. */
  const startDeaf = async (service: Service) => {
    running.push(startLoops(service, { pollMs: 600_000 }));
    await waitUntil(async () => (await listeners()).length === 1);
  };

  test('applies a delivery at once', async ({ tenant }) => {
    const other = await world.replica();
    await startDeaf(service);
    for (let turn = 0; turn < 2; turn += 1) {
      const pullRequest = tenant.web.addPullRequest();
      await deliver(other, pullRequest.open());
      await waitUntil(async () => (await tenant.stored(pullRequest)) !== undefined);
    }
  });

  test('compares an organisation at once if a webhook says that it was renamed', async ({ tenant }) => {
    await makeDue(service);
    await startDeaf(await world.replica(undefined, { RECONCILE_INTERVAL: '900' }));
    for (let turn = 0; turn < 2; turn += 1) {
      const login = `${tenant.acme.login}-${turn}`;
      await deliver(service, tenant.acme.rename(login));
      await waitUntil(async () => (await tenant.row()).login === login);
    }
  });

  test('lists a member who joins at once with RECONCILE_INTERVAL=0, and compares nothing else', async ({ tenant }) => {
    const other = await world.newTenant();
    const replica = await world.replica(undefined, { RECONCILE_INTERVAL: '0' });
    await makeDue(service);
    await startDeaf(replica);
    expect(await tenant.on(replica).memberLogins()).toEqual([]);
    const elsewhere = world.github.organisation('elsewhere');
    await deliver(replica, tenant.acme.join(elsewhere.member('grace')));
    await waitUntil(async () => (await tenant.on(replica).memberLogins()).includes('grace'));
    // A minute later it is repeated, and that is all.
    await waitUntil(async () => (await tenant.row()).comparedAt !== null);
    expect(await tenant.row()).toMatchObject({ comparisonRequested: true });
    await stopLoops();
    await tenant.update({ comparisonDueAt: sql`now()`, comparisonAgainAt: sql`now()` });
    expect(await compareOrganisation(replica)).toBe(true);
    expect(await tenant.row()).toMatchObject({ comparisonRequested: false, comparisonAgainAt: null });
    await executor.execute(sql`update organisations set comparison_due_at = now()`);
    expect(await compareOrganisation(replica)).toBe(false);
    expect(await other.row()).toMatchObject({ comparedAt: null });
  });

  test('scores pull requests again at once after new rules', async ({ tenant }) => {
    const pullRequest = await tenant.openStored();
    await startDeaf(service);
    for (let score = 1; score <= 2; score += 1) {
      await tenant.apply(rule(`${score}`));
      await waitUntil(async () => (await tenant.stored(pullRequest))?.score === score);
    }
  });

  test('finds work even if no notification reaches it', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    start();
    await waitUntil(async () => (await listeners()).length === 1);
    await tenant.request(pullRequest);
    await waitUntil(async () => (await tenant.stored(pullRequest)) !== undefined);
  });
});

test('a small organisation is served at once while GitHub keeps four large ones waiting', async () => {
  const tenants = await Promise.all([1, 2, 3, 4].map(() => world.newTenant()));
  const small = await world.newTenant();
  for (const tenant of tenants) {
    const { web } = tenant;
    for (let count = 0; count < 51; count += 1) await tenant.request(web.addPullRequest());
  }
  const latches = [1, 2, 3, 4].map(() => createLatch());
  onTestFinished(() => latches.forEach(latch => void latch.release()));
  for (const { released } of latches) world.github.fault({ kind: 'hold', until: released });
  world.github.requests.length = 0;
  start();
  // Each organisation has one request under way.
  await waitUntil(async () => world.github.count() === 4);
  const pullRequest = small.acme.repository('web').openPullRequest();
  await small.request(pullRequest);
  await waitUntil(async () => (await small.stored(pullRequest)) !== undefined);
  expect(world.github.count()).toBe(5);
  for (const latch of latches) latch.release();
  for (const tenant of tenants) await waitUntil(async () => (await countRequests(tenant)) === 0);
});

test('all loops together have 48 requests under way with a token; the rest wait in their order', async () => {
  const replica = await world.replica(undefined, { RECONCILE_INTERVAL: '900' });
  const tenants = await Promise.all(Array.from({ length: 50 }, () => world.newTenant()));
  for (const tenant of tenants) await tenant.request(tenant.web.addPullRequest());
  await makeDue(service, ...tenants.slice(0, 16));
  const { released, release } = createLatch();
  onTestFinished(release);
  world.github.fault({ kind: 'hold', until: released }, { times: Infinity });
  world.github.requests.length = 0;
  // On a busy machine, the first is held for long until the last one has begun.
  start({ ...replica, github: createGithub(replica.config.github, { timeoutMs: 60_000 }) });
  const begun = async () => {
    const { rows } = await executor.execute<{ turns: number; comparisons: number }>(sql`
      select count(*) filter (where sync_leased_until > now())::int as turns,
        count(*) filter (where comparison_leased_until > now())::int as comparisons
      from organisations`);
    return rows[0];
  };
  await expect.poll(begun, { timeout: 60_000 }).toEqual({ turns: 48, comparisons: 16 });
  await expect.poll(() => world.github.requests.length).toBe(48);
  await delay(200);
  expect(world.github.requests).toHaveLength(48);
  world.github.clearFaults();
  release();
  for (const tenant of tenants) await waitUntil(async () => (await countRequests(tenant)) === 0);
}, 120_000);

test('no loop fails if an organisation is removed while it is being served', async ({ tenant }) => {
  const { database, scorer } = service;
  await tenant.sync(tenant.web.openPullRequest());
  await tenant.apply(rule('5'));
  const lines: string[] = [];
  const begun = createLatch();
  const remove = async () => {
    await database.transaction(executor => beginRemoval(executor, tenant.id));
    begun.release();
  };
  let removal: Promise<void> | undefined;
  const removing: Scorer = {
    ...scorer,
    run(kind, input, options) {
      removal ??= remove();
      return removal.then(() => scorer.run(kind, input, options));
    },
  };
  const log = pino({ level: 'info' }, { write: line => lines.push(line) });
  const loops = startLoops({ ...service, scorer: removing, log });
  await begun.released;
  await loops.stop();
  expect(lines.filter(line => line.includes('a loop failed'))).toEqual([]);
});

test('work that fails as soon as it is found is begun twice a second at most', async ({ tenant }) => {
  await tenant.openStored();
  await tenant.apply(rule('5'));
  const begun: number[] = [];
  const run = async () => {
    begun.push(performance.now());
    throw new Error('no process');
  };
  const loops = start({ ...service, scorer: { ...service.scorer, run } });
  await waitUntil(async () => begun.length >= 6);
  await loops.stop();
  // It has two places.
  expect((begun[5] ?? 0) - (begun[0] ?? 0)).toBeGreaterThan(1_900);
});

describe('stopping', () => {
  test('lets the fetch under way end and saves it, and leaves nothing open', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    const loops = start();
    await waitUntil(async () => (await listeners()).length === 1);
    world.github.requests.length = 0;
    world.github.fault({ kind: 'delay', milliseconds: 400 });
    await deliver(service, pullRequest.edit({ title: 'under way' }));
    await waitUntil(async () => world.github.count() === 1);
    await loops.stop();
    expect((await tenant.stored(pullRequest))?.title).toBe('under way');
    expect(await countRequests(tenant)).toBe(0);
    await waitUntil(async () => (await listeners()).length === 0);
  });

  test('takes no time if nothing is under way, even right after the start', async () => {
    for (const pause of [0, 5, 300]) {
      // A stop that waited for the next look for work would take ten minutes.
      const loops = startLoops(service, { pollMs: 600_000 });
      running.push(loops);
      await delay(pause);
      await loops.stop();
    }
    await waitUntil(async () => (await listeners()).length === 0);
  });

  test('leaves no connection behind, even while the one for notifications reopens', async () => {
    const proxy = closing(await startProxy(service.database.url));
    const loops = start(await world.replica(proxy.through(service.database.url)));
    await waitUntil(async () => (await listeners()).length === 1);
    proxy.hold();
    proxy.cut();
    const before = proxy.connections;
    // The reader's, the pool's for each loop, and last the listener's.
    await waitUntil(async () => proxy.connections > before);
    await delay(1_100);
    const stopped = loops.stop();
    proxy.accept();
    await stopped;
    await delay(200);
    // PostgreSQL ends its processes a moment after the connections.
    await expect.poll(listeners).toEqual([]);
  });
});

describe('a database that goes away and comes back', () => {
  async function through(work: (replica: Service, proxy: TcpProxy) => Promise<void>, options: Partial<Service> = {}) {
    const proxy = closing(await startProxy(service.database.url));
    const replica = { ...(await world.replica(proxy.through(service.database.url))), ...options };
    start(replica);
    await waitUntil(async () => (await listeners()).length === 1);
    await work(replica, proxy);
  }

  test('has loops that work and listen again within two seconds', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    await through(async (replica, proxy) => {
      proxy.refuse();
      proxy.cut();
      await waitUntil(async () => replica.complaints.some(({ msg }) => msg.includes('a loop failed')));
      await deliver(service, pullRequest.edit({ title: 'meanwhile' }));
      proxy.accept();
      await waitUntil(async () => (await tenant.stored(pullRequest)) !== undefined, 2_500);
      await waitUntil(async () => (await listeners()).length === 1);
    });
  });

  test('is logged once for each loop that works again, with the seconds that it failed', async () => {
    const lines: { level: number; msg: string; loop: string; seconds?: number }[] = [];
    const log = pino({ level: 'info' }, { write: line => lines.push(JSON.parse(line)) });
    const loopsOf = (msg: string) => lines.filter(line => line.msg === msg).map(({ loop }) => loop);
    await through(
      async (_, proxy) => {
        proxy.refuse();
        proxy.cut();
        await waitUntil(async () => loopsOf('a loop failed and tries again').length >= 4);
        expect(loopsOf('a loop that failed works again')).toEqual([]);
        const begin = performance.now();
        proxy.accept();
        await waitUntil(async () => loopsOf('a loop that failed works again').length >= 4);
        const failed = loopsOf('a loop failed and tries again').toSorted();
        expect(loopsOf('a loop that failed works again').toSorted()).toEqual(failed);
        const recovered = lines.filter(({ msg }) => msg === 'a loop that failed works again');
        const maxSeconds = Math.ceil((performance.now() - begin) / 1000) + 20;
        for (const { level, seconds = -1 } of recovered) {
          expect(level).toBe(30);
          expect(seconds).toBeGreaterThanOrEqual(0);
          expect(seconds).toBeLessThanOrEqual(maxSeconds);
        }
      },
      { log },
    );
  });

  test('does not fill the log, even if it does so again and again', async () => {
    await through(async (replica, proxy) => {
      for (let outage = 0; outage < 2; outage += 1) {
        proxy.refuse();
        proxy.cut();
        await delay(1_200);
        proxy.accept();
        await waitUntil(async () => (await listeners()).length === 1);
      }
      // One for each loop.
      expect(replica.complaints.filter(({ msg }) => msg.includes('a loop failed')).length).toBeLessThanOrEqual(4);
    });
  });

  test('loses no delivery if PostgreSQL ends all connections', async ({ tenant }) => {
    start();
    let acknowledged = 0;
    for (let turn = 0; turn < 2; turn += 1) {
      const opened = tenant.open(10);
      for (const pullRequest of opened) {
        if (pullRequest.opened && (await post(service, pullRequest.opened)).status === 202) acknowledged += 1;
      }
      await executor
        .execute(
          sql`select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()`,
        )
        .catch(() => undefined);
    }
    await waitUntil(async () => (await countRequests(tenant)) === 0, 15_000);
    expect(acknowledged).toBeGreaterThan(10);
    expect(await tenant.storedPullRequests()).toHaveLength(acknowledged);
  });
});
