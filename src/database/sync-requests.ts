import { type SQL, sql } from 'drizzle-orm';
import { storable } from '../scoring/text.ts';
import type { Executor } from './client.ts';
import { leaseSeconds } from './lease.ts';

/** An organisation that the caller alone fetches for. */
export interface SyncTurn {
  readonly organisationId: string;
  /** As PostgreSQL writes it; another one in the row means that somebody else has taken over. */
  leasedUntil: string;
}

/**
 * Takes the organisation that was served longest ago, of those with requests due and nobody at them: however much waits
 * for one, the others get their turn.
 */
export async function claimSyncTurn(executor: Executor): Promise<SyncTurn | undefined> {
  const { rows } = await executor.execute<{ id: string; leased_until: string }>(sql`
    update organisations
    set sync_served_at = clock_timestamp(), sync_leased_until = now() + make_interval(secs => ${leaseSeconds})
    where id = (
      select id from organisations
      where sync_leased_until <= now() and exists (
        select 1 from sync_requests where organisation_id = organisations.id and due_at <= now()
      )
      -- Not \`for update\`: that would wait for, and hold up, every insert that refers to the organisation.
      order by sync_served_at limit 1 for no key update skip locked
    )
    returning id, sync_leased_until::text as leased_until`);
  return rows[0] && { organisationId: rows[0].id, leasedUntil: rows[0].leased_until };
}

/** @param seconds 0 ends the turn. Nothing changes if another replica has taken over. */
export async function renewSyncTurn(executor: Executor, turn: SyncTurn, seconds: number = leaseSeconds): Promise<void> {
  const { rows } = await executor.execute<{ leased_until: string }>(sql`
    update organisations set sync_leased_until = now() + make_interval(secs => ${seconds})
    where id = ${turn.organisationId} and sync_leased_until = ${turn.leasedUntil}::timestamptz
    returning sync_leased_until::text as leased_until`);
  turn.leasedUntil = rows[0]?.leased_until ?? turn.leasedUntil;
}

export interface SyncRequest {
  githubId: number;
  nodeId: string;
  /** Another one in the row means that the request was made anew since. */
  ticket: number;
  /** Failures in a row so far. */
  attempts: number;
  /** The floor: an answer with an older `updated_at`, in Unix seconds, does not settle the request. */
  minSourceUpdatedAt: number | null;
  /** Seconds since the latest delivery, or since it was made. */
  age: number;
  /** GitHub's last answer, if that was below the floor: its `updated_at`, and for how many seconds it has been this one. */
  behind: { sourceUpdatedAt: number | null; seconds: number } | undefined;
  isIsolated: boolean;
  isBackground: boolean;
}

/**
 * Up to `limit` requests for one call of GitHub, for the holder of the organisation's turn. If there is room, those ride
 * along that wait for GitHub to catch up. An isolated one comes by itself, when no other is due.
 */
export async function findDueSyncRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<SyncRequest[]> {
  const { rows } = await executor.execute<{
    github_id: string;
    node_id: string;
    ticket: string;
    attempts: number;
    floor: number | null;
    age: number;
    behind_seconds: number | null;
    behind: number | null;
    is_isolated: boolean;
    is_background: boolean;
  }>(sql`
    with due as (
      select *, 1 as place from sync_requests where organisation_id = ${organisationId} and due_at <= now()
      order by is_isolated, is_background, due_at limit ${limit}
    ), riding as (
      select *, 2 as place from sync_requests
      where organisation_id = ${organisationId} and behind_since is not null and not is_isolated
        and due_at > now()
      order by due_at limit ${limit}
    )
    select github_id, node_id, ticket, attempts, is_isolated, is_background,
      extract(epoch from min_source_updated_at)::float8 as floor, extract(epoch from now() - requested_at)::float8 as age,
      extract(epoch from now() - behind_since)::float8 as behind_seconds,
      extract(epoch from behind_source_updated_at)::float8 as behind
    from (select * from due union all select * from riding) as found
    order by place, is_isolated, is_background, due_at limit ${limit}`);
  const requests = rows.map(
    (row): SyncRequest => ({
      githubId: Number(row.github_id),
      nodeId: row.node_id,
      ticket: Number(row.ticket),
      attempts: row.attempts,
      minSourceUpdatedAt: row.floor,
      age: row.age,
      behind: row.behind_seconds === null ? undefined : { sourceUpdatedAt: row.behind, seconds: row.behind_seconds },
      isIsolated: row.is_isolated,
      isBackground: row.is_background,
    }),
  );
  return requests[0]?.isIsolated ? requests.slice(0, 1) : requests.filter(({ isIsolated }) => !isIsolated);
}

