import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { maxReviewers, type PullRequestState, type Reviewer } from '../pull-request.ts';
import { storable } from '../text/storable.ts';
import { decode, linkOrNone, matches, optionalUnixSeconds, present, Reply, unixSeconds } from './decode.ts';
import { Identity, identityOf, nameOf } from './organisation.ts';
import { pageOf, readPageInfo } from './pages.ts';

const { CommitSha, Count, Entries, Flag, Id, Link, List, Nullable, OneOf, OptionalLink, Text, Time, Total } = Reply;

/** Without what only we know. */
type FetchedReviewer = Omit<Reviewer, 'member' | 'login'> & { githubId: number | null; login: string };

const Actor = Type.Object({ __typename: Text, login: Text });
const Identified = Type.Object({ ...Actor.properties, databaseId: Type.Optional(Nullable(Id)) });
const Author = Type.Object({
  ...Actor.properties,
  avatarUrl: OptionalLink,
  databaseId: Nullable(Id),
  name: Nullable(Text),
});
const Review = Type.Object({
  author: Nullable(Identified),
  submittedAt: Nullable(Time),
  state: Text,
  authorCanPushToRepository: Nullable(Flag),
  comments: Total,
});
const Verdict = Type.Object({ author: Nullable(Actor), state: Text, authorCanPushToRepository: Nullable(Flag) });
/** The dismissal of a review, a request for one, or that it is ready: each has some of these. */
const TimelineItem = Type.Object({
  createdAt: Type.Optional(Time),
  previousReviewState: Type.Optional(Text),
  review: Nullable(Type.Object({ author: Nullable(Actor) })),
  /** A team has no login. */
  requestedReviewer: Nullable(Type.Object({ login: Type.Optional(Text) })),
});
const File = Type.Object({ path: Text, additions: Count, deletions: Count });
const listOf = <Schema extends TSchema>(entry: Schema) => Nullable(Type.Object({ nodes: Entries(entry) }));
const PullRequestFacts = Type.Object({
  id: Text,
  fullDatabaseId: Id,
  number: Count,
  url: Link,
  title: Text,
  body: Nullable(Text),
  state: OneOf('OPEN', 'CLOSED', 'MERGED'),
  isDraft: Flag,
  authorAssociation: Text,
  baseRefName: Text,
  headRefName: Text,
  headRefOid: CommitSha,
  isCrossRepository: Flag,
  additions: Count,
  deletions: Count,
  changedFiles: Count,
  createdAt: Time,
  updatedAt: Time,
  mergedAt: Nullable(Time),
  closedAt: Nullable(Time),
  author: Nullable(Author),
  reviewDecision: Nullable(Text),
  repository: Type.Object({
    id: Text,
    databaseId: Id,
    name: Text,
    isArchived: Flag,
    isFork: Flag,
    isPrivate: Flag,
    owner: Identity,
  }),
  mergedBy: Nullable(Identified),
  milestone: Nullable(Type.Object({ title: Text })),
  commits: Total,
  comments: Total,
  closingIssuesReferences: Nullable(Total),
  labels: listOf(Type.Object({ name: Text })),
  assignees: listOf(Type.Object({ login: Text, databaseId: Nullable(Id) })),
  files: Nullable(pageOf({ nodes: Entries(File) })),
  reviews: Nullable(pageOf({ nodes: Entries(Review) })),
  latestOpinionatedReviews: listOf(Verdict),
  timelineItems: Type.Object({ nodes: Entries(TimelineItem) }),
});
const mayBeNull = OneOf('closingIssuesReferences', 'files', 'labels', 'latestOpinionatedReviews', 'reviews');
const CompleteFacts = Type.Record(mayBeNull, Type.Object({}));
const Node = Type.Object({ id: Text });

const Listed = Type.Object({ id: Text, fullDatabaseId: Id, updatedAt: Time });
const Page = Type.Object({ pullRequests: pageOf({ nodes: List(Type.Unknown()) }) });

export const isPullRequestPage = (repository: unknown) => matches(Page, repository);

/** Each node is read by {@link readListedPullRequest}. @throws UnexpectedReply */
export function readPullRequestPage(repository: unknown) {
  const { pullRequests } = decode(Page, repository);
  return { nodes: pullRequests.nodes, pageInfo: readPageInfo(pullRequests) };
}

type Facts = Static<typeof PullRequestFacts>;

/** A bot and a person may share a login. */
const actorKey = (actor: Static<typeof Actor> | null | undefined) =>
  actor ? `${actor.__typename} ${actor.login}` : null;

/**
 * Counts what people did, without the author, and the reviews of bots. A ghost (its account is gone) counts as
 * another person, and so do the authors of the reviews that GitHub counts and does not list.
 */
