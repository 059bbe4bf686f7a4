import { Organisation } from './organisation.ts';
import { associationOf, hadHead, headShaOf } from './payloads.ts';
import { PullRequest, type Review } from './pull-request.ts';
import { Repository } from './repository.ts';
import type { Grants } from './rest.ts';
import { githubError } from './schema.ts';
import { type Account, isoTime, type Node, optionalIsoTime, type World } from './world.ts';

/** What one GraphQL request sees. */
export interface Viewer {
  world: World;
  /** An App's installation sees its own organisation, a token all. */
  organisation: Organisation | undefined;
  grants: Grants;
  /** Pull requests that fail in this reply, completely or in one field, by node id. */
  broken: Map<string, { type: string; message: string; field: string | undefined }>;
  rateLimit: object | null;
}

interface PageArguments {
  first?: number;
  last?: number;
  after?: string | null;
}

type Position = [number, number];

const cursorOf = (position: Position) => Buffer.from(`cursor:v2:${JSON.stringify(position)}`).toString('base64');

function readCursor(cursor: string): Position {
  const text = Buffer.from(cursor, 'base64').toString();
  if (!text.startsWith('cursor:v2:'))
    throw githubError('INVALID_CURSOR_ARGUMENTS', `\`${cursor}\` does not appear to be a valid cursor.`);
  return JSON.parse(text.slice('cursor:v2:'.length));
}

/**
 * One page of `items`, which are in ascending (`direction` 1) or descending (-1) order of their positions. A cursor is the
 * position of the last item seen, so it stays valid while items come, go and move.
 */
function connection<Item>(
  items: readonly Item[],
  { first, last, after }: PageArguments,
  view: (item: Item) => unknown,
  positionOf: (item: Item, index: number) => Position = (_, index) => [index, 0],
  direction: 1 | -1 = 1,
) {
  let start = 0;
  if (after) {
    const [time, id] = readCursor(after);
    const isPast = ([itemTime, itemId]: Position) => direction * (itemTime - time || itemId - id) > 0;
    const found = items.findIndex((item, index) => isPast(positionOf(item, index)));
    start = found === -1 ? items.length : found;
  }
  const end = first === undefined ? items.length : Math.min(start + first, items.length);
  if (first === undefined && last !== undefined) start = Math.max(start, end - last);
  const page = items.slice(start, end);
  const cursors = page.map((item, index) => cursorOf(positionOf(item, start + index)));
  return {
    totalCount: items.length,
    nodes: () => page.map(view),
    edges: () => page.map((item, index) => ({ cursor: cursors[index], node: view(item) })),
    pageInfo: { endCursor: cursors.at(-1) ?? null, hasNextPage: end < items.length },
  };
}

function accountView(account: Account | null) {
  if (account === null || account.deleted) return null;
  const { type, nodeId, id, login, name, avatarUrl } = account;
  return { __typename: type, id: nodeId, databaseId: id, login, name, avatarUrl };
}

function organisationView(organisation: Organisation) {
  const { nodeId, id, login, name, avatarUrl, world } = organisation;
  return {
    __typename: 'Organization',
    id: nodeId,
    databaseId: id,
    login,
    name,
    avatarUrl,
    repository: ({ name: wanted }: { name: string }) => {
      const found = findRepository(world, login, wanted);
      if (found) return repositoryView(found);
      throw githubError('NOT_FOUND', `Could not resolve to a Repository with the name '${login}/${wanted}'.`);
    },
    repositories: ({ orderBy, ...page }: PageArguments & { orderBy?: { field: string; direction: string } }) => {
      const timeOf = (each: Repository) => (orderBy?.field === 'CREATED_AT' ? each.createdAt : each.updatedAt);
      const direction = orderBy?.direction === 'DESC' ? -1 : 1;
      return connection(
        organisation.repositories.toSorted((a, b) => direction * (timeOf(a) - timeOf(b) || a.id - b.id)),
        page,
        repositoryView,
        each => [timeOf(each), each.id],
        direction,
      );
    },
    viewerIsAMember: (_: unknown, viewer: Viewer) => viewer.organisation === undefined && viewer.grants.viewerIsMember,
    membersWithRole: (page: PageArguments, { grants, ...viewer }: Viewer) => {
      const seesAll = viewer.organisation !== undefined || (grants.viewerIsMember && grants.readsMembers);
      const isShown = ({ id: member }: Account) => seesAll || organisation.publicMembers.has(member);
      return connection(
        [...organisation.members.values()].filter(isShown).toSorted((a, b) => a.id - b.id),
        page,
        accountView,
        member => [member.id, 0],
      );
    },
  };
}

interface PullRequestArguments extends PageArguments {
  orderBy?: { field: 'COMMENTS' | 'CREATED_AT' | 'UPDATED_AT'; direction: 'ASC' | 'DESC' };
  states?: string[];
}

