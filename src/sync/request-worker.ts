import { countSyncRequests } from '../database/backlog.ts';
import { countAboveShare, findLimits } from '../database/github-rate-limits.ts';
import { moveLease, whileRenewing } from '../database/lease.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import { secondsFromNow } from '../database/statement.ts';
import {
  awaitGithub,
  claimSyncTurn,
  endGoneRequests,
  endStaleRequests,
  findDueSyncRequests,
  findSettledPullRequests,
  isolateSyncRequest,
  type SyncRequest,
  type Wait,
} from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { askGithub, credentialOf, pointsLeft } from './ask-github.ts';
import { type Attempt, findCulprit } from './halving.ts';
import { isReached, waitForGithub } from './lag.ts';
import { pageSizesOf } from './page-sizes.ts';
import { mayBeOfOne, type SyncResult, syncByNodeIds } from './pull-requests.ts';
import { deferRequests, maxSharedFailures } from './retries.ts';

/** Pull requests that are fetched to check whether GitHub serves others. */
const maxOthers = 3;

/** The longest that an organisation above its share waits for each point that it has spent. */
const maxSecondsPerPoint = 30;

/** Pauses from here on are logged. */
const longPauseSeconds = 60;

/** An organisation's turn, which only this replica holds. */
interface Turn {
  readonly deps: Deps;
  readonly organisation: Organisation;
  readonly signal: AbortSignal | undefined;
}

/**
 * Gives one organisation its turn: one request to GitHub for up to fifty of its pending pull requests. If GitHub fails
 * on that, a few more requests find the failing pull request.
 *
 * @param organisationId undefined: the one that was served longest ago
 * @returns does one turn and returns whether an organisation had one. An aborted `signal` ends a turn before its first
 * request, or after the one under way. `onFound` is called if an organisation has a turn.
 */
export function createRequestWorker(deps: Deps, organisationId?: string) {
  const { database, log } = deps;
  return async (signal?: AbortSignal, onFound?: () => void): Promise<boolean> => {
    const lease = await claimSyncTurn(database.executor, organisationId);
    if (lease === undefined) return false;
    onFound?.();
    let pauseSeconds = 0;
    let spent = 0;
    const github = deps.github.metered(({ rateLimit }) => {
      spent += rateLimit?.cost ?? 1;
    });
    try {
      await whileRenewing(database.executor, lease, log, async () => {
        const organisation = await getOrganisation(database.executor, lease.organisationId);
        const { current } = pageSizesOf(organisation).pullRequests;
        const requests = await findDueSyncRequests(database.executor, lease.organisationId, current);
        const turn = { deps: { ...deps, github }, organisation, signal };
        if (requests.length > 0 && !signal?.aborted) await serve(turn, requests);
        pauseSeconds = await secondsForPoints(deps, organisation, spent);
      });
    } finally {
      // If this fails, the lease expires.
      await moveLease(database.executor, lease, secondsFromNow(pauseSeconds)).catch(() => undefined);
    }
    return true;
  };
}

/**
 * Seconds until the next turn. One that has used more of the hour's points than are left waits for each point that it
 * spends, so that what is left lasts until the reset; all such organisations divide it. Changes meanwhile share a
 * request. The turns of others go on as before.
 */
async function secondsForPoints(
  { config, database, log }: Deps,
  organisation: Organisation,
  spent: number,
): Promise<number> {
  const { executor } = database;
  const { points } = await findLimits(executor, credentialOf(config, organisation), organisation.id);
  if (points === undefined || points.used <= points.remaining) return 0;
  const above = config.github.app === undefined ? await countAboveShare(executor, points) : 1;
  const evenPace = points.secondsToReset / Math.max(1, pointsLeft('background', points));
  const seconds = Math.min(points.secondsToReset, spent * above * Math.min(maxSecondsPerPoint, evenPace));
  if (seconds >= longPauseSeconds) {
    log.info(
      { organisation: organisation.login, seconds: Math.round(seconds), points: points.used },
      "an organisation waits, because it has used more than its share of GitHub's points",
    );
  }
  return seconds;
}

async function serve(turn: Turn, requests: readonly SyncRequest[]): Promise<void> {
  const { deps, organisation, signal } = turn;
  const { pullRequests: batchSize } = pageSizesOf(organisation);
  const end = await findCulprit(requests, batch => attempt(turn, batch), signal);
  if (end.found === 'no failure') batchSize.grow(requests.length);
  if (end.found === 'too many at once') batchSize.shrink(end.minFailed);
  if (end.found === 'outage') await deferRequests(turn, end.failed, end.error, { isOwn: false });
  if (end.found !== 'culprit') return;
  const { culprit, hasServed, error } = end;
  if (!(error instanceof ServiceError)) {
    deps.log.error(
      { err: error, organisation: organisation.login, nodeId: culprit.nodeId },
      "a pull request can't be synced",
    );
  }
  const isOwn = hasServed || (await canSyncOthers(turn, [culprit]));
  if (hasServed) await isolateSyncRequest(deps.database.executor, organisation.id, culprit);
  await deferRequests(turn, [culprit], error, { isOwn });
}

