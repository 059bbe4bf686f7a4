import { eq } from 'drizzle-orm';
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

type Change = (executor: Executor, home: SyncTenant) => Promise<unknown>;

const replaceRules = (executor: Executor, { organisation }: SyncTenant, ...rules: RuleDefinition[]) =>
  applyRuleset(executor, organisation.id, { definitions: [], reviews: [], rules, source: '' });

const rangesOf = ({ organisation }: SyncTenant) =>
  executor.select().from(rescoreRanges).where(eq(rescoreRanges.organisationId, organisation.id));

test('a rescoring batch that runs out of time leaves the rest of its range to any worker', async ({ home }) => {
  await home.newStored(300);
  const { id } = home.organisation;
  await executor.update(pullRequests).set({ body }).where(eq(pullRequests.organisationId, id));
  await home.apply(...expensiveRules(990));
  const scored = await rescoreBatch(service, id);
  expect(scored).toBeGreaterThan(0);
  expect(scored).toBeLessThan(300);
  const ids = (await home.storedPullRequests()).map(each => each.id).sort();
  expect(await rangesOf(home)).toMatchObject([
    { fromId: ids[scored], untilId: null, isBatch: true, leasedUntil: null },
  ]);
  const changes = await home.scoreHistory();
  expect(changes.filter(change => change === '0 → 3 (ruleset, 1)')).toHaveLength(scored);
});

test('a rescoring batch with much to save ends early', async ({ home }) => {
  await home.newStored(900);
  await home.apply(rule('1', 'true', 'n'.repeat(200), 50));
  expect(await rescoreBatch(service, home.organisation.id)).toBeLessThan(900);
});

test.each([
  ['the rules change', (executor, home) => replaceRules(executor, home, rule('5')), '0 → 5 (ruleset, 2)'],
  [
    'a repository is renamed',
    async (executor, { organisation }) => {
      await executor
        .update(repositories)
        .set({ name: 'acme/site' })
        .where(eq(repositories.organisationId, organisation.id));
      await requestRescoring(executor, organisation.id, { urlsStale: true });
    },
    '0 → 9 (ruleset, 1)',
  ],
] satisfies [string, Change, string][])(
  'scores are discarded if %s while they are calculated',
  async (_, change, expected) => {
    const home = await world.newTenant();
    await home.newStored(3);
    await home.apply(rule('9', 'ends_with(repository, "/site")'), rule('1', 'ends_with(repository, "/web")'));
    const { database } = service;
    await database.transaction(executor => splitRemainder(executor, home.organisation.id));
    const rescore = () => rescoreBatch(service, home.organisation.id);
    const scored = await home.duringSave(rescore, async executor => {
      expect(await rangesOf(home)).toMatchObject([{ leasedUntil: expect.any(Date) }]);
      await change(executor, home);
    });
    expect(scored).toBe(3);
    expect(await rangesOf(home)).toEqual([]);
    const history = await home.scoreHistory();
    expect(history.filter(entry => entry.includes('ruleset'))).toEqual(Array.from({ length: 3 }, () => expected));
  },
);

test('stored rules that are over a limit together count for nothing, with one complaint', async ({ home }) => {
  await home.newStored(3);
  await home.apply(...Array.from({ length: 21 }, (_, index) => rule('1', 'merged || draft || true', `R${index}`, 50)));
  const { complaints } = service;
  complaints.length = 0;
  const scored = await Promise.all([1, 2, 3].map(() => rescoreBatch(service, home.organisation.id)));
  expect(scored.reduce((sum, each) => sum + each)).toBe(3);
  expect(new Set((await home.storedPullRequests()).map(({ score }) => score))).toEqual(new Set([0]));
  expect(complaints).toMatchObject([{ msg: expect.stringContaining('have 1050 entries, more than 1000') }]);
});

test('fetched pull requests are scored before their transaction', async ({ home }) => {
  const pullRequest = home.web.openPullRequest();
  await home.apply(rule('5'));
  const score = vi.spyOn(service.scorer, 'run');
  onTestFinished(() => score.mockRestore());
  const saved = await home.duringSave(
    () => home.sync(pullRequest),
    async () => {
      expect(await score.mock.results[0]?.value).toHaveLength(1);
    },
  );
  expect(saved).toEqual(['saved']);
  expect(score).toHaveBeenCalledTimes(1);
});

test('fetched pull requests are scored again if a person in them is erased meanwhile', async ({ home }) => {
  const bert = home.acme.member(`bert-of-${home.acme.login}`);
  await home.apply(rule('9', `contains(assignees, "${bert.login}")`), rule('1'));
  const pullRequest = home.web.openPullRequest({ assignees: [bert] });
  const start = () => home.sync(pullRequest);
  const saved = await home.duringSave(start, executor => addErased(executor, home.organisation.id, bert.id));
  expect(saved).toEqual(['saved']);
  expect(await home.stored(pullRequest)).toMatchObject({ assignees: [], score: 1 });
});

test('fetched pull requests are scored again if the rules change meanwhile', async ({ home }) => {
  const { web } = home;
  await home.sync(web.openPullRequest());
  await home.apply(rule('additions'), rule('5', 'title.length > 3', 'Not valid any more'));
  const pullRequest = web.openPullRequest({ additions: 4 });
  const { complaints } = service;
  complaints.length = 0;
  const start = () => home.sync(pullRequest);
  const saved = await home.duringSave(start, async executor => {
    expect(complaints).toMatchObject([{ msg: expect.stringContaining('a stored rule is no longer valid') }]);
    await replaceRules(executor, home, rule('additions * 2'));
  });
  expect(saved).toEqual(['saved']);
  expect(await home.stored(pullRequest)).toMatchObject({ score: 8, rulesetVersion: 2 });
});
