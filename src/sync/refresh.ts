import { LRUCache } from 'lru-cache';
import { createBatcher } from '../batching.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import { findPullRequestReferences, type PullRequestReference } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { maxPullRequests } from '../github/client.ts';
import { isDisturbance } from '../github/errors.ts';
import type { FetchResult } from '../github/replies.ts';
import { type SyncOutcome, syncPullRequests } from './pull-requests.ts';

const limits = { maxUnderWay: 1, maxWaitMs: 250, maxBatchSize: maxPullRequests };

/**
 * For GitHub's reply to a request that several share, and then to a request for one of them alone: both, and the wait
 * before them, fit into the ten seconds that a caller is promised an answer in.
 */
const sharedTimeoutMs = 4_500;

/**
 * Fetches one stored pull request again, by a request to GitHub that begins after the call. Calls for pull requests of
 * one organisation that come together share requests.
 *
 * @throws ServiceError if it is not stored, GitHub does not show it, or the fetch failed
 */
export type Refresh = (organisationId: string, id: string) => Promise<void>;

export function createRefresh(deps: Deps): Refresh {
  const organisations = new LRUCache<string, (id: string) => Promise<void>>({
    max: 1_000,
    memoMethod: organisationId => createOrganisationRefresh(deps, organisationId),
  });
  return (organisationId, id) => organisations.memo(organisationId)(id);
}

function createOrganisationRefresh(deps: Deps, organisationId: string): (id: string) => Promise<void> {
  /** Calls whose fetch has not begun: others for the same pull request join them. */
  const waiting = new Map<string, Promise<void>>();
  const refresh = createBatcher<string, void>(limits, ids => {
    for (const id of ids) waiting.delete(id);
    return refreshTogether(deps, organisationId, ids);
  });
  return id => {
    const refreshed = waiting.get(id) ?? refresh(id);
    waiting.set(id, refreshed);
    return refreshed;
  };
}

/** Why pull requests were not refreshed, by id. */
type Failures = Map<string, Error>;

async function refreshTogether(
  deps: Deps,
  organisationId: string,
  ids: readonly string[],
): Promise<(Error | undefined)[]> {
  const { executor } = deps.database;
  const [organisation, references] = await Promise.all([
    getOrganisation(executor, organisationId),
    findPullRequestReferences(executor, organisationId, ids),
  ]);
  const absent = new ServiceError('not_found', 'There is no pull request with this id.');
  if (references.length === 0) throw absent;
  const failures =
    references.length === 1
      ? await fetchAll(deps, organisation, references)
      : await fetchDividing(deps, organisation, references);
  return ids.map(id => (references.some(reference => reference.id === id) ? failures.get(id) : absent));
}

/** What GitHub does not serve together with others is asked for alone, so that it does not harm the others. */
async function fetchDividing(
  deps: Deps,
  organisation: Organisation,
  references: readonly PullRequestReference[],
): Promise<Failures> {
  const together = await fetchAll(deps, organisation, references, sharedTimeoutMs).catch(
    (error: Error): Failures => new Map(references.map(({ id }) => [id, error])),
  );
  const alone = await Promise.all(
    references
      .filter(({ id }) => isDisturbance(together.get(id)))
      .map(reference => {
        together.delete(reference.id);
        return fetchAll(deps, organisation, [reference], sharedTimeoutMs).catch(
          (error: Error) => new Map([[reference.id, error]]),
        );
      }),
  );
  return new Map([together, ...alone].flatMap(failures => [...failures]));
}

/** @param timeoutMs for GitHub's reply; the client's own limit if undefined */
async function fetchAll(
  deps: Deps,
  organisation: Organisation,
  references: readonly PullRequestReference[],
  timeoutMs?: number,
): Promise<Failures> {
  const { reply, outcomes } = await syncPullRequests(deps, organisation, async () => {
    const results = await deps.github.fetchPullRequests(
      organisation,
      references.map(({ nodeId }) => nodeId),
      timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs),
    );
    const pullRequests = [...results.values()].flatMap(result =>
      result.status === 'found' ? [result.pullRequest] : [],
    );
    return { results, pullRequests };
  });
  return new Map(
    references.flatMap(({ id, nodeId, githubId }) => {
      const failure = failureOf(reply.results.get(nodeId), outcomes.get(githubId));
      return failure === undefined ? [] : [[id, failure]];
    }),
  );
}

function failureOf(result: FetchResult | undefined, outcome: SyncOutcome | undefined): Error | undefined {
  if (result?.status === 'failed') return result.error;
  if (result?.status !== 'found') {
    return new ServiceError(
      'not_found',
      'GitHub no longer shows this pull request to the configured credentials; the stored copy is left as it was.',
    );
  }
  if (outcome === 'deleted') return new ServiceError('not_found', 'The pull request was deleted meanwhile.');
  if (outcome === 'untracked') {
    return new ServiceError(
      'not_found',
      'The repository of this pull request no longer belongs to the organisation; the stored copy is left as it was.',
    );
  }
  return undefined;
}
