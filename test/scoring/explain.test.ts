import { expect, test, vi } from 'vitest';
import { type ExplainedRule, explainScore } from '../../src/scoring/explain/explain.ts';
import { type ExplainedPart, explainExpression } from '../../src/scoring/explain/parts.ts';
import { parseRulesFile } from '../../src/scoring/file/rules-file.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import { allParts } from '../../src/scoring/language/tree.ts';
import type { RuleAction } from '../../src/scoring/rule.ts';
import { entry, factsWith, problemOf, rule, rulesetOf } from './support.ts';

const facts = factsWith({
  state: 'merged',
  merged: true,
  additions: 40,
  deletions: 12,
  size: 52,
  changed_files: 240,
  created_at: 1_767_571_200,
  // Beyond what a date can hold.
  updated_at: 10_000_000_000_000,
  merged_at: 1_767_657_600,
  hours_to_merge: 24,
  hours_to_first_review: null,
  milestone: null,
  labels: ['Bug', 'urgent'],
  files: ['src/a.ts', 'src/b.ts', 'test/a.test.ts', 'docs/a.md', 'docs/b.md'],
});

/** `outcome: reason` of each entry. */
const outcomesOf = (rules: readonly ExplainedRule[]) =>
  rules.map(({ entries }) => entries.map(({ outcome, reason }) => `${outcome}: ${reason}`));

/** Each part in one line, parts of parts in brackets. */
const brief = ({ source, value, note, chosen, parts }: ExplainedPart): string =>
  `${chosen ? '' : 'not chosen: '}${source} = ${JSON.stringify(value)}${note === '' ? '' : ` (${note})`}${
    parts.length === 0 ? '' : ` [${parts.map(brief).join('; ')}]`
  }`;

/** Of a condition or a value. */
function explained(source: string, given = facts): string {
  const type = problemOf(source) === 'accepted' ? 'boolean' : 'number';
  return brief(explainExpression(source, parseExpression(source, type), given));
}

test.each([
  ['merged && size <= 200', 'true [merged = true; size <= 200 = true [size = 52 (additions 40 + deletions 12)]]'],
  [
    'merged && !draft && (from_fork || merged)',
    'true [merged = true; !draft = true [draft = false]; from_fork || merged = true [from_fork = false; merged = true]]',
  ],
  ['merged && draft || merged', 'true [merged && draft = false [merged = true; draft = false]; merged = true]'],
  ['hours_to_first_review < 4', 'false [hours_to_first_review = null (nobody else has reviewed it)]'],
  ['known(milestone)', 'false [milestone = null (it has no milestone)]'],
  [
    'default(hours_to_first_review, 48) > hour(created_at, "+02:00")',
    'true [default(hours_to_first_review, 48) = 48 [hours_to_first_review = null (nobody else has reviewed it)]; hour(created_at, "+02:00") = 2 [created_at = 1767571200 (2026-01-05T00:00:00Z)]]',
  ],
  ['milestone != "2.0"', 'false [milestone = null (it has no milestone)]'],
  ['lower(milestone) in ["a"]', 'false [lower(milestone) = null [milestone = null (it has no milestone)]]'],
  ['has_label("bug")', 'true [labels = ["Bug","urgent"]]'],
  ['"Bug" in labels', 'true [labels = ["Bug","urgent"]]'],
  [
    'merged_at >= date("2026-01-06")',
    'true [merged_at = 1767657600 (2026-01-06T00:00:00Z); date("2026-01-06") = 1767657600]',
  ],
  ['true', 'true'],
  ['created_at > 0', 'true [created_at = 1767571200 (2026-01-05T00:00:00Z)]'],
  ['updated_at > 0', 'true [updated_at = 10000000000000]'],
  ['state == "merged"', 'true [state = "merged"]'],
  ['merged || draft && merged', 'true [merged = true; draft && merged = false [draft = false; merged = true]]'],
  ['merged || draft || merged', 'true [merged = true; draft = false; merged = true]'],
  [
    'merged ? additions * 2 : commits',
    '80 [merged = true; additions * 2 = 80 [additions = 40]; not chosen: commits = 0]',
  ],
  ['(additions + deletions) / 20', '2.6 [additions + deletions = 52 [additions = 40; deletions = 12]]'],
  ['size / commits', 'null (a division by zero) [size = 52 (additions 40 + deletions 12); commits = 0]'],
  [
    'per(size, commits) - 1',
    'null [per(size, commits) = null (a division by zero) [size = 52 (additions 40 + deletions 12); commits = 0]]',
  ],
  ['5 % commits', 'null (a division by zero) [commits = 0]'],
  ['1e300 * 1e300', 'null (it is too large)'],
  ['1e300 / 1e-300', 'null (it is too large)'],
  [
    'additions - hours_to_first_review',
    'null [additions = 40; hours_to_first_review = null (nobody else has reviewed it)]',
  ],
  ['0 * (1 / 0)', 'null (it has no result) [1 / 0 = null (a division by zero)]'],
  ['1e300 * 1e300 * 0', 'null (it has no result) [1e300 * 1e300 = null (it is too large)]'],
  ['-hours_to_first_review', 'null [hours_to_first_review = null (nobody else has reviewed it)]'],
  ['any_file("src/**")', 'true (2 of 5 files, the first of 240: src/a.ts, src/b.ts)'],
  ['any_file("**/*.sql")', 'false (none of 5 files, the first of 240)'],
  [
    'count_files("**") > 9',
    'false [count_files("**") = 5 (5 of 5 files, the first of 240: src/a.ts, src/b.ts, test/a.test.ts and 2 more)]',
  ],
  ['all_files("{src,test}/**")', 'false (2 of 5 files, the first of 240 do not match: docs/a.md, docs/b.md)'],
  ['all_files("**")', 'true (all of 5 files, the first of 240)'],
])('the parts of %s, and the files that match, are shown', (source, expected) => {
  expect(explained(source)).toBe(`${source} = ${expected}`);
});

