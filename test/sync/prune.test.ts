import { asc, eq, sql } from 'drizzle-orm';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { listAuditEvents } from '../../src/database/audit-log.ts';
import { addErased } from '../../src/database/erased-people.ts';
import { beginRemoval } from '../../src/database/erasure.ts';
import { moveLease, takeLease } from '../../src/database/lease.ts';
import { foldScoreChanges } from '../../src/database/old-rows.ts';
import { members, organisations, pullRequests, scoreChanges } from '../../src/database/schema.ts';
import { newId } from '../../src/ids.ts';
import { keptChanges, pruneOrganisation } from '../../src/sync/prune.ts';
import { leaseSeconds } from '../../src/sync/renew-lease.ts';
import { createRandom } from '../support/random.ts';
import { insertPullRequests } from '../support/tenants.ts';
import { addTrigger } from '../support/trigger.ts';
import { runLoops, type SyncTenant, startSyncWorld, waitUntil } from './support.ts';

const world = await startSyncWorld();
const { service, executor } = world;
let tenant: SyncTenant;
let organisationId: string;
beforeEach(async () => {
  await executor.execute(sql`truncate organisations, audit_events cascade`);
  tenant = await world.newTenant();
  organisationId = tenant.id;
});

const execute = <Row extends Record<string, unknown>>(statement: ReturnType<typeof sql>) =>
  executor.execute<Row>(statement).then(({ rows }) => rows);

const secondsUntilDue = () => tenant.secondsTo('prune_due_at');

const addDeliveries = (count: number, { age, state = 'applied' }: { age: string; state?: string }) =>
  execute(sql`
    insert into webhook_deliveries (organisation_id, guid, event, action, state, ticket, received_at)
    select ${organisationId}::uuid, gen_random_uuid(), 'pull_request', 'edited', ${state}, 0, now() - ${age}::interval
    from generate_series(1, ${count}::int)`);

const countDeliveries = () =>
  execute<{ state: string; count: number }>(
    sql`select state, count(*)::int as count from webhook_deliveries group by state order by state`,
  );

test('deliveries are deleted in batches after eight days, and those not yet applied after 90', async () => {
  await addDeliveries(12_000, { age: '8 days 1 minute' });
  await addDeliveries(6, { age: '8 days 1 minute', state: 'gone' });
  await addDeliveries(3, { age: '89 days', state: 'pending' });
  await addDeliveries(4, { age: '91 days', state: 'pending' });
  await addDeliveries(5, { age: '8 days -1 minute' });
  await addTrigger(
    executor,
    'after delete on webhook_deliveries referencing old table as gone for each statement',
    `if (select count(*) from gone) > 5000 then raise 'too many at once'; end if`,
  );
  expect(await pruneOrganisation(service)).toBe(true);
  expect(await countDeliveries()).toEqual([
    { state: 'applied', count: 5 },
    { state: 'pending', count: 3 },
  ]);
});

test("GitHub's limits are deleted once they have been over for an hour, as those of a former token", async () => {
  const add = (credential: string, blocked: string, reset: string | null) =>
    execute(sql`insert into github_limits (credential, blocked_until, reset_at)
      values (${credential}, now() + ${blocked}::interval, now() + ${reset}::interval)`);
  await add('former', '-61 minutes', '-2 hours');
  await add('former, on a server without limits', '-61 minutes', null);
  await add('blocked', '59 minutes', null);
  await add('lately blocked', '-59 minutes', '-2 hours');
  await add('in use', '-1 day', '59 minutes');
  await pruneOrganisation(service);
  const left = await execute<{ credential: string }>(sql`select credential from github_limits order by credential`);
  expect(left.map(({ credential }) => credential)).toEqual(['blocked', 'in use', 'lately blocked']);
});

