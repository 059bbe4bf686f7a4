import type { StoredPullRequest } from '../src/database/pull-requests.ts';
import { headShaOf } from '../test/support/github/payloads.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';

export const isMember = ({ author, repository }: PullRequest) =>
  author !== null && repository.organisation.members.has(author.id);

export const isShown = ({ repository, nodeId }: PullRequest) => repository.organisation.world.nodes.has(nodeId);

/** Whether GraphQL shows an older state, or may after the next change. */
export const isLagging = (source: PullRequest) => source.shown() !== source || source.repository.isLagging;

export type Columns = ReturnType<typeof columnsOf>;

/**
 * Columns that come only from GitHub, at this moment: at least one for each step that changes a pull request. That
 * fetches fill all columns rightly is held by test/github, and that they are saved together by test/sync/order.test.ts.
 */
export function columnsOf(source: PullRequest) {
  const { state, draft, author } = source;
  return {
    githubId: source.id,
    nodeId: source.nodeId,
    headSha: headShaOf(source),
    number: source.number,
    title: source.title,
    body: source.body,
    state: state === 'MERGED' ? 'merged' : state === 'CLOSED' ? 'closed' : draft ? 'draft' : 'open',
    author: author?.login ?? '',
    authorAssociation: isMember(source) ? 'MEMBER' : 'CONTRIBUTOR',
    base: source.base,
    additions: source.additions,
    deletions: source.deletions,
    commits: source.commits,
    comments: source.comments,
    reviews: source.reviews.filter(
      ({ author: reviewer, state }) => state !== 'PENDING' && reviewer !== author && reviewer?.type !== 'Bot',
    ).length,
    linkedIssues: source.linkedIssues,
    createdAt: source.createdAt,
    sourceUpdatedAt: source.updatedAt,
    mergedAt: source.mergedAt,
    closedAt: source.closedAt,
    labels: [...source.labels],
    files: source.files.map(({ path }) => path),
  } satisfies Partial<StoredPullRequest>;
}
