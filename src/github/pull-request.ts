import { type Static, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { PullRequestRecord, PullRequestState } from '../scoring/facts.ts';
import { decode, optionalUnixSeconds, present, Reply, unixSeconds } from './decode.ts';
import { type GithubIdentity, Identity, identityOf } from './organisation.ts';
import { pageInfo, pageOf, readPageInfo } from './pages.ts';
import { rateLimit } from './transport.ts';

const { Count, Entries, Flag, Id, Link, Nullable, OneOf, Text, Time, Total } = Reply;

/** The ids of a pull request, and when it last changed, in Unix seconds. */
export interface ListedPullRequest {
  githubId: number;
  nodeId: string;
  sourceUpdatedAt: number;
}

/** A pull request on GitHub: its facts, its repository and its author, with GitHub's numeric ids. */
export interface FetchedPullRequest extends PullRequestRecord {
  githubId: number;
  nodeId: string;
  /** The page a person opens. */
  url: string;
  repositoryGithubId: number;
  repositoryNodeId: string;
  repositoryName: string;
  repositoryOwner: GithubIdentity;
  /** Null if the account is gone (a "ghost") or has no numeric id. */
  authorGithubId: number | null;
  /** The login if the account has no name. */
  authorName: string;
  /** Empty for a ghost. */
  authorPhotoUrl: string;
}

/**
 * Every fact in one request. A pull request has at most 420 nodes (GitHub allows 500,000 a request), and 50 cost about
 * three of an hour's 5,000 points. `reviews` leaves out pending ones. The first hundred show when the first review was,
 * and which are the author's own.
 */
const pullRequestFragment = `
fragment PullRequestFacts on PullRequest {
  id
  fullDatabaseId
  number
  url
  title
  body
  state
  isDraft
  authorAssociation
  baseRefName
  headRefName
  isCrossRepository
  additions
  deletions
  changedFiles
  createdAt
  updatedAt
  mergedAt
  closedAt
  author {
    __typename
    login
    avatarUrl
    ... on User { databaseId name }
    ... on Bot { databaseId }
    ... on Mannequin { databaseId }
    ... on Organization { databaseId name }
  }
  repository {
    id
    databaseId
    name
    owner {
      id
      login
      ... on Organization { databaseId }
      ... on User { databaseId }
    }
  }
  milestone { title }
  commits { totalCount }
  comments { totalCount }
  closingIssuesReferences { totalCount }
  labels(first: 100) { nodes { name } }
  assignees(first: 20) { nodes { login } }
  files(first: 100) { nodes { path } }
  reviews(first: 100, states: [APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED]) {
    totalCount
    nodes { submittedAt author { __typename login } }
  }
  latestOpinionatedReviews(first: 100) { nodes { state } }
}`;

const Actor = Type.Object({ __typename: Text, login: Text });
const Author = Type.Object({ ...Actor.properties, avatarUrl: Link, databaseId: Nullable(Id), name: Nullable(Text) });
const Reviews = Type.Object({
  totalCount: Count,
  nodes: Entries(Type.Object({ submittedAt: Nullable(Time), author: Nullable(Actor) })),
});
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
  isCrossRepository: Flag,
  additions: Count,
  deletions: Count,
  changedFiles: Count,
  createdAt: Time,
  updatedAt: Time,
  mergedAt: Nullable(Time),
  closedAt: Nullable(Time),
  author: Nullable(Author),
  repository: Type.Object({ id: Text, databaseId: Id, name: Text, owner: Identity }),
  milestone: Nullable(Type.Object({ title: Text })),
  commits: Total,
  comments: Total,
  closingIssuesReferences: Nullable(Total),
  labels: Nullable(Type.Object({ nodes: Entries(Type.Object({ name: Text })) })),
  assignees: Nullable(Type.Object({ nodes: Entries(Type.Object({ login: Text })) })),
  files: Nullable(Type.Object({ nodes: Entries(Type.Object({ path: Text })) })),
  reviews: Nullable(Reviews),
  latestOpinionatedReviews: Nullable(Type.Object({ nodes: Entries(Type.Object({ state: Text })) })),
});
const factsCheck = TypeCompiler.Compile(PullRequestFacts);
const mayBeNull = OneOf('closingIssuesReferences', 'files', 'labels', 'latestOpinionatedReviews', 'reviews');
const completeCheck = TypeCompiler.Compile(Type.Record(mayBeNull, Type.Object({})));
const nodeCheck = TypeCompiler.Compile(Type.Object({ id: Text }));

export const pullRequestsQuery = `
query PullRequests($ids: [ID!]!) {
  ${rateLimit}
  nodes(ids: $ids) { __typename ...PullRequestFacts }
}
${pullRequestFragment}`;

/** The points that a page of fifty costs: 251 connections, a point for a hundred. */
export const pointsOfPage = 3;

