import type { PullRequestRecord, PullRequestState } from '../scoring/facts.ts';
import type { GithubIdentity } from './organisation.ts';
import {
  count,
  flag,
  id,
  link,
  list,
  oneOf,
  optionalId,
  optionalText,
  optionalTime,
  present,
  text,
  time,
} from './reading.ts';
import { pageInfo, rateLimit } from './transport.ts';

/** Which one it is, and when it last changed, in Unix seconds. */
export interface ListedPullRequest {
  githubId: number;
  nodeId: string;
  sourceUpdatedAt: number;
}

/** A pull request as GitHub has it: the facts, and who and what it belongs to, by GitHub's numeric ids. */
export interface FetchedPullRequest extends PullRequestRecord {
  githubId: number;
  nodeId: string;
  /** The page a person opens. */
  url: string;
  repositoryGithubId: number;
  repositoryNodeId: string;
  repositoryName: string;
  repositoryOwner: GithubIdentity;
  /** Null where the account is gone (a "ghost") or has no numeric id. */
  authorGithubId: number | null;
  /** The login where the account has no name. */
  authorName: string;
  /** Empty for a ghost. */
  authorPhotoUrl: string;
}

/**
 * Every fact in one request. Its nodes are at most 420 a pull request (GitHub allows 500,000 a request) and 50 pull
 * requests cost about three points of an hour's 5,000. `reviews` leaves out pending ones; it is read to its first
 * hundred, which dates the first review and tells the author's own from others'.
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

export const pullRequestsQuery = `
query PullRequests($ids: [ID!]!) {
  ${rateLimit}
  nodes(ids: $ids) { __typename ...PullRequestFacts }
}
${pullRequestFragment}`;

/** What GitHub takes for a page of fifty: 251 connections, a point for a hundred. */
export const pointsOfPage = 3;

const pageQuery = (operation: string, selection: string) => `
query ${operation}($repository: ID!, $first: Int!, $after: String, $orderBy: IssueOrder!) {
  ${rateLimit}
  node(id: $repository) {
    ... on Repository {
      pullRequests(first: $first, after: $after, orderBy: $orderBy) {
        totalCount
        ${pageInfo}
        nodes { ${selection} }
      }
    }
  }
}`;

export const pullRequestPageQuery = `${pageQuery('PullRequestPage', '...PullRequestFacts')}
${pullRequestFragment}`;

/** Which pull requests a page has: what GitHub can tell of one also where it fails to put its facts together. */
export const pullRequestListQuery = pageQuery('PullRequestList', 'id fullDatabaseId updatedAt');

interface Reviews {
  reviews: number;
  firstReviewAt: number | null;
}

/** A review without an author is a ghost's, and so another's. Own reviews past the first hundred count as others'. */
function readReviews(node: unknown, author: string | null): Reviews {
  const total = present(node, 'reviews') ? count(node, 'reviews.totalCount') : 0;
  let own = 0;
  let firstReviewAt: number | null = null;
  for (const review of list(node, 'reviews.nodes')) {
    if (author !== null && present(review, 'author') && actorKey(review) === author) {
      own++;
      continue;
    }
    const submittedAt = optionalTime(review, 'submittedAt');
    if (submittedAt !== null && (firstReviewAt === null || submittedAt < firstReviewAt)) firstReviewAt = submittedAt;
  }
  return { reviews: Math.max(total - own, 0), firstReviewAt };
}

/** A bot and a person may share a login. */
const actorKey = (node: unknown) => `${text(node, 'author.__typename')} ${text(node, 'author.login')}`;

function stateOf(state: 'CLOSED' | 'MERGED' | 'OPEN', draft: boolean): PullRequestState {
  if (state === 'MERGED') return 'merged';
  if (state === 'CLOSED') return 'closed';
  return draft ? 'draft' : 'open';
}

function readAuthor(node: unknown) {
  if (!present(node, 'author')) {
    return { author: 'ghost', authorIsBot: false, authorGithubId: null, authorName: 'ghost', authorPhotoUrl: '' };
  }
  const author = text(node, 'author.login');
  return {
    author,
    authorIsBot: text(node, 'author.__typename') === 'Bot',
    authorGithubId: optionalId(node, 'author.databaseId'),
    authorName: optionalText(node, 'author.name')?.trim() || author,
    authorPhotoUrl: link(node, 'author.avatarUrl'),
  };
}

/** Whether all is there that GitHub's schema lets be null: then no failure has kept back a part of it. */
export const isComplete = (node: unknown) =>
  ['closingIssuesReferences', 'files', 'labels', 'latestOpinionatedReviews', 'reviews'].every(name =>
    present(node, name),
  );

/** @throws Misfit where anything in it is not what GitHub documents. */
export function readListedPullRequest(node: unknown): ListedPullRequest {
  return {
    githubId: id(node, 'fullDatabaseId'),
    nodeId: text(node, 'id'),
    sourceUpdatedAt: time(node, 'updatedAt'),
  };
}

/**
 * Reads one node of {@link pullRequestFragment}.
 * @throws Misfit where anything in it is not what GitHub documents.
 */
export function readPullRequest(node: unknown): FetchedPullRequest {
  const draft = flag(node, 'isDraft');
  const owner = text(node, 'repository.owner.login');
  const repositoryName = text(node, 'repository.name');
  const verdicts = list(node, 'latestOpinionatedReviews.nodes').map(review => text(review, 'state'));
  return {
    githubId: id(node, 'fullDatabaseId'),
    nodeId: text(node, 'id'),
    url: link(node, 'url'),
    repositoryGithubId: id(node, 'repository.databaseId'),
    repositoryNodeId: text(node, 'repository.id'),
    repositoryName,
    repositoryOwner: {
      githubId: id(node, 'repository.owner.databaseId'),
      nodeId: text(node, 'repository.owner.id'),
      login: owner,
    },
    repository: `${owner}/${repositoryName}`,
    number: count(node, 'number'),
    title: text(node, 'title'),
    body: optionalText(node, 'body') ?? '',
    state: stateOf(oneOf(node, 'state', ['OPEN', 'CLOSED', 'MERGED']), draft),
    draft,
    ...readAuthor(node),
    authorAssociation: text(node, 'authorAssociation'),
    base: text(node, 'baseRefName'),
    head: text(node, 'headRefName'),
    fromFork: flag(node, 'isCrossRepository'),
    milestone: optionalText(node, 'milestone.title'),
    additions: count(node, 'additions'),
    deletions: count(node, 'deletions'),
    changedFiles: count(node, 'changedFiles'),
    commits: count(node, 'commits.totalCount'),
    comments: count(node, 'comments.totalCount'),
    ...readReviews(node, present(node, 'author') ? actorKey(node) : null),
    approvals: verdicts.filter(state => state === 'APPROVED').length,
    changesRequested: verdicts.filter(state => state === 'CHANGES_REQUESTED').length,
    linkedIssues: present(node, 'closingIssuesReferences') ? count(node, 'closingIssuesReferences.totalCount') : 0,
    createdAt: time(node, 'createdAt'),
    sourceUpdatedAt: time(node, 'updatedAt'),
    mergedAt: optionalTime(node, 'mergedAt'),
    closedAt: optionalTime(node, 'closedAt'),
    labels: list(node, 'labels.nodes').map(label => text(label, 'name')),
    assignees: list(node, 'assignees.nodes').map(assignee => text(assignee, 'login')),
    files: list(node, 'files.nodes').map(file => text(file, 'path')),
  };
}
