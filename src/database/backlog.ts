import { and, count, eq, gt, isNotNull, isNull, or, type SQL, sql } from 'drizzle-orm';
import { maxRequestedAtOnce } from './background-requests.ts';
import { countCheckRuns } from './check-runs.ts';
import type { Executor } from './client.ts';
import { notify } from './notifications.ts';
import { areRulesSuspended } from './organisations.ts';
import { isInRepository } from './pull-requests.ts';
import {
  deletedPullRequests,
  githubLimits,
  organisations,
  pullRequests,
  repositories,
  rescoreRanges,
  syncRequests,
  webhookDeliveries,
} from './schema.ts';
import { afterAllIds, hasGithubId, oneRow } from './statement.ts';
import { withoutFailure } from './sync-requests.ts';
import { drawTicket } from './tickets.ts';

/* The waiting work as operators see it, and the retry they can request. */

export type SyncRequestCounts = Awaited<ReturnType<typeof countSyncRequests>>;

/** @param organisationId undefined counts those of all organisations */
export async function countSyncRequests(executor: Executor, organisationId?: string) {
  const { dueAt, lastError, behindSince } = syncRequests;
  const countIf = (condition: SQL) => sql<number>`(count(*) filter (where ${condition}))::int`;
  const overdue = sql`extract(epoch from now() - min(${dueAt}) filter (where ${dueAt} <= now()))`;
  const rows = await executor
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
  return oneRow(rows);
}

export type Backlog = Awaited<ReturnType<typeof readBacklog>>;

/**
 * The work that waits in all organisations together.
 *
 * @param fingerprint of the configured token or App
 */
