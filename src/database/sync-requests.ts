import { and, eq, inArray, isNull, lte, not, type SQL, sql } from 'drizzle-orm';
import { storable } from '../text/storable.ts';
import type { Database, Executor } from './client.ts';
import { type Lease, moveLease, takeLease } from './lease.ts';
import { areRulesSuspended } from './organisations.ts';
import { organisations, syncRequests, webhookDeliveries } from './schema.ts';
import { asTable, hasGithubId, isOneOf, secondsFromNow } from './statement.ts';

export type SyncRequest = {
  githubId: number;
  nodeId: string;
  /** Another one in the row means that the request has been made again. */
  ticket: number;
  /** Failures in a row. */
  attempts: number;
  /** The floor: an answer with an older `updated_at`, in Unix seconds, does not settle the request. */
  minSourceUpdatedAt: number | null;
  /** Seconds since the request was made, or since its latest delivery. */
  age: number;
  /** If GitHub's last answer was below the floor: its `updated_at`, and how long that has stayed the same. */
  behindSourceUpdatedAt: number | null;
  behindSeconds: number | null;
  /** It failed with others, and may be the one that made them fail. */
  isCandidate: boolean;
  /** It failed with others, and has been due since: another one made them fail, or GitHub serves none. */
  isSetAside: boolean;
  /** It failed alone, and is fetched alone. */
  isIsolated: boolean;
  /** GitHub has shown another pull request since this one last failed. */
  hasShownOthers: boolean;
  isBackground: boolean;
};

/**
 * Takes the organisation that was served longest ago, of those with requests due and no lease: one organisation's
 * backlog does not hold up the others. Only the caller then fetches for it.
 *
 * @param organisationId undefined: any
 */
export function claimSyncTurn(
  executor: Executor,
  leaseSeconds: number,
  organisationId?: string,
): Promise<Lease | undefined> {
  const waiting = executor
    .select({ organisationId: syncRequests.organisationId })
    .from(syncRequests)
    .where(lte(syncRequests.dueAt, sql`now()`));
  return takeLease(executor, 'syncLeasedUntil', leaseSeconds, {
    isFree: and(isNull(organisations.removedAt), not(areRulesSuspended)),
    isWanted: inArray(organisations.id, waiting),
    organisationId,
    order: organisations.syncServedAt,
    changes: { syncServedAt: sql`now()` },
  });
}

/** @param turn `hasShown`: GitHub has shown a pull request of the organisation in it */
export const endSyncTurn = (
  executor: Executor,
  lease: Lease,
  { pauseSeconds, hasShown }: { pauseSeconds: number; hasShown: boolean },
): Promise<void> =>
  // Not the present: what failed in the same turn has failed after that.
  moveLease(executor, lease, pauseSeconds, hasShown ? { shownAt: sql`${organisations.syncServedAt}` } : {});

/**
 * The requests that come next, for the holder of the organisation's turn: candidates, then what is due, then what waits
 * for GitHub to catch up. An isolated one lets others go first for a while: neither side waits for ever.
 */
