import { pageInfo } from './pages.ts';
import { rateLimit } from './transport.ts';

const longSelections = {
  files: { filter: '', entry: 'path additions deletions' },
  reviews: {
    filter: ', states: [APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED]',
    entry:
      'submittedAt state authorCanPushToRepository comments { totalCount } author { __typename login ... on User { databaseId } }',
  },
};

/** A list that is read to its end. */
export type LongList = keyof typeof longSelections;
export const longLists = Object.keys(longSelections) as LongList[];

/** A page of the list. @param after the variable with the cursor of the page before */
export function selectPage(name: LongList, after?: string): string {
  const { filter, entry } = longSelections[name];
  return `${name}(first: 100${after === undefined ? '' : `, after: ${after}`}${filter}) { ${pageInfo} nodes { ${entry} } }`;
}

/**
 * Every fact in one request, except what is on further pages of its lists. A pull request has at most 520 nodes (GitHub
 * allows 500,000 a request). `reviews` leaves out pending ones. A dismissed review no longer says what its verdict was;
 * the event of its dismissal does.
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
  headRefOid
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
  reviewDecision
  repository {
    id
    databaseId
    name
    isArchived
    isFork
    isPrivate
    owner {
      id
      login
      ... on Organization { databaseId }
      ... on User { databaseId }
    }
  }
  mergedBy { __typename login ... on User { databaseId } }
  milestone { title }
  commits { totalCount }
  comments { totalCount }
  closingIssuesReferences { totalCount }
  labels(first: 100) { nodes { name } }
  assignees(first: 20) { nodes { login databaseId } }
  ${selectPage('files')}
  ${selectPage('reviews')}
  latestOpinionatedReviews(first: 100) { nodes { state authorCanPushToRepository author { __typename login } } }
  timelineItems(last: 100, itemTypes: [REVIEW_DISMISSED_EVENT, READY_FOR_REVIEW_EVENT, REVIEW_REQUESTED_EVENT]) {
    nodes {
      ... on ReviewDismissedEvent { previousReviewState review { author { __typename login } } }
      ... on ReadyForReviewEvent { createdAt }
      ... on ReviewRequestedEvent { createdAt requestedReviewer { ... on User { login } } }
    }
  }
}`;

export const pullRequestsQuery = `
query PullRequests($ids: [ID!]!) {
  ${rateLimit}
  nodes(ids: $ids) { __typename ...PullRequestFacts }
}
${pullRequestFragment}`;

/** The points that a fetch of fifty costs: 301 connections, a point for a hundred. */
export const pointsOfFetch = 3;

/** The ids and times of a page of pull requests. GitHub answers this even if it fails on the facts of one. */
export const pullRequestListQuery = `
query PullRequestList($repository: ID!, $first: Int!, $after: String, $orderBy: IssueOrder!) {
  ${rateLimit}
  node(id: $repository) {
    ... on Repository {
      pullRequests(first: $first, after: $after, orderBy: $orderBy) {
        ${pageInfo}
        nodes { id fullDatabaseId updatedAt }
      }
    }
  }
}`;
