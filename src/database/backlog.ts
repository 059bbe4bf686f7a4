import { and, count, eq, gt, isNotNull, isNull, or, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { notify } from './notifications.ts';
import { isInRepository } from './pull-requests.ts';
import { githubLimits, organisations, pullRequests, repositories, rescoreRanges, syncRequests } from './schema.ts';
import { drawTicket } from './tickets.ts';

/* The waiting work as operators see it, and the retry they can request. */

export type SyncRequestCounts = Awaited<ReturnType<typeof countSyncRequests>>;

/** @param organisationId undefined counts those of all organisations */
export async function countSyncRequests(executor: Executor, organisationId?: string) {
  const { dueAt, lastError, behindSince } = syncRequests;
  const countIf = (condition: SQL) => sql<number>`(count(*) filter (where ${condition}))::int`;
  const overdue = sql`extract(epoch from now() - min(${dueAt}) filter (where ${dueAt} <= now()))`;
  const [counts] = await executor
    .select({
      total: count(),
      /** Part of `total`: GitHub does not show yet what a webhook announced. That is not a failure. */
      behind: countIf(sql`${lastError} is null and ${behindSince} is not null`),
      /** Part of `total`: parked, or to be tried again. */
      failed: countIf(isNotNull(lastError)),
      /** Part of `failed`. */
      parked: countIf(isNull(dueAt)),
      /** How long the oldest due request has been due; 0 if none is. */
      overdueSeconds: sql<number>`coalesce(${overdue}::int, 0)`,
    })
    .from(syncRequests)
    .where(organisationId === undefined ? undefined : eq(syncRequests.organisationId, organisationId));
  if (counts === undefined) throw new Error('a count gave no row');
  return counts;
}

export type Backlog = Awaited<ReturnType<typeof readBacklog>>;

/** The work that waits in all organisations together. */
export async function readBacklog(executor: Executor) {
  const { blockedUntil, credential } = githubLimits;
  const [{ total, behind, failed, parked, overdueSeconds }, ranges, blocks] = await Promise.all([
    countSyncRequests(executor),
    executor.$count(rescoreRanges),
    executor
      .select({
        organisation: sql<string>`coalesce(${organisations.login}, '')`,
        until: sql<number>`extract(epoch from ${blockedUntil})::float8`,
      })
      .from(githubLimits)
      .leftJoin(organisations, sql`${credential} = 'app:' || ${organisations.id}`)
      .where(and(gt(blockedUntil, sql`now()`), or(eq(credential, 'token'), isNotNull(organisations.id)))),
  ]);
  return {
    /** Each sync request counts as one of `waiting`, `behind`, `failing` and `parked`. */
    waiting: total - behind - failed,
    behind,
    /** They failed, and are tried again. */
    failing: failed - parked,
    /** They failed so often that only a change on GitHub or an operator starts another try. */
    parked,
    overdueSeconds,
    /** Ranges of pull requests whose scores may be older than the rules in force. */
    rescoreRanges: ranges,
    /** When GitHub may be called again, in Unix seconds, by the organisation's login; by `''` for a token. */
    blockedUntil: new Map(blocks.map(({ organisation, until }) => [organisation, until])),
  };
}

export type FailingRequest = Awaited<ReturnType<typeof listFailingRequests>>[number];

/** Parked ones first, then those that are tried next. */
export function listFailingRequests(executor: Executor, organisationId: string, limit: number) {
  const { githubId, nodeId, dueAt, attempts, lastError, requestedAt } = syncRequests;
  return executor
    .select({
      githubId,
      nodeId,
      /** `owner/name#number`; null if the pull request is not stored. */
      name: sql<string | null>`${repositories.name} || '#' || ${pullRequests.number}`,
      url: pullRequests.url,
      attempts,
      reason: sql<string>`${lastError}`,
      requestedAt,
      dueAt,
    })
    .from(syncRequests)
    .leftJoin(
      pullRequests,
      and(eq(pullRequests.organisationId, syncRequests.organisationId), eq(pullRequests.githubId, githubId)),
    )
    .leftJoin(repositories, isInRepository)
    .where(and(eq(syncRequests.organisationId, organisationId), isNotNull(lastError)))
    .orderBy(sql`${dueAt} nulls first`, githubId)
    .limit(limit);
}

/** Makes failed requests due at once, parked ones included, as if they were new. */
export async function retrySyncRequests(
  executor: Executor,
  organisationId: string,
): Promise<{ retried: number; parked: number }> {
  // With a new ticket, a fetch that is already under way neither ends nor defers them.
  const ticket = await drawTicket(executor);
  const { rows } = await executor.execute<{ parked: boolean }>(sql`
    with failed as (
      select github_id, due_at is null as parked from sync_requests
      where organisation_id = ${organisationId} and last_error is not null order by github_id for update
    )
    update sync_requests set due_at = now(), attempts = 0, last_error = null, is_isolated = false,
      ticket = greatest(ticket, ${ticket}::bigint)
    from failed where organisation_id = ${organisationId} and sync_requests.github_id = failed.github_id
    returning failed.parked`);
  await notify(executor, 'sync');
  return { retried: rows.length, parked: rows.filter(({ parked }) => parked).length };
}