export async function findDueSyncRequests(
  executor: Executor,
  organisationId: string,
  { limit, isolatedAfterSeconds }: { limit: number; isolatedAfterSeconds: number },
): Promise<SyncRequest[]> {
  // Each part follows an index and stops at its limit: what a turn costs does not grow with the backlog.
  const part = (place: number, condition: SQL, count = limit, turnAt = sql`due_at`) => sql`
    (select *, ${sql.raw(String(place))} as place, ${turnAt} as turn_at from sync_requests
      where organisation_id = ${organisationId} and ${condition} order by due_at limit ${count})`;
  const later = sql`due_at + make_interval(secs => ${isolatedAfterSeconds})`;
  const { rows } = await executor.execute<SyncRequest>(sql`
    with found as (
      ${part(1, sql`not is_isolated and not is_background and due_at <= now()`)} union all
      ${part(1, sql`not is_isolated and is_background and due_at <= now()`)} union all
      ${part(1, sql`is_isolated and not is_background and due_at <= now()`, 1, later)} union all
      ${part(1, sql`is_isolated and is_background and due_at <= now()`, 1, later)} union all
      ${part(2, sql`behind_since is not null and last_error is null and not is_isolated and due_at > now()`)}
    )
    select github_id::float8 as "githubId", node_id as "nodeId", ticket::float8, attempts,
      extract(epoch from min_source_updated_at)::float8 as "minSourceUpdatedAt",
      extract(epoch from now() - requested_at)::float8 as age,
      extract(epoch from behind_source_updated_at)::float8 as "behindSourceUpdatedAt",
      extract(epoch from now() - behind_since)::float8 as "behindSeconds",
      is_candidate as "isCandidate", not is_candidate and coalesce(due_at <= failed_at, false) as "isSetAside",
      is_isolated as "isIsolated", is_background as "isBackground", coalesce(
        (select shown_at from organisations where id = ${organisationId}) > failed_at, false) as "hasShownOthers"
    from found order by is_candidate desc, place, is_background, turn_at limit ${limit}`);
  return rows;
}

/** What a request has that has not failed since it was last served. */
export const withoutFailure = { attempts: 0, lastError: null, failedAt: null, isCandidate: false, isIsolated: false };

/**
 * Ends the requests that a fetch covers: they were made before it began, its answer has reached their floor, and GitHub has
 * had the time that they give it. Their deliveries are applied. One that waits after a failure may have to give
 * GitHub time, too: it no longer counts as failing, and is served once more.
 *
 * @param fetchTicket drawn before the fetch
 * @param catchUpSeconds how much time GitHub gets at most
 */
export async function settleSyncRequests(
  database: Pick<Database, 'transaction'>,
  organisationId: string,
  fetchTicket: number,
  fetched: readonly { githubId: number; sourceUpdatedAt: number }[],
  catchUpSeconds: number,
): Promise<void> {
  if (fetched.length === 0) return;
  const updatedAt = new Map(fetched.map(({ githubId, sourceUpdatedAt }) => [githubId, sourceUpdatedAt]));
  await database.transaction(async executor => {
    const locked = await lockRequests(executor, organisationId, [...updatedAt.keys()]);
    const covered = locked.filter(({ githubId, ticket, floor }) => {
      const isReached = floor === null || floor <= (updatedAt.get(githubId) ?? Number.NEGATIVE_INFINITY);
      return isReached && ticket < fetchTicket;
    });
    const early = githubIdsOf(covered.filter(({ isTooEarly }) => isTooEarly));
    await endSyncRequests(executor, organisationId, githubIdsOf(covered.filter(({ isTooEarly }) => !isTooEarly)));
    if (early.length === 0) return;
    const dueAt = sql`least(${syncRequests.dueAt}, ${secondsFromNow(catchUpSeconds)})`;
    const isEarly = hasGithubId(syncRequests, organisationId, early);
    await executor
      .update(syncRequests)
      .set({ ...withoutFailure, dueAt })
      .where(isEarly);
  });
}

/**
 * Ends requests, if there are any. Their deliveries are applied. Webhooks lock a delivery before its request, and this
 * does the reverse: after a deadlock the transaction is repeated.
 */