test.each([
  ['lines("src/**")', '33 (2 of 4 files: src/a.ts +10 −1, src/b.ts +20 −2)'],
  ['lines_except("src/**")', '440 (2 of 4 files: docs/a +0 −400, docs/b +40 −0)'],
  ['added("docs/**")', '40 (2 of 4 files: docs/a +0 −400, docs/b +40 −0)'],
  ['removed("**/*.sql")', '0 (none of 4 files)'],
])('the lines of the files that %s counts are shown', (source, expected) => {
  const given = factsWith({
    files: ['src/a.ts', 'src/b.ts', 'docs/a', 'docs/b'],
    file_changes: [10, 1, 20, 2, 0, 400, 40, 0],
  });
  expect(explained(source, given)).toBe(`${source} = ${expected}`);
});

const unknown = 'it is not known until the next fetch';

test.each<[source: string, given: Parameters<typeof factsWith>[0], expected: string]>([
  ['merged_by == "ada"', { merged_by: null }, 'false [merged_by = null (it is not merged)]'],
  ['merged_by == "ada"', { merged: true, merged_by: null }, `false [merged_by = null (${unknown})]`],
  ['2 * lines("src/**")', { files: ['src/a.ts'], file_changes: null }, `null [lines("src/**") = null (${unknown})]`],
  ['all_files("**")', {}, 'false (there are no files)'],
  ['any_file("a*", "c")', { files: ['a'], changed_files: 1 }, 'true (1 of 1 file: a)'],
  ['any_file("a*", "c")', { files: ['a', 'b'], changed_files: 2 }, 'true (1 of 2 files: a)'],
  ['any_file("a*", "c")', { files: ['a', 'aa', 'aaa'], changed_files: 3 }, 'true (3 of 3 files: a, aa, aaa)'],
  [
    'any_file("a*", "c")',
    { files: ['a', 'aa', 'aaa', 'aaaa'], changed_files: 5 },
    'true (4 of 4 files, the first of 5: a, aa, aaa and 1 more)',
  ],
])('%s with the facts %j is explained as %s', (source, given, expected) => {
  expect(explained(source, factsWith(given))).toBe(`${source} = ${expected}`);
});

test.each([
  ['{ merged: true, size: 50 }', 'size', 50, ''],
  ['{ additions: 40, size: 50, deletions: 10 }', 'size', 50, 'additions 40 + deletions 10'],
  ['{}', 'hours_to_merge', null, 'it is not merged'],
  ['{ state: closed }', 'merged_at', null, 'it is not merged'],
  ['{ state: draft }', 'closed_at', null, 'it is still open'],
  ['{ merged: true }', 'hours_to_merge', null, 'no time is given'],
  ['{ merged: true }', 'merged_at', null, 'no time is given'],
  ['{ state: closed }', 'hours_to_close', null, 'no time is given'],
  ['{ reviews: 1 }', 'hours_to_first_review', null, 'no time is given'],
])('the explanation of the test %s says only what is true of %s', (given, fact, value, note) => {
  const [{ facts } = { facts: factsWith() }] = parseRulesFile(
    `rules: []\ntests: [{ name: t, pull_request: ${given}, score: 0 }]`,
  ).tests;
  expect(explainExpression(fact, parseExpression(fact, 'number'), facts)).toMatchObject({ value, note });
});

test('a text that all reviews of a pull request have is searched once', () => {
  const source = 'matches(body, "fix") && reviewer == "eve"';
  const tree = parseExpression(source, 'boolean');
  const call = [...allParts([tree])].find(part => part.kind === 'call');
  if (call === undefined) throw new Error('the entry has no call');
  const search = vi.fn(call.definition.implementation);
  call.definition = { ...call.definition, implementation: search };
  const reviews = ['eve', 'bob', 'eve'].map(reviewer => factsWith({ body: 'A fix', reviewer }));
  expect(reviews.map(facts => explainExpression(source, tree, facts).value)).toEqual([true, false, true]);
  expect(search).toHaveBeenCalledTimes(1);
});

