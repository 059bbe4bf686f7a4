import { isDatabaseUnavailable } from '../database/failures.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import {
  awaitGithub,
  claimSyncTurn,
  countSyncRequests,
  type Deferral,
  deferSyncRequests,
  endSyncRequests,
  findDueSyncRequests,
  findSettledPullRequests,
  renewSyncTurn,
  type SyncRequest,
  type Wait,
} from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { GithubError, isDisturbance } from '../github/errors.ts';
import type { FetchResult } from '../github/replies.ts';
import { askGithub, type Urgency } from './exchange.ts';
import { isReached, waitForGithub } from './lag.ts';
import { whileRenewing } from './lease.ts';
import { pageSizesOf } from './page-sizes.ts';
import { syncPullRequests } from './pull-requests.ts';

/** Waits after the first, second, … failure in a row, in seconds; the last one from then on. */
const waitSeconds = [5, 30, 120, 600, 3600];

/**
 * Failures in a row that park a request, over three hours or more. Those that are not its own count only up to the
 * longest wait: an outage of GitHub, however long, leaves some tries.
 */
const maxAttempts = 8;

/** Pull requests that are fetched to see whether GitHub serves others. */
const maxOthers = 3;

/** One organisation's turn, which this replica alone holds. */
interface Turn {
  readonly deps: Deps;
  readonly organisation: Organisation;
  readonly signal: AbortSignal | undefined;
}

/**
 * Gives one organisation its turn: one request to GitHub for up to fifty of its pending pull requests; a few more if
 * GitHub fails on that, to find the one that it fails on.
 *
 * @returns a function that does one turn and returns whether an organisation had one. An aborted `signal` ends a turn
 * after the request under way.
 */
export function createRequestWorker(deps: Deps): (signal?: AbortSignal) => Promise<boolean> {
  const { database, log } = deps;
  return async signal => {
    const held = await claimSyncTurn(database.executor);
    if (held === undefined) return false;
    const { organisationId } = held;
    try {
      await whileRenewing(
        () => renewSyncTurn(database.executor, held),
        log,
        async () => {
          const organisation = await getOrganisation(database.executor, organisationId);
          const { current } = pageSizesOf(organisation).pullRequests;
          const requests = await findDueSyncRequests(database.executor, organisationId, current);
          if (requests.length > 0) await serve({ deps, organisation, signal }, requests);
        },
      );
    } finally {
      // If this fails, the lease runs out by itself.
      await renewSyncTurn(database.executor, held, 0).catch(() => undefined);
    }
    return true;
  };
}

async function serve(turn: Turn, requests: readonly SyncRequest[]): Promise<void> {
  const first = await attempt(turn, requests);
  if (first.suspects.length > 0) await narrow(turn, requests.length, first);
  else if (!first.isRefused) pageSizesOf(turn.organisation).pullRequests.grow(requests.length);
}

/** What one request to GitHub came to; what it settled, or put off, is done with. */
interface Attempt {
  /** GitHub showed at least one pull request. */
  hasServed: boolean;
  /** GitHub must not be asked, or the database is gone: nothing about the pull requests that were asked for. */
  isRefused: boolean;
  /** Those that it failed on: one of them may be to blame, or there were too many at once. */
  suspects: readonly SyncRequest[];
  error: unknown;
}

async function attempt(turn: Turn, requests: readonly SyncRequest[]): Promise<Attempt> {
  const { deps, organisation } = turn;
  try {
    const urgency = requests.every(({ isBackground }) => isBackground) ? 'background' : 'now';
    const nodeIds = requests.map(({ nodeId }) => nodeId);
    const results = await sync(deps, organisation, nodeIds, urgency);
    const hasServed = hasFound(results);
    await acceptAnswers(turn, requests, results);
    const suspects: SyncRequest[] = [];
    let tooMuch: ServiceError | undefined;
    for (const request of requests) {
      const result = results.get(request.nodeId);
      if (result?.status !== 'failed') continue;
      const { error } = result;
      if (error instanceof GithubError && error.tooMuch) {
        suspects.push(request);
        tooMuch = error;
      } else {
        // GitHub names it: there is nothing to look for.
        await defer(turn, [request], error, { isOwn: hasServed || (await canSyncOthers(turn, request)) });
      }
    }
    return { hasServed, isRefused: false, suspects, error: tooMuch };
  } catch (error) {
    const isSuspicious = error instanceof ServiceError ? isDisturbance(error) : !isDatabaseUnavailable(error);
    if (isSuspicious) return { hasServed: false, isRefused: false, suspects: requests, error };
    await defer(turn, requests, error, { isOwn: false });
    // What GitHub is to blame for is written down with the request; what else goes wrong is the loop's to log.
    if (!(error instanceof ServiceError)) throw error;
    return { hasServed: false, isRefused: true, suspects: [], error };
  }
}

