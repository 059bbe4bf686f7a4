/**
 * What the service must hold, derived from what happened on GitHub and what the service was asked, independently of how
 * the service does it. If its guarantees leave room, the model knows how much.
 */
import { isDeepStrictEqual } from 'node:util';
import type { StoredPullRequest } from '../src/database/pull-requests.ts';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import { headShaOf } from '../test/support/github/payloads.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';

export interface ModelPullRequest {
  readonly source: PullRequest;
  readonly name: string;
  /** Every state that GitHub showed in the organisation, oldest first. */
  readonly versions: Columns[];
  /** What was last seen stored: its id, and the oldest version that it can be. */
  seen?: { id: string; version: number } | undefined;
  /** A webhook about this version was acknowledged while the pull request was the organisation's, and stored or a member's. */
  acknowledged?: number | undefined;
  /**
   * It changed while it was the organisation's, or a webhook about it was acknowledged, and it has existed since: a
   * comparison fetches it, whoever its author is, and it is remembered in case they become a member.
   */
  known: boolean;
  /**
   * The latest deletion here: `updated_at` of the stored copy was at least `from`, GitHub's was `until`; a fetch with a
   * lower ticket began before it.
   */
  deleted?: { from: number; until: number; ticket: number } | undefined;
  /** Ids that were deleted. */
  readonly formerIds: Set<string>;
}

export type Model = ReturnType<typeof createModel>;

export function createModel(github: Organisation) {
  const pullRequests: ModelPullRequest[] = [];

  /** Whether GitHub shows it in the organisation. */
  const isHere = ({ source }: ModelPullRequest) => isShown(source) && source.repository.organisation === github;

  function recordVersion(pullRequest: ModelPullRequest, hasChanged: boolean): void {
    const { source, versions } = pullRequest;
    const here = isHere(pullRequest);
    if (here) {
      const shown = source.shown();
      if (shown !== undefined && shown !== source) {
        // Old facts among new names.
        const lagging = columnsOf(shown);
        if (!versions.some(version => isDeepStrictEqual(version, lagging))) versions.push(lagging);
      }
      const present = columnsOf(source);
      if (hasChanged || !isDeepStrictEqual(versions.at(-1), present)) versions.push(present);
    }
    pullRequest.known = here && (hasChanged || pullRequest.known);
    // A stored pull request is kept up to date even if its author has left.
    if (!here || !(isMember(source) || pullRequest.seen !== undefined)) pullRequest.acknowledged = undefined;
  }

  return {
    pullRequests,
    isHere,
    rules: [] as readonly string[],
    rulesetVersion: 0,
    /** GUIDs that were answered with 202. */
    acknowledged: new Set<string>(),
    add(source: PullRequest): ModelPullRequest {
      const name = `${source.repository.name}#${source.number}`;
      const pullRequest: ModelPullRequest = { source, name, versions: [], known: false, formerIds: new Set() };
      pullRequests.push(pullRequest);
      return pullRequest;
    },
    /** Call it after any change on GitHub. @param changed the pull request whose `updated_at` it set, even to the same time */
    record(changed: ModelPullRequest | undefined): void {
      for (const pullRequest of pullRequests) recordVersion(pullRequest, pullRequest === changed);
    },
    /** A webhook was acknowledged, perhaps about one of them. */
    acknowledge({ payload }: WebhookEvent): void {
      const { pull_request, issue } = payload as Record<'pull_request' | 'issue', Subject | undefined>;
      const about = pull_request ?? issue;
      const pullRequest = pullRequests.find(({ source }) => source.nodeId === about?.node_id);
      if (about === undefined || pullRequest === undefined || !isHere(pullRequest)) return;
      const { source, versions } = pullRequest;
      pullRequest.known = true;
      if (!isMember(source) && pullRequest.seen === undefined) return;
      // While GraphQL lags, only what is older than the webhook is known to be too old.
      const floor = Date.parse(about.updated_at) / 1000;
      const oldest = isLagging(source)
        ? versions.findIndex(({ sourceUpdatedAt }) => sourceUpdatedAt >= floor)
        : versions.length - 1;
      pullRequest.acknowledged = Math.max(pullRequest.acknowledged ?? 0, oldest);
    },
  };
}

/** What a payload is about. */
interface Subject {
  node_id: string;
  updated_at: string;
}

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