describe('audit events', () => {
  const add = (action: string, age: string, of = organisationId) =>
    execute(sql`
      insert into audit_events (organisation_id, organisation, actor, action, subject, happened_at)
      values (${of}, 'acme', 'ada', ${action}, ${age}, now() - ${age}::interval)`);
  const kept = async () => (await listAuditEvents(executor, {}))?.map(({ action, subject }) => `${action} ${subject}`);

  test('of syncs are kept for 90 days, and others for three years', async () => {
    for (const age of ['89 days', '91 days', '1090 days', '1100 days']) {
      await add('pull_request.sync', age);
      await add('token.create', age);
    }
    await pruneOrganisation(service);
    expect(await kept()).toEqual([
      'token.create 1090 days',
      'token.create 91 days',
      'pull_request.sync 89 days',
      'token.create 89 days',
    ]);
  });

  test('of a removed organisation are kept until three years after its removal', async () => {
    const [long, recently] = [newId(), newId()];
    await add('organisation.add', '2000 days', long);
    await add('organisation.remove', '1100 days', long);
    await add('organisation.add', '2000 days', recently);
    await add('organisation.remove', '1090 days', recently);
    await pruneOrganisation(service);
    expect(await kept()).toEqual(['organisation.add 2000 days', 'organisation.remove 1090 days']);
  });
});

describe('the history of a score', () => {
  interface Change {
    from: number | null;
    to: number;
    at: string;
    changes?: number;
  }

  const add = (pullRequestId: string, changes: readonly Change[]) =>
    executor.insert(scoreChanges).values(
      changes.map(({ from, to, at }) => ({
        organisationId,
        pullRequestId,
        fromScore: from,
        toScore: to,
        changedAt: new Date(at),
        cause: 'ruleset' as const,
        rulesetVersion: to,
      })),
    );

  const read = async (pullRequestId: string): Promise<Change[]> => {
    const rows = await executor
      .select()
      .from(scoreChanges)
      .where(eq(scoreChanges.pullRequestId, pullRequestId))
      .orderBy(asc(scoreChanges.id));
    return rows.map(({ fromScore, toScore, changedAt, changes, rulesetVersion }) => {
      expect(rulesetVersion).toBe(toScore);
      return { from: fromScore, to: toScore, at: changedAt.toISOString().slice(0, 10), changes };
    });
  };

  /** One after the other, from the first score. */
  const chain = (start: number | null, ...days: string[]): Change[] =>
    days.map((at, index) => ({ from: index === 0 ? start : (start ?? 0) + index, to: (start ?? 0) + index + 1, at }));

  test('keeps the last twenty changes, and one row a month for those before', async () => {
    const [id = ''] = await insertPullRequests(service, tenant, [1]);
    const latest = Array<string>(20).fill('2026-05-02');
    await add(
      id,
      chain(null, '2026-01-05', '2026-01-31', '2026-02-01', '2026-04-01', '2026-04-02', '2026-04-30', ...latest),
    );
    const before = await read(id);
    await pruneOrganisation(service);
    const folded = [
      { from: null, to: 2, at: '2026-01-31', changes: 2 },
      { from: 2, to: 3, at: '2026-02-01', changes: 1 },
      { from: 3, to: 6, at: '2026-04-30', changes: 3 },
    ];
    expect(await read(id)).toEqual([...folded, ...before.slice(6)]);

    await add(id, chain(26, '2026-05-03', '2026-05-04'));
    while (await foldScoreChanges(service.database, organisationId, keptChanges));
    expect((await read(id)).slice(0, 5)).toEqual([
      ...folded,
      { from: 6, to: 8, at: '2026-05-02', changes: 2 },
      { from: 8, to: 9, at: '2026-05-02', changes: 1 },
    ]);
    await add(id, chain(28, '2026-05-05'));
    while (await foldScoreChanges(service.database, organisationId, keptChanges));
    expect((await read(id)).slice(3, 5)).toEqual([
      { from: 6, to: 9, at: '2026-05-02', changes: 3 },
      { from: 9, to: 10, at: '2026-05-02', changes: 1 },
    ]);
  });

  test('stays a chain if a transaction that began in an earlier month ended last', async () => {
    const [id = ''] = await insertPullRequests(service, tenant, [1]);
    const days = ['2026-01-31', '2026-02-01', '2026-01-31', '2026-02-02', ...Array<string>(20).fill('2026-05-02')];
    await add(id, chain(0, ...days));
    await pruneOrganisation(service);
    expect((await read(id)).slice(0, 3)).toEqual([
      { from: 0, to: 1, at: '2026-01-31', changes: 1 },
      { from: 1, to: 4, at: '2026-02-02', changes: 3 },
      { from: 4, to: 5, at: '2026-05-02', changes: 1 },
    ]);
  });

  test('stays complete while two replicas fold it and changes come in', async () => {
    const ids = await insertPullRequests(service, tenant, [1, 2, 3]);
    const random = createRandom(7);
    const day = (index: number) => new Date(Date.UTC(2020, 0, 1 + index * 5)).toISOString();
    let count = 0;
    for (let round = 0; round < 12; round += 1) {
      const added = 1 + Math.floor(random() * 25);
      const days = Array.from({ length: added }, (_, index) => day(count + index));
      const adding = ids.map(id => add(id, chain(count === 0 ? null : count, ...days)));
      const folding = [1, 2].map(() => foldScoreChanges(service.database, organisationId, keptChanges));
      await Promise.all([...adding, ...folding]);
      count += added;
    }
    await foldScoreChanges(service.database, organisationId, keptChanges);
    for (const id of ids) {
      const rows = await read(id);
      expect(rows.map(({ from }) => from)).toEqual([null, ...rows.slice(0, -1).map(({ to }) => to)]);
      expect(rows.at(-1)?.to).toBe(count);
      for (const { from, to, changes } of rows) expect(changes).toBe(to - (from ?? 0));
      const months = rows.slice(0, -20).map(({ at }) => at.slice(0, 7));
      expect(new Set(months).size).toBe(months.length);
      expect(rows.slice(-20).every(({ changes }) => changes === 1)).toBe(true);
    }
  });

  test('many score histories are folded in steps, which continue at the point that a replica reached', async () => {
    const ids = await insertPullRequests(service, tenant, Array<number>(1_200).fill(1));
    const changes = chain(0, ...Array<string>(22).fill('2026-01-05'));
    for (let start = 0; start < ids.length; start += 400) {
      const some = ids.slice(start, start + 400);
      await execute(sql`
        insert into score_changes (organisation_id, pull_request_id, from_score, to_score, cause, ruleset_version)
        select ${organisationId}::uuid, id, n - 1, n, 'ruleset', n
        from unnest(${sql.param(some)}::uuid[]) as id, generate_series(1, ${changes.length}::int) as n order by n`);
    }
    const countFolded = async () =>
      (await execute<{ count: number }>(sql`select count(*)::int as count from score_changes where changes > 1`))[0]
        ?.count;
    expect(await foldScoreChanges(service.database, organisationId, keptChanges)).toBe(true);
    expect(await countFolded()).toBe(500);
    expect(await foldScoreChanges(service.database, organisationId, keptChanges)).toBe(true);
    expect(await countFolded()).toBe(1_000);
    expect(await foldScoreChanges(service.database, organisationId, keptChanges)).toBe(false);
    expect(await countFolded()).toBe(1_200);
    expect((await tenant.row()).foldedId).toBeNull();
  });
});

