import type { StoredPullRequest } from '../src/database/pull-requests.ts';
import type { Reviewer } from '../src/pull-request.ts';
import { headShaOf } from '../test/support/github/payloads.ts';
import type { PullRequest, Review } from '../test/support/github/pull-request.ts';
import type { Account } from '../test/support/github/world.ts';

/** With their id on GitHub, if they are a person: whether they are a member is another matter. */
type ShownReviewer = Omit<Reviewer, 'member' | 'login'> & { githubId: number | null; login: string };

/** The columns that come only from GitHub; the address depends on the repository's stored name. */
export type Columns = Omit<
  StoredPullRequest,
  | 'organisationId'
  | 'id'
  | 'repositoryId'
  | 'factsVersion'
  | 'memberId'
  | 'url'
  | 'score'
  | 'scoreBreakdown'
  | 'rulesetVersion'
  | 'fetchTicket'
  | 'fetchedAt'
  | 'changedBy'
  | 'reviewers'
  | 'reviewScores'
> & { reviewers: ShownReviewer[] };

/** Replaces what PostgreSQL can't hold. */
const kept = (text: string) => text.replace(/[\0\ud800-\udfff]/gu, '\uFFFD');

const exists = (account: Account | null): account is Account => account !== null && !account.deleted;

export const isMember = ({ author, repository }: PullRequest) =>
  exists(author) && repository.organisation.members.has(author.id);

export const isShown = ({ repository, nodeId }: PullRequest) => repository.organisation.world.nodes.has(nodeId);

/** Whether GraphQL shows an older state, or may after the next change. */
export const isLagging = (source: PullRequest) => source.shown() !== source || source.repository.isLagging;

/** The pull request as GitHub shows it at this moment, in the terms of the specification and the rules. */
export function columnsOf(pullRequest: PullRequest): Columns {
  const { author, state, draft, repository } = pullRequest;
  const submitted = pullRequest.reviews.filter(review => review.state !== 'PENDING');
  // A deleted account shows as nobody, and counts as another person.
  const isOther = (review: Review) => !exists(author) || review.author !== author;
  const isBot = ({ author: reviewer }: Review) => exists(reviewer) && reviewer.type === 'Bot';
  const byOthers = submitted.filter(isOther);
  const byPeople = byOthers.filter(review => !isBot(review));
  const verdicts = new Map<Account | null, Review['state']>();
  for (const review of byPeople) if (review.state !== 'COMMENTED') verdicts.set(review.author, review.state);
  const people = (verdict: Review['state']) => [...verdicts].filter(([, one]) => one === verdict).map(([one]) => one);
  const mayPush = (account: Account | null) => exists(account) && repository.organisation.members.has(account.id);
  const dismissed = pullRequest.dismissals.filter(
    ({ review, previousState }) => previousState === 'CHANGES_REQUESTED' && isOther(review) && !isBot(review),
  );
  const { mergedBy } = pullRequest;
  const reviewTimes = byPeople.flatMap(({ submittedAt }) => submittedAt ?? []);
  return {
    githubId: pullRequest.id,
    nodeId: pullRequest.nodeId,
    headSha: headShaOf(pullRequest),
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
    reviews: byPeople.length,
    approvals: people('APPROVED').length,
    changesRequested: people('CHANGES_REQUESTED').length,
    writerApprovals: people('APPROVED').filter(mayPush).length,
    timesChangesRequested: byPeople.filter(review => review.state === 'CHANGES_REQUESTED').length + dismissed.length,
    botReviews: byOthers.length - byPeople.length,
    distinctReviewers: new Set(byPeople.map(({ author: reviewer }) => (exists(reviewer) ? reviewer : null))).size,
    reviewers: reviewersOf(pullRequest, byOthers, mayPush),
    reviewDecision: pullRequest.reviewDecision,
    readyAt: draft ? null : (pullRequest.readyTimes.at(-1) ?? pullRequest.createdAt),
    repositoryIsArchived: repository.archived,
    repositoryIsPrivate: repository.private,
    linkedIssues: pullRequest.linkedIssues,
    createdAt: pullRequest.createdAt,
    sourceUpdatedAt: pullRequest.updatedAt,
    mergedAt: pullRequest.mergedAt,
    closedAt: pullRequest.closedAt,
    mergedBy: state !== 'MERGED' ? null : exists(mergedBy) ? mergedBy.login : 'ghost',
    selfMerged: state === 'MERGED' && exists(author) && mergedBy === author,
    firstReviewAt: reviewTimes.length === 0 ? null : Math.min(...reviewTimes),
    labels: pullRequest.labels.map(kept),
    assignees: pullRequest.assignees.filter(exists).map(({ login }) => login),
    files: pullRequest.files.map(({ path }) => path),
    fileChanges: pullRequest.files.flatMap(({ additions, deletions }) => [additions, deletions]),
  };
}

/** Those whose accounts are there, in the order in which each gave the first review. */
function reviewersOf(
  { reviewRequests }: PullRequest,
  byOthers: readonly Review[],
  mayPush: (account: Account) => boolean,
): ShownReviewer[] {
  const accounts = new Set(byOthers.map(({ author }) => author).filter(exists));
  return [...accounts].map(account => {
    const own = byOthers.filter(({ author }) => author === account);
    const isBot = account.type === 'Bot';
    const firstReviewAt = Math.min(...own.map(({ submittedAt }) => submittedAt ?? Number.POSITIVE_INFINITY));
    const asked = reviewRequests.find(({ reviewer, at }) => !isBot && reviewer === account && at <= firstReviewAt);
    const standing = own.filter(({ state }) => state !== 'DISMISSED').map(({ state }) => state.toLowerCase());
    const verdict = standing.findLast(state => state !== 'commented') ?? standing.at(-1) ?? null;
    return {
      githubId: isBot ? null : account.id,
      login: account.login,
      isBot,
      verdict: verdict as Reviewer['verdict'],
      comments: own.reduce((sum, { comments }) => sum + comments, 0),
      firstReviewAt,
      requestedAt: asked?.at ?? null,
      mayWrite: mayPush(account),
    };
  });
}
