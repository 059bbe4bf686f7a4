/** One of two transactions is stopped at the critical point while the other passes. */

import { randomUUID } from 'node:crypto';
import { eq, sql } from 'drizzle-orm';
import { afterEach, describe, expect } from 'vitest';
import { createFactsReader } from '../../src/database/facts.ts';
import { saveRepositories } from '../../src/database/repositories.ts';
import { readRange, saveScores } from '../../src/database/rescore-ranges.ts';
import { syncRequests, webhookDeliveries } from '../../src/database/schema.ts';
import { type Decision, writeDecisions } from '../../src/database/sync-requests.ts';
import { takePullRequestDeliveries } from '../../src/database/webhook-deliveries.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { createTenant } from '../support/tenants.ts';
import { addTrigger } from '../support/trigger.ts';
import {
  lockWaits,
  openSave,
  openTransaction,
  rule,
  type SyncTenant,
  startSyncWorld,
  waitUntil,
  wholeRange,
} from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;
afterEach(() => executor.delete(syncRequests));

const deliveryOf = ({ acme }: SyncTenant, githubId: number) => ({
  guid: randomUUID(),
  event: 'pull_request',
  action: 'edited',
  organisation: { githubId: acme.id, login: acme.login },
  pullRequest: { githubId, nodeId: `PR_${githubId}`, minSourceUpdatedAt: null },
  delaySeconds: 0,
});

test('a sync between the read and the write of a re-scoring keeps its newer score', async ({ tenant }) => {
  await tenant.apply(rule('additions'));
  const pullRequest = await tenant.openStored({ additions: 1 });
  const { database } = service;
  const reader = createFactsReader(new Set(['additions']));
  const { value: step } = await readRange(database.executor, tenant.id, wholeRange, reader).next();
  const [read] = step ?? [];
  if (read === undefined) throw new Error('nothing read');
  pullRequest.push({ additions: 41 });
  await tenant.sync(pullRequest);
  const late = {
    id: read.id,
    fetchTicket: read.fetchTicket,
    from: read.score,
    score: 7,
    breakdown: '[]',
    reviewScores: null,
  };
  await saveScores(database.executor, tenant.id, 1, [late]);
  expect(await tenant.stored(pullRequest)).toMatchObject({ score: 42 });
  expect(await tenant.scoreHistory()).toEqual(['null → 1 (pull_request, 1)', '1 → 42 (pull_request, 1)']);
});

test('two simultaneous saves of one pull request give one continuous history of its score', async ({ tenant }) => {
  await tenant.apply(rule('additions'));
  const pullRequest = await tenant.openStored({ additions: 1 });
  const lock = await openTransaction(world, 'select from pull_requests where github_id = $1 for update', [
    pullRequest.id,
  ]);
  pullRequest.push({ additions: 10 });
  const first = await tenant.fetchedSync(pullRequest);
  world.github.clock.advance(1);
  pullRequest.push({ additions: 100 });
  const second = await tenant.fetchedSync(pullRequest);
  const saving = first.save();
  await waitUntil(async () => (await lockWaits(service)) === 1);
  const savingToo = second.save();
  await waitUntil(async () => (await lockWaits(service)) === 2);
  await lock.query('rollback');
  expect(await Promise.all([saving, savingToo])).toEqual(['saved', 'saved']);
  expect(await tenant.scoreHistory()).toEqual([
    'null → 1 (pull_request, 1)',
    '1 → 11 (pull_request, 1)',
    '11 → 111 (pull_request, 1)',
  ]);
});

