import type { Executor } from '../database/client.ts';
import { renewContentVersion } from '../database/content-versions.ts';
import { readErased } from '../database/erased-people.ts';
import { isDatabaseUnavailable } from '../database/failures.ts';
import {
  findTombstones,
  lockPullRequests,
  removeTombstones,
  savePullRequests,
} from '../database/fetched-pull-requests.ts';
import { getOrganisation, lockOrganisation, type Organisation } from '../database/organisations.ts';
import { findRepositories, renamesAny, saveRepositories } from '../database/repositories.ts';
import { settleSyncRequests } from '../database/sync-requests.ts';
import { forgetUntracked, rememberUntracked, requestUntrackedOfMembers } from '../database/untracked-pull-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { GithubError, isTransientFailure } from '../github/errors.ts';
import type { FetchedPullRequest } from '../github/pull-request.ts';
import type { FetchResult } from '../github/replies.ts';
import { createPauses } from '../pauses.ts';
import type { Score } from '../scoring/compile.ts';
import { factsOf } from '../scoring/facts.ts';
import { askGithub, type Urgency } from './exchange.ts';
import { saveAuthors } from './members.ts';
import { loadRuleset } from './rulesets.ts';

/** What happened to a fetched pull request. */
export type SyncOutcome =
  | 'saved'
  /** A later fetch has been saved already. */
  | 'outdated'
  /** It was deleted here and has not changed on GitHub since, and nobody asks for it to come back. */
  | 'deleted'
  /** Its author is not a member, or its repository belongs to another owner. */
  | 'untracked';

/**
 * The one way in: fetches pull requests from GitHub, scores them, saves them, and settles the sync requests that they
 * answer. In whatever order fetches end, the stored state is what the latest of them found.
 *
 * @param fetch one request to GitHub; its reply is returned
 * @returns `outcomes` by GitHub id
 */
export async function syncPullRequests<Reply extends { readonly pullRequests: readonly FetchedPullRequest[] }>(
  deps: Deps,
  organisation: Organisation,
  fetch: () => Promise<Reply>,
  { urgency = 'now' }: { urgency?: Urgency | undefined } = {},
) {
  const { login, nodeId, githubId } = organisation;
  const { reply, ticket } = await askGithub(deps, organisation, fetch, {
    urgency,
    identityIn: ({ pullRequests }) => {
      const owner = pullRequests.map(({ repositoryOwner }) => repositoryOwner).find(one => one.githubId === githubId);
      // Confirming what is known would be a write for each fetch; comparisons do that.
      return owner?.login === login && owner.nodeId === nodeId ? undefined : owner;
    },
  });
  const outcomes = await save(deps, organisation, reply.pullRequests, ticket);
  await settleSyncRequests(deps.database, organisation.id, ticket, reply.pullRequests);
  return { reply, outcomes };
}

/** GitHub's answer, or why there is none. */
export type SyncResult = FetchResult | { readonly status: 'failed'; readonly error: Error };

/**
 * Syncs pull requests that are known by their node ids, in one request.
 *
 * @param options `deadline`: for GitHub's replies, by `performance.now()`
 * @returns `results` by node id; if the whole request fails, each of them has failed. `suspects`: those whose failure
 * others in the request may have caused, or their number
 * @throws errors that {@link mayBeOfOne} excludes
 */
export async function syncByNodeIds(
  deps: Deps,
  organisation: Organisation,
  nodeIds: readonly string[],
  { urgency, deadline }: { urgency?: Urgency; deadline?: number } = {},
): Promise<{ results: Map<string, SyncResult>; outcomes: Map<number, SyncOutcome>; suspects: Set<string> }> {
  const fetch = async () => {
    const results = await deps.github.fetchPullRequests(organisation, nodeIds, deadline);
    const pullRequests = [...results.values()].flatMap(result =>
      result.status === 'found' ? [result.pullRequest] : [],
    );
    return { results, pullRequests };
  };
  try {
    const { reply, outcomes } = await syncPullRequests(deps, organisation, fetch, { urgency });
    const { results } = reply;
    const suspects = nodeIds.filter(id => {
      const result = results.get(id);
      return result?.status === 'failed' && result.error instanceof GithubError && result.error.tooMuch;
    });
    return { results, outcomes, suspects: new Set(suspects) };
  } catch (error) {
    if (!mayBeOfOne(error)) throw error;
    const results = new Map(nodeIds.map(id => [id, { status: 'failed' as const, error }]));
    return { results, outcomes: new Map(), suspects: new Set(nodeIds) };
  }
}

