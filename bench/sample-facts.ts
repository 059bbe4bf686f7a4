import type { PullRequestRecord, PullRequestState } from '../src/pull-request.ts';
import { type Facts, factsOf, type SourceName } from '../src/scoring/facts.ts';
import { createRandom } from '../test/support/random.ts';

/**
 * The same pull requests in each run, with texts as a database gives them: flat, and each its own.
 *
 * @param names what is read of them; the rest is empty, as it is for the service's own rules
 */
export function sampleFacts(count: number, names: ReadonlySet<SourceName>): Facts[] {
  const random = createRandom(1);
  const upTo = (limit: number) => Math.floor(limit * random());
  const text = (value: string) => Buffer.from(value).toString();
  const pick = (values: readonly string[]) => text(values[upTo(values.length)] ?? '');
  return Array.from({ length: count }, (_, index) => {
    const createdAt = 1_700_000_000 + index * 997;
    const state = pick(['merged', 'merged', 'merged', 'open', 'closed', 'draft']) as PullRequestState;
    const kind = pick(['fix', 'feat', 'docs', 'chore', 'feat(api)', 'Update', 'A small fix of']);
    const record: Partial<PullRequestRecord> = {
      title: text(`${kind}: ${pick(['answer', 'remove', 'explain'])} what number ${upTo(10_000)} asks for`),
      body: text('Why this change is needed, and what it leaves out. '.repeat(upTo(8))),
      state,
      authorIsBot: upTo(20) === 0,
      base: pick(['main', 'main', 'release/2.1']),
      additions: upTo(800),
      deletions: upTo(400),
      changedFiles: 1 + upTo(20),
      commits: 1 + upTo(8),
      comments: upTo(12),
      approvals: upTo(3),
      changesRequested: upTo(2),
      linkedIssues: upTo(2),
      createdAt,
      mergedAt: state === 'merged' ? createdAt + upTo(500_000) : null,
      firstReviewAt: upTo(3) === 0 ? null : createdAt + upTo(200_000),
    };
    return factsOf(record as PullRequestRecord, names);
  });
}