test('a save locks authors in one order, whatever the order of their pull requests', async ({ tenant }) => {
  const [first, second] = [
    tenant.acme.member(`one-${tenant.acme.login}`),
    tenant.acme.member(`two-${tenant.acme.login}`),
  ];
  const opened = [second, first].map(author =>
    tenant.web.openPullRequest({ author, authorAssociation: 'CONTRIBUTOR' }),
  );
  await tenant.syncMembers();
  for (const author of [first, second]) author.login += '-renamed';
  const lock = await openTransaction(world, 'select from members where github_id = $1 for update', [first.id]);
  const saving = tenant.sync(...opened);
  await waitUntil(async () => (await lockWaits(service)) === 1);
  const { rows } = await executor.execute(
    sql`select from members where github_id = ${second.id} for update skip locked`,
  );
  expect(rows).toHaveLength(1);
  await lock.query('rollback');
  expect(await saving).toEqual(['saved', 'saved']);
});

test.for([
  ['a comparison', 'compareOnly'],
  ['an import', 'import'],
] as const)('%s that renames a repository waits for savers before it locks any', async ([, rename], { tenant }) => {
  const { acme, organisation } = tenant;
  const [web, api, old] = [acme.repository('web'), acme.repository('api'), acme.repository('old')];
  for (const repository of [web, api, old]) await tenant.sync(repository.openPullRequest());
  const settings = { ignoredGlobs: ['old'] };
  await tenant.update(settings);
  api.rename('service');
  const saver = await openSave(world, tenant);
  const renaming = tenant.as(settings)[rename]();
  await waitUntil(async () => (await lockWaits(service)) === 1);
  const { rows } = await saver.query(
    'select name from repositories where organisation_id = $1 for update skip locked',
    [organisation.id],
  );
  expect(rows).toHaveLength(3);
  await saver.query('rollback');
  await renaming;
});

describe('a retry by the operator during a fetch', () => {
  async function newFailing() {
    const tenant = await world.newTenant();
    const pullRequest = tenant.web.openPullRequest();
    await tenant.request(pullRequest, { attempts: 3, lastError: 'It failed.' });
    return tenant;
  }
  const retry = async (tenant: SyncTenant) => expect(await tenant.retryFailed()).toEqual({ retried: 1, parked: 0 });
  const isNew = async (tenant: SyncTenant) => {
    expect(await tenant.waitingSyncs()).toMatchObject([{ attempts: 0, lastError: null }]);
    expect(await tenant.dueRequests(10)).toHaveLength(1);
  };

  test('a fetch that succeeds does not undo a retry by the operator during it', async () => {
    const tenant = await newFailing();
    const { begun, release } = world.github.hold('late');
    const working = createRequestWorker(service)();
    await begun;
    await retry(tenant);
    release();
    await working;
    await isNew(tenant);
  });

  test('a fetch that fails or finds GitHub behind does not undo a retry by the operator during it', async () => {
    const tenant = await newFailing();
    const requests = await tenant.dueRequests(10);
    await retry(tenant);
    const decisions: Decision[] = [
      { kind: 'retry', seconds: 600, attempts: 4, reason: 'It failed again.', isIsolated: false },
      { kind: 'parked', seconds: null, attempts: 4, reason: 'It failed again.', isIsolated: false },
      { kind: 'wait', seconds: 600, sourceUpdatedAt: null },
      { kind: 'stale' },
      { kind: 'gone' },
    ];
    for (const decision of decisions) {
      const decided = requests.map(request => ({ request, decision }));
      await writeDecisions(service.database, tenant.id, decided);
    }
    await isNew(tenant);
  });
});

