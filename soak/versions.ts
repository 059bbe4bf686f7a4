import type { StoredPullRequest } from '../src/database/pull-requests.ts';
import type { PullRequest, Review } from '../test/support/github/pull-request.ts';
import type { Account } from '../test/support/github/world.ts';

/** The columns that come from GitHub and follow nothing else: the address has the repository's stored name. */
export type Columns = Omit<
  StoredPullRequest,
  | 'organisationId'
  | 'id'
  | 'repositoryId'
  | 'memberId'
  | 'url'
  | 'score'
  | 'scoreBreakdown'
  | 'rulesetVersion'
  | 'fetchTicket'
  | 'fetchedAt'
>;

/** What PostgreSQL can't hold is replaced; all else is kept as it came. */
const kept = (text: string) => text.replace(/[\0\ud800-\udfff]/gu, '\uFFFD');

const exists = (account: Account | null): account is Account => account !== null && !account.deleted;

export const isMember = ({ author, repository }: PullRequest) =>
  exists(author) && repository.organisation.members.has(author.id);

export const isShown = ({ repository, nodeId }: PullRequest) => repository.organisation.world.nodes.has(nodeId);

/** GraphQL shows something else than what is, or may from the next change on. */
export const isLagging = (source: PullRequest) => source.shown() !== source || source.repository.lagMilliseconds > 0;

/** The pull request as GitHub shows it at this moment, by the specification's and the rules' words for it. */
export function columnsOf(pullRequest: PullRequest): Columns {
  const { author, state, draft } = pullRequest;
  const submitted = pullRequest.reviews.filter(review => review.state !== 'PENDING');
  // Nobody's are others': an account that is gone shows as nobody.
  const byOthers = submitted.filter(review => !exists(author) || review.author !== author);
  const verdicts = new Map<Account | null, Review['state']>();
  for (const review of submitted) if (review.state !== 'COMMENTED') verdicts.set(review.author, review.state);
  const people = (verdict: Review['state']) => [...verdicts.values()].filter(one => one === verdict).length;
  const reviewTimes = byOthers.flatMap(({ submittedAt }) => submittedAt ?? []);
  return {
    githubId: pullRequest.id,
    nodeId: pullRequest.nodeId,
    number: pullRequest.number,
    title: kept(pullRequest.title),
    body: kept(pullRequest.body),
    state: state === 'MERGED' ? 'merged' : state === 'CLOSED' ? 'closed' : draft ? 'draft' : 'open',
    draft,
    author: exists(author) ? author.login : 'ghost',
    authorAssociation: isMember(pullRequest) ? 'MEMBER' : 'CONTRIBUTOR',
    authorIsBot: exists(author) && author.type === 'Bot',
    base: kept(pullRequest.base),
    head: pullRequest.head,
    fromFork: pullRequest.fromFork,
    milestone: pullRequest.milestone === null ? null : kept(pullRequest.milestone),
    additions: pullRequest.additions,
    deletions: pullRequest.deletions,
    changedFiles: pullRequest.changedFiles,
    commits: pullRequest.commits,
    comments: pullRequest.comments,
    reviews: byOthers.length,
    approvals: people('APPROVED'),
    changesRequested: people('CHANGES_REQUESTED'),
    linkedIssues: pullRequest.linkedIssues,
    createdAt: pullRequest.createdAt,
    sourceUpdatedAt: pullRequest.updatedAt,
    mergedAt: pullRequest.mergedAt,
    closedAt: pullRequest.closedAt,
    firstReviewAt: reviewTimes.length === 0 ? null : Math.min(...reviewTimes),
    labels: pullRequest.labels.map(kept),
    assignees: pullRequest.assignees.filter(exists).map(({ login }) => login),
    files: pullRequest.files.map(({ path }) => path),
  };
}