function repositoryView(repository: Repository) {
  const { nodeId, id, name, organisation } = repository;
  return {
    __typename: 'Repository',
    id: nodeId,
    databaseId: id,
    name,
    owner: () => organisationView(organisation),
    isArchived: repository.archived,
    isFork: repository.fork,
    isPrivate: repository.private,
    pullRequests: ({ orderBy, states, ...page }: PullRequestArguments, viewer: Viewer) => {
      const order = orderBy?.field === 'UPDATED_AT' ? 'updatedAt' : 'createdAt';
      const direction = orderBy?.direction === 'DESC' ? -1 : 1;
      const shown = repository.shownBy(order).filter(each => !states || states.includes(each.state));
      if (direction === -1) shown.reverse();
      const view = (each: PullRequest) => pullRequestView(each, viewer);
      return connection(shown, page, view, each => [each[order], each.id], direction);
    },
  };
}

const reviewView = (review: Review, repository: Repository) => {
  const { nodeId, author, state, body, submittedAt, comments, id } = review;
  return {
    __typename: 'PullRequestReview',
    id: nodeId,
    fullDatabaseId: String(id),
    author: accountView(author),
    authorCanPushToRepository: canPush(author, repository),
    state,
    body,
    submittedAt: optionalIsoTime(submittedAt),
    comments: { totalCount: comments },
  };
};

/** Members of the organisation may, unless they are the repository's readers. */
const canPush = (account: Account | null, { organisation, readers }: Repository): boolean =>
  account !== null && !account.deleted && organisation.members.has(account.id) && !readers.has(account.id);

/** GitHub lists no more. */
const maxListedFiles = 3_000;

/** Each reviewer's last review with a verdict, also if it was dismissed. */
function latestOpinionatedReviews(reviews: Review[]): Review[] {
  const latest = new Map<Account | null, Review>();
  for (const review of reviews) {
    if (review.state !== 'COMMENTED' && review.state !== 'PENDING') latest.set(review.author, review);
  }
  return [...latest.values()];
}

/** An Error for a broken pull request: GraphQL turns it into null with an entry in `errors`. */
function pullRequestView(pullRequest: PullRequest, viewer: Viewer): object {
  const broken = viewer.broken.get(pullRequest.nodeId);
  if (broken && broken.field === undefined) return githubError(broken.type, broken.message);
  const view = viewOf(pullRequest);
  if (broken?.field === undefined) return view;
  return {
    ...view,
    [broken.field]: () => {
      throw githubError(broken.type, broken.message);
    },
  };
}

function viewOf(pullRequest: PullRequest) {
  const { repository, author } = pullRequest;
  return {
    // GraphQL has the same names for most.
    ...pullRequest,
    __typename: 'PullRequest',
    id: pullRequest.nodeId,
    fullDatabaseId: String(pullRequest.id),
    url: pullRequest.url,
    isDraft: pullRequest.draft,
    author: accountView(author),
    authorAssociation: associationOf(pullRequest),
    repository: () => repositoryView(repository),
    baseRefName: pullRequest.base,
    headRefName: pullRequest.head,
    headRefOid: headShaOf(pullRequest),
    isCrossRepository: pullRequest.fromFork,
    milestone: pullRequest.milestone === null ? null : { title: pullRequest.milestone },
    createdAt: isoTime(pullRequest.createdAt),
    updatedAt: isoTime(pullRequest.updatedAt),
    mergedBy: accountView(pullRequest.mergedBy),
    mergedAt: optionalIsoTime(pullRequest.mergedAt),
    closedAt: optionalIsoTime(pullRequest.closedAt),
    commits: { totalCount: pullRequest.commits },
    comments: { totalCount: pullRequest.comments },
    closingIssuesReferences: { totalCount: pullRequest.linkedIssues },
    labels: (page: PageArguments) => connection(pullRequest.labels, page, name => ({ name })),
    assignees: (page: PageArguments) => connection(pullRequest.assignees, page, accountView),
    files: (page: PageArguments) => connection(pullRequest.files.slice(0, maxListedFiles), page, file => file),
    reviews: ({ states, ...page }: PageArguments & { states?: string[] }) =>
      connection(
        pullRequest.reviews.filter(review => !states || states.includes(review.state)),
        page,
        review => reviewView(review, repository),
      ),
    latestOpinionatedReviews: (page: PageArguments) =>
      connection(latestOpinionatedReviews(pullRequest.reviews), page, review => reviewView(review, repository)),
    timelineItems: ({ itemTypes, ...page }: PageArguments & { itemTypes?: string[] }) =>
      connection(
        [
          ...pullRequest.dismissals.map(({ review, previousState, at }) => ({
            type: 'REVIEW_DISMISSED_EVENT',
            __typename: 'ReviewDismissedEvent',
            createdAt: isoTime(at),
            previousReviewState: previousState,
            review: reviewView(review, repository),
          })),
          ...pullRequest.reviewRequests.map(({ reviewer, at }) => ({
            type: 'REVIEW_REQUESTED_EVENT',
            __typename: 'ReviewRequestedEvent',
            createdAt: isoTime(at),
            requestedReviewer: reviewer === null ? { __typename: 'Team' } : accountView(reviewer),
          })),
          ...pullRequest.readyTimes.map(time => ({
            type: 'READY_FOR_REVIEW_EVENT',
            __typename: 'ReadyForReviewEvent',
            createdAt: isoTime(time),
          })),
        ]
          .filter(({ type }) => itemTypes?.includes(type))
          .sort((one, other) => Date.parse(one.createdAt) - Date.parse(other.createdAt)),
        page,
        item => item,
      ),
  };
}