function readReviews({ author, reviews, latestOpinionatedReviews, timelineItems }: Facts) {
  const own = actorKey(author);
  const isOther = (entry: { author?: Static<typeof Actor> | null | undefined }) =>
    own === null || actorKey(entry.author) !== own;
  const isPerson = (entry: { author?: Static<typeof Actor> | null | undefined }) =>
    isOther(entry) && entry.author?.__typename !== 'Bot';
  const listed = present(reviews?.nodes);
  const unlisted = Math.max((reviews?.totalCount ?? 0) - listed.length, 0);
  const byPeople = listed.filter(isPerson);
  const times = byPeople.flatMap(({ submittedAt }) => optionalUnixSeconds(submittedAt) ?? []);
  const verdicts = present(latestOpinionatedReviews?.nodes).filter(isPerson);
  const approvals = verdicts.filter(({ state }) => state === 'APPROVED');
  const dismissed = present(timelineItems.nodes).filter(
    item => item.previousReviewState === requested && isPerson(item.review ?? {}),
  );
  return {
    reviews: byPeople.length + unlisted,
    botReviews: listed.filter(isOther).length - byPeople.length,
    distinctReviewers: new Set(byPeople.map(({ author }) => actorKey(author))).size,
    firstReviewAt: times.sort((one, other) => one - other)[0] ?? null,
    approvals: approvals.length,
    writerApprovals: approvals.filter(({ authorCanPushToRepository: canPush }) => canPush).length,
    changesRequested: verdicts.filter(({ state }) => state === requested).length,
    timesChangesRequested: byPeople.filter(({ state }) => state === requested).length + dismissed.length,
  };
}
const requested = 'CHANGES_REQUESTED';

function readReadyAt({ isDraft, createdAt, timelineItems }: Facts): number | null {
  if (isDraft) return null;
  const isReady = (item: Static<typeof TimelineItem>) =>
    !('requestedReviewer' in item || 'previousReviewState' in item);
  return unixSeconds(present(timelineItems.nodes).findLast(isReady)?.createdAt ?? createdAt);
}

const opinions = new Map<string, Reviewer['verdict']>([
  ['APPROVED', 'approved'],
  ['CHANGES_REQUESTED', 'changes_requested'],
]);

/** All who reviewed it and have an account, without the author. */
function readReviewers({ author, reviews, timelineItems }: Facts): FetchedReviewer[] {
  const requestedAt = new Map<string | undefined, number>();
  // The first request stays.
  for (const { requestedReviewer, createdAt } of present(timelineItems.nodes).reverse()) {
    if (createdAt !== undefined) requestedAt.set(requestedReviewer?.login, unixSeconds(createdAt));
  }
  const submitted = present(reviews?.nodes)
    .flatMap(review => {
      const [reviewer, submittedAt] = [review.author, optionalUnixSeconds(review.submittedAt)];
      if (!reviewer || submittedAt === null || actorKey(reviewer) === actorKey(author)) return [];
      return [{ ...review, reviewer, submittedAt }];
    })
    .sort((one, other) => one.submittedAt - other.submittedAt);
  const byReviewer = new Map<string | null, typeof submitted>();
  for (const review of submitted) {
    const key = actorKey(review.reviewer);
    const own = byReviewer.get(key);
    if (own === undefined) byReviewer.set(key, [review]);
    else own.push(review);
  }
  return [...byReviewer.values()].slice(0, maxReviewers).map(own => {
    const [first, last] = [own[0], own.at(-1)] as [(typeof own)[0], (typeof own)[0]];
    const { login, __typename: type, databaseId } = last.reviewer;
    const isBot = type === 'Bot';
    const asked = isBot ? undefined : requestedAt.get(login);
    const comment = own.some(({ state }) => state === 'COMMENTED') ? 'commented' : null;
    return {
      githubId: databaseId ? Number(databaseId) : null,
      login,
      isBot,
      verdict: own.flatMap(({ state }) => opinions.get(state) ?? []).at(-1) ?? comment,
      comments: own.reduce((sum, { comments }) => sum + comments.totalCount, 0),
      firstReviewAt: first.submittedAt,
      requestedAt: asked !== undefined && asked <= first.submittedAt ? asked : null,
      mayWrite: last.authorCanPushToRepository ?? false,
    };
  });
}

function readMerger({ state, mergedBy, author }: Facts) {
  const isMerged = state === 'MERGED';
  return {
    mergedBy: isMerged ? (mergedBy?.login ?? 'ghost') : null,
    /** Null as for the author, and for bots. */
    mergerGithubId: isMerged && mergedBy?.databaseId ? Number(mergedBy.databaseId) : null,
    selfMerged: isMerged && author != null && actorKey(author) === actorKey(mergedBy),
  };
}

/**
 * What all paths of a pull request may have together, so that rules that read them stay within their time. It is enough
 * for GitHub's 3,000 files with 87 characters each.
 */
