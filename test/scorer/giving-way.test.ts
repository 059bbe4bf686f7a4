import { expect, test } from 'vitest';
import { applyRuleset } from '../../src/database/rules.ts';
import { jobs } from '../../src/scorer/jobs.ts';
import type { Work } from '../../src/scorer/work.ts';
import { factsWith, slowToRead } from '../scoring/support.ts';
import { insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';

const world = await startWorld();

/** `turns`: how often the job asked for one. `silenceMs`: the longest processor time in which it did not say that it goes on. */
function startWork() {
  const { database, log } = world.service;
  const counts = { turns: 0, silenceMs: 0 };
  let last = process.cpuUsage();
  const alive = () => {
    const { user, system } = process.cpuUsage(last);
    counts.silenceMs = Math.max(counts.silenceMs, (user + system) / 1000);
    last = process.cpuUsage();
  };
  const work = {
    ...{ database, log, isCareful: false, signal: new AbortController().signal },
    turn() {
      counts.turns += 1;
      return undefined;
    },
    progress: () => undefined,
    alive,
  } as Partial<Work> as Work;
  return { work, counts };
}

/** Of its processor time, a job uses at most a third in silence. */
async function expectReports({ work, counts }: ReturnType<typeof startWork>, run: () => Promise<unknown>) {
  work.alive();
  counts.silenceMs = 0;
  const before = process.cpuUsage();
  await run();
  work.alive();
  const { user, system } = process.cpuUsage(before);
  const usedMs = (user + system) / 1000;
  expect(counts.silenceMs).toBeLessThan(usedMs / 3);
}

test('an audit gives way to other jobs between the changes that it tries of one pull request', async () => {
  const { work, counts } = startWork();
  await insertPullRequests(world.service, world, [1_700_000_000]);
  // Each title is one that the audit tries.
  const rules = Array.from({ length: 50 }, (_, index) => rule('1', `title == "title ${index}"`, `Rule ${index}`));
  const ruleset = { definitions: [], rules, reviews: [] };
  await jobs.audit(work, { organisationId: world.organisation.id, ruleset });
  expect(counts.turns).toBeGreaterThan(50);
});

test('the check of a rules file gives way to other jobs between its tests', async () => {
  const { work, counts } = startWork();
  const tests = Array.from({ length: 50 }, (_, index) => ({ name: `Test ${index}`, pull_request: {}, score: 0 }));
  const file = JSON.stringify({ rules: [], tests });
  const { problems } = await jobs.check(work, { organisationId: world.organisation.id, file });
  expect(problems).toEqual([]);
  expect(counts.turns).toBeGreaterThanOrEqual(50);
});

test('an explanation gives way to other jobs between its entries, and so does the search for what would change scores', async () => {
  const { work, counts } = startWork();
  const rules = Array.from({ length: 50 }, (_, index) => rule('1', `number == ${index}`, `Rule ${index}`));
  await world.applyRules(rules);
  const input = { organisationId: world.organisation.id, version: 1 };
  const facts = factsWith({ number: 7 });
  const { score } = await jobs.explain(work, { ...input, facts });
  expect([score, counts.turns >= 50]).toEqual([1, true]);
  counts.turns = 0;
  const [found] = await jobs.findWaiting(work, { ...input, facts: [facts], limit: 3 });
  expect([found?.count, counts.turns >= 50]).toEqual([49, true]);
});

test.each(['audit', 'plan'] as const)('a job says that it goes on while it reads slow rules: %s', async kind => {
  const { work, counts } = startWork();
  const rules = Array.from({ length: 50 }, (_, index) => rule('1', slowToRead(index), `Rule ${index}`));
  const ruleset = { definitions: [{ name: 'points', expression: '1' }], rules, reviews: [] };
  const { id } = world.organisation;
  const inForce = { ...ruleset, definitions: [{ name: 'points', expression: '2' }], source: '' };
  await world.service.database.transaction(executor => applyRuleset(executor, id, inForce));
  await expectReports({ work, counts }, () => jobs[kind](work, { organisationId: id, ruleset, withAudit: true }));
});

test('a job says that it goes on while it reads slow definitions', async () => {
  const { work, counts } = startWork();
  const definitions = Array.from({ length: 50 }, (_, index) => ({ name: `d${index}`, expression: slowToRead(index) }));
  const file = JSON.stringify({ define: Object.fromEntries(definitions.map(Object.values)), rules: [] });
  const organisationId = world.organisation.id;
  await expectReports({ work, counts }, () => jobs.check(work, { organisationId, file }));
  const ruleset = { definitions, rules: [rule('1')], reviews: [] };
  await expectReports({ work, counts }, () => jobs.audit(work, { organisationId, ruleset }));
});

test('a job says that it goes on while it looks for mistakes in valid rules', async () => {
  const { work, counts } = startWork();
  const constant = (number: number) => `${'abs('.repeat(22)}${number}${')'.repeat(22)}`;
  const rules = Array.from({ length: 50 }, (_, index) => {
    const values = Array.from({ length: 8 }, (_, place) => constant(8 * index + place));
    return {
      name: `Rule ${index}`,
      logic: [{ expression: 'merged', effect: { action: 'ADD', value: values.join(' + ') } }],
    };
  });
  const input = { organisationId: world.organisation.id, file: JSON.stringify({ rules }) };
  await expectReports({ work, counts }, () => jobs.check(work, input));
});
