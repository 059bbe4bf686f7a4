import { isDatabaseUnavailable } from '../database/failures.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import {
  type ClaimedRequest,
  claimSyncRequests,
  completeSyncRequests,
  countSyncRequests,
  type Deferral,
  deferSyncRequests,
  endFetchedRequests,
  findSettledPullRequests,
  findWaitingOrganisation,
  leaseSeconds,
  renewLeases,
} from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { mostPullRequests } from '../github/client.ts';
import { GithubError } from '../github/errors.ts';
import { createPageSize, type PageSize } from '../github/page-size.ts';
import type { FetchResult } from '../github/replies.ts';
import { callGithub } from './github-limits.ts';
import { syncPullRequests } from './pull-requests.ts';

/** Waits after the first, second, … failure in a row, in seconds; the last one from then on. */
const waits = [5, 30, 120, 600, 3600];

/**
 * Failures in a row that park a request, over three hours or more. Those that are not its own count only up to the
 * longest wait: an outage of GitHub, however long, leaves some tries.
 */
const mostAttempts = 8;

/** Pull requests that are asked for to see whether others can be synced. */
const mostOthers = 3;

/** Milliseconds after which an idle loop looks again for parked requests that are done with. */
const lookAgain = 60_000;

/**
 * Brings one batch of pending pull requests up to date: as many as wait, up to fifty, in one request to GitHub.
 *
 * @returns a function that does one batch and tells whether there was one
 */
export function createRequestWorker(deps: Deps): () => Promise<boolean> {
  const { database } = deps;
  const pageSize = createPageSize(mostPullRequests);
  let lookedAt = Number.NEGATIVE_INFINITY;

  return async () => {
    const organisationId = await findWaitingOrganisation(database.executor);
    if (organisationId === undefined) {
      if (performance.now() - lookedAt < lookAgain) return false;
      await endFetchedRequests(database.executor);
      lookedAt = performance.now();
      return false;
    }
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
  const { database, log } = deps;
  try {
    const results = await sync(
      deps,
      organisation,
      requests.map(request => request.nodeId),
    );
    pageSize.grow(requests.length);
    const failures = new Map<ClaimedRequest, ServiceError>();
    for (const request of requests) {
      const result = results.get(request.nodeId);
      if (result?.status === 'failed') failures.set(request, result.error);
    }
    const done = requests.filter(request => !failures.has(request));
    await completeSyncRequests(database.executor, organisation.id, done);
    const areOwn = hasFound(results) || (await doOthersSucceed(deps, organisation, [...failures.keys()]));
    for (const [request, error] of failures) await defer(deps, organisation, [request], error, areOwn);
  } catch (error) {
    // What one of them brings about is tried without the others, down to that one.
    const isDivisible =
      error instanceof ServiceError ? error instanceof GithubError && error.tooMuch : !isDatabaseUnavailable(error);
    if (isDivisible && pageSize.shrink(requests.length)) {
      if (!(error instanceof ServiceError)) log.error({ err: error }, 'a batch failed and is tried in halves');
      await deferSyncRequests(
        database.executor,
        organisation.id,
        requests.map(request => ({ request, seconds: 0, attempts: request.attempts - 1 })),
        reasonOf(error),
      );
      return;
    }
    const isOwn =
      requests.length === 1 && !isEverybodys(error) && (await doOthersSucceed(deps, organisation, requests));
    await defer(deps, organisation, requests, error, isOwn);
    // What GitHub is to blame for is written down with the request; what else goes wrong is the loop's to log.
    if (!(error instanceof ServiceError)) throw error;
  }
}

async function sync(deps: Deps, organisation: Organisation, nodeIds: readonly string[]) {
  const { reply } = await syncPullRequests(deps, organisation, async () => {
    const results = await deps.github.fetchPullRequests(organisation, nodeIds);
    const pullRequests = [...results.values()].flatMap(result =>
      result.status === 'found' ? [result.pullRequest] : [],
    );
    return { results, pullRequests };
  });
  return reply.results;
}

const hasFound = (results: ReadonlyMap<string, FetchResult>) =>
  [...results.values()].some(({ status }) => status === 'found');

/** Failures that say nothing of the pull request that was asked for. */
const isEverybodys = (error: unknown): boolean =>
  isDatabaseUnavailable(error) ||
  (error instanceof ServiceError &&
    ['github_rate_limited', 'github_credentials', 'github_not_configured'].includes(error.code));

/**
 * Whether other pull requests of the organisation can be synced at this moment, so that what fails is these requests'
 * own: tried once they have failed often enough for it to matter. Where it is the only one that there is, it is whether
 * GitHub tells of the organisation itself. While GitHub is down, for however long, it is false.
 */
async function doOthersSucceed(
  deps: Deps,
  organisation: Organisation,
  requests: readonly ClaimedRequest[],
): Promise<boolean> {
  if (!requests.some(({ attempts }) => attempts > waits.length)) return false;
  const others = await findSettledPullRequests(deps.database.executor, organisation.id, mostOthers);
  try {
    if (others.length > 0) return hasFound(await sync(deps, organisation, others));
    if ((await countSyncRequests(deps.database.executor, organisation.id)).waiting > 1) return false;
    const profile = await callGithub(deps, organisation, () => deps.github.findOrganisation(organisation));
    return profile !== undefined;
  } catch (error) {
    deps.log.debug({ err: error }, 'nothing else can be synced either');
    return false;
  }
}

const reasonOf = (error: unknown): string => {
  if (error instanceof ServiceError) return error.message;
  return isDatabaseUnavailable(error) ? 'The database was not available.' : 'An error of the service; see its log.';
};

/** @param areOwn whether the failure is these requests' own, which parks them after some time */
async function defer(
  { database, log }: Pick<Deps, 'database' | 'log'>,
  organisation: Organisation,
  requests: readonly ClaimedRequest[],
  error: unknown,
  areOwn: boolean,
): Promise<void> {
  const refused = error instanceof ServiceError && error.code === 'github_rate_limited';
  const outage = isDatabaseUnavailable(error);
  const reason = reasonOf(error);
  // Each waits by its own failures: a new one is not held back by those it happened to fail with.
  const waitOf = ({ attempts }: ClaimedRequest) => {
    if (refused) return error.retryAfter ?? 60;
    return outage ? 1 : (waits[Math.min(attempts, waits.length) - 1] ?? 5);
  };
  // Jitter keeps replicas and requests from coming back all at once, and none before GitHub wants it.
  const jitter = refused ? 1 + Math.random() * 0.02 : 0.8 + 0.4 * Math.random();
  const isCounted = ({ attempts }: ClaimedRequest) => !refused && !outage && (areOwn || attempts <= waits.length);
  const deferrals = requests.map((request): Deferral => {
    const parks = areOwn && request.attempts >= mostAttempts && isCounted(request);
    return {
      request,
      seconds: parks ? null : waitOf(request) * jitter,
      attempts: isCounted(request) ? request.attempts : request.attempts - 1,
    };
  });
  await deferSyncRequests(database.executor, organisation.id, deferrals, reason);
  for (const { request, seconds, attempts } of deferrals) {
    if (seconds !== null) continue;
    log.error(
      { organisation: organisation.login, nodeId: request.nodeId, attempts, reason },
      'a pull request is parked: it is tried again when it next changes, or by pullscore webhooks retry',
    );
  }
  const again = deferrals.flatMap(({ seconds }) => seconds ?? []);
  if (again.length === 0) return;
  log.warn(
    { organisation: organisation.login, requests: again.length, seconds: Math.round(Math.min(...again)), reason },
    'pull requests were not synced and are tried again',
  );
}