/**
 * Finds by halves the one pull request that GitHub fails on, so that the others come in, and puts that one off. If there
 * is none, fewer at once is what helps; if nothing is served at all, GitHub is to blame.
 *
 * @param asked how many the first attempt asked for
 */
async function narrow(turn: Turn, asked: number, first: Attempt): Promise<void> {
  const { deps, organisation, signal } = turn;
  let { suspects, hasServed, error } = first;
  // Entries that failed inside an answer may have failed only because of the others in it.
  let isTriedTogether = suspects.length === asked;
  let minFailed = asked;
  const setAside: SyncRequest[] = [];
  while (!(isTriedTogether && suspects.length === 1)) {
    // What is left stays due.
    if (signal?.aborted) return;
    const part = isTriedTogether ? suspects.slice(0, Math.ceil(suspects.length / 2)) : suspects;
    const others = suspects.slice(part.length);
    const result = await attempt(turn, part);
    if (result.isRefused) return;
    hasServed ||= result.hasServed;
    if (result.suspects.length === 0) {
      // One of the others, then. Or it was not one, but all together.
      if (others.length === 0) return void pageSizesOf(organisation).pullRequests.shrink(minFailed);
      suspects = others;
      isTriedTogether = others.length > 1;
    } else {
      setAside.push(...others);
      isTriedTogether = result.suspects.length === part.length;
      minFailed = Math.min(minFailed, part.length);
      suspects = result.suspects;
      error = result.error;
    }
  }
  if (!hasServed && setAside.length > 0) {
    const result = await attempt(turn, setAside);
    if (result.isRefused) return;
    hasServed = result.hasServed;
    if (!hasServed) return defer(turn, [...suspects, ...result.suspects], error, { isOwn: false });
  }
  const [culprit] = suspects;
  if (culprit === undefined) return;
  if (!(error instanceof ServiceError)) {
    deps.log.error({ err: error, organisation: organisation.login, nodeId: culprit.nodeId }, 'a pull request fails');
  }
  const isOwn = hasServed || (await canSyncOthers(turn, culprit));
  await defer(turn, [culprit], error, { isOwn, isIsolated: hasServed });
}

/** Ends, or lets wait, the requests of which GitHub's answer is below what a webhook said. */
async function acceptAnswers(
  { deps, organisation }: Turn,
  requests: readonly SyncRequest[],
  results: ReadonlyMap<string, FetchResult>,
): Promise<void> {
  const { database, log, counters } = deps;
  const waits: Wait[] = [];
  const gone: SyncRequest[] = [];
  const stale: SyncRequest[] = [];
  for (const request of requests) {
    const result = results.get(request.nodeId);
    if (result === undefined || result.status === 'failed') continue;
    const sourceUpdatedAt = result.status === 'found' ? result.pullRequest.sourceUpdatedAt : null;
    if (isReached(request, sourceUpdatedAt)) continue;
    const seconds = waitForGithub(request, sourceUpdatedAt);
    if (seconds !== undefined) waits.push({ request, sourceUpdatedAt, seconds });
    else (sourceUpdatedAt === null ? gone : stale).push(request);
  }
  await awaitGithub(database.executor, organisation.id, waits);
  await endSyncRequests(database.executor, organisation.id, stale, 'applied');
  await endSyncRequests(database.executor, organisation.id, gone, 'gone');
  counters.stale += stale.length;
  for (const { nodeId, age, minSourceUpdatedAt } of gone) {
    // A stored one that the sweep finds gone was deleted, or is out of reach: nothing was expected of it.
    if (minSourceUpdatedAt === null) continue;
    counters.gone += 1;
    log.warn(
      { organisation: organisation.login, nodeId, seconds: Math.round(age) },
      'GitHub does not show a pull request that its webhook was about: taken for gone',
    );
  }
}

