import type { PullRequestState } from '../src/pull-request.ts';
import { type Facts, factsOf } from '../src/scoring/facts.ts';
import { createRandom } from '../test/support/random.ts';

/** The same pull requests in each run, with texts as a database gives them: flat, and each its own. */
export function sampleFacts(count: number): Facts[] {
  const random = createRandom(1);
  const upTo = (limit: number) => Math.floor(limit * random());
  const text = (value: string) => Buffer.from(value).toString();
  const pick = (values: readonly string[]) => text(values[upTo(values.length)] ?? '');
  return Array.from({ length: count }, (_, index) => {
    const createdAt = 1_700_000_000 + index * 997;
    const pullRequestState = pick(['merged', 'merged', 'merged', 'open', 'closed', 'draft']) as PullRequestState;
    const closedAt = pullRequestState === 'merged' || pullRequestState === 'closed' ? createdAt + upTo(500_000) : null;
    const kind = pick(['fix', 'feat', 'docs', 'chore', 'feat(api)', 'Update', 'A small fix of']);
    return factsOf({
      repository: text(`acme/repository-${index % 20}`),
      number: index + 1,
      title: text(`${kind}: ${pick(['answer', 'remove', 'explain'])} what number ${upTo(10_000)} asks for`),
      body: text('Why this change is needed, and what it leaves out. '.repeat(upTo(8))),
      state: pullRequestState,
      draft: pullRequestState === 'draft',
      author: text(`member-${upTo(300)}`),
      authorAssociation: text('MEMBER'),
      authorIsBot: upTo(20) === 0,
      base: pick(['main', 'main', 'release/2.1']),
      head: text(`topic-${index}`),
      fromFork: upTo(10) === 0,
      milestone: upTo(3) === 0 ? text('2.0') : null,
      additions: upTo(800),
      deletions: upTo(400),
      changedFiles: 1 + upTo(20),
      commits: 1 + upTo(8),
      comments: upTo(12),
      reviews: upTo(5),
      approvals: upTo(3),
      changesRequested: upTo(2),
      timesChangesRequested: upTo(3),
      writerApprovals: upTo(2),
      botReviews: upTo(4),
      linkedIssues: upTo(2),
      distinctReviewers: 1,
      reviewDecision: null,
      readyAt: createdAt,
      reviewers: [],
      repositoryIsArchived: false,
      repositoryIsPrivate: true,
      createdAt,
      sourceUpdatedAt: closedAt ?? createdAt,
      mergedAt: pullRequestState === 'merged' ? closedAt : null,
      closedAt,
      mergedBy: pullRequestState === 'merged' ? text(`member-${upTo(300)}`) : null,
      selfMerged: false,
      firstReviewAt: upTo(3) === 0 ? null : createdAt + upTo(200_000),
      labels: upTo(2) === 0 ? [] : [pick(['bug', 'feature', 'Documentation'])],
      assignees: [],
      files: ['src/main.ts', 'test/main.test.ts'].map(text),
      fileChanges: [upTo(800), upTo(400), upTo(100), 0],
    });
  });
}