/** Whether one pull request may have made a whole request fail. Others: a limit, a refusal, a database that is gone. */
export const mayBeOfOne = (error: unknown): error is Error =>
  error instanceof ServiceError ? isTransientFailure(error) : error instanceof Error && !isDatabaseUnavailable(error);

async function save(
  { database, log }: Deps,
  organisation: Organisation,
  fetched: readonly FetchedPullRequest[],
  ticket: number,
): Promise<Map<number, SyncOutcome>> {
  const outcomes = new Map<number, SyncOutcome>(fetched.map(({ githubId }) => [githubId, 'untracked']));
  // Each once: an upsert can't touch the same row twice.
  const own = [...new Map(fetched.map(pullRequest => [pullRequest.githubId, pullRequest])).values()].filter(
    ({ repositoryOwner }) => belongsTo(repositoryOwner, organisation),
  );
  if (own.length === 0) return outcomes;

  const repositoriesOf = (some: readonly FetchedPullRequest[]) =>
    some.map(({ repositoryGithubId, repositoryNodeId, repository }) => ({
      githubId: repositoryGithubId,
      nodeId: repositoryNodeId,
      name: repository,
    }));
  const ahead = await scoreAhead(database.executor, log, organisation.id, own);
  /** @returns false if a repository must be renamed, which takes an exclusive lock; nothing was written then */
  const attempt = (lock: 'shared' | 'exclusive') =>
    database.transaction(async executor => {
      const rulesetVersion = await lockOrganisation(executor, organisation.id, lock);
      const stored = await findRepositories(executor, organisation.id, repositoriesOf(own));
      if (lock === 'shared' && renamesAny(stored, ticket, repositoriesOf(own))) return false;
      const ruleset = await loadRuleset(log, executor, organisation.id, rulesetVersion);
      const isErased = await readErased(executor, organisation.id);
      const githubIds = own.map(({ githubId }) => githubId);
      const known = await lockPullRequests(executor, organisation.id, githubIds);
      const tombstones = await findTombstones(executor, organisation.id, githubIds);
      const current = own
        .flatMap(each => withoutErased(each, isErased))
        .filter(({ githubId, sourceUpdatedAt }) => {
          const tombstone = tombstones.get(githubId);
          const returns =
            tombstone === undefined || (tombstone.ticket < ticket && tombstone.sourceUpdatedAt < sourceUpdatedAt);
          if (!returns) outcomes.set(githubId, 'deleted');
          return returns;
        });

      const { ids: authorIds, joined } = await saveAuthors(executor, organisation.id, ticket, current);
      const tracked = current.flatMap(pullRequest => {
        const { githubId, authorGithubId } = pullRequest;
        // A stored pull request stays, even if its author has left or their account is gone.
        const memberId =
          (authorGithubId === null ? undefined : authorIds.get(authorGithubId)) ?? known.get(githubId)?.memberId;
        return memberId === undefined ? [] : [{ pullRequest, memberId }];
      });
      const isTracked = new Set(tracked.map(({ pullRequest }) => pullRequest.githubId));
      const repositories = await saveRepositories(
        executor,
        organisation.id,
        ticket,
        repositoriesOf(own.filter(({ githubId, repositoryGithubId: id }) => isTracked.has(githubId) || stored.has(id))),
        stored,
      );
      const values = tracked.flatMap(({ pullRequest, memberId }) => {
        const repository = repositories.get(pullRequest.repositoryGithubId);
        if (repository === undefined) return [];
        // By the stored name, as in re-scoring: a fetch from before a renaming may be saved after it.
        const isKnown = ahead.rulesetVersion === rulesetVersion && pullRequest.repository === repository.name;
        const { score, breakdown } =
          (isKnown && ahead.scores.get(pullRequest)) ||
          ruleset.score(factsOf({ ...pullRequest, repository: repository.name }));
        return [
          {
            ...pullRequest,
            url: urlOf(pullRequest, repository.name),
            repositoryId: repository.id,
            memberId,
            score,
            scoreBreakdown: breakdown,
            rulesetVersion,
            fetchTicket: ticket,
          },
        ];
      });
      const saved = await savePullRequests(executor, organisation.id, values, known);
      await removeTombstones(
        executor,
        organisation.id,
        [...saved].filter(githubId => tombstones.has(githubId)),
      );
      for (const { githubId } of values) outcomes.set(githubId, saved.has(githubId) ? 'saved' : 'outdated');
      await forgetUntracked(
        executor,
        organisation.id,
        [...saved].filter(githubId => !known.has(githubId)),
      );
      await rememberUntracked(
        executor,
        organisation.id,
        current.flatMap(({ githubId, nodeId, authorGithubId, sourceUpdatedAt }) =>
          authorGithubId === null || isTracked.has(githubId)
            ? []
            : [{ githubId, nodeId, authorGithubId, sourceUpdatedAt }],
        ),
      );
      await requestUntrackedOfMembers(executor, organisation.id, joined);
      if (saved.size > 0) await renewContentVersion(executor, organisation.id);
      return true;
    });
  if (!(await attempt('shared'))) await attempt('exclusive');
  return outcomes;
}

