import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Facts } from '../../src/scoring/facts.ts';
import { type AuditedWay, createAudit } from '../../src/scoring/plan/audit.ts';
import { type Way, ways } from '../../src/scoring/plan/audit-ways.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { checkRuleset, type RuleKind } from '../../src/scoring/ruleset.ts';
import { anyReviewedFacts, anyRules, runs } from './generate.ts';
import { entry, factsWith, rule, rulesetOf } from './support.ts';

function audit(rules: readonly RuleDefinition[], ...pullRequests: Partial<Facts>[]) {
  const definitions = [{ name: 'wanted', expression: '"bounty"' }];
  const tried = createAudit(checkRuleset({ ...rulesetOf(rules), definitions }), 'rules');
  for (const [index, facts] of pullRequests.entries()) Array.from(tried.add(`pr ${index}`, factsWith(facts)));
  return tried.result();
}

function wayOf(way: Way, rules: readonly RuleDefinition[], ...pullRequests: Partial<Facts>[]): AuditedWay {
  const found = audit(rules, ...pullRequests).ways.find(each => each.way === way);
  if (found === undefined) throw new Error(`${way} was not tried`);
  return found;
}

const paying = (expression: string, value = '10') => [rule('Pay', entry(expression, value))];
const source = { files: ['src/a.ts', 'src/b.ts'], file_changes: [60, 20, 40, 0], changed_files: 2 };
const work = { ...source, additions: 100, deletions: 20, size: 120, commits: 4, author: 'ada' };

test.each<[Way, string, Partial<Facts>]>([
  ['split', 'merged', { ...work, state: 'merged', merged: true, merged_at: 5, self_merged: true }],
  ['split', 'size <= 60', work],
  ['split', 'lines("src/**") <= 80', work],
  ['split', 'any_file("src/a.ts") && commits <= 2', { ...work, files: ['src/a.ts'], file_changes: [100, 20] }],
  ['pad', 'size > 300', work],
  ['pad', 'lines("**/package-lock.json") >= 300', work],
  ['pad', 'lines("**/pnpm-lock.yaml") >= 300', work],
  ['pad', 'any_file("docs/**")', work],
  ['pad', 'any_file("dist/**") && changed_files == 3', work],
  ['commits', 'commits > 10', work],
  ['body', 'length(body) >= 100', work],
  ['body', 'linked_issues > 0', work],
  ['title', 'matches(title, "^fix: ")', { ...work, title: 'Change' }],
  ['title', 'starts_with(title, "ACME-1 ")', { ...work, title: 'Change' }],
  ['title', 'starts_with(lower(title), "hotfix")', { ...work, title: 'Change' }],
  ['title', 'contains(title, wanted)', { ...work, title: 'Change' }],
  ['label', 'has_label("high value")', work],
  ['label', '"bounty" in labels', work],
  ['label', 'any_label("bounty/*")', work],
  ['label', 'any_label("bounty/{large,small}")', work],
  ['label', 'any_label("[bB]ounty")', work],
  ['label', 'has_label(wanted)', work],
  ['label', 'contains(labels, default(milestone, "bounty"))', { ...work, milestone: null }],
  ['reopen', 'state == "open"', { ...work, state: 'closed', closed_at: 9 }],
  ['reopen', 'state == "draft"', { ...work, state: 'closed', closed_at: 9, draft: true }],
  ['self_merge', 'merged && hours_to_merge <= 24', { ...work, created_at: 100, updated_at: 200 }],
  [
    'self_merge',
    'hours_from_ready_to_merge <= 24',
    { ...work, ready_at: 100, updated_at: 200, hours_from_ready_to_merge: null },
  ],
  ['self_merge', 'known(ready_at)', { ...work, draft: true, ready_at: null }],
  ['self_merge', 'self_merged', { ...work, state: 'merged', merged: true, merged_at: 5, merged_by: 'grace' }],
  ['bot_approval', 'bot_reviews > 0', work],
  ['files', 'changed_files > 8', work],
  ['files', 'count_files("src/*.ts") > 8', work],
])('the way %s gains if the rules pay for %s', (way, expression, facts) => {
  const found = wayOf(way, paying(expression), facts);
  expect(found).toMatchObject({ share: 1, rules: [{ name: 'Pay', share: 1 }] });
  expect(found.example).toMatchObject({ id: 'pr 0' });
  expect(found.largest_gain).toBe((found.example?.after ?? 0) - (found.example?.before ?? 0));
});

