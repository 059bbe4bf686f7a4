import { and, count, eq, gt, isNotNull, isNull, or, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { notify } from './notifications.ts';
import { isInRepository } from './pull-requests.ts';
import { githubLimits, organisations, pullRequests, repositories, rescoreRanges, syncRequests } from './schema.ts';
import { drawTicket } from './tickets.ts';

/* What operators see of the work that waits, and the retry that they can ask for. */

export interface SyncRequestCounts {
  waiting: number;
  /** Of the waiting ones: GitHub does not show yet what a webhook announced. That is not a failure. */
  behind: number;
  /** Of the waiting ones: parked, or to be tried again. */
  failing: number;
  /** Of the failing ones. */
  parked: number;
  /** Since the first of those that are due became so; 0 if none is due. */
  overdueSeconds: number;
}

/** @param organisationId undefined counts those of all organisations */
export async function countSyncRequests(executor: Executor, organisationId?: string): Promise<SyncRequestCounts> {
  const { dueAt, lastError, behindSince } = syncRequests;
  const countIf = (condition: SQL) => sql<number>`(count(*) filter (where ${condition}))::int`;
  const overdue = sql`extract(epoch from now() - min(${dueAt}) filter (where ${dueAt} <= now()))`;
  const [counts] = await executor
    .select({
      waiting: count(),
      behind: countIf(sql`${lastError} is null and ${behindSince} is not null`),
      failing: countIf(isNotNull(lastError)),
      parked: countIf(isNull(dueAt)),
      overdueSeconds: sql<number>`coalesce(${overdue}::int, 0)`,
    })
    .from(syncRequests)
    .where(organisationId === undefined ? undefined : eq(syncRequests.organisationId, organisationId));
  if (counts === undefined) throw new Error('a count gave no row');
  return counts;
}

/** The work that waits in all organisations together. */
export interface Backlog {
  /** Each sync request counts as one of `waiting`, `behind`, `failing` and `parked`. */
  waiting: number;
  /** GitHub does not show yet what a webhook announced: they are fetched again. */
  behind: number;
  /** They failed, and are tried again. */
  failing: number;
  /** They failed so often that only a change on GitHub or an operator starts another try. */
  parked: number;
  overdueSeconds: number;
  /** Ranges of pull requests whose scores may be older than the rules in force. */
  rescoreRanges: number;
  /** When GitHub may be called again, in Unix seconds, by the organisation's login; by `''` for a token. */
  blockedUntil: Map<string, number>;
}

export async function readBacklog(executor: Executor): Promise<Backlog> {
  const { blockedUntil, credential } = githubLimits;
  const [{ waiting, behind, failing, parked, overdueSeconds }, ranges, blocks] = await Promise.all([
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
    waiting: waiting - behind - failing,
    behind,
    failing: failing - parked,
    parked,
    overdueSeconds,
    rescoreRanges: ranges,
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