/** Scores them by the rules in force before their transaction begins: a page of fifty can take many seconds. */
async function scoreAhead(
  executor: Executor,
  log: Deps['log'],
  organisationId: string,
  fetched: readonly FetchedPullRequest[],
): Promise<{ rulesetVersion: number; scores: ReadonlyMap<FetchedPullRequest, Score> }> {
  const { rulesetVersion } = await getOrganisation(executor, organisationId);
  const ruleset = await loadRuleset(log, executor, organisationId, rulesetVersion);
  const pauseIfLong = createPauses();
  const scores = new Map<FetchedPullRequest, Score>();
  for (const pullRequest of fetched) {
    scores.set(pullRequest, await ruleset.scoreWithPauses(factsOf(pullRequest), pauseIfLong));
  }
  return { rulesetVersion, scores };
}

/** The pull request without people whose data was erased; nothing if it is theirs. */
function withoutErased(pullRequest: FetchedPullRequest, isErased: (githubId: number) => boolean): FetchedPullRequest[] {
  const { authorGithubId, assignees, assigneeGithubIds, mergedBy, mergerGithubId } = pullRequest;
  const isLeftOut = (id: number | null | undefined) => id != null && isErased(id);
  if (isLeftOut(authorGithubId)) return [];
  if (![mergerGithubId, ...assigneeGithubIds].some(isLeftOut)) return [pullRequest];
  return [
    {
      ...pullRequest,
      assignees: assignees.filter((_, index) => !isLeftOut(assigneeGithubIds[index])),
      mergedBy: isLeftOut(mergerGithubId) ? 'ghost' : mergedBy,
    },
  ];
}

/** The pull request's address, with the repository's stored name. */
function urlOf({ url, repository, number }: FetchedPullRequest, name: string): string {
  const end = `/${repository}/pull/${number}`;
  return url.endsWith(end) ? `${url.slice(0, -end.length)}/${name}/pull/${number}` : url;
}

/** By id if it is known, since a login can be given up and taken by others. */
const belongsTo = (owner: FetchedPullRequest['repositoryOwner'], organisation: Organisation): boolean =>
  organisation.githubId === null
    ? owner.login.toLowerCase() === organisation.login.toLowerCase()
    : owner.githubId === organisation.githubId;
