import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { countOutdated } from '../../src/database/backlog.ts';
import { CommitUnknown } from '../../src/database/driver-errors.ts';
import { createFactsReader } from '../../src/database/facts.ts';
import { leaseRanges, readRange, requestRescoring, splitRemainder } from '../../src/database/rescore-ranges.ts';
import { pullRequests, rescoreRanges, rulesets } from '../../src/database/schema.ts';
import { newId } from '../../src/ids.ts';
import { requireBuild, startForTest } from '../commands/support.ts';
import { startProxy } from '../support/proxy.ts';
import { rescoreAll, rescoreBatch } from '../support/rescore.ts';
import { closing } from '../support/service.ts';
import {
  countReads,
  figureOf,
  lockWaits,
  openSave,
  rule,
  type SyncTenant,
  startSyncWorld,
  waitUntil,
  wholeRange,
} from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

async function summary({ id }: SyncTenant) {
  const { rows } = await executor.execute<{ score: number; version: number; count: number }>(sql`
    select score, ruleset_version as version, count(*)::int as count from pull_requests
    where organisation_id = ${id} group by 1, 2 order by 1, 2`);
  return rows;
}

describe('scores', () => {
  test('and their breakdown come from the ruleset in force when they are saved', async ({ tenant }) => {
    const pullRequest = await tenant.openStored({ additions: 40, deletions: 2 });
    expect(await tenant.stored(pullRequest)).toMatchObject({
      score: 0,
      scoreBreakdown: '[]',
      rulesetVersion: 0,
    });
    await tenant.apply(rule('size / 4', 'size > 10', 'Size'), rule('100', 'merged', 'Merged'));
    await tenant.sync(pullRequest);
    const after = await tenant.stored(pullRequest);
    expect(after).toMatchObject({ score: 11, rulesetVersion: 1 });
    expect(JSON.parse(after?.scoreBreakdown ?? '')).toEqual([
      { name: 'Size', action: 'ADD', effect: 11, expression: 'size > 10' },
    ]);
  });

  test('have a history of their changes, and of nothing else', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest({ additions: 5 });
    await tenant.apply(rule('additions'));
    await tenant.sync(pullRequest);
    await tenant.sync(pullRequest);
    world.github.clock.advance(1);
    pullRequest.push({ additions: 2 });
    await tenant.sync(pullRequest);
    pullRequest.edit({ title: 'of no weight' });
    await tenant.sync(pullRequest);
    await tenant.scoreBy(rule('additions * 2'));
    await tenant.scoreBy(rule('additions + additions'));
    await tenant.scoreBy();
    expect(await tenant.scoreHistory()).toEqual([
      'null → 5 (pull_request, 1)',
      '5 → 7 (pull_request, 1)',
      '7 → 14 (ruleset, 2)',
      '14 → 0 (ruleset, 4)',
    ]);
  });
});