/**
 * Ends the requests that a fetch covers, whoever asked for it: made before the fetch began, and with a floor that its
 * answer has reached. Their deliveries are applied.
 *
 * @param fetchTicket drawn before the fetch
 */
export async function settleSyncRequests(
  executor: Executor,
  organisationId: string,
  fetchTicket: number,
  fetched: readonly { githubId: number; sourceUpdatedAt: number }[],
): Promise<void> {
  if (fetched.length === 0) return;
  await executor.execute(sql`
    with held as (
      select github_id from sync_requests
      join unnest(${sql.param(fetched.map(({ githubId }) => githubId))}::bigint[],
        ${sql.param(fetched.map(({ sourceUpdatedAt }) => sourceUpdatedAt))}::float8[]) as fetched (github_id, updated_at)
        using (github_id)
      where organisation_id = ${organisationId} and ticket < ${fetchTicket}
        and (min_source_updated_at is null or min_source_updated_at <= to_timestamp(updated_at))
      -- In the order of the keys, as webhooks write them: neither ever waits for the other in a ring.
      order by github_id for update of sync_requests
    ), settled as (
      delete from sync_requests using held
      where organisation_id = ${organisationId} and sync_requests.github_id = held.github_id
      returning sync_requests.github_id
    )
    update webhook_deliveries set state = 'applied', applied_at = now()
    from settled
    where organisation_id = ${organisationId} and pull_request_github_id = settled.github_id and state = 'pending'`);
}

/** The given requests that were not made anew since, locked in the order of their keys. */
const held = (organisationId: string, requests: readonly SyncRequest[]) =>
  sql`(select github_id from sync_requests
    join unnest(${sql.param(requests.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(requests.map(({ ticket }) => ticket))}::bigint[]) as given (github_id, ticket) using (github_id, ticket)
    where organisation_id = ${organisationId} order by github_id for update of sync_requests)`;

/**
 * Ends requests whose floor GitHub does not reach, unless they were made anew since.
 *
 * @param state of their deliveries from now on
 */
export async function endSyncRequests(
  executor: Executor,
  organisationId: string,
  requests: readonly SyncRequest[],
  state: 'applied' | 'gone',
): Promise<void> {
  if (requests.length === 0) return;
  await executor.execute(sql`
    with ended as (
      delete from sync_requests using ${held(organisationId, requests)} as held
      where organisation_id = ${organisationId} and sync_requests.github_id = held.github_id
      returning sync_requests.github_id
    )
    update webhook_deliveries set state = ${state}, applied_at = now()
    from ended
    where organisation_id = ${organisationId} and pull_request_github_id = ended.github_id and state = 'pending'`);
}

export interface Wait {
  request: SyncRequest;
  /** GitHub's answer, which is below the floor. */
  sourceUpdatedAt: number | null;
  /** Until GitHub is asked again. */
  seconds: number;
}

/** Lets GitHub catch up with what a webhook said; requests that were made anew since stay due. */
export async function awaitGithub(executor: Executor, organisationId: string, waits: readonly Wait[]): Promise<void> {
  if (waits.length === 0) return;
  const requests = waits.map(({ request }) => request);
  await executor.execute(sql`
    update sync_requests set
      due_at = now() + make_interval(secs => waiting.seconds),
      behind_since = case when behind_since is not null
        and behind_source_updated_at is not distinct from to_timestamp(waiting.behind) then behind_since else now() end,
      behind_source_updated_at = to_timestamp(waiting.behind),
      attempts = 0, last_error = null, is_isolated = false
    from unnest(${sql.param(requests.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(waits.map(({ seconds }) => seconds))}::float8[],
      ${sql.param(waits.map(({ sourceUpdatedAt }) => sourceUpdatedAt))}::float8[]) as waiting (github_id, seconds, behind)
    join ${held(organisationId, requests)} as held using (github_id)
    where organisation_id = ${organisationId} and sync_requests.github_id = waiting.github_id`);
}

