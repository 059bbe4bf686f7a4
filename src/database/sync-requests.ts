import { sql } from 'drizzle-orm';
import { storable } from '../scoring/text.ts';
import type { Executor } from './client.ts';

/*
 * A parked request is due at `infinity`. No `Date` can hold that, and before PostgreSQL 17 no interval: read `due_at`
 * through `nullif`, and compare it before reckoning with it.
 */

/** Seconds for which a claimed request is left alone by the other replicas; renewed while the work goes on. */
export const leaseSeconds = 8;

export interface ClaimedRequest {
  githubId: number;
  nodeId: string;
  /** The request is done by this claim only while it still has this ticket. */
  ticket: number;
  attempts: number;
}

/**
 * Has pull requests fetched that another way of bringing them in has failed on. Where one is waited for already, that
 * stays as it is.
 *
 * @param reason shown to the operator
 * @param seconds until the first try
 */
export async function requestFailedSyncs(
  executor: Executor,
  organisationId: string,
  pullRequests: readonly { githubId: number; nodeId: string }[],
  reason: string,
  seconds: number,
): Promise<void> {
  if (pullRequests.length === 0) return;
  await executor.execute(sql`
    insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at, attempts, last_error)
    select ${organisationId}::uuid, github_id, node_id, nextval('tickets'), now() + make_interval(secs => ${seconds}), 1,
      ${storable(reason)}
    from unnest(${sql.param(pullRequests.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(pullRequests.map(({ nodeId }) => nodeId))}::text[]) as failed (github_id, node_id)
    order by github_id
    on conflict (organisation_id, github_id) do nothing`);
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

/**
 * The claimed requests that were not made anew since, locked in the order of their keys. Webhooks write them in that
 * order too: neither ever waits for the other in a ring.
 */
const held = (organisationId: string, requests: readonly ClaimedRequest[]) =>
  sql`(select github_id from sync_requests join ${claimed(requests)} as claimed using (github_id, ticket)
    where organisation_id = ${organisationId} order by github_id for update of sync_requests)`;

/**
 * Those that were asked for again since they were claimed are due already, and stay so. So do those that were put off by
 * more than a lease, or parked, while this was on its way.
 */
export async function renewLeases(
  executor: Executor,
  organisationId: string,
  requests: readonly ClaimedRequest[],
): Promise<void> {
  await executor.execute(sql`
    update sync_requests set due_at = now() + make_interval(secs => ${leaseSeconds})
    from ${held(organisationId, requests)} as held
    where organisation_id = ${organisationId} and sync_requests.github_id = held.github_id
      and due_at <= now() + make_interval(secs => ${leaseSeconds})`);
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
      delete from sync_requests using ${held(organisationId, requests)} as held
      where organisation_id = ${organisationId} and sync_requests.github_id = held.github_id
    )
    update webhook_deliveries set state = 'applied', applied_at = now()
    from ${claimed(requests)} as claimed
    where organisation_id = ${organisationId} and pull_request_github_id = claimed.github_id
      and state = 'pending' and webhook_deliveries.ticket <= claimed.ticket`);
}

export interface Deferral {
  request: ClaimedRequest;
  /** Until the next try. Null parks the request: it is not tried again by itself. */
  seconds: number | null;
  /** Failures in a row that count. */
  attempts: number;
}

/**
 * Puts requests off; those that were made anew since they were claimed are due already, and stay so.
 *
 * @param reason shown to the operator
 */
export async function deferSyncRequests(
  executor: Executor,
  organisationId: string,
  deferrals: readonly Deferral[],
  reason: string,
): Promise<void> {
  await executor.execute(sql`
    update sync_requests set
      due_at = coalesce(now() + make_interval(secs => deferred.seconds), 'infinity'),
      last_error = ${storable(reason)}, attempts = deferred.attempts
    from unnest(${sql.param(deferrals.map(({ request }) => request.githubId))}::bigint[],
      ${sql.param(deferrals.map(({ seconds }) => seconds))}::double precision[],
      ${sql.param(deferrals.map(({ attempts }) => attempts))}::int[]) as deferred (github_id, seconds, attempts)
    join ${held(
      organisationId,
      deferrals.map(({ request }) => request),
    )} as held using (github_id)
    where organisation_id = ${organisationId} and sync_requests.github_id = deferred.github_id`);
}

/** Those that failed, parked ones too, are due at once, as if they had just been made. */
export async function retrySyncRequests(
  executor: Executor,
  organisationId: string,
): Promise<{ retried: number; parked: number }> {
  const { rows } = await executor.execute<{ retried: number; parked: number }>(sql`
    with failed as (
      select github_id, due_at = 'infinity' as parked from sync_requests
      where organisation_id = ${organisationId} and last_error is not null order by github_id for update
    ), retried as (
      -- With a new ticket, whoever is at one of them just now neither ends it nor puts it off.
      update sync_requests set due_at = now(), attempts = 0, last_error = null, ticket = nextval('tickets')
      from failed where organisation_id = ${organisationId} and sync_requests.github_id = failed.github_id
      returning failed.parked
    )
    select count(*)::int as retried, (count(*) filter (where parked))::int as parked, pg_notify('pullscore', 'sync')
    from retried`);
  return { retried: rows[0]?.retried ?? 0, parked: rows[0]?.parked ?? 0 };
}

/** Ends parked requests whose pull request was fetched since they were made: by an import, a comparison, a PUT sync. */
export async function endFetchedRequests(executor: Executor): Promise<void> {
  await executor.execute(sql`
    with ended as (
      delete from sync_requests as requests using pull_requests as stored
      where requests.due_at = 'infinity' and stored.organisation_id = requests.organisation_id
        and stored.github_id = requests.github_id and stored.fetch_ticket > requests.ticket
      returning requests.organisation_id, requests.github_id, requests.ticket
    )
    update webhook_deliveries as deliveries set state = 'applied', applied_at = now()
    from ended
    where deliveries.organisation_id = ended.organisation_id and pull_request_github_id = ended.github_id
      and state = 'pending' and deliveries.ticket <= ended.ticket`);
}

/** Node ids of stored pull requests that nothing is known to be wrong with, the latest first. */
export async function findSettledPullRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await executor.execute<{ node_id: string }>(sql`
    select node_id from pull_requests where organisation_id = ${organisationId} and not exists (
      select from sync_requests
      where organisation_id = ${organisationId} and sync_requests.github_id = pull_requests.github_id
    )
    order by id desc limit ${limit}`);
  return rows.map(row => row.node_id);
}

export interface SyncRequestCounts {
  waiting: number;
  /** Of the waiting ones: parked, or to be tried again. */
  failing: number;
  /** Of the failing ones. */
  parked: number;
  /** Seconds since when one has been due without being taken up; 0 where none is. */
  overdueSeconds: number;
}

export async function countSyncRequests(executor: Executor, organisationId: string): Promise<SyncRequestCounts> {
  const { rows } = await executor.execute<Record<string, number>>(sql`
    select count(*)::int as waiting, (count(*) filter (where last_error is not null))::int as failing,
      (count(*) filter (where due_at = 'infinity'))::int as parked,
      coalesce(extract(epoch from now() - min(due_at) filter (where due_at <= now()))::int, 0) as overdue
    from sync_requests where organisation_id = ${organisationId}`);
  const { waiting = 0, failing = 0, parked = 0, overdue = 0 } = rows[0] ?? {};
  return { waiting, failing, parked, overdueSeconds: overdue };
}

export interface FailingRequest {
  githubId: number;
  nodeId: string;
  /** `owner/name#number`; null where the pull request is not stored. */
  name: string | null;
  url: string | null;
  attempts: number;
  reason: string;
  requestedAt: Date;
  /** When it is tried next; null where it is parked. */
  dueAt: Date | null;
}