describe('re-scoring', () => {
  test('does not touch or record a row whose score stays the same', async ({ tenant }) => {
    await tenant.newStored(3);
    await tenant.scoreBy(rule('additions', 'true', 'Size'));
    await tenant.apply(rule('additions', 'true', 'Size'), rule('1', 'merged', 'Merged'));
    expect(await tenant.rescore()).toBe(3);
    expect(await summary(tenant)).toEqual([{ score: 3, version: 1, count: 3 }]);
    expect(await countOutdated(executor, tenant.id)).toBe(0);
  });

  test('a pull request that is fetched after new rules no longer counts as outdated', async ({ tenant }) => {
    const { database } = service;
    const [first, second, third] = tenant.open(3);
    const outdated = () => countOutdated(database.executor, tenant.id);
    for (const each of [first, second, third]) await tenant.sync(each);
    await tenant.apply(rule('1'));
    expect(await outdated()).toBe(3);
    await tenant.sync(first);
    expect(await outdated()).toBe(2);
    await database.transaction(executor => splitRemainder(executor, tenant.id));
    await tenant.sync(second);
    expect(await outdated()).toBe(1);
    expect(await tenant.rescore()).toBe(3);
    expect(await outdated()).toBe(0);
  });

  test('leaves each row on its page, so that it changes no index', async ({ tenant }) => {
    // Rows of a usual length: the first breakdown of a short one would be a large part of it.
    await tenant.newStored(200, 'x'.repeat(1_000));
    const findPages = async () => {
      const { rows } = await executor.execute(sql`
        select id, (ctid::text::point)[0] as page from pull_requests
        where organisation_id = ${tenant.id} order by id`);
      return rows;
    };
    const before = await findPages();
    await tenant.scoreBy(rule('additions'));
    expect(await summary(tenant)).toEqual([{ score: 3, version: 1, count: 200 }]);
    expect(await findPages()).toEqual(before);
  });

  test('is shared by two replicas that start at once, and each pull request is scored and recorded once', async () => {
    const tenant = await world.newTenant();
    const replica = await world.replica();
    await tenant.newStored(8_001);
    await tenant.apply(rule('additions'));
    const shares = await Promise.all([service, replica].map(deps => rescoreBatch(deps, tenant.id)));
    for (const share of shares) expect(share).toBeGreaterThan(0);
    const rest = await Promise.all([service, replica].map(deps => rescoreAll(deps, tenant.id)));
    expect([...shares, ...rest].reduce((sum, share) => sum + share)).toBe(8_001);
    expect(await summary(tenant)).toEqual([{ score: 3, version: 1, count: 8_001 }]);
    const history = await tenant.scoreHistory();
    expect(history.filter(entry => entry === '0 → 3 (ruleset, 1)')).toHaveLength(8_001);
  });

  describe('leases', () => {
    /** An organisation with ten batches. */
    async function withBatches() {
      const { id: organisationId } = await world.newTenant();
      const batches = Array.from({ length: 10 }, () => ({ fromId: newId(), isBatch: true, ticket: 0 }));
      await executor.insert(rescoreRanges).values(batches.map(each => ({ organisationId, ...each })));
      return (on = executor) => leaseRanges(on, organisationId, 8);
    }

    test('skip batches that another replica scores, until its lease ends', async () => {
      const lease = await withBatches();
      const leased = await service.database.transaction(async executor => {
        const first = await lease(executor);
        // Does not wait for the transaction of the first one.
        return [...first, ...(await lease())];
      });
      leased.push(...(await lease()));
      expect(new Set(leased.map(({ fromId }) => fromId)).size).toBe(10);
      expect(await lease()).toEqual([]);
      // As if the workers had been killed a while ago.
      await executor.update(rescoreRanges).set({ leasedUntil: sql`now() - interval '1 second'` });
      expect(await lease()).toHaveLength(4);
    });

    test('take four batches at a time, with any query plan', async () => {
      const lease = await withBatches();
      for (const setting of ['on', 'off']) {
        await service.database.transaction(async executor => {
          for (const way of [
            'enable_hashjoin',
            'enable_mergejoin',
            'enable_hashagg',
            'enable_material',
            'enable_sort',
          ]) {
            await executor.execute(sql.raw(`set local ${way} = ${setting}`));
          }
          expect(await lease(executor)).toHaveLength(4);
        });
      }
      expect(await lease()).toHaveLength(2);
    });
  });

  test('splits batches once: a replica that comes meanwhile waits, and finds them', async ({ tenant }) => {
    await tenant.newStored(2);
    await tenant.apply(rule('additions'));
    const { database } = service;
    let attempts = 0;
    let waiting: Promise<void> | undefined;
    await database.transaction(async executor => {
      await splitRemainder(executor, tenant.id);
      waiting = database.transaction(another => {
        attempts += 1;
        return splitRemainder(another, tenant.id);
      });
      await waitUntil(async () => (await lockWaits(service)) === 1);
    });
    await waiting;
    expect(attempts).toBe(1);
    expect(await tenant.rescore()).toBe(2);
  });

  test('stale scores are counted ten thousand in a statement, however many there are', async ({ tenant }) => {
    await tenant.newStored(10_001);
    await tenant.apply(rule('additions'));
    const counts = await countReads(service.database, async executor =>
      expect(await countOutdated(executor, tenant.id)).toBe(10_001),
    );
    expect(counts).toEqual([10_000, 1]);
  });

  test('does not wait for saves', async ({ tenant }) => {
    await tenant.newStored(2);
    await tenant.apply(rule('additions'));
    await openSave(world, tenant);
    expect(await tenant.rescore()).toBe(2);
  });

  test('continues at the point where a worker was killed, and records each change once', async ({ tenant }) => {
    requireBuild();
    await tenant.newStored(6_000);
    await tenant.apply(rule('additions'));
    const { database } = service;
    const outdated = () => countOutdated(database.executor, tenant.id);
    for (const left of [5_500, 0]) {
      const worker = startForTest({ DATABASE_URL: database.url, RECONCILE_INTERVAL: '0' }, 'worker');
      while ((await outdated()) > left) await delay(Math.random() * 50);
      worker.child.kill('SIGKILL');
      await worker.ended;
    }
    expect(await summary(tenant)).toEqual([{ score: 3, version: 1, count: 6_000 }]);
    const history = await tenant.scoreHistory();
    expect(history.filter(entry => entry === '0 → 3 (ruleset, 1)')).toHaveLength(6_000);
  });

  test('that never ends on three replicas holds up neither a deletion nor new rules', async ({ tenant }) => {
    const replicas = [service, await world.replica(), await world.replica()];
    await tenant.newStored(2_000);
    const [first] = await tenant.storedPullRequests();
    await tenant.apply(rule('additions'));
    let over = false;
    let rounds = 0;
    // There is always more to do, so somebody is always scoring.
    const working = replicas.map(async replica => {
      while (!over) {
        if ((await rescoreBatch(replica, tenant.id)) > 0) continue;
        rounds += 1;
        await replica.database.transaction(executor => requestRescoring(executor, tenant.id));
      }
    });
    try {
      while (rounds === 0) await delay(1);
      await tenant.remove(first?.id);
      await tenant.apply(rule('additions + 1'));
    } finally {
      over = true;
      await Promise.all(working);
    }
    await tenant.rescore();
    expect(await summary(tenant)).toEqual([{ score: 4, version: 2, count: 1_999 }]);
  });

  test('splits off twenty batches, which have an end, and new rules replace them and the remainder', async () => {
    const tenant = await world.newTenant();
    await tenant.newStored(20_001);
    await tenant.apply(rule('additions'));
    const ranges = (on = executor) => on.select().from(rescoreRanges).where(tenant.owns(rescoreRanges));
    let applying: Promise<unknown> | undefined;
    await service.database.transaction(async executor => {
      await splitRemainder(executor, tenant.id);
      const split = await ranges(executor);
      expect(split.filter(({ isBatch }) => isBatch)).toHaveLength(20);
      expect(split.filter(({ untilId }) => untilId === null)).toMatchObject([{ isBatch: false }]);
      // To count what is left, each pull request is read once.
      await executor.execute(sql`set local enable_seqscan = off`);
      const read = sql`sum(idx_tup_fetch) filter (where relname = 'pull_requests')`;
      const before = await figureOf(executor, read);
      expect(await countOutdated(executor, tenant.id)).toBe(20_001);
      expect((await figureOf(executor, read)) - before).toBe(20_001);
      applying ??= tenant.apply(rule('additions + 1'));
      await expect.poll(() => lockWaits(service)).toBe(1);
    });
    await applying;
    expect(await ranges()).toMatchObject([{ isBatch: false, untilId: null }]);
  });

  test('takes any organisation with stale scores that others are not working on', async () => {
    await executor.delete(rescoreRanges);
    for (let others = 0; others < 5; others += 1) {
      const { id: organisationId } = await world.newTenant();
      await executor.insert(rescoreRanges).values({
        organisationId,
        fromId: newId(),
        untilId: null,
        isBatch: true,
        ticket: 0,
        leasedUntil: new Date(Date.now() + 60_000),
      });
    }
    const tenant = await world.newTenant();
    await tenant.newStored(2);
    await tenant.scoreBy(rule('additions'));
    expect(await summary(tenant)).toEqual([{ score: 3, version: 1, count: 2 }]);
  });

  test('reports a stored rule once if it is not valid, and scores by the rest', async ({ tenant }) => {
    await tenant.newStored(3);
    await tenant.apply(rule('additions'), rule('5', 'title.length > 3', 'Not valid any more'));
    service.complaints.length = 0;
    await tenant.rescore();
    expect(await summary(tenant)).toEqual([{ score: 3, version: 1, count: 3 }]);
    const reports = service.complaints.filter(({ msg }) => msg.startsWith('a stored rule is no longer valid'));
    expect(reports).toHaveLength(1);
    expect(reports[0]?.msg).toContain('Not valid any more');
  });

  test('under a ruleset without any valid rule gives zero', async ({ tenant }) => {
    await tenant.newStored(1);
    await tenant.apply(rule('additions'));
    await executor
      .update(rulesets)
      .set({
        rules: [{ ...rule('1'), logic: [{ expression: 'true', effect: { action: 'ADD', value: 'eval("1")' } }] }],
      })
      .where(tenant.owns(rulesets));
    await tenant.rescore();
    expect(await summary(tenant)).toEqual([{ score: 0, version: 0, count: 1 }]);
  });
});

