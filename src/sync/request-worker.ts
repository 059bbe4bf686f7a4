import { countSyncRequests } from '../database/backlog.ts';
import { countAboveShare, findLimits } from '../database/github-rate-limits.ts';
import { moveLease, whileRenewing } from '../database/lease.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import { secondsFromNow } from '../database/statement.ts';
import {
  claimSyncTurn,
  findDueSyncRequests,
  findSettledPullRequests,
  type SyncRequest,
  writeDecisions,
} from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { askGithub, credentialOf, pointsLeft } from './ask-github.ts';
import { type Answer, decide, maxSharedFailures } from './decide.ts';
import { type Attempt, findFailing } from './halving.ts';
import { pageSizesOf } from './page-sizes.ts';
import { canBeOnePullRequest, type SyncResult, syncByNodeIds } from './pull-requests.ts';

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
  const end = await findFailing(requests, batch => attempt(turn, batch), signal);
  if (end.found === 'no failure') batchSize.grow(requests.length);
  if (end.found === 'too many at once') batchSize.shrink(end.minFailed);
  if (end.found === 'outage') await write(turn, failedBy(end.failed, end.error, { isOwn: false }));
  if (end.found !== 'failing') return;
  const { failing, hasServed, error } = end;
  if (!(error instanceof ServiceError)) {
    deps.log.error(
      { err: error, organisation: organisation.login, nodeId: failing.nodeId },
      "a pull request can't be synced",
    );
  }
  const isOwn = hasServed || (await canSyncOthers(turn, [failing]));
  await write(turn, failedBy([failing], error, { isOwn, isAlone: hasServed }));
}

/** A request, and GitHub's answer about its pull request. */
interface Answered {
  request: SyncRequest;
  answer: Answer;
}

const failedBy = (
  requests: readonly SyncRequest[],
  error: unknown,
  cause: { isOwn: boolean; isAlone?: boolean },
): Answered[] => requests.map(request => ({ request, answer: { status: 'failed', error, ...cause } }));

/** Decides what becomes of the requests, writes it, and logs what an operator should know. */
async function write({ deps, organisation: { id, login } }: Turn, answered: readonly Answered[]): Promise<void> {
  const { database, log, counters } = deps;
  const chance = Math.random();
  const decided = answered.map(each => ({ ...each, decision: decide(each.request, each.answer, chance) }));
  await writeDecisions(database, id, decided);
  const retries = new Map<string | null, number[]>();
  for (const { request, answer, decision } of decided) {
    const { nodeId, githubId, age, minSourceUpdatedAt } = request;
    if (decision.kind === 'stale') counters.stale += 1;
    if (decision.kind === 'retry') {
      retries.set(decision.reason, [...(retries.get(decision.reason) ?? []), decision.seconds]);
    }
    if (decision.kind === 'parked') {
      const { attempts, reason } = decision;
      log.error(
        { organisation: login, nodeId, attempts, reason },
        'a pull request is parked: it is tried again when it next changes, by a sweep, or by pullscore webhooks retry',
      );
    }
    if (decision.kind !== 'gone') continue;
    if (answer.status === 'found') {
      counters.gone += 1;
      log.warn(
        { organisation: login, nodeId, githubId },
        'GitHub returned a pull request with a different id than its webhook gave: treated as gone',
      );
    } else if (minSourceUpdatedAt !== null) {
      // Otherwise the sweep asked for it: a stored one was deleted or is out of reach.
      counters.gone += 1;
      log.warn(
        { organisation: login, nodeId, seconds: Math.round(age) },
        'GitHub does not show a pull request that it has named: treated as gone',
      );
    }
  }
  for (const [reason, seconds] of retries) {
    log[reason === null ? 'debug' : 'warn'](
      { organisation: login, requests: seconds.length, seconds: Math.round(Math.min(...seconds)), reason },
      'pull requests were not synced and are tried again',
    );
  }
}

/** One request to GitHub. Ends or postpones all requests that need no search. */
async function attempt(turn: Turn, requests: readonly SyncRequest[]): Promise<Attempt<SyncRequest>> {
  const { deps, organisation } = turn;
  try {
    const urgency = requests.every(({ isBackground }) => isBackground) ? 'background' : 'now';
    const nodeIds = requests.map(({ nodeId }) => nodeId);
    const { results, candidates: isCandidate } = await syncByNodeIds(deps, organisation, nodeIds, { urgency });
    const hasServed = hasFound(results);
    const candidates = requests.filter(({ nodeId }) => isCandidate.has(nodeId));
    // GitHub names these: no search is needed.
    const named = requests.filter(({ nodeId }) => results.get(nodeId)?.status === 'failed' && !isCandidate.has(nodeId));
    const isOwn = hasServed || (await canSyncOthers(turn, named));
    const answered = requests.flatMap((request): Answered[] => {
      const result = results.get(request.nodeId);
      if (result === undefined || isCandidate.has(request.nodeId)) return [];
      if (result.status === 'found') return [{ request, answer: { status: 'found', ...result.pullRequest } }];
      return [{ request, answer: result.status === 'failed' ? { ...result, isOwn } : result }];
    });
    await write(turn, answered);
    const failure = results.get(candidates[0]?.nodeId ?? '');
    const error = failure?.status === 'failed' ? failure.error : undefined;
    return { hasServed, isRefused: false, candidates, error };
  } catch (error) {
    if (canBeOnePullRequest(error)) return { hasServed: false, isRefused: false, candidates: requests, error };
    await write(turn, failedBy(requests, error, { isOwn: false }));
    // GitHub's failures are stored with the request; the loop logs all others.
    if (!(error instanceof ServiceError)) throw error;
    return { hasServed: false, isRefused: true, candidates: [], error };
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