test('requests are settled also if a redelivery locks their deliveries first, which is a deadlock', async () => {
  const tenant = await world.newTenant();
  const pullRequest = tenant.web.openPullRequest();
  const delivery = deliveryOf(tenant, pullRequest.id);
  await takePullRequestDeliveries(
    service.database,
    [{ ...delivery, pullRequest: { ...delivery.pullRequest, nodeId: pullRequest.nodeId } }],
    60,
  );
  await addTrigger(executor, 'before delete on sync_requests for each row', 'perform pg_advisory_xact_lock_shared(1)');
  const gate = await openTransaction(world, 'select pg_advisory_xact_lock(1)');
  const syncing = tenant.sync(pullRequest);
  await waitUntil(async () => (await lockWaits(service)) === 1);
  // A session that has waited this long looks for a deadlock, once, and is cancelled if there is one: settling.
  const redelivery = await openTransaction(world, "set local deadlock_timeout = '1min'");
  await redelivery.query('update webhook_deliveries set ticket = ticket where guid = $1', [delivery.guid]);
  const redelivering = redelivery.query('update sync_requests set is_background = false where github_id = $1', [
    pullRequest.id,
  ]);
  await waitUntil(async () => (await lockWaits(service)) === 2);
  await gate.query('rollback');
  await redelivering;
  await redelivery.query('commit');
  expect(await syncing).toEqual(['saved']);
  expect(await tenant.waitingSyncs()).toEqual([]);
});

test('if more sync requests are due than fit into a fetch, candidates go first, then the oldest of webhooks', async () => {
  const tenant = await world.newTenant();
  await executor.execute(sql`
    insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at, is_background, is_candidate)
    select ${tenant.id}::uuid, number, 'PR_' || number, 1, now() - make_interval(secs => number % 100),
      number > 300, number > 300
    from generate_series(1, 301) as number`);
  const due = await tenant.dueRequests(7);
  expect(due.map(({ githubId }) => githubId % 100).toSorted()).toEqual([1, 98, 98, 98, 99, 99, 99]);
});

test('a name from an earlier fetch gives way to a later one that was saved in between', async () => {
  const { organisation } = await world.newTenant();
  const { database } = service;
  const save = (ticket: number, name: string) =>
    database.transaction(executor =>
      saveRepositories(executor, organisation.id, ticket, [{ githubId: 1, nodeId: 'R_1', name }]),
    );
  await save(1, 'acme/before');
  const lock = await openSave(world, { organisation });
  // It has read the former name, and waits to change it.
  const saving = save(2, 'acme/earlier');
  await waitUntil(async () => (await lockWaits(service)) === 1);
  await lock.query("update repositories set name = 'acme/later', fetch_ticket = 3 where organisation_id = $1", [
    organisation.id,
  ]);
  await lock.query('commit');
  expect((await saving).get(1)?.name).toBe('acme/later');
});

describe('a delivery', () => {
  test('goes to the organisation with its id, not to one that has taken its login', async ({ tenant }) => {
    await tenant.update({ login: `former-${tenant.acme.login}` });
    const squatter = await createTenant(service, { login: tenant.acme.login });
    expect(await takePullRequestDeliveries(service.database, [deliveryOf(tenant, 5)], 60)).toEqual(['taken']);
    const rows = await executor.select().from(syncRequests);
    expect(rows.map(({ organisationId }) => organisationId)).toEqual([tenant.id]);
    expect(squatter.organisation.id).not.toBe(tenant.id);
  });

  test('that is stored late does not lower the ticket of its sync request', async ({ tenant }) => {
    const [late, early] = [deliveryOf(tenant, 7), deliveryOf(tenant, 7)];
    const lock = await openTransaction(
      world,
      `insert into webhook_deliveries (organisation_id, guid, event, action, state, ticket)
        values ($1, $2, 'pull_request', 'edited', 'pending', 0)`,
      [tenant.id, late.guid],
    );
    // It has drawn its ticket, and waits to see whether its GUID exists.
    const waiting = takePullRequestDeliveries(service.database, [late], 60);
    await waitUntil(async () => (await lockWaits(service)) === 1);
    await takePullRequestDeliveries(service.database, [early], 60);
    const [before] = await tenant.waitingSyncs();
    await lock.query('rollback');
    expect(await waiting).toEqual(['taken']);
    const [after] = await tenant.waitingSyncs();
    expect(after?.ticket).toBe(before?.ticket);
    const [row] = await executor.select().from(webhookDeliveries).where(eq(webhookDeliveries.guid, late.guid));
    expect(row?.ticket).toBeLessThan(before?.ticket ?? 0);
  });
});
