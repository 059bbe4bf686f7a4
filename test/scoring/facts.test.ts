import { expect, test } from 'vitest';
import type { PullRequestRecord } from '../../src/pull-request.ts';
import { factsOf, pullRequestFactNames, type SourceName } from '../../src/scoring/facts.ts';
import { compileRuleset } from '../../src/scoring/ruleset.ts';
import { entry, rule, rulesetOf } from './support.ts';

const record: PullRequestRecord = {
  repository: 'acme/web',
  number: 1,
  title: 'Search',
  body: 'Finds.',
  state: 'merged',
  draft: false,
  author: 'ada',
  authorAssociation: 'MEMBER',
  authorIsBot: false,
  base: 'main',
  head: 'search',
  fromFork: true,
  milestone: null,
  additions: 5,
  deletions: 2,
  changedFiles: 3,
  commits: 4,
  comments: 6,
  reviews: 8,
  approvals: 9,
  changesRequested: 10,
  writerApprovals: 12,
  timesChangesRequested: 13,
  botReviews: 14,
  linkedIssues: 11,
  distinctReviewers: 15,
  reviewDecision: 'APPROVED',
  readyAt: 4_500,
  reviewers: [
    {
      member: 'mem_1',
      login: 'bob',
      isBot: false,
      verdict: 'approved',
      comments: 2,
      firstReviewAt: 11_700,
      requestedAt: 8_100,
      mayWrite: true,
    },
    {
      member: null,
      login: null,
      isBot: false,
      verdict: null,
      comments: 0,
      firstReviewAt: 4_000,
      requestedAt: null,
      mayWrite: false,
    },
  ],
  repositoryIsArchived: true,
  repositoryIsPrivate: null,
  createdAt: 3_600,
  sourceUpdatedAt: 99_999,
  mergedAt: 9_000,
  closedAt: 10_800,
  mergedBy: 'bob',
  selfMerged: true,
  firstReviewAt: 5_400,
  labels: ['bug'],
  assignees: ['bob'],
  files: ['a', 'b', 'c'],
  fileChanges: [1, 2, 3, 4, 5, 6],
};

test('facts are derived from the stored pull request', () => {
  const facts = factsOf(record);
  expect(Object.keys(facts).sort()).toEqual([...pullRequestFactNames, 'file_changes', 'given_reviews'].sort());
  const { sourceUpdatedAt, firstReviewAt: _, reviewers: __, ...same } = record;
  const snakeCase = (field: string) => field.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
  expect(facts).toEqual({
    ...Object.fromEntries(Object.entries(same).map(([field, value]) => [snakeCase(field), value])),
    size: 7,
    hours_from_ready_to_first_review: 0.25,
    hours_from_ready_to_merge: 1.25,
    repository_is_private: false,
    updated_at: sourceUpdatedAt,
    hours_to_first_review: 0.5,
    hours_to_merge: 1.5,
    hours_to_close: 2,
    merged: true,
    given_reviews: [
      {
        member: 'mem_1',
        reviewer: 'bob',
        verdict: 'approved',
        review_comments: 2,
        hours_to_review: 1,
        reviewer_is_member: true,
        reviewer_may_write: true,
        reviewer_is_bot: false,
        was_requested: true,
      },
      // Before it was ready.
      {
        member: null,
        reviewer: null,
        verdict: null,
        review_comments: 0,
        hours_to_review: 0,
        reviewer_is_member: false,
        reviewer_may_write: false,
        reviewer_is_bot: false,
        was_requested: false,
      },
    ],
  });
});

test('a review of a draft came no hours after it was ready', () => {
  expect(factsOf({ ...record, readyAt: 6_000 }).hours_from_ready_to_first_review).toBe(0);
  const draft = factsOf({ ...record, readyAt: null });
  expect([draft.hours_from_ready_to_first_review, draft.hours_from_ready_to_merge]).toEqual([null, null]);
  expect(draft.given_reviews?.map(review => review.hours_to_review)).toEqual([0, 0]);
});

test('an open pull request has no hours to review, merge or close', () => {
  const open = factsOf({ ...record, state: 'open', mergedAt: null, closedAt: null, firstReviewAt: null });
  expect(open).toMatchObject({
    merged: false,
    hours_to_first_review: null,
    hours_to_merge: null,
    hours_to_close: null,
  });
});

test.each<[kind: string, expression: string, value: string, facts: SourceName[]]>([
  ['a list of constants', 'title in ["state", "body"]', '1', ['title']],
  ['a call that reads a fact without naming it', 'has_label(lower(milestone))', '1', ['labels', 'milestone']],
  ['a call that reads what rules can’t name', 'lines("src/**") > 0', '1', ['file_changes', 'files']],
  ['many parts', '!(min(-commits, reviews + 1) > comments)', '1', ['comments', 'commits', 'reviews']],
  ['a fact in its value', 'merged', 'size', ['merged', 'size']],
])('a ruleset with %s reads only the facts that it needs: %s, %s', (_, expression, value, facts) => {
  expect([...compileRuleset(rulesetOf([rule('R', entry(expression, value))])).facts].sort()).toEqual(facts);
});

test('a ruleset reads only the facts of rules that are enabled and valid', () => {
  const rules = [
    { ...rule('Disabled', entry('merged', '1')), is_enabled: false },
    rule('Invalid', entry('draft', '1'), entry('weather', '1')),
    rule('Valid', entry('from_fork', '1')),
  ];
  expect([...compileRuleset(rulesetOf(rules)).facts]).toEqual(['from_fork']);
});
