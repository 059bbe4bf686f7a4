import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startLoops } from '../../src/sync/start-loops.ts';
import { type Running, requireBuild, start } from '../commands/support.ts';
import { naming } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { deliver, openTransaction, type SyncTenant, startSyncWorld, waitUntil } from './support.ts';

const hour = 3_600;

/** Runs before anything else in a process, and sets its clock wrong. */
const withClockAhead = (seconds: number) =>
  `--import=data:text/javascript,${encodeURIComponent(`
    const RealDate = Date;
    globalThis.Date = class extends RealDate {
      constructor(...parts) { parts.length === 0 ? super(RealDate.now() + ${seconds * 1000}) : super(...parts); }
      static now() { return RealDate.now() + ${seconds * 1000}; }
    };`)}`;

const world = await startSyncWorld();
/** Separate processes whose clocks are an hour behind, right, and an hour ahead. */
let workers: Running[];

beforeAll(async () => {
  requireBuild();
  workers = [-hour, 0, hour].map(ahead =>
    start({ ...world.shell, RECONCILE_INTERVAL: '0', NODE_OPTIONS: withClockAhead(ahead) }, 'worker'),
  );
  await Promise.all(workers.map(worker => worker.shows(/ready/)));
});

afterAll(async () => {
  for (const { child } of workers ?? []) child.kill('SIGKILL');
  await Promise.all((workers ?? []).map(({ ended }) => ended));
});

async function requestsOf(tenant: SyncTenant): Promise<{ leased: boolean }[]> {
  const { rows } = await world.service.database.executor.execute<{ leased: boolean }>(sql`
    select sync_leased_until > now() as leased from sync_requests join organisations on organisations.id = organisation_id
    where organisation_id = ${tenant.id}`);
  return rows;
}

test('replicas whose clocks and GitHub’s are hours apart keep the order of changes', async () => {
  const tenants = [await world.newTenant(), await world.newTenant(), await world.newTenant()];
  const opened: [SyncTenant, PullRequest][] = [];
  for (const [index, tenant] of tenants.entries()) {
    // GitHub's clock is wrong in either direction, and right.
    world.github.clock.set(Math.floor(Date.now() / 1000) + (index - 1) * hour);
    const { web } = tenant;
    for (let count = 0; count < 4; count += 1) opened.push([tenant, web.openPullRequest()]);
    for (let turn = 0; turn < 4; turn += 1) {
      world.github.clock.advance(turn % 2);
      for (const [owner, pullRequest] of opened) {
        if (owner === tenant) await deliver(world.service, pullRequest.edit({ title: `turn ${turn}` }));
      }
    }
  }
  await waitUntil(async () => (await Promise.all(tenants.map(requestsOf))).flat().length === 0, 15_000);
  for (const [tenant, pullRequest] of opened) {
    const { title, updatedAt } = pullRequest;
    expect(await tenant.stored(pullRequest)).toMatchObject({ title, sourceUpdatedAt: updatedAt });
  }
});

test('within ten seconds, others do the work of replicas killed during a fetch, during a save or after it', async () => {
  const tenants = {
    fetching: await world.newTenant(),
    saving: await world.newTenant(),
    saved: await world.newTenant(),
  };
  const [fetching, saving, saved] = [
    await tenants.fetching.openStored({ title: 'before' }),
    await tenants.saving.openStored({ title: 'before' }),
    await tenants.saved.openStored({ title: 'before' }),
  ];
  const title = async (tenant: SyncTenant, pullRequest: PullRequest) => (await tenant.stored(pullRequest))?.title;

  const lock = await openTransaction(world, 'select from pull_requests where github_id = $1 for update', [saving.id]);
  world.github.fault({ kind: 'hang' }, { when: naming(fetching) });
  // Long enough to lock its request meanwhile.
  world.github.fault({ kind: 'delay', milliseconds: 2_000 }, { when: naming(saved) });
  world.github.requests.length = 0;
  await deliver(world.service, saved.edit({ title: 'after' }));
  await waitUntil(async () => (await requestsOf(tenants.saved)).every(({ leased }) => leased));
  await lock.query('select from sync_requests where github_id = $1 for update', [saved.id]);
  await deliver(world.service, saving.edit({ title: 'after' }));

  const blocked = async () => {
    const { rows } = await lock.query<{ pid: number }>(
      'select pid from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))',
    );
    return rows.map(({ pid }) => pid);
  };
  await waitUntil(async () => (await blocked()).length === 2);
  // Last: its fetch ends after a time, and what comes before may take long on a busy machine.
  await deliver(world.service, fetching.edit({ title: 'after' }));
  await waitUntil(async () => world.github.count() === 3);
  expect(await title(tenants.saved, saved)).toBe('after');
  expect(await title(tenants.saving, saving)).toBe('before');
  for (const { child } of workers) child.kill('SIGKILL');
  const loops = startLoops(world.service);
  // PostgreSQL completes what a dead client has sent; these had not sent it yet.
  await lock.query('select pg_terminate_backend(pid) from unnest($1::int[]) as pid', [await blocked()]);
  await lock.query('rollback');
  for (const tenant of Object.values(tenants)) expect(await requestsOf(tenant)).toHaveLength(1);

  await waitUntil(async () => (await Promise.all(Object.values(tenants).map(requestsOf))).flat().length === 0, 10_000);
  await loops.stop();
  for (const tenant of Object.values(tenants)) {
    expect((await tenant.storedPullRequests()).map(row => row.title)).toEqual(['after']);
  }
}, 40_000);
