import { LRUCache } from 'lru-cache';
import { createBatcher } from '../batching.ts';
import { getOrganisation } from '../database/organisations.ts';
import { findPullRequestReferences, type PullRequestReference } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { notFound } from '../errors.ts';
import { maxPullRequests } from '../github/client.ts';
import { type SyncOutcome, type SyncResult, syncByNodeIds } from './pull-requests.ts';

const limits = { maxUnderWay: 1, maxBatchSize: maxPullRequests };

/**
 * Time limit of a shared request, and of the single request that may follow. With the wait before them, both fit into
 * the ten seconds in which a caller is promised an answer.
 */
const sharedTimeoutMs = 4_500;

/** Time limit of a request for one pull request alone, with all pages of its files. */
const aloneTimeoutMs = 9_000;

/**
 * @returns a function that fetches one stored pull request again, with a request to GitHub that starts after the call.
 * Simultaneous calls for one organisation share requests. Throws a ServiceError if it is not stored, GitHub does not
 * show it, or the fetch failed.
 */
export function createRefresh(deps: Deps): (organisationId: string, id: string) => Promise<void> {
  const organisations = new LRUCache<string, (id: string) => Promise<void>>({
    max: 1_000,
    memoMethod: organisationId => createOrganisationRefresh(deps, organisationId),
  });
  return (organisationId, id) => organisations.memo(organisationId)(id);
}

function createOrganisationRefresh(deps: Deps, organisationId: string): (id: string) => Promise<void> {
  /** Calls whose fetch has not started: others for the same pull request join them. */
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
  const absent = notFound('There is no pull request with this id.');
  if (references.length === 0) throw absent;
  /** Why they were not refreshed, by id. */
  const failures = new Map(references.map(({ id }): [string, Error | undefined] => [id, undefined]));
  const refresh = async (some: readonly PullRequestReference[], timeoutMs: number) => {
    const nodeIds = some.map(({ nodeId }) => nodeId);
    const deadline = performance.now() + timeoutMs;
    const { results, outcomes, candidates } = await syncByNodeIds(deps, organisation, nodeIds, {
      urgency: 'put',
      deadline,
    });
    for (const { id, nodeId, githubId } of some) {
      failures.set(id, failureOf(results.get(nodeId), outcomes.get(githubId)));
    }
    return some.filter(({ nodeId }) => candidates.has(nodeId));
  };
  if (references.length === 1) await refresh(references, aloneTimeoutMs);
  else {
    // Each alone, at once: there is no time to look for the one that harms the others.
    const candidates = await refresh(references, sharedTimeoutMs);
    await Promise.all(
      candidates.map(reference =>
        refresh([reference], sharedTimeoutMs).catch((error: Error) => failures.set(reference.id, error)),
      ),
    );
  }
  return ids.map(id => (failures.has(id) ? failures.get(id) : absent));
}

function failureOf(result: SyncResult | undefined, outcome: SyncOutcome | undefined): Error | undefined {
  if (result?.status === 'failed') return result.error;
  if (result?.status !== 'found') {
    return notFound(
      'GitHub no longer shows this pull request to the configured credentials; the stored copy is unchanged.',
      'If the pull request still exists on GitHub, give the credentials access to its repository.',
    );
  }
  if (outcome === 'deleted') return notFound('The pull request was deleted during the sync.');
  if (outcome === 'untracked') {
    return notFound(
      'The repository of this pull request no longer belongs to the organisation; the stored copy is unchanged.',
    );
  }
  return undefined;
}
