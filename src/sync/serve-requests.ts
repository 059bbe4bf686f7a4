import { countAboveShare, findLimits } from '../database/github-rate-limits.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import {
  claimSyncTurn,
  endSyncTurn,
  findDueSyncRequests,
  type SyncRequest,
  writeDecisions,
} from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { maxPullRequests } from '../github/github.ts';
import { type Answer, chooseBatch, decide } from './decide-next-try.ts';
import { leaseSeconds, whileRenewing } from './renew-lease.ts';
import { credentialOf, pointsLeft } from './share-github-points.ts';
import { syncByNodeIds } from './sync-pull-requests.ts';

/** How long a request that is fetched alone lets others go first. */
const isolatedAfterSeconds = 30;

/** How long an organisation above its share waits, at most, for each point that it has spent. */
const maxSecondsPerPoint = 30;

/** Pauses of this length or more are logged. */
const longPauseSeconds = 60;

/**
 * Gives one organisation its turn: one request to GitHub for up to fifty of its pending pull requests.
 *
 * @param organisationId undefined: the one that was served longest ago
 * @returns a function that does one turn and returns whether an organisation had one. An aborted `signal` keeps a turn
 * from asking GitHub. `onFound` is called if an organisation has a turn.
 */
export function createRequestWorker(deps: Deps, organisationId?: string) {
  const { executor } = deps.database;
  return async (signal?: AbortSignal, onFound?: () => void): Promise<boolean> => {
    const lease = await claimSyncTurn(executor, leaseSeconds, organisationId);
    if (lease === undefined) return false;
    onFound?.();
    let pauseSeconds = 0;
    let hasShown = false;
    try {
      await whileRenewing(executor, lease, deps.log, async () => {
        const organisation = await getOrganisation(executor, lease.organisationId);
        const limits = { limit: maxPullRequests, isolatedAfterSeconds };
        const batch = chooseBatch(await findDueSyncRequests(executor, organisation.id, limits));
        if (batch.length === 0 || signal?.aborted) return;
        let spent = 0;
        const github = deps.github.metered(({ rateLimit }) => {
          spent += rateLimit?.cost ?? 1;
        });
        const metered = { ...deps, github };
        const urgency = batch.every(({ isBackground }) => isBackground) ? 'background' : 'now';
        const nodeIds = batch.map(({ nodeId }) => nodeId);
        const answers = await syncByNodeIds(metered, organisation, nodeIds, { urgency });
        hasShown = [...answers.values()].some(({ status }) => status === 'found');
        await settle(deps, organisation, batch, answers);
        pauseSeconds = await secondsForPoints(deps, organisation, spent);
      });
    } finally {
      // If this fails, the lease expires.
      await endSyncTurn(executor, lease, { pauseSeconds, hasShown }).catch(() => undefined);
    }
    return true;
  };
}

/**
 * Seconds until the next turn. One that has used more of the hour's points than are left waits for each point that it
 * spends, so that what is left lasts until the reset; all such organisations share it. Changes meanwhile share a
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

/**
 * Decides what becomes of the requests, writes it, and logs what an operator should know.
 *
 * @throws what is neither GitHub's failure nor that of a pull request: the loop logs it
 */
async function settle(
  { database, log, counters }: Deps,
  { id, login: organisation }: Organisation,
  batch: readonly SyncRequest[],
  answers: ReadonlyMap<string, Answer>,
): Promise<void> {
  const chance = Math.random();
  const decided = batch.flatMap(request => {
    const answer = answers.get(request.nodeId);
    return answer === undefined ? [] : [{ request, answer, decision: decide(request, answer, chance) }];
  });
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
        { organisation, nodeId, attempts, reason },
        'a pull request is parked: it is tried again when it next changes, by a sweep, or by pullscore webhooks retry',
      );
    }
    if (answer.status === 'failed') {
      const { cause, error } = answer;
      // GitHub's failures are stored with the request.
      if (error instanceof ServiceError || decision.kind === 'split') continue;
      if (cause === 'service') throw error;
      log.error({ err: error, organisation, nodeId }, "a pull request can't be synced");
    }
    if (decision.kind !== 'gone') continue;
    if (answer.status === 'found') {
      counters.gone += 1;
      log.warn(
        { organisation, nodeId, githubId },
        'GitHub returned a pull request with a different id than its webhook gave: treated as gone',
      );
    } else if (minSourceUpdatedAt !== null) {
      // Otherwise the sweep asked for it: a stored one was deleted or is out of reach.
      counters.gone += 1;
      log.warn(
        { organisation, nodeId, seconds: Math.round(age) },
        'GitHub does not show a pull request that it has named: treated as gone',
      );
    }
  }
  for (const [reason, seconds] of retries) {
    log[reason === null ? 'debug' : 'warn'](
      { organisation, requests: seconds.length, seconds: Math.round(Math.min(...seconds)), reason },
      'pull requests were not synced and are tried again',
    );
  }
}
