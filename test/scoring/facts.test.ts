import { expect, test } from 'vitest';
import { factsOf, factTypes, type PullRequestRecord } from '../../src/scoring/facts.ts';

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
  linkedIssues: 11,
  createdAt: 3_600,
  sourceUpdatedAt: 99_999,
  mergedAt: 9_000,
  closedAt: 10_800,
  firstReviewAt: 5_400,
  labels: ['bug'],
  assignees: ['bob'],
  files: ['a', 'b', 'c'],
};

test('facts follow from what is stored', () => {
  const facts = factsOf(record);
  expect(Object.keys(facts).sort()).toEqual(Object.keys(factTypes).sort());
  expect(facts).toEqual({
    number: 1,
    additions: 5,
    deletions: 2,
    size: 7,
    changed_files: 3,
    commits: 4,
    comments: 6,
    reviews: 8,
    approvals: 9,
    changes_requested: 10,
    linked_issues: 11,
    created_at: 3_600,
    updated_at: 99_999,
    merged_at: 9_000,
    closed_at: 10_800,
    hours_to_first_review: 0.5,
    hours_to_merge: 1.5,
    hours_to_close: 2,
    title: 'Search',
    body: 'Finds.',
    state: 'merged',
    author: 'ada',
    author_association: 'MEMBER',
    base: 'main',
    head: 'search',
    repository: 'acme/web',
    milestone: null,
    draft: false,
    merged: true,
    from_fork: true,
    author_is_bot: false,
    labels: ['bug'],
    assignees: ['bob'],
    files: ['a', 'b', 'c'],
  });
});

test('of what has not happened yet there is no time', () => {
  const open = factsOf({ ...record, state: 'open', mergedAt: null, closedAt: null, firstReviewAt: null });
  expect(open).toMatchObject({
    merged: false,
    hours_to_first_review: null,
    hours_to_merge: null,
    hours_to_close: null,
  });
});