export async function readBacklog(executor: Executor, fingerprint: string) {
  const { blockedUntil, credential } = githubLimits;
  const { receivedAt } = webhookDeliveries;
  const [
    { total, behind, failed, parked, overdueSeconds },
    deliveries,
    checkRuns,
    comparisons,
    ranges,
    [suspended],
    blocks,
  ] = await Promise.all([
    countSyncRequests(executor),
    executor
      .select({ seconds: sql<number>`coalesce(extract(epoch from now() - min(${receivedAt})), 0)::float8` })
      .from(webhookDeliveries)
      .where(eq(webhookDeliveries.state, 'pending')),
    countCheckRuns(executor),
    countComparisons(executor),
    executor.$count(rescoreRanges),
    executor.select({ count: count() }).from(organisations).where(areRulesSuspended),
    executor
      .select({
        organisation: sql<string>`coalesce(${organisations.login}, '')`,
        until: sql<number>`extract(epoch from ${blockedUntil})::float8`,
      })
      .from(githubLimits)
      .leftJoin(organisations, sql`${credential} = ${`${fingerprint}:`} || ${organisations.id}`)
      .where(and(gt(blockedUntil, sql`now()`), or(eq(credential, fingerprint), isNotNull(organisations.id)))),
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
    /** Age of the oldest delivery that is not applied yet; 0 if there is none. */
    unappliedSeconds: deliveries[0]?.seconds ?? 0,
    checkRuns,
    comparisons,
    /** Ranges of pull requests whose scores may be older than the rules in force. */
    rescoreRanges: ranges,
    /** Organisations whose rules in force are suspended. */
    suspended: suspended?.count ?? 0,
    /** When GitHub may be called again, in Unix seconds, by the organisation's login; by `''` for a token. */
    blockedUntil: new Map(blocks.map(({ organisation, until }) => [organisation, until])),
  };
}

async function countComparisons(executor: Executor) {
  const { createdAt, comparedAt, comparisonFailedAt, webhooksEnabled } = organisations;
  const hasFailed = sql`${comparisonFailedAt} >= coalesce(${comparedAt}, ${comparisonFailedAt})`;
  const rows = await executor
    .select({
      /** Since the last one of the organisation that is furthest behind; null if there is none. */
      maxSeconds: sql<number | null>`extract(epoch from now() - min(coalesce(${comparedAt}, ${createdAt})))::float8`,
      /** Organisations whose last one failed, in whole or in part. */
      failing: sql<number>`(count(*) filter (where ${hasFailed}))::int`,
    })
    .from(organisations)
    .where(eq(webhooksEnabled, true));
  return oneRow(rows);
}

export type FailingRequest = Awaited<ReturnType<typeof listFailingRequests>>[number];

/** Parked ones first, then those that are tried next. */
export function listFailingRequests(executor: Executor, organisationId: string, limit: number) {
  const failing = executor
    .select()
    .from(syncRequests)
    .where(and(eq(syncRequests.organisationId, organisationId), isNotNull(syncRequests.lastError)))
    .orderBy(sql`${syncRequests.dueAt} nulls first`, syncRequests.githubId)
    .limit(limit)
    .as('failing');
  const { githubId, nodeId, dueAt, attempts, lastError, requestedAt } = failing;
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
    .from(failing)
    .leftJoin(
      pullRequests,
      and(eq(pullRequests.organisationId, failing.organisationId), eq(pullRequests.githubId, githubId)),
    )
    .leftJoin(repositories, isInRepository)
    .orderBy(sql`${dueAt} nulls first`, githubId);
}

/** `deleted`: it was deleted here and has not changed since. `untracked`: its author is not a member. */
export type FetchOutcome = 'saved' | 'deleted' | 'untracked' | 'failed';

/**
 * What became of requested pull requests, by GitHub id. Those that still wait for their fetch, or for a second try, are
 * missing; `failed` ones are tried again later.
 */
export async function findOutcomes(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, FetchOutcome>> {
  const { githubId, lastError, attempts, isIsolated } = syncRequests;
  const requested = await executor
    .select({ githubId, hasFailed: sql<boolean>`${lastError} is not null and (${isIsolated} or ${attempts} > 1)` })
    .from(syncRequests)
    .where(hasGithubId(syncRequests, organisationId, githubIds));
  const failures = new Map(requested.map(row => [row.githubId, row.hasFailed]));
  const ended = githubIds.filter(each => failures.get(each) !== false);
  const idsIn = async (table: typeof pullRequests | typeof deletedPullRequests) => {
    const isEnded = hasGithubId(table, organisationId, ended);
    const rows = await executor.select({ githubId: table.githubId }).from(table).where(isEnded);
    return new Set(rows.map(row => row.githubId));
  };
  const [stored, deleted] = [await idsIn(pullRequests), await idsIn(deletedPullRequests)];
  const outcomeOf = (each: number): FetchOutcome => {
    if (failures.get(each)) return 'failed';
    if (stored.has(each)) return 'saved';
    return deleted.has(each) ? 'deleted' : 'untracked';
  };
  return new Map(ended.map(each => [each, outcomeOf(each)]));
}

/** Pull requests that a statement counts. It reads their rows, so counting all of them might exceed its time limit. */
const maxCountedAtOnce = 10_000;

/** How many scores are stale. What was fetched and saved since counts as up to date. */
export async function countOutdated(executor: Executor, organisationId: string): Promise<number> {
  const ranges = await executor.select().from(rescoreRanges).where(eq(rescoreRanges.organisationId, organisationId));
  let outdated = 0;
  for (const { fromId, untilId, ticket } of ranges) {
    let isAhead = sql`id >= ${fromId}`;
    for (;;) {
      // As a text, because PostgreSQL before 18 has no maximum of ids.
      const { rows } = await executor.execute<{ read: number; outdated: number; last: string }>(sql`
        select count(*)::int as read, (count(*) filter (where fetch_ticket < ${ticket}))::int as outdated,
          max(id::text collate "C") as last
        from (
          select id, fetch_ticket from pull_requests
          where organisation_id = ${organisationId} and ${isAhead} and id < ${untilId ?? afterAllIds}
          order by id limit ${maxCountedAtOnce}
        ) as next`);
      const step = oneRow(rows);
      outdated += step.outdated;
      if (step.read < maxCountedAtOnce) break;
      isAhead = sql`id > ${step.last}`;
    }
  }
  return outdated;
}

/**
 * Makes failed requests due at once, parked ones included, as if they were new: up to {@link maxRequestedAtOnce}. Runs in a
 * transaction.
 */
export async function retrySyncRequests(
  executor: Executor,
  organisationId: string,
): Promise<{ retried: number; parked: number }> {
  // With a new ticket, a fetch that is already under way neither ends nor defers them.
  const newTicket = await drawTicket(executor);
  const { githubId, dueAt, lastError, ticket } = syncRequests;
  const failed = await executor
    .select({ githubId, dueAt })
    .from(syncRequests)
    .where(and(eq(syncRequests.organisationId, organisationId), isNotNull(lastError)))
    .orderBy(githubId)
    .limit(maxRequestedAtOnce)
    .for('update');
  const failedIds = failed.map(row => row.githubId);
  await executor
    .update(syncRequests)
    .set({ ...withoutFailure, dueAt: sql`now()`, ticket: sql`greatest(${ticket}, ${newTicket}::bigint)` })
    .where(hasGithubId(syncRequests, organisationId, failedIds));
  await notify(executor, 'sync');
  return { retried: failed.length, parked: failed.filter(row => row.dueAt === null).length };
}