test.each([
  ['5', 5, 'counted: it adds 5'],
  ['(additions + deletions) / 20', 3, 'counted: it adds 3, rounded from 2.6'],
  ['-2147483648', -2147483648, 'counted: it adds -2147483648'],
  ['2147483647', 2147483647, 'counted: it adds 2147483647'],
  ['-2147483649', 0, 'out_of_range: its value -2147483649 is outside -2147483648 to 2147483647'],
  ['2147483648', 0, 'out_of_range: its value 2147483648 is outside -2147483648 to 2147483647'],
  ['1e300 * 1e300', 0, 'not_finite: its value is infinite: it is too large'],
  ['commits', 0, 'zero: its value is 0'],
  ['-0.4', 0, 'zero: its value is 0, rounded from -0.4'],
  ['size / 3', 17, 'counted: it adds 17, rounded from 17.33'],
  ['2.4999', 2, 'counted: it adds 2, rounded from 2.4999'],
  ['2.9999', 3, 'counted: it adds 3, rounded from 2.9999'],
  ['0.001', 0, 'zero: its value is 0, rounded from 0.001'],
  ['hours_to_first_review', 0, 'absent: its value is absent: nobody else has reviewed it'],
  [
    'min(5, 24 - hours_to_first_review)',
    0,
    'absent: its value is absent, as `hours_to_first_review` is absent: nobody else has reviewed it',
  ],
  ['0 / commits', 0, 'absent: its value is absent: a division by zero'],
  [
    'merged ? 1 + length(milestone) : hours_to_first_review',
    0,
    'absent: its value is absent, as `milestone` is absent: it has no milestone',
  ],
  ['1 + size / commits', 0, 'not_finite: its value is infinite, as `size / commits` is infinite: a division by zero'],
  ['size * 1e9', 0, 'out_of_range: its value 52000000000 is outside -2147483648 to 2147483647'],
])('an entry with the value %s has the effect %d and the outcome %s', (value, effect, outcome) => {
  const { rules, score } = explainScore(rulesetOf([rule('R', entry('merged', value))]), facts);
  expect(rules[0]?.entries[0]).toMatchObject({ entry: 1, expression: 'merged', value, effect });
  expect([outcomesOf(rules), score]).toEqual([[[outcome]], effect]);
});

test('an entry whose condition is false, or whose rule is disabled or invalid, does not count', () => {
  const { rules, score } = explainScore(
    rulesetOf([
      { ...rule('Off', entry('true', '1')), is_enabled: false },
      rule('Old', entry('true', '2'), entry('weather', '3')),
      rule('Empty', entry('true', '4', 'MULTIPLY' as RuleAction)),
      rule('Good', entry('draft', '5'), entry('true', '8', 'SUBTRACT')),
    ]),
    facts,
  );
  expect(score).toBe(-8);
  expect(outcomesOf(rules)).toEqual([
    ['disabled: its rule is disabled'],
    ['invalid: its rule is no longer valid', 'invalid: its rule is no longer valid'],
    ['invalid: its rule is no longer valid'],
    ['condition_false: its condition is false', 'counted: it subtracts 8'],
  ]);
  expect(rules[1]).toMatchObject({
    problems: ['Rule "Old", entry 2, expression: `weather` is not a known fact; docs/rules.md lists all facts'],
    entries: [{ condition: null, amount: null }, {}],
  });
});

test('each part shows at most the beginning of a long text, whatever its level', () => {
  const deep = `${'!('.repeat(26)}title != "${'x'.repeat(1_800)}"${')'.repeat(26)}`;
  const explanation = explainScore(rulesetOf([rule('Deep', entry(deep, '1'))]), facts);
  expect(JSON.stringify(explanation).length).toBeLessThan(20_000);
  expect(explanation.rules[0]?.entries[0]?.condition?.source).toMatch(/^!\(.{298}…$/);
});

test('an entry waits only if another pull request with these rules could make it count', () => {
  const definitions = [{ name: 'strict', expression: 'false' }];
  const off = rule('Switched off', entry('draft && (strict && size > 90)', '5'));
  const nothing = rule('Nothing', entry('draft', '0.4'));
  const rules = [
    off,
    nothing,
    rule('Waits', entry('draft && !strict', '5')),
    rule('Depends', entry('draft', 'commits')),
  ];
  const { waiting } = explainScore({ ...rulesetOf(rules), definitions }, facts);
  expect(waiting.map(({ rule, potential, missing }) => [rule, potential, missing])).toEqual([
    ['Waits', 5, ['draft']],
    ['Depends', 0, ['draft']],
  ]);
});
