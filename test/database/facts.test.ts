import { and, eq, sql } from 'drizzle-orm';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createFactsReader, recordOf } from '../../src/database/facts.ts';
import { pullRequests, repositories } from '../../src/database/schema.ts';
import { readFacts, readSnapshot } from '../../src/database/snapshot.ts';
import { type Facts, factNames, factsOf, type SourceName } from '../../src/scoring/facts.ts';
import { startProxy } from '../support/proxy.ts';
import { insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service } = world;

const names = [...factNames, 'file_changes'] as const satisfies SourceName[];

async function readAll(organisationId: string, wanted: Iterable<SourceName>): Promise<{ id: string; facts: Facts }[]> {
  return readSnapshot(service.database, async executor => {
    const read: { id: string; facts: Facts }[] = [];
    for await (const batch of readFacts(executor, organisationId, createFactsReader(wanted))) read.push(...batch);
    return read;
  });
}

/** Facts as the rest of the service reads them. */
async function storedFacts(organisationId: string): Promise<Map<string, Facts>> {
  const rows = await service.database.executor
    .select({ pullRequest: pullRequests, repository: repositories.name })
    .from(pullRequests)
    .innerJoin(
      repositories,
      and(eq(repositories.organisationId, pullRequests.organisationId), eq(repositories.id, pullRequests.repositoryId)),
    )
    .where(eq(pullRequests.organisationId, organisationId));
  return new Map(
    rows.map(({ pullRequest, repository }) => [pullRequest.id, factsOf(recordOf(pullRequest, repository))]),
  );
}

describe('facts', () => {
  const hostile = ['', '"', '\\', ',', '{a,b}', 'NULL', 'null', 'a "b"', 'line\nbreak', '\t', '🙂', 'ñ', '[1]', 't'];

  const newer = {
    distinctReviewers: 2,
    reviewDecision: 'APPROVED',
    readyAt: 1_700_000_003,
    repositoryIsArchived: true,
    repositoryIsPrivate: true,
  };

  beforeAll(async () => {
    const ids = await insertPullRequests(service, world, [1_500_000_000, 0, 4_102_444_799]);
    await service.database.executor
      .update(pullRequests)
      .set({
        number: 2_147_483_647,
        title: hostile.join(' '),
        body: `${'long — '.repeat(9_000)}${hostile.join('|')}`,
        state: 'merged',
        draft: true,
        author: "o'brien",
        authorIsBot: true,
        base: 'NULL',
        head: '',
        fromFork: true,
        milestone: 'null',
        additions: 7,
        deletions: 5,
        createdAt: 1_700_000_000,
        sourceUpdatedAt: 1_700_000_061,
        mergedAt: 1_700_000_007,
        closedAt: 1_700_000_011,
        firstReviewAt: 1_700_000_001,
        labels: hostile,
        assignees: [''],
        files: hostile,
        fileChanges: hostile.flatMap((_, index) => [index, 2_147_483_647]),
        writerApprovals: 3,
        timesChangesRequested: 4,
        botReviews: 5,
        mergedBy: 'null',
        selfMerged: true,
        ...newer,
        factsVersion: 2,
      })
      .where(eq(pullRequests.id, ids[0] ?? ''));
    await service.database.executor
      .update(pullRequests)
      .set({ ...newer, factsVersion: 1, createdAt: 1_500_000_001 })
      .where(eq(pullRequests.id, ids[1] ?? ''));
    await insertPullRequests(service, await world.newTenant(), [1]);
  });

  test('that a release does not know are absent in what it saves during an upgrade, whatever an older fetch found', async () => {
    const all = await readAll(world.organisation.id, names);
    const factsAt = (time: number) => all.find(({ facts }) => facts.created_at === time)?.facts;
    expect(factsAt(1_700_000_000)).toMatchObject({
      distinct_reviewers: 2,
      review_decision: 'APPROVED',
      ready_at: 1_700_000_003,
      hours_from_ready_to_merge: 4 / 3600,
      repository_is_archived: true,
      repository_is_private: true,
    });
    expect(factsAt(1_500_000_001)).toMatchObject({
      distinct_reviewers: null,
      review_decision: null,
      ready_at: null,
      hours_from_ready_to_merge: null,
      repository_is_archived: false,
      repository_is_private: false,
    });
  });

  test('are the same as in the rest of the service, read one by one and all together', async () => {
    const expected = await storedFacts(world.organisation.id);
    expect(expected.size).toBe(3);
    for (const wanted of [names, ...names.map(name => [name])]) {
      const read = await readAll(world.organisation.id, wanted);
      expect(read.map(({ id }) => id).sort()).toEqual([...expected.keys()].sort());
      for (const { id, facts } of read) {
        for (const name of wanted) expect([name, facts[name]]).toEqual([name, expected.get(id)?.[name]]);
      }
    }
  });

  test('are not read if no rule needs them', () => {
    const { id } = pullRequests;
    const selectOf = (...names: SourceName[]) => createFactsReader(names).select([id], undefined).text;
    expect(selectOf()).toBe('select "id" from "pull_requests"');
    expect(selectOf('size', 'additions')).toBe('select "id", "additions", "deletions" from "pull_requests"');
    expect(selectOf('repository')).toContain('inner join "repositories"');
  });

  test('are known to be large if they have the body or the files', () => {
    expect(createFactsReader(['size', 'title']).isLarge).toBe(false);
    expect(createFactsReader(['body']).isLarge).toBe(true);
    expect(createFactsReader(['files']).isLarge).toBe(true);
    expect(createFactsReader(['file_changes']).isLarge).toBe(true);
  });
});

