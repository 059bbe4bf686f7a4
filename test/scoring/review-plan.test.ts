import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Facts, ReviewFacts } from '../../src/scoring/facts.ts';
import { createAudit } from '../../src/scoring/plan/audit.ts';
import { type ReviewWay, reviewWays } from '../../src/scoring/plan/review-ways.ts';
import { checkRuleset, compileRuleset } from '../../src/scoring/ruleset.ts';
import { anyReviewedFacts, anyRules, runs } from './generate.ts';
import { entry, factsWith, newPlan, type ReviewScore, reviewRules, reviewWith, rule, rulesetOf } from './support.ts';

const reviewed = (facts: Partial<Facts>, ...reviews: Partial<ReviewFacts>[]) =>
  factsWith({ ...facts, given_reviews: reviews.map(reviewWith) });

test('a plan for reviews agrees with scoring each review under both rulesets', () => {
  fc.assert(
    fc.property(anyRules, anyRules, fc.array(anyReviewedFacts, { maxLength: 4 }), (before, after, pullRequests) => {
      const sides = [reviewRules(...before), reviewRules(...after)] as const;
      const plan = newPlan(...sides, 'reviews');
      for (const [index, facts] of pullRequests.entries()) plan.add(`pr ${index}`, 'author', facts);
      const result = plan.result();
      const [from = [], to = []] = sides.map(side =>
        pullRequests.flatMap(facts => {
          const { reviewScores } = compileRuleset(side).score(facts);
          return JSON.parse(reviewScores ?? '[]') as ReviewScore[];
        }),
      );
      const sum = (scores: readonly ReviewScore[]) => scores.reduce((total, { score }) => total + score, 0);
      expect([result.scores.before.sum, result.scores.after.sum]).toEqual([sum(from), sum(to)]);
      for (const { id, before, after } of result.members) {
        const own = [from, to].map(side => sum(side.filter(({ member }) => member === id)));
        expect([before, after]).toEqual(own);
      }
      for (const { name, after } of result.rules) {
        const counted = to.filter(({ breakdown }) => breakdown.some(each => each.name === name));
        expect(after?.pull_requests ?? 0).toBe(counted.length);
      }
    }),
    runs(60),
  );
});

test('a plan for reviews counts each review, and those by nobody for rules and not for members', () => {
  const plan = newPlan(rulesetOf([]), reviewRules(rule('Review', entry('merged', '1 + review_comments'))), 'reviews');
  const ada = { member: 'mem_ada', review_comments: 3 };
  plan.add('1', 'author', reviewed({ merged: true }, ada, { review_comments: 9 }, { reviewer_is_bot: true }));
  plan.add('2', 'author', reviewed({ merged: false }, ada));
  plan.add('3', 'author', factsWith({ merged: true, given_reviews: null }));
  const { pull_requests: reviews, members, movers, rules } = plan.result();
  expect(reviews).toMatchObject({ total: 3, raised: 2 });
  expect(rules).toMatchObject([{ name: 'Review', before: null, after: { pull_requests: 2, points: 14 } }]);
  expect(members).toMatchObject([{ id: 'mem_ada', pull_requests: 2, changed: 1, before: 0, after: 4 }]);
  expect(movers.raised).toEqual([{ id: '1', member: 'mem_ada', from: 0, to: 4 }]);
});

function wayOf(way: ReviewWay, [reviews, rules = 'false']: readonly [string, string?], facts: Facts) {
  const ruleset = { ...rulesetOf([rule('Opened', entry(rules, '1'))]), ...reviewsOf(reviews), definitions };
  const audit = createAudit(checkRuleset(ruleset), 'reviews');
  Array.from(audit.add('1', facts));
  const found = audit.result().ways.find(each => each.way === way);
  return { share: found?.share, gain: found?.largest_gain, rules: found?.rules.map(({ name }) => name) };
}

