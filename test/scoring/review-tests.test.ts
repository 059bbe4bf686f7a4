/** Tests of reviews in rules files. */
import { expect, test } from 'vitest';
import { checkRulesFile } from '../../src/scoring/file/check-rules-file.ts';
import type { Problem } from '../../src/scoring/file/rule-tests.ts';

const rules = `rules: []
reviews:
- name: Quick
  when: merged
  logic:
  - expression: hours_to_review <= 24
    effect: { action: ADD, value: "5" }
  - expression: verdict == "changes_requested"
    effect: { action: ADD, value: "2" }
tests:
`;

const check = (text: string) => checkRulesFile(Buffer.from(text)).problems;

function relevantOf({ explanation, relevant = [] }: Partial<Problem> = {}) {
  const entries = explanation?.rules.flatMap(rule => rule.entries) ?? [];
  return entries.filter((_, place) => relevant.includes(place));
}

const problems = (tests: string) => check(rules + tests).map(({ line, message }) => `${line}: ${message}`);

/** Problems of a test of one review, which is in line 14. */
const problemsOf = (review: string, facts = '{}') =>
  problems(`- name: t\n  pull_request: ${facts}\n  reviews:\n  - { ${review} }\n`);

test('a test may expect scores of reviews, with or without that of their pull request', () => {
  const both = `- name: both
  pull_request: { merged: true }
  reviews:
  - { reviewer: ada, hours_to_review: 3, verdict: changes_requested, score: 7 }
  - { reviewer: bob, hours_to_review: 30, score: 0 }
  score: 0
- { name: one, pull_request: {}, reviews: [{ score: +0 }] }
`;
  expect(problems(both)).toEqual([]);
  expect(problems(both.replace(/(?<=score: )\+?\d/g, '9'))).toEqual([
    /^11: test "both" expected 9, but the score is 0 /,
    /^14: test "both, review 1" expected 9, but the score is 7 /,
    /^15: test "both, review 2" expected 9, but the score is 0 /,
    /^17: test "one, review 1" expected 9, but the score is 0 /,
  ]);
});

test('a failed test of a review explains its score, and says which entries may have been expected', () => {
  const [result] = check(
    `${rules}- { name: t, pull_request: { merged: true }, reviews: [{ hours_to_review: 1, score: 7 }] }`,
  );
  expect(result).toMatchObject({ explanation: { score: 5 } });
  expect(relevantOf(result).map(({ entry, outcome }) => [entry, outcome])).toEqual([
    [1, 'counted'],
    [2, 'condition_false'],
  ]);
});

test('entries for bots may have been expected of a failed test of a bot', () => {
  const text = rules.replace('verdict == "changes_requested"', 'reviewer_is_bot && merged');
  const [result] = check(`${text}- { name: t, pull_request: {}, reviews: [{ reviewer_is_bot: true, score: 2 }] }`);
  expect(relevantOf(result).map(({ entry }) => entry)).toEqual([2]);
});

test('entries that may have been expected are found among as many as a file may have', () => {
  const reviews = ['ADD', 'SUBTRACT'].map(action => ({
    name: action,
    logic: Array.from({ length: 50 }, () => ({ expression: 'd', effect: { action, value: '1' } })),
  }));
  const tests = [{ name: 't', pull_request: {}, reviews: [{ score: 9 }] }];
  const [result] = check(JSON.stringify({ define: { d: 'merged' }, rules: [], reviews, tests }));
  expect(relevantOf(result).map(({ action }) => action)).toEqual(Array.from({ length: 50 }, () => 'ADD'));
});

test('a failed test of a review that no rule scores has no explanation', () => {
  expect(problems('- { name: t, pull_request: {}, reviews: [{ reviewer_is_bot: true, score: 1 }] }')).toEqual([
    '11: test "t, review 1" expected 1, but the score is 0; correct the rules or the test',
  ]);
});