function isVisible(node: Node, { organisation }: Viewer): boolean {
  if (organisation === undefined) return true;
  if (node instanceof PullRequest) return node.repository.organisation === organisation;
  if (node instanceof Repository) return node.organisation === organisation;
  return !(node instanceof Organisation) || node === organisation;
}

function nodeView(id: string, viewer: Viewer) {
  const found = viewer.world.nodes.get(id);
  const node = found instanceof PullRequest ? found.shown() : found;
  if (!node || !isVisible(node, viewer)) {
    return githubError('NOT_FOUND', `Could not resolve to a node with the global id of '${id}'.`);
  }
  if (node instanceof PullRequest) return pullRequestView(node, viewer);
  if (node instanceof Repository) return repositoryView(node);
  if (node instanceof Organisation) return organisationView(node);
  return accountView(node);
}

function findRepository(world: World, owner: string, name: string): Repository | undefined {
  const organisation = world.organisations.get(owner.toLowerCase());
  const current = organisation?.repositories.find(each => each.name.toLowerCase() === name.toLowerCase());
  const former = world.formerNames.get(`${owner}/${name}`.toLowerCase());
  return current ?? (former?.removed ? undefined : former);
}

interface CheckRunInput {
  repositoryId: string;
  headSha: string;
  name: string;
  status: string;
  conclusion: string;
  externalId?: string;
  output: { title: string; summary: string };
}

/** Only Apps may write checks: https://docs.github.com/en/graphql/reference/mutations#createcheckrun */
function createCheckRun({ input }: { input: CheckRunInput }, viewer: Viewer) {
  const { repositoryId, headSha, name, conclusion, externalId, output } = input;
  const repository = viewer.world.nodes.get(repositoryId);
  if (!(repository instanceof Repository) || !isVisible(repository, viewer)) {
    throw githubError('NOT_FOUND', `Could not resolve to a node with the global id of '${repositoryId}'.`);
  }
  const isApp = viewer.organisation !== undefined || viewer.grants.tokenWritesChecks === true;
  if (!isApp || viewer.grants.permissions.checks !== 'write') {
    throw githubError('FORBIDDEN', 'Resource not accessible by integration');
  }
  if (viewer.broken.has(headSha)) throw githubError('', 'Something went wrong while executing your query.');
  if (!repository.pullRequests.some(each => hadHead(each, headSha))) {
    throw githubError('UNPROCESSABLE', `No commit found for SHA: ${headSha}`);
  }
  if (output.title.length > 255 || Buffer.byteLength(output.summary) > 65_535) {
    throw githubError('UNPROCESSABLE', 'Output is too long');
  }
  repository.checkRuns.push({ headSha, name, conclusion, externalId, ...output });
  return { checkRun: { __typename: 'CheckRun', id: `CR_${repository.checkRuns.length}`, name } };
}

/** The root: the fields of GitHub's `Query` and `Mutation` that the service asks for. */
export const rootView = {
  createCheckRun,
  rateLimit: (_: unknown, { rateLimit }: Viewer) => rateLimit,
  node: ({ id }: { id: string }, viewer: Viewer) => nodeView(id, viewer),
  nodes: ({ ids }: { ids: string[] }, viewer: Viewer) => {
    if (ids.length > 100) {
      throw githubError('ARGUMENT_LIMIT', `You may not provide more than 100 node ids; you provided ${ids.length}.`);
    }
    return ids.map(id => nodeView(id, viewer));
  },
  organization: ({ login }: { login: string }, viewer: Viewer) => {
    const found = viewer.world.organisations.get(login.toLowerCase());
    if (found && isVisible(found, viewer)) return organisationView(found);
    throw githubError('NOT_FOUND', `Could not resolve to an Organization with the login of '${login}'.`);
  },
};