const maxPathCharacters = 262_144;

/** If the paths are too long together, each long one loses its middle: globs usually look at the beginning or the end. */
function shorten(paths: string[]): string[] {
  if (paths.reduce((sum, { length }) => sum + length, 0) <= maxPathCharacters) return paths;
  const half = Math.floor(maxPathCharacters / paths.length / 2) - 1;
  return paths.map(path =>
    path.length <= 2 * half ? path : storable(`${path.slice(0, half)}\u2026${path.slice(-half)}`),
  );
}

function readFiles({ files }: Facts) {
  const listed = present(files?.nodes);
  const changes = listed.flatMap(({ additions, deletions }) => [additions, deletions]);
  return {
    files: shorten(listed.map(({ path }) => path)),
    // GitHub computes no diff of thousands of files: no list, and 0 for `changedFiles`, without an error. See
    // https://github.com/anthropics/claude-code-action/issues/1587. What is unknown must not count as nothing.
    fileChanges: files ? changes : null,
  };
}

function stateOf(state: 'CLOSED' | 'MERGED' | 'OPEN', draft: boolean): PullRequestState {
  if (state === 'MERGED') return 'merged';
  if (state === 'CLOSED') return 'closed';
  return draft ? 'draft' : 'open';
}

function readAuthor(author: Static<typeof Author> | null | undefined) {
  return {
    author: author?.login ?? 'ghost',
    authorIsBot: author?.__typename === 'Bot',
    /** Null if the account is gone (a "ghost") or has no numeric id. */
    authorGithubId: author?.databaseId ? Number(author.databaseId) : null,
    authorName: author ? nameOf(author) : 'ghost',
    /** Empty for a ghost, and if GitHub gives no address that can be used. */
    authorPhotoUrl: linkOrNone(author?.avatarUrl),
  };
}

/** Whether all that may be null in GitHub's schema is there: then no failure elsewhere removed a part. */
export const isComplete = (node: unknown) => matches(CompleteFacts, node);

/** @throws UnexpectedReply */
export function readListedPullRequest(node: unknown) {
  const { fullDatabaseId, id, updatedAt } = decode(Listed, node);
  return { githubId: Number(fullDatabaseId), nodeId: id, sourceUpdatedAt: unixSeconds(updatedAt) };
}

/** Undefined if GitHub did not return it. */
export const nodeIdOf = (node: unknown) => (matches(Node, node) ? node.id : undefined);

/**
 * Reads a pull request that was asked for with every fact.
 * @throws UnexpectedReply if anything in it is not as GitHub documents it
 */
export function readPullRequest(value: unknown) {
  const node = decode(PullRequestFacts, value);
  const { repository } = node;
  return {
    githubId: Number(node.fullDatabaseId),
    nodeId: node.id,
    /** The page a person opens. */
    url: node.url,
    /** The commit that the facts are those of. */
    headSha: node.headRefOid,
    repositoryGithubId: Number(repository.databaseId),
    repositoryNodeId: repository.id,
    repositoryOwner: identityOf(repository.owner),
    repository: `${repository.owner.login}/${repository.name}`,
    number: node.number,
    title: node.title,
    body: node.body ?? '',
    state: stateOf(node.state, node.isDraft),
    draft: node.isDraft,
    ...readAuthor(node.author),
    authorAssociation: node.authorAssociation,
    base: node.baseRefName,
    head: node.headRefName,
    fromFork: node.isCrossRepository,
    milestone: node.milestone?.title ?? null,
    additions: node.additions,
    deletions: node.deletions,
    changedFiles: node.changedFiles,
    commits: node.commits.totalCount,
    comments: node.comments.totalCount,
    ...readReviews(node),
    reviewers: readReviewers(node),
    ...readMerger(node),
    ...readFiles(node),
    reviewDecision: node.reviewDecision ?? null,
    readyAt: readReadyAt(node),
    repositoryIsArchived: repository.isArchived,
    repositoryIsFork: repository.isFork,
    repositoryIsPrivate: repository.isPrivate,
    linkedIssues: node.closingIssuesReferences?.totalCount ?? 0,
    createdAt: unixSeconds(node.createdAt),
    sourceUpdatedAt: unixSeconds(node.updatedAt),
    mergedAt: optionalUnixSeconds(node.mergedAt),
    closedAt: optionalUnixSeconds(node.closedAt),
    labels: present(node.labels?.nodes).map(label => label.name),
    assignees: present(node.assignees?.nodes).map(assignee => assignee.login),
    /** In the order of `assignees`. */
    assigneeGithubIds: present(node.assignees?.nodes).map(({ databaseId }) => (databaseId ? Number(databaseId) : null)),
  };
}

/** A pull request on GitHub: its facts, its repository and its author, with GitHub's numeric ids. */
export type FetchedPullRequest = ReturnType<typeof readPullRequest>;