/** One request to GitHub. Settles or defers all that do not need a search. */
async function attempt(turn: Turn, requests: readonly SyncRequest[]): Promise<Attempt<SyncRequest>> {
  const { deps, organisation } = turn;
  try {
    const urgency = requests.every(({ isBackground }) => isBackground) ? 'background' : 'now';
    const nodeIds = requests.map(({ nodeId }) => nodeId);
    const { results, suspects: isSuspect } = await syncByNodeIds(deps, organisation, nodeIds, { urgency });
    const hasServed = hasFound(results);
    await acceptAnswers(turn, requests, results);
    const failed = requests.flatMap(request => {
      const result = results.get(request.nodeId);
      return result?.status === 'failed' ? [{ request, error: result.error }] : [];
    });
    const suspects = failed.filter(({ request }) => isSuspect.has(request.nodeId));
    // GitHub names these: no search is needed.
    const named = failed.filter(({ request }) => !isSuspect.has(request.nodeId));
    const isOwn = hasServed || (await canSyncOthers(turn, requestsOf(named)));
    for (const { request, error } of named) await deferRequests(turn, [request], error, { isOwn });
    return { hasServed, isRefused: false, suspects: requestsOf(suspects), error: suspects[0]?.error };
  } catch (error) {
    if (mayBeOfOne(error)) return { hasServed: false, isRefused: false, suspects: requests, error };
    await deferRequests(turn, requests, error, { isOwn: false });
    // GitHub's failures are stored with the request; the loop logs all others.
    if (!(error instanceof ServiceError)) throw error;
    return { hasServed: false, isRefused: true, suspects: [], error };
  }
}

const requestsOf = (failed: readonly { request: SyncRequest }[]) => failed.map(({ request }) => request);

/** Waits for GitHub, or gives up, on requests whose answers are below the floor. Ends those with a wrong node id. */
async function acceptAnswers(
  { deps, organisation }: Turn,
  requests: readonly SyncRequest[],
  results: ReadonlyMap<string, SyncResult>,
): Promise<void> {
  const { database, log, counters } = deps;
  const waits: Wait[] = [];
  const gone: SyncRequest[] = [];
  const stale: SyncRequest[] = [];
  const mistaken: SyncRequest[] = [];
  for (const request of requests) {
    const result = results.get(request.nodeId);
    if (result === undefined || result.status === 'failed') continue;
    if (result.status === 'found' && result.pullRequest.githubId !== request.githubId) {
      log.warn(
        { organisation: organisation.login, nodeId: request.nodeId, githubId: request.githubId },
        'GitHub returned a pull request with a different id than its webhook gave: treated as gone',
      );
      mistaken.push(request);
      continue;
    }
    const sourceUpdatedAt = result.status === 'found' ? result.pullRequest.sourceUpdatedAt : null;
    if (isReached(request, sourceUpdatedAt)) continue;
    const seconds = waitForGithub(request, sourceUpdatedAt);
    if (seconds !== undefined) waits.push({ request, sourceUpdatedAt, seconds });
    else (sourceUpdatedAt === null ? gone : stale).push(request);
  }
  await awaitGithub(database, organisation.id, waits);
  await endStaleRequests(database, organisation.id, stale);
  await endGoneRequests(database, organisation.id, [...gone, ...mistaken]);
  counters.stale += stale.length;
  counters.gone += mistaken.length;
  for (const { nodeId, age, minSourceUpdatedAt } of gone) {
    // The sweep asked for it: a stored one was deleted or is out of reach.
    if (minSourceUpdatedAt === null) continue;
    counters.gone += 1;
    log.warn(
      { organisation: organisation.login, nodeId, seconds: Math.round(age) },
      'GitHub does not show a pull request that it has named: treated as gone',
    );
  }
}

const hasFound = (results: ReadonlyMap<string, SyncResult>) =>
  [...results.values()].some(({ status }) => status === 'found');

/**
 * Whether GitHub serves other pull requests of the organisation now: then these failed by themselves. Asks only if one
 * has failed often enough for that to matter. If there are no others, it asks for the organisation. While GitHub is
 * down this is false.
 */
async function canSyncOthers({ deps, organisation }: Turn, failed: readonly SyncRequest[]): Promise<boolean> {
  if (failed.every(({ attempts }) => attempts < maxSharedFailures)) return false;
  const { database, log } = deps;
  const others = await findSettledPullRequests(database.executor, organisation.id, maxOthers);
  try {
    if (others.length > 0) return hasFound((await syncByNodeIds(deps, organisation, others)).results);
    if ((await countSyncRequests(database.executor, organisation.id)).total > 1) return false;
    return (await askGithub(deps, organisation, github => github.findOrganisation(organisation))).reply !== undefined;
  } catch (error) {
    log.debug({ err: error }, 'no other pull request can be synced either');
    return false;
  }
}
