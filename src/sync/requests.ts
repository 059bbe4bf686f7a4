import { isDatabaseUnavailable } from '../database/failures.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import {
  type ClaimedRequest,
  claimSyncRequests,
  completeSyncRequests,
  deferSyncRequests,
  findWaitingOrganisation,
  leaseSeconds,
  renewLeases,
} from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { mostPullRequests } from '../github/client.ts';
import { GithubError } from '../github/errors.ts';
import { createPageSize, type PageSize } from '../github/page-size.ts';
import { syncPullRequests } from './pull-requests.ts';

/** Waits after the first, second, … failure in a row, in seconds; the last one from then on. */
const waits = [5, 30, 120, 600, 3600];

/**
 * Brings one batch of pending pull requests up to date: as many as wait, up to fifty, in one request to GitHub.
 *
 * @returns a function that does one batch and tells whether there was one
 */
export function createRequestWorker(deps: Deps): () => Promise<boolean> {
  const { database } = deps;
  const pageSize = createPageSize(mostPullRequests);

  return async () => {
    const organisationId = await findWaitingOrganisation(database.executor);
    if (organisationId === undefined) return false;
    const organisation = await getOrganisation(database.executor, organisationId);
    const requests = await claimSyncRequests(database.executor, organisationId, pageSize.current);
    if (requests.length === 0) return false;
    const renewal = setInterval(
      () => {
        renewLeases(database.executor, organisationId, requests).catch((error: unknown) =>
          deps.log.warn({ err: error }, 'leases were not renewed; another replica may fetch the same'),
        );
      },
      (leaseSeconds * 1000) / 3,
    );
    try {
      await fetchBatch(deps, organisation, requests, pageSize);
    } finally {
      clearInterval(renewal);
    }
    return true;
  };
}

async function fetchBatch(
  deps: Deps,
  organisation: Organisation,
  requests: readonly ClaimedRequest[],
  pageSize: PageSize,
): Promise<void> {
  const { database, github } = deps;
  const nodeIds = requests.map(request => request.nodeId);
  try {
    const { reply } = await syncPullRequests(deps, organisation, async () => {
      const results = await github.fetchPullRequests(organisation.login, nodeIds);
      const pullRequests = [...results.values()].flatMap(result =>
        result.status === 'found' ? [result.pullRequest] : [],
      );
      return { results, pullRequests };
    });
    pageSize.grow(requests.length);
    const failures = new Map<ClaimedRequest, ServiceError>();
    for (const request of requests) {
      const result = reply.results.get(request.nodeId);
      if (result?.status === 'failed') failures.set(request, result.error);
    }
    const done = requests.filter(request => !failures.has(request));
    await completeSyncRequests(database.executor, organisation.id, done);
    for (const [request, error] of failures) await defer(deps, organisation, [request], error);
  } catch (error) {
    const smaller = error instanceof GithubError && error.tooMuch && pageSize.shrink(requests.length);
    if (smaller) {
      await deferSyncRequests(database.executor, organisation.id, requests, {
        seconds: () => 0,
        reason: error.message,
        counts: false,
      });
      return;
    }
    await defer(deps, organisation, requests, error);
    // What GitHub is to blame for is written down with the request; what else goes wrong is the loop's to log.
    if (!(error instanceof ServiceError)) throw error;
  }
}

async function defer(
  { database, log }: Pick<Deps, 'database' | 'log'>,
  organisation: Organisation,
  requests: readonly ClaimedRequest[],
  error: unknown,
): Promise<void> {
  const refused = error instanceof ServiceError && error.code === 'github_rate_limited';
  const outage = isDatabaseUnavailable(error);
  // Each waits by its own failures: a new one is not held back by those it happened to fail with.
  const wait = ({ attempts }: ClaimedRequest) => {
    if (refused) return error.retryAfter ?? 60;
    return outage ? 1 : (waits[Math.min(attempts, waits.length) - 1] ?? 5);
  };
  // Jitter keeps replicas and requests from coming back all at once, and none before GitHub wants it.
  const jitter = refused ? 1 + Math.random() * 0.02 : 0.8 + 0.4 * Math.random();
  const reason =
    error instanceof ServiceError
      ? error.message
      : outage
        ? 'The database was not available.'
        : 'An error of the service; see its log.';
  log.warn(
    { organisation: organisation.login, requests: requests.length, seconds: Math.min(...requests.map(wait)), reason },
    'pull requests were not synced and are tried again',
  );
  await deferSyncRequests(database.executor, organisation.id, requests, {
    seconds: request => wait(request) * jitter,
    reason,
    counts: !refused && !outage,
  });
}