describe('an organisation', () => {
  test('one replica prunes an organisation as soon as the service starts, and again after an hour', async () => {
    await addDeliveries(1, { age: '9 days' });
    const loops = [runLoops(service), runLoops(service)];
    await waitUntil(async () => (await countDeliveries()).length === 0);
    const isDueInAnHour = sql`prune_due_at between now() + interval '59 minutes' and now() + interval '1 hour'`;
    await waitUntil(async () => (await execute(sql`select 1 from organisations where ${isDueInAnHour}`)).length === 1);
    // Otherwise one of them could be faster than this test.
    await Promise.all(loops.map(each => each.stop()));
    expect(await pruneOrganisation(service)).toBe(false);
    await execute(sql`update organisations set prune_due_at = now()`);
    expect(await pruneOrganisation(service)).toBe(true);
  });

  test('the replica that took over an organisation to prune keeps it, whatever the former one does', async () => {
    const former = await takeLease(executor, 'pruneDueAt', leaseSeconds);
    await execute(sql`update organisations set prune_due_at = now()`);
    const present = await takeLease(executor, 'pruneDueAt', leaseSeconds);
    if (former === undefined || present === undefined) throw new Error('it was not due');
    await moveLease(executor, former, 3_600);
    expect(await secondsUntilDue()).toBeLessThanOrEqual(8);
    await moveLease(executor, present, 3_600);
    expect(await secondsUntilDue()).toBeGreaterThan(59 * 60);
  });

  test('a replica leaves an organisation alone while another one prunes it, which renews its lease', async () => {
    await addDeliveries(1, { age: '9 days' });
    const leasedUntil = async () => (await tenant.row()).pruneDueAt;
    const replica = await world.replica();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const before = await leasedUntil();
    let pruning: Promise<boolean> | undefined;
    await service.database.transaction(async executor => {
      await executor.execute(sql`lock table webhook_deliveries`);
      pruning = pruneOrganisation(replica);
      await waitUntil(async () => (await leasedUntil()) > before);
      expect(await pruneOrganisation(service)).toBe(false);
      const first = await leasedUntil();
      vi.advanceTimersByTime((leaseSeconds * 1_000) / 2);
      await waitUntil(async () => (await leasedUntil()) > first);
      expect(await pruneOrganisation(service)).toBe(false);
    });
    expect(await pruning).toBe(true);
    expect(await countDeliveries()).toEqual([]);
  });

  test.each([
    [
      'a removal',
      () => service.database.transaction(each => beginRemoval(each, organisationId)),
      async () => (await executor.$count(organisations)) === 0,
    ],
    [
      'an erasure',
      () => addErased(executor, organisationId, tenant.ada.id),
      async () => (await executor.$count(members)) === 0,
    ],
  ])('a replica that stops leaves the rest of %s to others, at once', async (_, begin, isDone) => {
    await tenant.openStored();
    await begin();
    expect(await pruneOrganisation(service, AbortSignal.abort())).toBe(true);
    expect(await executor.$count(pullRequests)).toBe(1);
    expect(await pruneOrganisation(service)).toBe(true);
    expect(await isDone()).toBe(true);
  });

  test('pruning is due again a minute after a failure, or at once if the replica stopped', async () => {
    await execute(sql`alter table webhook_deliveries rename to lost`);
    await expect(pruneOrganisation(service)).rejects.toThrow();
    await execute(sql`alter table lost rename to webhook_deliveries`);
    expect(await secondsUntilDue()).toBeGreaterThan(50);
    expect(await secondsUntilDue()).toBeLessThanOrEqual(60);
    await execute(sql`update organisations set prune_due_at = now()`);
    await addDeliveries(1, { age: '9 days' });
    expect(await pruneOrganisation(service, AbortSignal.abort())).toBe(true);
    expect(await countDeliveries()).toHaveLength(1);
    expect(await secondsUntilDue()).toBeLessThanOrEqual(0);
  });
});