test('splitting a pull request gains nothing if points follow its size, or if it has one line', () => {
  const proportional = paying('size > 0', 'size');
  expect(wayOf('split', proportional, work)).toMatchObject({
    share: 0,
    median_gain: 0,
    largest_gain: 0,
    rules: [],
    example: undefined,
  });
  expect(wayOf('split', paying('true'), { ...work, size: 1, additions: 1, deletions: 0 }).share).toBe(0);
});

test('splitting a pull request or its files loses no lines and adds none', () => {
  const odd = { ...work, additions: 119, deletions: 37, size: 156, file_changes: [86, 36, 33, 1] };
  for (const value of ['lines("**")', 'added("**")', 'removed("**")', 'size', '-lines("**")', '-size']) {
    for (const way of ['split', 'files'] as const) {
      expect([value, wayOf(way, paying('true', value), odd).share]).toEqual([value, 0]);
    }
  }
});

test('a way gains nothing if the pull request already is as it would make it', () => {
  const merged = { ...work, state: 'merged', merged: true, merged_at: 5, self_merged: true } as const;
  const rules = paying('updated_at > 0 || self_merged');
  for (const way of ['reopen', 'self_merge'] as const) expect(wayOf(way, rules, merged).share).toBe(0);
  expect(wayOf('reopen', paying('state == "open"'), { ...work, state: 'closed', draft: true }).share).toBe(0);
  expect(wayOf('label', paying('has_label("bug")'), { ...work, labels: ['bug'] }).share).toBe(0);
});

test('an audit has the share, the median and the largest gain of each way, and what each rule pays of it', () => {
  const rules = [
    rule('Padded', entry('size > 300', '3 * changed_files')),
    rule('Lock', entry('any_file("package-lock.json")', '1')),
    rule('Costs', entry('size > 300', '1', 'SUBTRACT')),
  ];
  const some = [0, 1, 2, 9].map(count => ({ ...work, changed_files: count }));
  const large = { ...work, size: 5_000, additions: 5_000, files: ['package-lock.json'], file_changes: [5_000, 0] };
  const { pullRequests, ways: found } = audit(rules, ...some, { ...large, changed_files: 0 });
  expect(pullRequests).toBe(5);
  // 3 for each file after it, 1 for the lock file, less 1; the last one gains 3 for its new file.
  const pad = found.find(({ way }) => way === 'pad');
  expect(pad).toMatchObject({
    share: 1,
    median_gain: 6,
    largest_gain: 30,
    example: { id: 'pr 3', before: 0, after: 30 },
  });
  const [padded, lock] = pad?.rules ?? [];
  expect([padded?.name, lock?.name, pad?.rules.length]).toEqual(['Padded', 'Lock', 2]);
  expect((padded?.share ?? 0) + (lock?.share ?? 0)).toBeCloseTo(1);
  expect(lock?.share).toBeCloseTo(4 / (3 * (1 + 2 + 3 + 10 + 1) + 4));
});

test('an audit names every way once, even without pull requests, the most frequent first', () => {
  expect(audit(paying('merged')).ways.map(({ way }) => way)).toEqual(ways);
  const { ways: found } = audit(paying('commits > 10'), work);
  expect(found[0]?.way).toBe('commits');
  expect(found.map(({ way }) => way).toSorted()).toEqual(ways.toSorted());
});

test('an audit never throws, and never changes a pull request', () => {
  const kind = fc.constantFrom<RuleKind>('rules', 'reviews');
  fc.assert(
    fc.property(
      kind,
      anyRules,
      anyRules,
      fc.array(anyReviewedFacts, { maxLength: 4 }),
      (of, rules, reviews, pullRequests) => {
        const tried = createAudit(checkRuleset({ ...rulesetOf(rules), reviews }), of);
        const before = structuredClone(pullRequests);
        for (const facts of pullRequests) Array.from(tried.add('pr', facts));
        expect(pullRequests).toEqual(before);
        for (const { share, largest_gain: largest, median_gain: median } of tried.result().ways) {
          expect(share).toBeGreaterThanOrEqual(0);
          expect(share).toBeLessThanOrEqual(1);
          expect(median).toBeLessThanOrEqual(largest);
        }
      },
    ),
    runs(60),
  );
});

test('an audit stops before each change that it tries', () => {
  const tried = createAudit(checkRuleset(rulesetOf(paying('merged'))), 'rules');
  expect(Array.from(tried.add('pr', factsWith(work))).length).toBeGreaterThanOrEqual(ways.length);
});