export async function endSyncRequests(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<void> {
  if (githubIds.length === 0) return;
  await executor.delete(syncRequests).where(hasGithubId(syncRequests, organisationId, githubIds));
  await executor
    .update(webhookDeliveries)
    .set({ state: 'applied', appliedAt: sql`now()` })
    .where(isPendingFor(organisationId, githubIds));
}

/**
 * Ends requests for which GitHub does not show the pull request under the node id, and the deliveries that gave this
 * node id. If others gave another one, the request goes on with theirs.
 */
async function endGoneRequests(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<void> {
  if (githubIds.length === 0) return;
  const isAsked = hasGithubId(syncRequests, organisationId, githubIds);
  const { guid, pullRequestGithubId, pullRequestNodeId } = webhookDeliveries;
  const { githubId, nodeId } = syncRequests;
  const deliveries = await executor
    // A comment's delivery gives none.
    .select({ guid, githubId, asked: nodeId, given: sql<string>`coalesce(${pullRequestNodeId}, ${nodeId})` })
    .from(webhookDeliveries)
    .innerJoin(syncRequests, and(isAsked, eq(githubId, pullRequestGithubId)))
    .where(isPendingFor(organisationId, githubIds));
  const gone = deliveries.filter(({ asked, given }) => given === asked).map(delivery => delivery.guid);
  await executor
    .update(webhookDeliveries)
    .set({ state: 'gone', appliedAt: sql`now()` })
    .where(and(eq(webhookDeliveries.organisationId, organisationId), isOneOf(guid, gone)));
  const others = new Map(
    deliveries.filter(({ asked, given }) => given !== asked).map(each => [each.githubId, each.given]),
  );
  for (const [id, given] of others) {
    await executor
      .update(syncRequests)
      .set({ nodeId: given, dueAt: sql`now()`, behindSince: null })
      .where(hasGithubId(syncRequests, organisationId, [id]));
  }
  const ended = githubIds.filter(id => !others.has(id));
  await executor.delete(syncRequests).where(hasGithubId(syncRequests, organisationId, ended));
}

const isPendingFor = (organisationId: string, githubIds: readonly number[]) =>
  and(
    eq(webhookDeliveries.organisationId, organisationId),
    isOneOf(webhookDeliveries.pullRequestGithubId, githubIds),
    eq(webhookDeliveries.state, 'pending'),
  );

const githubIdsOf = (requests: readonly { githubId: number }[]) => requests.map(({ githubId }) => githubId);

/** Locks those of the requests that still exist, in the order of their keys, as webhooks write them, to avoid deadlocks. */
function lockRequests(executor: Executor, organisationId: string, githubIds: readonly number[]) {
  const { githubId, ticket, minSourceUpdatedAt, dueAt, behindSince } = syncRequests;
  // What waits after an answer may be fetched earlier.
  const isTooEarly = sql<boolean>`(${dueAt} > now() and ${behindSince} is null) is true`;
  return executor
    .select({ githubId, ticket, floor: minSourceUpdatedAt, isTooEarly })
    .from(syncRequests)
    .where(hasGithubId(syncRequests, organisationId, githubIds))
    .orderBy(githubId)
    .for('update');
}

/** What becomes of a sync request; seconds count from now. */
export type Decision =
  /** Its answer has reached the floor: {@link settleSyncRequests} ends it. */
  | { kind: 'done' }
  /** GitHub does not reach the floor. */
  | { kind: 'stale' }
  /** GitHub does not show the pull request. */
  | { kind: 'gone' }
  /** GitHub has not caught up with a webhook. `sourceUpdatedAt`: of its answer; null if it showed nothing. */
  | { kind: 'wait'; seconds: number; sourceUpdatedAt: number | null }
  /** One of those that failed together makes all of them fail: smaller batches find it, from the next turn on. */
  | { kind: 'split' }
  /** `attempts`: failures in a row, as far as they count. `reason`: for the operator; null if nothing failed. */
  | { kind: 'retry'; seconds: number; attempts: number; reason: string | null; isIsolated: boolean }
  /** A new delivery, a sweep or an operator starts another try. */
  | { kind: 'parked'; seconds: null; attempts: number; reason: string; isIsolated: boolean };

export interface Decided {
  request: SyncRequest;
  decision: Decision;
}

/** Writes what was decided. Requests that have been made again meanwhile stay due. */
export async function writeDecisions(
  database: Pick<Database, 'transaction'>,
  organisationId: string,
  all: readonly Decided[],
): Promise<void> {
  const decided = all.filter(({ decision }) => decision.kind !== 'done');
  if (decided.length === 0) return;
  const tickets = new Map(decided.map(({ request }) => [request.githubId, request.ticket]));
  await database.transaction(async executor => {
    const locked = await lockRequests(executor, organisationId, [...tickets.keys()]);
    const unchanged = new Set(githubIdsOf(locked.filter(({ githubId, ticket }) => tickets.get(githubId) === ticket)));
    const open = decided.filter(({ request }) => unchanged.has(request.githubId));
    const idsOf = (kind: Decision['kind']) =>
      githubIdsOf(open.filter(({ decision }) => decision.kind === kind).map(({ request }) => request));
    await endSyncRequests(executor, organisationId, idsOf('stale'));
    await endGoneRequests(executor, organisationId, idsOf('gone'));
    await postponeUntilCaughtUp(executor, organisationId, open);
    await saveFailures(executor, organisationId, decided, unchanged);
  });
}

async function postponeUntilCaughtUp(
  executor: Executor,
  organisationId: string,
  decided: readonly Decided[],
): Promise<void> {
  const waits = decided.flatMap(({ request, decision }) =>
    decision.kind === 'wait'
      ? [{ github_id: request.githubId, seconds: decision.seconds, behind: decision.sourceUpdatedAt }]
      : [],
  );
  if (waits.length === 0) return;
  await executor.execute(sql`
    with waiting as materialized (
      select github_id, now() as begun_at, now() + make_interval(secs => seconds) as due_at, to_timestamp(behind) as behind
      from ${asTable(waits, 'given', 'github_id bigint, seconds float8, behind float8')}
    )
    update sync_requests set
      due_at = waiting.due_at,
      behind_since = case when behind_since is not null
        and behind_source_updated_at is not distinct from waiting.behind then behind_since else waiting.begun_at end,
      behind_source_updated_at = waiting.behind,
      attempts = 0, last_error = null, failed_at = null, is_candidate = false, is_isolated = false
    from waiting where organisation_id = ${organisationId} and sync_requests.github_id = waiting.github_id`);
}

/** Those that have been made again stay due, too. */
async function saveFailures(
  executor: Executor,
  organisationId: string,
  decided: readonly Decided[],
  unchanged: ReadonlySet<number>,
): Promise<void> {
  const failed = decided.flatMap(({ request: { githubId }, decision }) => {
    if (decision.kind === 'split') return [{ github_id: githubId, is_candidate: true, is_isolated: false }];
    if (decision.kind !== 'retry' && decision.kind !== 'parked') return [];
    const { isIsolated, seconds, attempts, reason } = decision;
    const failure = { github_id: githubId, is_candidate: false, is_isolated: isIsolated };
    const next = { is_postponed: true, seconds, attempts, reason: reason === null ? null : storable(reason) };
    return [unchanged.has(githubId) ? { ...failure, ...next } : failure];
  });
  if (failed.length === 0) return;
  const columns = `github_id bigint, is_candidate boolean, is_isolated boolean, is_postponed boolean, seconds float8,
    attempts int, reason text`;
  await executor.execute(sql`
    with failed as materialized (
      select *, now() as failed_at, now() + make_interval(secs => seconds) as due_at from ${asTable(failed, 'given', columns)}
    )
    update sync_requests as requests set
      failed_at = failed.failed_at, is_candidate = failed.is_candidate, is_isolated = failed.is_isolated,
      due_at = case when is_postponed then failed.due_at else requests.due_at end,
      attempts = case when is_postponed then failed.attempts else requests.attempts end,
      last_error = case when is_postponed then failed.reason else requests.last_error end
    from failed where organisation_id = ${organisationId} and requests.github_id = failed.github_id`);
  if (!failed.some(each => each.is_candidate || each.is_isolated)) return;
  // One of these made its batch fail: the other candidates are cleared.
  const { isCandidate, githubId } = syncRequests;
  const failedIds = failed.map(each => each.github_id);
  const isOther = not(isOneOf(githubId, failedIds));
  const rest = and(eq(syncRequests.organisationId, organisationId), isCandidate, isOther);
  await executor.update(syncRequests).set({ isCandidate: false }).where(rest);
}