async function sync(deps: Deps, organisation: Organisation, nodeIds: readonly string[], urgency: Urgency) {
  const fetch = async () => {
    const results = await deps.github.fetchPullRequests(organisation, nodeIds);
    const pullRequests = [...results.values()].flatMap(result =>
      result.status === 'found' ? [result.pullRequest] : [],
    );
    return { results, pullRequests };
  };
  const { reply } = await syncPullRequests(deps, organisation, fetch, urgency);
  return reply.results;
}

const hasFound = (results: ReadonlyMap<string, FetchResult>) =>
  [...results.values()].some(({ status }) => status === 'found');

/**
 * Whether GitHub serves other pull requests of the organisation at this moment, so that the failure is this one's own:
 * tried once it has failed often enough for that to matter. If there is no other, it is whether GitHub shows the
 * organisation itself. While GitHub is down, for however long, it is false.
 */
async function canSyncOthers({ deps, organisation }: Turn, { attempts }: SyncRequest): Promise<boolean> {
  if (attempts < waitSeconds.length) return false;
  const { database, github, log } = deps;
  const others = await findSettledPullRequests(database.executor, organisation.id, maxOthers);
  try {
    if (others.length > 0) return hasFound(await sync(deps, organisation, others, 'now'));
    if ((await countSyncRequests(database.executor, organisation.id)).waiting > 1) return false;
    return (await askGithub(deps, organisation, () => github.findOrganisation(organisation))).reply !== undefined;
  } catch (error) {
    log.debug({ err: error }, 'no other pull request can be synced either');
    return false;
  }
}

const reasonOf = (error: unknown): string => {
  if (error instanceof ServiceError) return error.text;
  return isDatabaseUnavailable(error) ? 'The database was not available.' : 'An error of the service; see its log.';
};

/**
 * @param isOwn the failure is these requests' own, which parks them after some time
 * @param isIsolated they are fetched one by one from now on
 */
async function defer(
  { deps, organisation }: Turn,
  requests: readonly SyncRequest[],
  error: unknown,
  { isOwn, isIsolated = false }: { isOwn: boolean; isIsolated?: boolean },
): Promise<void> {
  if (requests.length === 0) return;
  const { database, log } = deps;
  const isRefused = error instanceof ServiceError && error.code === 'github_rate_limited';
  const isOutage = isDatabaseUnavailable(error);
  // Background work that stops at the reserve of points has not failed.
  const isReserve = isRefused && requests.every(({ isBackground }) => isBackground);
  const reason = reasonOf(error);
  // Each waits by its own failures: a new one is not held back by those it happened to fail with.
  const waitOf = (failures: number) => {
    if (isRefused) return error.retryAfter ?? 60;
    return isOutage ? 1 : (waitSeconds[Math.min(failures, waitSeconds.length) - 1] ?? 5);
  };
  // Jitter keeps replicas and requests from coming back all at once, and none before GitHub wants it.
  const jitter = isRefused ? 1 + Math.random() * 0.02 : 0.8 + 0.4 * Math.random();
  const deferrals = requests.map((request): Deferral => {
    const failures = request.attempts + 1;
    const isCounted = !isRefused && !isOutage && (isOwn || failures <= waitSeconds.length);
    const isParked = isCounted && isOwn && failures >= maxAttempts;
    return {
      request,
      seconds: isParked ? null : waitOf(failures) * jitter,
      attempts: isCounted ? failures : request.attempts,
      isIsolated: isIsolated || request.isIsolated,
    };
  });
  await deferSyncRequests(database.executor, organisation.id, deferrals, isReserve ? null : reason);
  for (const { request, seconds, attempts } of deferrals) {
    if (seconds !== null) continue;
    log.error(
      { organisation: organisation.login, nodeId: request.nodeId, attempts, reason },
      'a pull request is parked: it is tried again when it next changes, or by pullscore webhooks retry',
    );
  }
  const again = deferrals.flatMap(({ seconds }) => seconds ?? []);
  if (again.length === 0) return;
  log[isReserve ? 'debug' : 'warn'](
    { organisation: organisation.login, requests: again.length, seconds: Math.round(Math.min(...again)), reason },
    'pull requests were not synced and are tried again',
  );
}
