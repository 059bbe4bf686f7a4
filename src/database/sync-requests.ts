import { and, count, eq, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { syncRequests } from './schema.ts';

/** Seconds for which a claimed request is left alone by the other replicas; renewed while the work goes on. */
export const leaseSeconds = 8;

export interface ClaimedRequest {
  githubId: number;
  nodeId: string;
  /** The request is done by this claim only while it still has this ticket. */
  ticket: number;
  attempts: number;
}

/** The organisation whose oldest due request has waited longest, so that a large one starves nobody. */
export async function findWaitingOrganisation(executor: Executor): Promise<string | undefined> {
  const { rows } = await executor.execute<{ id: string }>(sql`
    select id from organisations cross join lateral (
      select due_at from sync_requests where organisation_id = id and due_at <= now() order by due_at limit 1
    ) as oldest order by oldest.due_at limit 1`);
  return rows[0]?.id;
}

/** Leases up to `limit` due requests to the caller, the oldest first. */
export async function claimSyncRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<ClaimedRequest[]> {
  const { rows } = await executor.execute<{ github_id: string; node_id: string; ticket: string; attempts: number }>(sql`
    update sync_requests set due_at = now() + make_interval(secs => ${leaseSeconds}), attempts = attempts + 1
    -- An array is made once; of \`in\` some plans run the subquery for each row, each time with rows not yet claimed.
    where organisation_id = ${organisationId} and github_id = any(array(
      select github_id from sync_requests where organisation_id = ${organisationId} and due_at <= now()
      order by due_at limit ${limit} for update skip locked
    ))
    returning github_id, node_id, ticket, attempts`);
  return rows.map(row => ({
    githubId: Number(row.github_id),
    nodeId: row.node_id,
    ticket: Number(row.ticket),
    attempts: row.attempts,
  }));
}

const claimed = (requests: readonly ClaimedRequest[]) =>
  sql`(select * from unnest(${sql.param(requests.map(request => request.githubId))}::bigint[],
    ${sql.param(requests.map(request => request.ticket))}::bigint[]) as claimed (github_id, ticket))`;

/** Those that were asked for again since they were claimed are due already, and stay so. */
export async function renewLeases(
  executor: Executor,
  organisationId: string,
  requests: readonly ClaimedRequest[],
): Promise<void> {
  await executor.execute(sql`
    update sync_requests set due_at = now() + make_interval(secs => ${leaseSeconds})
    from ${claimed(requests)} as claimed
    where organisation_id = ${organisationId} and sync_requests.github_id = claimed.github_id
      and sync_requests.ticket = claimed.ticket`);
}

/**
 * Removes the requests that were not made anew meanwhile, and marks as applied the deliveries that the fetch covers:
 * all of these pull requests that came in before it began.
 */
export async function completeSyncRequests(
  executor: Executor,
  organisationId: string,
  requests: readonly ClaimedRequest[],
): Promise<void> {
  if (requests.length === 0) return;
  await executor.execute(sql`
    with done as (
      delete from sync_requests using ${claimed(requests)} as claimed
      where organisation_id = ${organisationId} and sync_requests.github_id = claimed.github_id
        and sync_requests.ticket = claimed.ticket
    )
    update webhook_deliveries set state = 'applied', applied_at = now()
    from ${claimed(requests)} as claimed
    where organisation_id = ${organisationId} and pull_request_github_id = claimed.github_id
      and state = 'pending' and webhook_deliveries.ticket <= claimed.ticket`);
}

/**
 * Puts the requests off.
 *
 * @param seconds until the next try of each
 * @param reason shown to the operator
 * @param counts false where the failure is none of the request's, such as a rate limit
 */
export async function deferSyncRequests(
  executor: Executor,
  organisationId: string,
  requests: readonly ClaimedRequest[],
  { seconds, reason, counts }: { seconds: (request: ClaimedRequest) => number; reason: string; counts: boolean },
): Promise<void> {
  await executor.execute(sql`
    update sync_requests set due_at = now() + make_interval(secs => deferred.seconds),
      last_error = ${reason}, attempts = greatest(0, attempts - ${counts ? 0 : 1})
    from unnest(${sql.param(requests.map(request => request.githubId))}::bigint[],
      ${sql.param(requests.map(request => request.ticket))}::bigint[],
      ${sql.param(requests.map(seconds))}::double precision[]) as deferred (github_id, ticket, seconds)
    where organisation_id = ${organisationId} and sync_requests.github_id = deferred.github_id
      and sync_requests.ticket = deferred.ticket`);
}

export async function countSyncRequests(
  executor: Executor,
  organisationId: string,
): Promise<{ waiting: number; failing: number }> {
  const [counts] = await executor
    .select({ waiting: count(), failing: sql<number>`count(*) filter (where last_error is not null)::int` })
    .from(syncRequests)
    .where(and(eq(syncRequests.organisationId, organisationId)));
  return counts ?? { waiting: 0, failing: 0 };
}