test('no score ever mixes versions while rules change under syncs and re-scoring on three replicas', async () => {
  const tenant = await world.newTenant();
  const replicas = [service, await world.replica(), await world.replica()];
  const opened = tenant.open(12);
  await tenant.sync(...opened);
  const versionRule = (version: number) => rule(String(version), 'true', `version ${version}`);
  let over = false;
  const repeatedly = async (work: () => Promise<unknown>) => {
    while (!over) await work();
  };
  const mixed = sql<number>`count(*) filter (where score <> ruleset_version
    or (ruleset_version > 0 and score_breakdown->0->>'name' <> 'version ' || ruleset_version)
    or json_array_length(score_breakdown) <> least(1, ruleset_version))::int`;
  const found: number[] = [];
  const background = [
    ...replicas.map((replica, index) =>
      repeatedly(() => tenant.on(replica).sync(...opened.slice(index * 3, index * 3 + 6))),
    ),
    ...replicas.map(replica => repeatedly(() => rescoreBatch(replica, tenant.id))),
    repeatedly(async () => {
      const [row] = await executor.select({ mixed }).from(pullRequests).where(tenant.owns(pullRequests));
      found.push(row?.mixed ?? -1);
    }),
  ];
  try {
    for (let version = 1; version <= 10; version += 1) await tenant.apply(versionRule(version));
  } finally {
    over = true;
    await Promise.all(background);
  }
  await tenant.rescore();
  expect(new Set(found)).toEqual(new Set([0]));
  expect(await summary(tenant)).toEqual([{ score: 10, version: 10, count: 12 }]);
  const ends = (await tenant.storedPullRequests()).map(({ scoreBreakdown }) => scoreBreakdown);
  expect(new Set(ends).size).toBe(1);
});