test.each([
  ['{ reviewer: ada }', 'reviewer == "ada" && reviewer_is_member && verdict == "commented"'],
  ['{}', '!known(reviewer) && !reviewer_is_member && hours_to_review == 0 && review_comments == 0'],
  ['{ verdict: ~ }', '!known(verdict) && !was_requested && !reviewer_may_write'],
  ['{ reviewer: renovate, reviewer_is_bot: true }', 'reviewer_is_bot && !reviewer_is_member && bot_reviews == 1'],
  ['{ reviewer_is_member: true }', 'reviewer_is_member && known(reviewer)'],
  ['{ verdict: approved, reviewer_may_write: true }', 'approvals == 1 && writer_approvals == 1 && reviews == 1'],
  [
    '{ verdict: changes_requested }',
    'changes_requested == 1 && times_changes_requested == 1 && distinct_reviewers == 1',
  ],
  [
    '{ was_requested: true, review_comments: 3, hours_to_review: 1.5 }',
    'was_requested && review_comments == 3 && hours_to_review == 1.5',
  ],
])('a review of a test with the facts %s meets %s', (facts, expression) => {
  const logic = `{ expression: '${expression} && (reviewer_is_bot || true)', effect: { action: ADD, value: 1 } }`;
  const review = facts.replace(/\}$/, facts === '{}' ? 'score: 1 }' : ', score: 1 }');
  const text = `rules: []\nreviews:\n- { name: R, logic: [${logic}] }\ntests:\n- { name: t, pull_request: {}, reviews: [${review}] }`;
  expect(check(text)).toEqual([]);
});

test.each([
  ['hours_to_review: -1, score: 1', 'hours_to_review: it must be a number of hours, 0 or more'],
  ['review_comments: 1.5, score: 1', 'review_comments: it must be a whole number from 0 to 2147483647'],
  ['verdict: dismissed, score: 1', 'verdict: it must be one of approved, changes_requested, commented'],
  ['was_requested: 1, score: 1', 'was_requested: it must be true or false'],
  ['reviewer_may_write: ~, score: 1', 'reviewer_may_write: it always has a value; write one, or leave the fact out'],
  ['reviewer: [ada], score: 1', 'reviewer: it must be a single value; put it in quotes'],
  ['score: 1.5', 'score: `1.5` is not a whole number'],
])('a test refuses what no review has: %s', (review, message) => {
  expect(problemsOf(review)).toEqual([`14: Test "t", review 1, ${message}`]);
});

test.each([
  ['reviewer: ada', 'Test "t", review 1 has no `score`; add one'],
  ['reviewr: ada, score: 1', 'Test "t", review 1 has an unknown key `reviewr`; did you mean `reviewer`?'],
  [
    'reviewer: ada, reviewer_is_member: false, score: 1',
    'Test "t", review 1: `reviewer` contradicts `reviewer_is_member`: people who are not members have no name here; correct one, or leave it out',
  ],
  [
    'reviewer: ~, reviewer_is_member: true, score: 1',
    'Test "t", review 1: `reviewer` contradicts `reviewer_is_member`: members are known by their login; correct one, or leave it out',
  ],
])('a test says what is wrong with the review %s', (review, message) => {
  expect(problemsOf(review)).toEqual([`14: ${message}`]);
});

test.each([
  ['{ author: ada }', "`author: ada` is one of the test's reviewers, and authors do not count as such"],
  ['{ reviews: 0 }', "`reviews: 0` contradicts the test's reviews, which are 1; correct one"],
  ['{ approvals: 0 }', "`approvals: 0` contradicts the test's reviews, which are 1; correct one"],
  ['{ verdict: approved }', "`verdict` is a fact of reviews; write it below the test's `reviews:`"],
])('a test refuses a pull request that can not have its reviews: %s', (facts, message) => {
  expect(problemsOf('reviewer: ada, verdict: approved, score: 1', facts)).toEqual([
    `12: Test "t", pull_request: ${message}`,
  ]);
});

test('a test refuses reviews that are no list, too many or by one person', () => {
  const withReviews = (reviews: string) => problems(`- name: t\n  pull_request: {}\n  reviews: ${reviews}\n`);
  expect(withReviews('5')).toContain('13: Test "t", reviews must be a list, each item beginning with `-`, not a text');
  expect(withReviews('[5]')).toContainEqual(expect.stringContaining('13: Test "t", review 1 must be a map with'));
  expect(withReviews('[]')).toEqual(['11: Test "t" has no `score`; add one']);
  const ada = '{ reviewer: ada, score: 0 }';
  expect(withReviews(`[${ada}, ${ada}]`)).toEqual([
    '13: Test "t" has two reviews by "ada"; all that one person says is one review',
  ]);
  const many = Array.from({ length: 501 }, () => '{ score: 0 }').join(', ');
  expect(withReviews(`[${many}]`)).toEqual(['13: Test "t" has 501 reviews, more than 500']);
});