/** Parked ones first, then those that are tried next. */
export async function listFailingRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<FailingRequest[]> {
  const { rows } = await executor.execute<{
    github_id: string;
    node_id: string;
    name: string | null;
    url: string | null;
    attempts: number;
    reason: string;
    requested: number;
    due: number | null;
  }>(sql`
    select requests.github_id, requests.node_id, repositories.name || '#' || stored.number as name, stored.url,
      requests.attempts, requests.last_error as reason, extract(epoch from requests.requested_at)::float8 as requested,
      extract(epoch from nullif(requests.due_at, 'infinity'))::float8 as due
    from sync_requests as requests
    left join pull_requests as stored
      on stored.organisation_id = requests.organisation_id and stored.github_id = requests.github_id
    left join repositories
      on repositories.organisation_id = stored.organisation_id and repositories.id = stored.repository_id
    where requests.organisation_id = ${organisationId} and requests.last_error is not null
    order by (requests.due_at = 'infinity') desc, requests.due_at, requests.github_id limit ${limit}`);
  return rows.map(row => ({
    githubId: Number(row.github_id),
    nodeId: row.node_id,
    name: row.name,
    url: row.url,
    attempts: row.attempts,
    reason: row.reason,
    requestedAt: new Date(row.requested * 1000),
    dueAt: row.due === null ? null : new Date(row.due * 1000),
  }));
}