test('rules whose commit gets no reply are not called applied, and a second try applies them once', async () => {
  const tenant = await world.newTenant();
  const proxy = closing(await startProxy(service.database.url));
  const replica = await world.replica(proxy.through(service.database.url));
  const attempt = () => tenant.on(replica).apply(rule('1'), rule('2'));
  proxy.loseReplyTo('commit\0');
  await expect(attempt()).rejects.toThrow(CommitUnknown);
  expect((await attempt()).version).toBe(1);
  expect((await tenant.rowsOf(rulesets)).map(({ version }) => version)).toEqual([1]);
});

test('text in rules that PostgreSQL cannot hold is replaced', async ({ tenant }) => {
  const pullRequest = tenant.web.openPullRequest();
  const hostile = { ...rule('4', 'title != "\0\ud800"', 'Hostile'), description: 'nul \0 and lone \ud800' };
  await tenant.apply(hostile);
  expect(await tenant.sync(pullRequest)).toEqual(['saved']);
  expect((await tenant.stored(pullRequest))?.score).toBe(4);
  await tenant.apply(hostile);
  expect((await tenant.stored(pullRequest))?.rulesetVersion).toBe(1);
});

test('of long breakdowns a rescoring reads digests, and leaves rows alone whose breakdown stays the same', async () => {
  const tenant = await world.newTenant();
  const long = (value: string) =>
    Array.from({ length: 20 }, (_, index) => rule(value, `title != "→${'x'.repeat(150)}"`, `Long ${index}`));
  await tenant.apply(...long('1'));
  await tenant.newStored(3);
  const rows = async () => {
    const { rows } = await executor.execute<{ version: string; bytes: number }>(sql`
      select xmin::text as version, octet_length(score_breakdown::text) as bytes from pull_requests
      where organisation_id = ${tenant.id} order by id`);
    return rows;
  };
  const before = await rows();
  expect(before[0]?.bytes).toBeGreaterThan(4_000);
  const { value: step } = await readRange(executor, tenant.id, wholeRange, createFactsReader(['title'])).next();
  expect([...(step ?? [])].map(({ breakdown }) => breakdown)).toEqual(Array(3).fill(expect.stringMatching(/^\w{32}$/)));
  await tenant.apply(...long('1'));
  expect(await rescoreBatch(service, tenant.id)).toBe(3);
  expect(await rows()).toEqual(before);
  await tenant.apply(...long('2'));
  expect(await rescoreBatch(service, tenant.id)).toBe(3);
  expect((await tenant.storedPullRequests()).map(({ score }) => score)).toEqual([40, 40, 40]);
});

test('steps of large facts are larger while these are small', async ({ tenant }) => {
  await tenant.newStored(260);
  const sizesOf = async (characters: number) => {
    await executor.execute(sql`
      update pull_requests set body = repeat('x', ${characters}) where organisation_id = ${tenant.id}`);
    const sizes: number[] = [];
    for await (const step of readRange(executor, tenant.id, wholeRange, createFactsReader(['body']))) {
      sizes.push([...step].length);
    }
    return sizes;
  };
  expect(await sizesOf(10)).toEqual([100, 160]);
  expect(await sizesOf(200_000)).toEqual([100, 79, 79, 2]);
});
