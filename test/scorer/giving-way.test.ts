import { expect, test } from 'vitest';
import { applyRuleset } from '../../src/database/rules.ts';
import { jobs } from '../../src/scorer/jobs.ts';
import type { Work } from '../../src/scorer/work.ts';
import { factsWith } from '../scoring/support.ts';
import { insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';

const world = await startWorld();

/** How often a job asked for its turn, and how often it said that it goes on. */
function startWork() {
  const { database, log } = world.service;
  const counts = { turns: 0, alive: 0 };
  const work = {
    ...{ database, log, isCareful: false, signal: new AbortController().signal },
    turn() {
      counts.turns += 1;
      return undefined;
    },
    progress: () => undefined,
    alive() {
      counts.alive += 1;
    },
  } as Partial<Work> as Work;
  return { work, counts };
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

test.each([
  ['audit', 50],
  // Those in force and the new ones, each for its scores and to see which ones the definition changes.
  ['plan', 200],
] as const)('a job says that it goes on before each rule that it reads: %s', async (kind, count) => {
  const { work, counts } = startWork();
  const rules = Array.from({ length: 50 }, (_, index) => rule('1', 'merged', `Rule ${index}`));
  const ruleset = { definitions: [{ name: 'points', expression: '1' }], rules, reviews: [] };
  const { id } = world.organisation;
  const inForce = { ...ruleset, definitions: [{ name: 'points', expression: '2' }], source: '' };
  await world.service.database.transaction(executor => applyRuleset(executor, id, inForce));
  await jobs[kind](work, { organisationId: id, ruleset, withAudit: true });
  expect(counts.alive).toBeGreaterThanOrEqual(count);
});

test('a job says that it goes on before each definition that it reads', async () => {
  const { work, counts } = startWork();
  const definitions = Array.from({ length: 50 }, (_, index) => ({ name: `d${index}`, expression: 'merged' }));
  const organisationId = world.organisation.id;
  await jobs.audit(work, { organisationId, ruleset: { definitions, rules: [rule('1')], reviews: [] } });
  expect(counts.alive).toBeGreaterThanOrEqual(50);
});

test('a check says that it goes on before it reads, examines or compiles each definition and rule', async () => {
  const { work, counts } = startWork();
  const names = Array.from({ length: 50 }, (_, index) => `d${index}`);
  const file = {
    define: Object.fromEntries(names.map(name => [name, 'merged'])),
    rules: names.map(name => ({ name, logic: [{ expression: name, effect: { action: 'ADD', value: '1' } }] })),
  };
  await jobs.check(work, { organisationId: world.organisation.id, file: JSON.stringify(file) });
  expect(counts.alive).toBeGreaterThanOrEqual(2 * 3 * 50);
});
