import { expect, test } from 'vitest';
import { loadRuleset } from '../../src/scorer/rulesets.ts';
import type { Work } from '../../src/scorer/work.ts';
import { factsWith } from '../scoring/support.ts';
import { applyRules } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';

const world = await startWorld();

test('with care, each entry is named before it is compiled and before it is evaluated, also those of reviews', async () => {
  const { database, log } = world.service;
  const { organisation } = world;
  await applyRules(world.service, organisation.id, {
    rules: [rule('1', 'true', 'Size')],
    reviews: [rule('2', 'true', 'Review')],
  });
  const named: unknown[] = [];
  const work: Work = {
    ...{ database, log, isCareful: true, signal: new AbortController().signal },
    turn: () => undefined,
    progress: () => undefined,
    alive: entry => entry === undefined || named.push(entry.rule),
  };
  const { score } = await loadRuleset(work, organisation.id, 1);
  expect(new Set(named.splice(0))).toEqual(new Set(['Size', 'Review']));
  const review = { reviewer: 'ada', member: null, reviewer_is_bot: false } as never;
  expect(score({ ...factsWith({}), given_reviews: [review] })).toMatchObject({
    score: 1,
    reviewScores: expect.stringContaining('"score":2'),
  });
  expect(named.slice(0, 2)).toEqual(['Size', 'Review']);
});
