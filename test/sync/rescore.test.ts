import { setTimeout as delay } from 'node:timers/promises';
import { eq, sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { CommitUnknown } from '../../src/database/driver-errors.ts';
import { createFactsReader } from '../../src/database/facts.ts';
import {
  countOutdated,
  leaseRanges,
  readRange,
  requestRescoring,
  splitRemainder,
} from '../../src/database/rescore-ranges.ts';
import { pullRequests, rescoreRanges, rulesets } from '../../src/database/schema.ts';
import { newId } from '../../src/ids.ts';
import { requireBuild, startForTest } from '../commands/support.ts';
import { startProxy } from '../support/proxy.ts';
import { rescoreAll, rescoreBatch } from '../support/rescore.ts';
import { closing } from '../support/service.ts';
import {
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

async function summary({ organisation }: SyncTenant) {
  const { rows } = await executor.execute<{ score: number; version: number; count: number }>(sql`
    select score, ruleset_version as version, count(*)::int as count from pull_requests
    where organisation_id = ${organisation.id} group by 1, 2 order by 1, 2`);
  return rows;
}

describe('scores', () => {
  test('and their breakdown come from the ruleset in force when they are saved', async ({ home }) => {
    const pullRequest = await home.openStored({ additions: 40, deletions: 2 });
    expect(await home.stored(pullRequest)).toMatchObject({
      score: 0,
      scoreBreakdown: '[]',
      rulesetVersion: 0,
    });
    await home.apply(rule('size / 4', 'size > 10', 'Size'), rule('100', 'merged', 'Merged'));
    await home.sync(pullRequest);
    const after = await home.stored(pullRequest);
    expect(after).toMatchObject({ score: 11, rulesetVersion: 1 });
    expect(JSON.parse(after?.scoreBreakdown ?? '')).toEqual([
      { name: 'Size', action: 'ADD', effect: 11, expression: 'size > 10' },
    ]);
  });

  test('have a history of their changes, and of nothing else', async ({ home }) => {
    const pullRequest = home.web.openPullRequest({ additions: 5 });
    await home.apply(rule('additions'));
    await home.sync(pullRequest);
    await home.sync(pullRequest);
    world.github.clock.advance(1);
    pullRequest.push({ additions: 2 });
    await home.sync(pullRequest);
    pullRequest.edit({ title: 'of no weight' });
    await home.sync(pullRequest);
    await home.scoreBy(rule('additions * 2'));
    await home.scoreBy(rule('additions + additions'));
    await home.scoreBy();
    expect(await home.scoreHistory()).toEqual([
      'null → 5 (pull_request, 1)',
      '5 → 7 (pull_request, 1)',
      '7 → 14 (ruleset, 2)',
      '14 → 0 (ruleset, 4)',
    ]);
  });
});

describe('re-scoring', () => {
  test('does not touch or record a row whose score stays the same', async ({ home }) => {
    await home.newStored(3);
    await home.scoreBy(rule('additions', 'true', 'Size'));
    await home.apply(rule('additions', 'true', 'Size'), rule('1', 'merged', 'Merged'));
    expect(await home.rescore()).toBe(3);
    expect(await summary(home)).toEqual([{ score: 3, version: 1, count: 3 }]);
    expect(await countOutdated(executor, home.organisation.id)).toBe(0);
  });

  test('a pull request that is fetched after new rules no longer counts as outdated', async ({ home }) => {
    const { database } = service;
    const [first, second, third] = home.open(3);
    const outdated = () => countOutdated(database.executor, home.organisation.id);
    for (const each of [first, second, third]) await home.sync(each);
    await home.apply(rule('1'));
    expect(await outdated()).toBe(3);
    await home.sync(first);
    expect(await outdated()).toBe(2);
    await database.transaction(executor => splitRemainder(executor, home.organisation.id));
    await home.sync(second);
    expect(await outdated()).toBe(1);
    expect(await home.rescore()).toBe(3);
    expect(await outdated()).toBe(0);
  });

  test('leaves each row on its page, so that it changes no index', async ({ home }) => {
    // Rows of a usual length: the first breakdown of a short one would be a large part of it.
    await home.newStored(200, 'x'.repeat(1_000));
    const findPages = async () => {
      const { rows } = await executor.execute(sql`
        select id, (ctid::text::point)[0] as page from pull_requests
        where organisation_id = ${home.organisation.id} order by id`);
      return rows;
    };
    const before = await findPages();
    await home.scoreBy(rule('additions'));
    expect(await summary(home)).toEqual([{ score: 3, version: 1, count: 200 }]);
    expect(await findPages()).toEqual(before);
  });

  test('is shared by two replicas that start at once, and each pull request is scored and recorded once', async () => {
    const home = await world.newTenant();
    const replica = await world.replica();
    await home.newStored(8_001);
    await home.apply(rule('additions'));
    const shares = await Promise.all([service, replica].map(deps => rescoreBatch(deps, home.organisation.id)));
    for (const share of shares) expect(share).toBeGreaterThan(0);
    const rest = await Promise.all([service, replica].map(deps => rescoreAll(deps, home.organisation.id)));
    expect([...shares, ...rest].reduce((sum, share) => sum + share)).toBe(8_001);
    expect(await summary(home)).toEqual([{ score: 3, version: 1, count: 8_001 }]);
    const history = await home.scoreHistory();
    expect(history.filter(entry => entry === '0 → 3 (ruleset, 1)')).toHaveLength(8_001);
  });

  describe('leases', () => {
    /** An organisation with ten batches. */
    async function withBatches() {
      const { organisation } = await world.newTenant();
      const batches = Array.from({ length: 10 }, () => ({ fromId: newId(), isBatch: true, ticket: 0 }));
      await executor.insert(rescoreRanges).values(batches.map(each => ({ organisationId: organisation.id, ...each })));
      return (on = executor) => leaseRanges(on, organisation.id, 8);
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

  test('splits batches once: a replica that comes meanwhile waits, and finds them', async ({ home }) => {
    await home.newStored(2);
    await home.apply(rule('additions'));
    const { database } = service;
    let attempts = 0;
    let waiting: Promise<void> | undefined;
    await database.transaction(async executor => {
      await splitRemainder(executor, home.organisation.id);
      waiting = database.transaction(another => {
        attempts += 1;
        return splitRemainder(another, home.organisation.id);
      });
      await waitUntil(async () => (await lockWaits(service)) === 1);
    });
    await waiting;
    expect(attempts).toBe(1);
    expect(await home.rescore()).toBe(2);
  });

  test('does not wait for saves', async ({ home }) => {
    await home.newStored(2);
    await home.apply(rule('additions'));
    await openSave(world, home);
    expect(await home.rescore()).toBe(2);
  });

  test('continues at the point where a worker was killed, and records each change once', async ({ home }) => {
    requireBuild();
    await home.newStored(6_000);
    await home.apply(rule('additions'));
    const { database } = service;
    const outdated = () => countOutdated(database.executor, home.organisation.id);
    for (const left of [5_500, 0]) {
      const worker = startForTest({ DATABASE_URL: database.url, RECONCILE_INTERVAL: '0' }, 'worker');
      while ((await outdated()) > left) await delay(Math.random() * 50);
      worker.child.kill('SIGKILL');
      await worker.ended;
    }
    expect(await summary(home)).toEqual([{ score: 3, version: 1, count: 6_000 }]);
    const history = await home.scoreHistory();
    expect(history.filter(entry => entry === '0 → 3 (ruleset, 1)')).toHaveLength(6_000);
  });

  test('that never ends on three replicas holds up neither a deletion nor new rules', async ({ home }) => {
    const replicas = [service, await world.replica(), await world.replica()];
    await home.newStored(2_000);
    const [first] = await home.storedPullRequests();
    await home.apply(rule('additions'));
    let over = false;
    let rounds = 0;
    // There is always more to do, so somebody is always scoring.
    const working = replicas.map(async replica => {
      while (!over) {
        if ((await rescoreBatch(replica, home.organisation.id)) > 0) continue;
        rounds += 1;
        await replica.database.transaction(executor => requestRescoring(executor, home.organisation.id));
      }
    });
    try {
      while (rounds === 0) await delay(1);
      await home.remove(first?.id);
      await home.apply(rule('additions + 1'));
    } finally {
      over = true;
      await Promise.all(working);
    }
    await home.rescore();
    expect(await summary(home)).toEqual([{ score: 4, version: 2, count: 1_999 }]);
  });

  test('splits off twenty batches, which have an end, and new rules replace them and the remainder', async () => {
    const home = await world.newTenant();
    await home.newStored(20_001);
    await home.apply(rule('additions'));
    const ranges = (on = executor) =>
      on.select().from(rescoreRanges).where(eq(rescoreRanges.organisationId, home.organisation.id));
    let applying: Promise<unknown> | undefined;
    await service.database.transaction(async executor => {
      await splitRemainder(executor, home.organisation.id);
      const split = await ranges(executor);
      expect(split.filter(({ isBatch }) => isBatch)).toHaveLength(20);
      expect(split.filter(({ untilId }) => untilId === null)).toMatchObject([{ isBatch: false }]);
      // To count what is left, each pull request is read once.
      await executor.execute(sql`set local enable_seqscan = off`);
      const read = sql`sum(idx_tup_fetch) filter (where relname = 'pull_requests')`;
      const before = await figureOf(executor, read);
      expect(await countOutdated(executor, home.organisation.id)).toBe(20_001);
      expect((await figureOf(executor, read)) - before).toBe(20_001);
      applying ??= home.apply(rule('additions + 1'));
      await expect.poll(() => lockWaits(service)).toBe(1);
    });
    await applying;
    expect(await ranges()).toMatchObject([{ isBatch: false, untilId: null }]);
  });

  test('takes any organisation with stale scores that others are not working on', async () => {
    await executor.delete(rescoreRanges);
    for (let others = 0; others < 5; others += 1) {
      const { organisation } = await world.newTenant();
      await executor.insert(rescoreRanges).values({
        organisationId: organisation.id,
        fromId: newId(),
        untilId: null,
        isBatch: true,
        ticket: 0,
        leasedUntil: new Date(Date.now() + 60_000),
      });
    }
    const home = await world.newTenant();
    await home.newStored(2);
    await home.scoreBy(rule('additions'));
    expect(await summary(home)).toEqual([{ score: 3, version: 1, count: 2 }]);
  });

  test('reports a stored rule once if it is not valid, and scores by the rest', async ({ home }) => {
    await home.newStored(3);
    await home.apply(rule('additions'), rule('5', 'title.length > 3', 'Not valid any more'));
    service.complaints.length = 0;
    await home.rescore();
    expect(await summary(home)).toEqual([{ score: 3, version: 1, count: 3 }]);
    const reports = service.complaints.filter(({ msg }) => msg.startsWith('a stored rule is no longer valid'));
    expect(reports).toHaveLength(1);
    expect(reports[0]?.msg).toContain('Not valid any more');
  });

  test('under a ruleset without any valid rule gives zero', async ({ home }) => {
    await home.newStored(1);
    await home.apply(rule('additions'));
    await executor
      .update(rulesets)
      .set({
        rules: [{ ...rule('1'), logic: [{ expression: 'true', effect: { action: 'ADD', value: 'eval("1")' } }] }],
      })
      .where(eq(rulesets.organisationId, home.organisation.id));
    await home.rescore();
    expect(await summary(home)).toEqual([{ score: 0, version: 0, count: 1 }]);
  });
});

test('no score ever mixes versions while rules change under syncs and re-scoring on three replicas', async () => {
  const home = await world.newTenant();
  const replicas = [service, await world.replica(), await world.replica()];
  const opened = home.open(12);
  await home.sync(...opened);
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
      repeatedly(() => home.on(replica).sync(...opened.slice(index * 3, index * 3 + 6))),
    ),
    ...replicas.map(replica => repeatedly(() => rescoreBatch(replica, home.organisation.id))),
    repeatedly(async () => {
      const [row] = await executor
        .select({ mixed })
        .from(pullRequests)
        .where(eq(pullRequests.organisationId, home.organisation.id));
      found.push(row?.mixed ?? -1);
    }),
  ];
  try {
    for (let version = 1; version <= 10; version += 1) await home.apply(versionRule(version));
  } finally {
    over = true;
    await Promise.all(background);
  }
  await home.rescore();
  expect(new Set(found)).toEqual(new Set([0]));
  expect(await summary(home)).toEqual([{ score: 10, version: 10, count: 12 }]);
  const ends = (await home.storedPullRequests()).map(({ scoreBreakdown }) => scoreBreakdown);
  expect(new Set(ends).size).toBe(1);
});

test('rules whose commit gets no reply are not called applied, and a second try applies them once', async () => {
  const home = await world.newTenant();
  const proxy = closing(await startProxy(service.database.url));
  const replica = await world.replica(proxy.through(service.database.url));
  const attempt = () => home.on(replica).apply(rule('1'), rule('2'));
  proxy.loseReplyTo('commit\0');
  await expect(attempt()).rejects.toThrow(CommitUnknown);
  expect((await attempt()).version).toBe(1);
  const versions = await executor
    .select({ version: rulesets.version })
    .from(rulesets)
    .where(eq(rulesets.organisationId, home.organisation.id));
  expect(versions).toEqual([{ version: 1 }]);
});

test('text in rules that PostgreSQL cannot hold is replaced', async ({ home }) => {
  const pullRequest = home.web.openPullRequest();
  const hostile = { ...rule('4', 'title != "\0\ud800"', 'Hostile'), description: 'nul \0 and lone \ud800' };
  await home.apply(hostile);
  expect(await home.sync(pullRequest)).toEqual(['saved']);
  expect((await home.stored(pullRequest))?.score).toBe(4);
  await home.apply(hostile);
  expect((await home.stored(pullRequest))?.rulesetVersion).toBe(1);
});

test('of long breakdowns a rescoring reads digests, and leaves rows alone whose breakdown stays the same', async () => {
  const home = await world.newTenant();
  const long = (value: string) =>
    Array.from({ length: 20 }, (_, index) => rule(value, `title != "→${'x'.repeat(150)}"`, `Long ${index}`));
  await home.apply(...long('1'));
  await home.newStored(3);
  const rows = async () => {
    const { rows } = await executor.execute<{ version: string; bytes: number }>(sql`
      select xmin::text as version, octet_length(score_breakdown::text) as bytes from pull_requests
      where organisation_id = ${home.organisation.id} order by id`);
    return rows;
  };
  const before = await rows();
  expect(before[0]?.bytes).toBeGreaterThan(4_000);
  const { value: step } = await readRange(
    executor,
    home.organisation.id,
    wholeRange,
    createFactsReader(['title']),
  ).next();
  expect([...(step ?? [])].map(({ breakdown }) => breakdown)).toEqual(Array(3).fill(expect.stringMatching(/^\w{32}$/)));
  await home.apply(...long('1'));
  expect(await rescoreBatch(service, home.organisation.id)).toBe(3);
  expect(await rows()).toEqual(before);
  await home.apply(...long('2'));
  expect(await rescoreBatch(service, home.organisation.id)).toBe(3);
  expect((await home.storedPullRequests()).map(({ score }) => score)).toEqual([40, 40, 40]);
});

test('steps of large facts are larger while these are small', async ({ home }) => {
  await home.newStored(260);
  const sizesOf = async (characters: number) => {
    await executor.execute(sql`
      update pull_requests set body = repeat('x', ${characters}) where organisation_id = ${home.organisation.id}`);
    const sizes: number[] = [];
    for await (const step of readRange(executor, home.organisation.id, wholeRange, createFactsReader(['body']))) {
      sizes.push([...step].length);
    }
    return sizes;
  };
  expect(await sizesOf(10)).toEqual([100, 160]);
  expect(await sizesOf(200_000)).toEqual([100, 79, 79, 2]);
});