export interface Deferral {
  request: SyncRequest;
  /** Until the next try. Null parks the request: it is not tried again by itself. */
  seconds: number | null;
  /** Failures in a row that count. */
  attempts: number;
  /** GitHub failed on this one by itself. */
  isIsolated: boolean;
}

/**
 * Puts requests off; those that were made anew since they were read are due already, and stay so.
 *
 * @param reason shown to the operator; null if it is not a failure
 */
export async function deferSyncRequests(
  executor: Executor,
  organisationId: string,
  deferrals: readonly Deferral[],
  reason: string | null,
): Promise<void> {
  const requests = deferrals.map(({ request }) => request);
  await executor.execute(sql`
    update sync_requests set
      due_at = now() + make_interval(secs => deferred.seconds),
      last_error = ${reason === null ? null : storable(reason)}, attempts = deferred.attempts, is_isolated = deferred.isolated
    from unnest(${sql.param(requests.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(deferrals.map(({ seconds }) => seconds))}::float8[],
      ${sql.param(deferrals.map(({ attempts }) => attempts))}::int[],
      ${sql.param(deferrals.map(({ isIsolated }) => isIsolated))}::boolean[])
      as deferred (github_id, seconds, attempts, isolated)
    join ${held(organisationId, requests)} as held using (github_id)
    where organisation_id = ${organisationId} and sync_requests.github_id = deferred.github_id`);
}

/**
 * Has pull requests fetched that another way of bringing them in has failed on. A request that exists already stays as
 * it is.
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

/** The pace of the sweep: 50 pull requests cost 3 points, so that it takes a twentieth of an hour's 5,000. */
export const maxRefetchesPerHour = 4_000;

/**
 * The sweep: has as many stored pull requests fetched again as its pace allows since it last did, at most an hour's. It
 * is for facts that change on GitHub without a webhook.
 *
 * @param perHour its pace for this organisation
 */
export async function sweepPullRequests(executor: Executor, organisationId: string, perHour: number): Promise<void> {
  const { rows } = await executor.execute<{ seconds: number }>(sql`
    with before as (
      select swept_at from organisations
      where id = ${organisationId} and swept_at < now() - interval '1 minute' for no key update
    )
    update organisations set swept_at = now() from before where id = ${organisationId}
    returning extract(epoch from now() - before.swept_at)::float8 as seconds`);
  const [swept] = rows;
  if (swept === undefined) return;
  await requestRefetches(executor, organisationId, Math.floor((perHour * Math.min(swept.seconds, 3_600)) / 3_600));
}

/**
 * Has the stored pull requests fetched again that were fetched longest ago, and not within the last day.
 *
 * @returns how many
 */
export async function requestRefetches(executor: Executor, organisationId: string, limit: number): Promise<number> {
  const { rows } = await executor.execute<{ count: number }>(sql`
    with oldest as (
      select id from pull_requests where organisation_id = ${organisationId} and fetched_at < now() - interval '1 day'
      order by fetched_at limit ${limit} for update skip locked
    ), asked as (
      -- Asked for counts as fetched, so that one that GitHub does not show makes way for the next.
      update pull_requests set fetched_at = now() from oldest
      where organisation_id = ${organisationId} and pull_requests.id = oldest.id
      returning github_id, node_id
    ), requested as (${requestInBackground(organisationId, sql`asked`)})
    select count(*)::int as count, pg_notify('pullscore', 'sync') from requested having count(*) > 0`);
  return rows[0]?.count ?? 0;
}

/**
 * Has the stored pull requests fetched again that carry a label or milestone which was renamed or deleted on GitHub.
 *
 * @param of the repository's GitHub id, and the former name of a label or a milestone
 */