describe('the feed of changes', () => {
  const addEntries = (count: number, { age, above = '0' }: { age: string; above?: string }) =>
    execute(sql`
      insert into changes (organisation_id, transaction, from_id, until_id, recorded_at)
      select ${organisationId}::uuid, (${above}::int + (number + 9) / 10)::text::xid8, id, id, now() - ${age}::interval
      from (select number, gen_random_uuid() as id from generate_series(1, ${count}::int) as number) as added`);

  const entries = () =>
    execute<{ transaction: string }>(
      sql`select transaction::text from changes where organisation_id = ${organisationId} order by changes.transaction`,
    ).then(rows => rows.map(({ transaction }) => Number(transaction)));

  test('is kept from the last entry on that is older than 30 days', async () => {
    // More than one statement deletes, with an id for each ten: ids of transactions are still low in this database.
    await addEntries(6_000, { age: '30 days 1 minute' });
    await addEntries(3, { age: '30 days -1 minute', above: '700' });
    await pruneOrganisation(service);
    expect(await entries()).toEqual([600, 701, 701, 701]);
  });

  test('loses what came with a copy of a database where ids of transactions were higher', async () => {
    const [now] = await execute<{ id: string }>(sql`select pg_current_xact_id()::text as id`);
    await addEntries(6_000, { age: '31 days', above: `${Number(now?.id) + 1_000_000}` });
    await addEntries(2, { age: '1 minute' });
    await pruneOrganisation(service);
    expect(await entries()).toEqual([1, 1]);
  });
});