describe('a snapshot', () => {
  test('has 30 seconds for a statement, and a minute for a pause', async () => {
    const limits = sql`select current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout') as value`;
    const { rows } = await readSnapshot(service.database, executor => executor.execute(limits));
    expect(rows).toEqual([{ value: '30s 1min' }]);
  });

  test('ends although its connection has gone silent', async () => {
    const proxy = await startProxy(service.database.url);
    onTestFinished(() => proxy.close());
    const snapshot = { url: proxy.through(service.database.url) };
    const { rows } = await readSnapshot(snapshot, async executor => {
      const read = await executor.execute(sql`select 1 as value`);
      proxy.stall();
      return read;
    });
    expect(rows).toEqual([{ value: 1 }]);
  });

  test('fails with the next statement if its connection is lost between two', async () => {
    const failed = readSnapshot(service.database, async executor => {
      const { rows } = await executor.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`);
      const isAlive = sql`select pg_terminate_backend(pid) from pg_stat_activity where pid = ${rows[0]?.pid}`;
      await expect.poll(async () => (await service.database.executor.execute(isAlive)).rows).toEqual([]);
      await executor.execute(sql`select 1`);
    });
    await expect(failed).rejects.toThrow();
  });

  test('reads every pull request once, in many batches', async () => {
    const many = await world.newTenant();
    const ids = await insertPullRequests(service, many, 2_345);
    for (const wanted of [['number'], ['body']] as const) {
      const read = await readAll(many.organisation.id, wanted);
      expect(read.map(({ id }) => id).sort()).toEqual([...ids].sort());
    }
  });

  test('does not see later changes, and writes nothing', async () => {
    const changing = await world.newTenant();
    await insertPullRequests(service, changing, 1_500);
    const { id } = changing.organisation;
    const sizes = await readSnapshot(service.database, async executor => {
      const found: number[] = [];
      const count = () => executor.$count(pullRequests, eq(pullRequests.organisationId, id));
      expect(await count()).toBe(1_500);
      for await (const batch of readFacts(executor, id, createFactsReader(['size']))) {
        if (found.length === 0) {
          await service.database.executor.update(pullRequests).set({ additions: 1_000 });
          await insertPullRequests(service, changing, [2_000]);
        }
        for (const { facts } of batch) found.push(facts.size);
      }
      expect(await count()).toBe(1_500);
      await expect(executor.execute(sql`delete from pull_requests`)).rejects.toMatchObject({
        cause: { message: expect.stringContaining('read-only transaction') },
      });
      return found;
    });
    expect(sizes).toHaveLength(1_500);
    expect(new Set(sizes)).toEqual(new Set([2]));
  });

  test('leaves nothing behind if it fails between two batches', async () => {
    const failing = await world.newTenant();
    await insertPullRequests(service, failing, 1_500);
    const failed = readSnapshot(service.database, async executor => {
      for await (const _batch of readFacts(executor, failing.organisation.id, createFactsReader(['size']))) {
        throw new Error('of the work');
      }
    });
    await expect(failed).rejects.toThrow('of the work');
    const open = sql<{ count: number }>`select count(*)::int as count from pg_stat_activity
      where datname = current_database() and state like 'idle in transaction%'`;
    await expect
      .poll(async () => (await service.database.executor.execute<{ count: number }>(open)).rows[0]?.count)
      .toBe(0);
  });
});