export async function requestCarriers(
  executor: Executor,
  organisationId: string,
  of: { repositoryGithubId: number; label: string } | { repositoryGithubId: number; milestone: string },
): Promise<void> {
  const carries =
    'label' in of ? sql`labels @> array[${storable(of.label)}]` : sql`milestone = ${storable(of.milestone)}`;
  await executor.execute(sql`
    with carriers as (
      select pull_requests.github_id, pull_requests.node_id from pull_requests
      join repositories on repositories.organisation_id = ${organisationId} and repositories.id = repository_id
      where pull_requests.organisation_id = ${organisationId}
        and repositories.github_id = ${of.repositoryGithubId} and ${carries}
    ), requested as (${requestInBackground(organisationId, sql`carriers`, carrierDelaySeconds)})
    select pg_notify('pullscore', 'sync') from requested limit 1`);
}

/**
 * A label's new name does not move `updated_at`, so that no floor can tell an answer from before: GitHub gets some time
 * to show it.
 */
const carrierDelaySeconds = 15;

/** @param source has the columns github_id and node_id */
const requestInBackground = (organisationId: string, source: SQL, seconds = 0) =>
  sql`insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at, is_background)
    select ${organisationId}::uuid, github_id, node_id, nextval('tickets'),
      now() + make_interval(secs => ${seconds}), true
    from (select * from ${source} order by github_id) as source
    -- A fetch on its way that began before does not settle it any more.
    on conflict (organisation_id, github_id) do update set ticket = excluded.ticket
    returning github_id`;

/** Those that failed, parked ones too, are due at once, as if they had just been made. */
export async function retrySyncRequests(
  executor: Executor,
  organisationId: string,
): Promise<{ retried: number; parked: number }> {
  const { rows } = await executor.execute<{ retried: number; parked: number }>(sql`
    with failed as (
      select github_id, due_at is null as parked from sync_requests
      where organisation_id = ${organisationId} and last_error is not null order by github_id for update
    ), retried as (
      -- With a new ticket, whoever is at one of them just now neither ends it nor puts it off.
      update sync_requests set due_at = now(), attempts = 0, last_error = null, is_isolated = false,
        ticket = nextval('tickets')
      from failed where organisation_id = ${organisationId} and sync_requests.github_id = failed.github_id
      returning failed.parked
    )
    select count(*)::int as retried, (count(*) filter (where parked))::int as parked, pg_notify('pullscore', 'sync')
    from retried`);
  return { retried: rows[0]?.retried ?? 0, parked: rows[0]?.parked ?? 0 };
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
  /** Of the waiting ones: GitHub does not show yet what a webhook announced. That is not a failure. */
  behind: number;
  /** Of the waiting ones: parked, or to be tried again. */
  failing: number;
  /** Of the failing ones. */
  parked: number;
  /** Seconds since when one has been due without being taken up; 0 where none is. */
  overdueSeconds: number;
}

export async function countSyncRequests(executor: Executor, organisationId: string): Promise<SyncRequestCounts> {
  const { rows } = await executor.execute<Record<string, number>>(sql`
    select count(*)::int as waiting,
      (count(*) filter (where last_error is null and behind_since is not null))::int as behind,
      (count(*) filter (where last_error is not null))::int as failing,
      (count(*) filter (where due_at is null))::int as parked,
      coalesce(extract(epoch from now() - min(due_at) filter (where due_at <= now()))::int, 0) as overdue
    from sync_requests where organisation_id = ${organisationId}`);
  const { waiting = 0, behind = 0, failing = 0, parked = 0, overdue = 0 } = rows[0] ?? {};
  return { waiting, behind, failing, parked, overdueSeconds: overdue };
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
      extract(epoch from requests.due_at)::float8 as due
    from sync_requests as requests
    left join pull_requests as stored
      on stored.organisation_id = requests.organisation_id and stored.github_id = requests.github_id
    left join repositories
      on repositories.organisation_id = stored.organisation_id and repositories.id = stored.repository_id
    where requests.organisation_id = ${organisationId} and requests.last_error is not null
    order by requests.due_at nulls first, requests.github_id limit ${limit}`);
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