const definitions = [
  { name: 'core', expression: '["ada", "cleo"]' },
  { name: 'lead', expression: '"cleo"' },
];
const reviewsOf = (value: string) => ({ reviews: [rule('Review', entry('true', value))] });

const work = {
  author: 'ada',
  additions: 100,
  deletions: 20,
  size: 120,
  commits: 2,
  review_decision: 'REVIEW_REQUIRED',
};
const bob = { reviewer: 'bob', member: 'mem_bob', reviewer_is_member: true, review_comments: 4, hours_to_review: 30 };
const facts = reviewed(work, bob);

test.each<[ReviewWay, value: string, gain: number]>([
  ['rubber_stamp', 'verdict == "approved" ? 5 : 0', 5],
  ['rubber_stamp', 'hours_to_review <= 1 && reviewer_may_write ? 5 : 0', 5],
  ['rubber_stamp', 'was_requested ? 5 : 0', 5],
  ['rubber_stamp', 'was_requested ? 0 : 5', 5],
  ['rubber_stamp', 'reviewer in ["ada", "bob", "cleo"] ? 1 : 0', 1],
  ['rubber_stamp', 'reviewer == "cleo" ? 1 : 0', 1],
  ['rubber_stamp', 'lower(reviewer) == "cleo" ? 1 : 0', 1],
  ['rubber_stamp', 'reviewer == lead ? 1 : 0', 1],
  ['rubber_stamp', 'reviewer in core ? 1 : 0', 1],
  ['rubber_stamp', 'contains(core, reviewer) ? 1 : 0', 1],
  ['rubber_stamp', 'review_decision == "APPROVED" && approvals == 1 ? 5 : 0', 10],
  ['split_review', 'reviews', 3],
  ['split_review', '2', 2],
  ['trivial_comments', 'min(6, review_comments)', 2],
  ['mutual_approval', 'verdict == "approved" ? 5 : 0', 5],
])('the way %s gains if the rules pay for %s', (way, value, gain) => {
  expect(wayOf(way, [value], facts)).toEqual({ share: 1, gain, rules: ['Review'] });
});

test('two who approve each other gain what the pull request gains by it, too', () => {
  const rules = ['verdict == "approved" ? 5 : 0', 'approvals > 0'] as const;
  expect(wayOf('mutual_approval', rules, facts)).toEqual({ share: 1, gain: 6, rules: ['Review', 'Opened'] });
  expect(wayOf('rubber_stamp', rules, facts)).toEqual({ share: 1, gain: 5, rules: ['Review'] });
  // The points that it has anyway are not a gain.
  expect(wayOf('mutual_approval', [rules[0], 'true'], facts)).toMatchObject({ gain: 5, rules: ['Review'] });
});

test('more comments change nothing of reviews by bots', () => {
  const given = reviewed(work, bob, { reviewer: 'linter', reviewer_is_bot: true });
  expect(wayOf('trivial_comments', ['reviewer_is_bot ? -5 : 0'], given)).toMatchObject({ share: 0, gain: 0 });
  expect(wayOf('trivial_comments', ['reviewer_is_bot ? 20 : review_comments'], given)).toMatchObject({ gain: 10 });
});

test('a review without comments can be given in two', () => {
  expect(wayOf('split_review', ['reviews'], reviewed(work, { ...bob, review_comments: 0 })).gain).toBe(1);
});

test('no way gains points from rules that it does not deceive', () => {
  const untouched = { share: 0, gain: 0, rules: [] };
  expect(wayOf('rubber_stamp', ['review_comments'], facts)).toEqual(untouched);
  expect(wayOf('rubber_stamp', ['reviewer in ["ada", "bob"] ? 1 : 0'], facts)).toEqual(untouched);
  expect(wayOf('split_review', ['review_comments'], facts)).toEqual(untouched);
  expect(wayOf('trivial_comments', ['verdict == "approved" ? 5 : 0'], facts)).toEqual(untouched);
  for (const way of reviewWays) expect(wayOf(way, ['0'], reviewed(work))).toEqual(untouched);
});
