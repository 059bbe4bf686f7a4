import { expect, onTestFinished, vi } from 'vitest';
import type { Executor } from '../../src/database/client.ts';
import { addErased } from '../../src/database/erased-people.ts';
import { requestRescoring, splitRemainder } from '../../src/database/rescore-ranges.ts';
import { applyRuleset } from '../../src/database/rules.ts';
import { pullRequests, repositories, rescoreRanges } from '../../src/database/schema.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { rescoreBatch } from '../support/rescore.ts';
import { rule, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

/** A rule whose entries read the whole description and match nothing, and one that counts. */
const expensiveRules = (entries: number): RuleDefinition[] => [
  ...Array.from({ length: entries / 50 }, (_, index) =>
    rule('1', 'matches(body, "a.{20}c")', `Expensive ${index}`, 50),
  ),
  rule('additions'),
];

const bits = Array.from({ length: 400 }, (_, index) => ((index * 2_654_435_761) >>> 16) & 1);
const body = bits.map(bit => (bit === 1 ? 'a' : 'b')).join('');

type Change = (executor: Executor, tenant: SyncTenant) => Promise<unknown>;

const replaceRules = (executor: Executor, { id }: SyncTenant, ...rules: RuleDefinition[]) =>
  applyRuleset(executor, id, { definitions: [], reviews: [], rules, source: '' });

test('a rescoring batch that runs out of time leaves the rest of its range to any worker', async ({ tenant }) => {
  await tenant.newStored(300);
  const { id } = tenant.organisation;
  await executor.update(pullRequests).set({ body }).where(tenant.owns(pullRequests));
  await tenant.apply(...expensiveRules(990));
  const scored = await rescoreBatch(service, id);
  expect(scored).toBeGreaterThan(0);
  expect(scored).toBeLessThan(300);
  const ids = (await tenant.storedPullRequests()).map(each => each.id).sort();
  expect(await tenant.rowsOf(rescoreRanges)).toMatchObject([
    { fromId: ids[scored], untilId: null, isBatch: true, leasedUntil: null },
  ]);
  const changes = await tenant.scoreHistory();
  expect(changes.filter(change => change === '0 → 3 (ruleset, 1)')).toHaveLength(scored);
});

test('a rescoring batch with much to save ends early', async ({ tenant }) => {
  await tenant.newStored(900);
  await tenant.apply(rule('1', 'true', 'n'.repeat(200), 50));
  expect(await rescoreBatch(service, tenant.id)).toBeLessThan(900);
});

test.each([
  ['the rules change', (executor, tenant) => replaceRules(executor, tenant, rule('5')), '0 → 5 (ruleset, 2)'],
  [
    'a repository is renamed',
    async (executor, tenant) => {
      await executor.update(repositories).set({ name: 'acme/site' }).where(tenant.owns(repositories));
      await requestRescoring(executor, tenant.id, { urlsStale: true });
    },
    '0 → 9 (ruleset, 1)',
  ],
] satisfies [string, Change, string][])(
  'scores are discarded if %s while they are calculated',
  async (_, change, expected) => {
    const tenant = await world.newTenant();
    await tenant.newStored(3);
    await tenant.apply(rule('9', 'ends_with(repository, "/site")'), rule('1', 'ends_with(repository, "/web")'));
    const { database } = service;
    await database.transaction(executor => splitRemainder(executor, tenant.id));
    const rescore = () => rescoreBatch(service, tenant.id);
    const scored = await tenant.duringSave(rescore, async executor => {
      expect(await tenant.rowsOf(rescoreRanges)).toMatchObject([{ leasedUntil: expect.any(Date) }]);
      await change(executor, tenant);
    });
    expect(scored).toBe(3);
    expect(await tenant.rowsOf(rescoreRanges)).toEqual([]);
    const history = await tenant.scoreHistory();
    expect(history.filter(entry => entry.includes('ruleset'))).toEqual(Array.from({ length: 3 }, () => expected));
  },
);

test('stored rules that are over a limit together count for nothing, with one complaint', async ({ tenant }) => {
  await tenant.newStored(3);
  await tenant.apply(
    ...Array.from({ length: 21 }, (_, index) => rule('1', 'merged || draft || true', `R${index}`, 50)),
  );
  const { complaints } = service;
  complaints.length = 0;
  const scored = await Promise.all([1, 2, 3].map(() => rescoreBatch(service, tenant.id)));
  expect(scored.reduce((sum, each) => sum + each)).toBe(3);
  expect(new Set((await tenant.storedPullRequests()).map(({ score }) => score))).toEqual(new Set([0]));
  expect(complaints).toMatchObject([{ msg: expect.stringContaining('have 1050 entries, more than 1000') }]);
});

test('fetched pull requests are scored before their transaction', async ({ tenant }) => {
  const pullRequest = tenant.web.openPullRequest();
  await tenant.apply(rule('5'));
  const score = vi.spyOn(service.scorer, 'run');
  onTestFinished(() => score.mockRestore());
  const saved = await tenant.duringSave(
    () => tenant.sync(pullRequest),
    async () => {
      expect(await score.mock.results[0]?.value).toHaveLength(1);
    },
  );
  expect(saved).toEqual(['saved']);
  expect(score).toHaveBeenCalledTimes(1);
});

test('fetched pull requests are scored again if a person in them is erased meanwhile', async ({ tenant }) => {
  const bert = tenant.acme.member(`bert-of-${tenant.acme.login}`);
  await tenant.apply(rule('9', `contains(assignees, "${bert.login}")`), rule('1'));
  const pullRequest = tenant.web.openPullRequest({ assignees: [bert] });
  const start = () => tenant.sync(pullRequest);
  const saved = await tenant.duringSave(start, executor => addErased(executor, tenant.id, bert.id));
  expect(saved).toEqual(['saved']);
  expect(await tenant.stored(pullRequest)).toMatchObject({ assignees: [], score: 1 });
});

test('fetched pull requests are scored again if the rules change meanwhile', async ({ tenant }) => {
  const { web } = tenant;
  await tenant.sync(web.openPullRequest());
  await tenant.apply(rule('additions'), rule('5', 'title.length > 3', 'Not valid any more'));
  const pullRequest = web.openPullRequest({ additions: 4 });
  const { complaints } = service;
  complaints.length = 0;
  const start = () => tenant.sync(pullRequest);
  const saved = await tenant.duringSave(start, async executor => {
    expect(complaints).toMatchObject([{ msg: expect.stringContaining('a stored rule is no longer valid') }]);
    await replaceRules(executor, tenant, rule('additions * 2'));
  });
  expect(saved).toEqual(['saved']);
  expect(await tenant.stored(pullRequest)).toMatchObject({ score: 8, rulesetVersion: 2 });
});