const pageQuery = (operation: string, selection: string) => `
query ${operation}($repository: ID!, $first: Int!, $after: String, $orderBy: IssueOrder!) {
  ${rateLimit}
  node(id: $repository) {
    ... on Repository {
      pullRequests(first: $first, after: $after, orderBy: $orderBy) {
        ${pageInfo}
        nodes { ${selection} }
      }
    }
  }
}`;

export const pullRequestPageQuery = `${pageQuery('PullRequestPage', '...PullRequestFacts')}
${pullRequestFragment}`;

/** The pull requests of a page. GitHub can answer this even if it fails on the facts of one. */
export const pullRequestListQuery = pageQuery('PullRequestList', 'id fullDatabaseId updatedAt');
const listedCheck = TypeCompiler.Compile(Type.Object({ id: Text, fullDatabaseId: Id, updatedAt: Time }));
const pageCheck = TypeCompiler.Compile(Type.Object({ pullRequests: pageOf({ nodes: Entries(Type.Unknown()) }) }));

export const isPullRequestPage = (repository: unknown) => pageCheck.Check(repository);

/** Each node is read by {@link readPullRequest}. @throws UnexpectedReply */
export function readPullRequestPage(repository: unknown, after: string | null) {
  const { pullRequests } = decode(pageCheck, repository);
  return { nodes: pullRequests.nodes ?? [], pageInfo: readPageInfo(pullRequests, after) };
}

/** Counts the reviews of others. A ghost's, which has no author, counts, and so do all past the first hundred. */
function readReviews(reviews: Static<typeof Reviews>, author: string | null) {
  const listed = present(reviews.nodes);
  const others = listed.filter(review => author === null || actorKey(review.author) !== author);
  const times = others.flatMap(({ submittedAt }) => optionalUnixSeconds(submittedAt) ?? []);
  return {
    reviews: Math.max(reviews.totalCount - (listed.length - others.length), 0),
    firstReviewAt: times.sort((one, other) => one - other)[0] ?? null,
  };
}

/** A bot and a person may share a login. */
const actorKey = (actor: Static<typeof Actor> | null | undefined) =>
  actor ? `${actor.__typename} ${actor.login}` : null;

function stateOf(state: 'CLOSED' | 'MERGED' | 'OPEN', draft: boolean): PullRequestState {
  if (state === 'MERGED') return 'merged';
  if (state === 'CLOSED') return 'closed';
  return draft ? 'draft' : 'open';
}

function readAuthor(author: Static<typeof Author> | null | undefined) {
  if (!author) {
    return { author: 'ghost', authorIsBot: false, authorGithubId: null, authorName: 'ghost', authorPhotoUrl: '' };
  }
  return {
    author: author.login,
    authorIsBot: author.__typename === 'Bot',
    authorGithubId: author.databaseId ? Number(author.databaseId) : null,
    authorName: author.name?.trim() || author.login,
    authorPhotoUrl: author.avatarUrl,
  };
}

/** Whether all that may be null in GitHub's schema is there: then no failure elsewhere removed a part. */
export const isComplete = (node: unknown) => completeCheck.Check(node);

/** Empty if GitHub did not return the ids. */
export const readListed = (node: unknown): ListedPullRequest[] =>
  listedCheck.Check(node)
    ? [{ githubId: Number(node.fullDatabaseId), nodeId: node.id, sourceUpdatedAt: unixSeconds(node.updatedAt) }]
    : [];

/** Undefined if GitHub did not return it. */
export const nodeIdOf = (node: unknown) => (nodeCheck.Check(node) ? node.id : undefined);

/**
 * Reads one node of {@link pullRequestFragment}.
 * @throws UnexpectedReply if anything in it is not as GitHub documents it
 */
export function readPullRequest(value: unknown): FetchedPullRequest {
  const node = decode(factsCheck, value);
  const { repository } = node;
  const verdicts = present(node.latestOpinionatedReviews?.nodes);
  return {
    githubId: Number(node.fullDatabaseId),
    nodeId: node.id,
    url: node.url,
    repositoryGithubId: Number(repository.databaseId),
    repositoryNodeId: repository.id,
    repositoryName: repository.name,
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
    ...readReviews(node.reviews ?? { totalCount: 0 }, actorKey(node.author)),
    approvals: verdicts.filter(({ state }) => state === 'APPROVED').length,
    changesRequested: verdicts.filter(({ state }) => state === 'CHANGES_REQUESTED').length,
    linkedIssues: node.closingIssuesReferences?.totalCount ?? 0,
    createdAt: unixSeconds(node.createdAt),
    sourceUpdatedAt: unixSeconds(node.updatedAt),
    mergedAt: optionalUnixSeconds(node.mergedAt),
    closedAt: optionalUnixSeconds(node.closedAt),
    labels: present(node.labels?.nodes).map(label => label.name),
    assignees: present(node.assignees?.nodes).map(assignee => assignee.login),
    files: present(node.files?.nodes).map(file => file.path),
  };
}
