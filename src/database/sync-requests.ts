import { and, desc, eq, inArray, lte, notExists, type SQL, sql } from 'drizzle-orm';
import { storable } from '../scoring/text.ts';
import type { Database, Executor } from './client.ts';
import { type Lease, takeLease } from './lease.ts';
import { isInPresentRepository } from './pull-requests.ts';
import { organisations, pullRequests, syncRequests } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/**
 * Takes the organisation that was served longest ago, of those with requests due and no lease: one organisation's
 * backlog does not hold up the others. Only the caller then fetches for it.
 */
export async function claimSyncTurn(executor: Executor): Promise<Lease | undefined> {
  const { id, syncLeasedUntil, syncServedAt } = organisations;
  const isFree = lte(syncLeasedUntil, sql`now()`);
  const waiting = executor
    .select({ organisationId: syncRequests.organisationId })
    .from(syncRequests)
    .where(lte(syncRequests.dueAt, sql`now()`));
  for (;;) {
    const [next] = await executor
      .select({ id })
      .from(organisations)
      .where(and(isFree, inArray(id, waiting)))
      .orderBy(syncServedAt)
      .limit(1);
    if (next === undefined) return undefined;
    const turn = await takeLease(executor, 'syncLeasedUntil', next.id, isFree, { syncServedAt: sql`now()` });
    // Otherwise another replica was faster, and the next organisation is another one.
    if (turn !== undefined) return turn;
  }
}

/** The lowest floor: any state settles the request, but GitHub is asked for a while before the pull request counts as gone. */
export const anyTime = sql`to_timestamp(0)`;

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
  isIsolated: boolean;
  isBackground: boolean;
};

/**
 * Up to `limit` requests for one call to GitHub, for the holder of the organisation's turn. If there is room, requests
 * that wait for GitHub to catch up ride along. An isolated one comes alone, and lets others go first for half a minute:
 * neither side waits for ever.
 */
export async function findDueSyncRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<SyncRequest[]> {
  const { rows: requests } = await executor.execute<SyncRequest>(sql`
    with waiting as (
      select *, due_at + case when is_isolated then interval '30 seconds' else interval '0' end as turn_at
      from sync_requests where organisation_id = ${organisationId}
    ), due as (
      select *, 1 as place from waiting where due_at <= now() order by is_background, turn_at limit ${limit}
    ), riding as (
      select *, 2 as place from waiting
      where organisation_id = ${organisationId} and behind_since is not null and last_error is null
        and not is_isolated and due_at > now()
      order by due_at limit ${limit}
    )
    select github_id::float8 as "githubId", node_id as "nodeId", ticket::float8, attempts,
      extract(epoch from min_source_updated_at)::float8 as "minSourceUpdatedAt",
      extract(epoch from now() - requested_at)::float8 as age,
      extract(epoch from behind_source_updated_at)::float8 as "behindSourceUpdatedAt",
      extract(epoch from now() - behind_since)::float8 as "behindSeconds",
      is_isolated as "isIsolated", is_background as "isBackground"
    from (select * from due union all select * from riding) as found
    order by place, is_background, turn_at limit ${limit}`);
  return requests[0]?.isIsolated ? requests.slice(0, 1) : requests.filter(({ isIsolated }) => !isIsolated);
}

/**
 * Ends the requests that a fetch covers: they were made before it began, and its answer has reached their floor. Their
 * deliveries are applied.
 *
 * @param fetchTicket drawn before the fetch
 */
export async function settleSyncRequests(
  database: Pick<Database, 'transaction'>,
  organisationId: string,
  fetchTicket: number,
  fetched: readonly { githubId: number; sourceUpdatedAt: number }[],
): Promise<void> {
  if (fetched.length === 0) return;
  const covered = sql`(select github_id from sync_requests
    join unnest(${sql.param(fetched.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(fetched.map(({ sourceUpdatedAt }) => sourceUpdatedAt))}::float8[]) as fetched (github_id, updated_at)
      using (github_id)
    where organisation_id = ${organisationId} and ticket < ${fetchTicket}
      and (min_source_updated_at is null or min_source_updated_at <= to_timestamp(updated_at))
    -- In the order of the keys, as webhooks write them, to avoid deadlocks.
    order by github_id for update of sync_requests)`;
  await endRequests(database, organisationId, covered, 'applied');
}

/**
 * Webhooks lock a delivery before its request, and this does the reverse: after a deadlock the transaction is repeated.
 *
 * @param locked a query for the ids of the requests that end, which it locks
 */
async function endRequests(
  database: Pick<Database, 'transaction'>,
  organisationId: string,
  locked: SQL,
  state: 'applied' | 'gone',
): Promise<void> {
  const end = sql`
    with held as ${locked}, ended as (
      delete from sync_requests using held
      where organisation_id = ${organisationId} and sync_requests.github_id = held.github_id
      returning sync_requests.github_id
    )
    update webhook_deliveries set state = ${state}, applied_at = now()
    from ended
    where organisation_id = ${organisationId} and pull_request_github_id = ended.github_id and state = 'pending'`;
  await database.transaction(executor => executor.execute(end));
}

/** Locks those of the given requests that have not been made again, in the order of their keys. */
const lockUnchanged = (organisationId: string, requests: readonly SyncRequest[]) =>
  sql`(select github_id from sync_requests
    join unnest(${sql.param(requests.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(requests.map(({ ticket }) => ticket))}::bigint[]) as given (github_id, ticket) using (github_id, ticket)
    where organisation_id = ${organisationId} order by github_id for update of sync_requests)`;

/**
 * Ends requests whose floor GitHub does not reach, unless they have been made again.
 *
 * @param state of their deliveries from now on
 */
export async function endSyncRequests(
  database: Pick<Database, 'transaction'>,
  organisationId: string,
  requests: readonly SyncRequest[],
  state: 'applied' | 'gone',
): Promise<void> {
  if (requests.length > 0) await endRequests(database, organisationId, lockUnchanged(organisationId, requests), state);
}

export interface Wait {
  request: SyncRequest;
  /** `updated_at` of GitHub's answer, which is below the floor; null if GitHub showed nothing. */
  sourceUpdatedAt: number | null;
  /** How long until GitHub is asked again. */
  seconds: number;
}

/** Waits for GitHub to catch up with a webhook. Requests that have been made again stay due. */
export async function awaitGithub(executor: Executor, organisationId: string, waits: readonly Wait[]): Promise<void> {
  if (waits.length === 0) return;
  const requests = waits.map(({ request }) => request);
  await executor.execute(sql`
    with waiting as materialized (
      select github_id, now() as begun_at, now() + make_interval(secs => seconds) as due_at, to_timestamp(behind) as behind
      from unnest(${sql.param(requests.map(({ githubId }) => githubId))}::bigint[],
        ${sql.param(waits.map(({ seconds }) => seconds))}::float8[],
        ${sql.param(waits.map(({ sourceUpdatedAt }) => sourceUpdatedAt))}::float8[]) as given (github_id, seconds, behind)
    )
    update sync_requests set
      due_at = waiting.due_at,
      behind_since = case when behind_since is not null
        and behind_source_updated_at is not distinct from waiting.behind then behind_since else waiting.begun_at end,
      behind_source_updated_at = waiting.behind,
      attempts = 0, last_error = null, is_isolated = false
    from waiting join ${lockUnchanged(organisationId, requests)} as held using (github_id)
    where organisation_id = ${organisationId} and sync_requests.github_id = waiting.github_id`);
}

export interface Deferral {
  request: SyncRequest;
  /** How long until the next try. Null parks the request: a new delivery, a sweep or an operator starts another try. */
  seconds: number | null;
  /** Failures in a row, as far as they count. */
  attempts: number;
}

/**
 * Defers requests. Those that have been made again stay due.
 *
 * @param reason shown to the operator; null if nothing failed
 */
export async function deferSyncRequests(
  executor: Executor,
  organisationId: string,
  deferrals: readonly Deferral[],
  reason: string | null,
): Promise<void> {
  const requests = deferrals.map(({ request }) => request);
  await executor.execute(sql`
    with deferred as materialized (
      select github_id, now() + make_interval(secs => seconds) as due_at, attempts
      from unnest(${sql.param(requests.map(({ githubId }) => githubId))}::bigint[],
        ${sql.param(deferrals.map(({ seconds }) => seconds))}::float8[],
        ${sql.param(deferrals.map(({ attempts }) => attempts))}::int[]) as given (github_id, seconds, attempts)
    )
    update sync_requests set due_at = deferred.due_at, attempts = deferred.attempts,
      last_error = ${reason === null ? null : storable(reason)}
    from deferred join ${lockUnchanged(organisationId, requests)} as held using (github_id)
    where organisation_id = ${organisationId} and sync_requests.github_id = deferred.github_id`);
}

/** From now on the pull request is fetched alone, also if its sync has been requested again. */
export async function isolateSyncRequest(
  executor: Executor,
  organisationId: string,
  { githubId }: SyncRequest,
): Promise<void> {
  await executor
    .update(syncRequests)
    .set({ isIsolated: true })
    .where(and(eq(syncRequests.organisationId, organisationId), eq(syncRequests.githubId, githubId)));
}

/**
 * Requests syncs of pull requests that an import or a comparison has failed on. A request that exists gets a new ticket
 * only: a fetch that is under way does not settle it.
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
    insert into sync_requests
      (organisation_id, github_id, node_id, ticket, due_at, min_source_updated_at, attempts, last_error)
    select ${organisationId}::uuid, github_id, node_id, nextval('tickets'), ${secondsFromNow(seconds)}, ${anyTime}, 1,
      ${storable(reason)}
    from unnest(${sql.param(pullRequests.map(({ githubId }) => githubId))}::bigint[],
      ${sql.param(pullRequests.map(({ nodeId }) => nodeId))}::text[]) as failed (github_id, node_id)
    order by github_id
    on conflict (organisation_id, github_id) do update set ticket = greatest(sync_requests.ticket, excluded.ticket)`);
}

/** Node ids of stored pull requests of present repositories, without a sync request, latest first. */
export async function findSettledPullRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<string[]> {
  const { organisationId: organisation, nodeId, githubId, id } = pullRequests;
  const isRequested = and(eq(syncRequests.organisationId, organisationId), eq(syncRequests.githubId, githubId));
  const requests = executor.select({ githubId: syncRequests.githubId }).from(syncRequests).where(isRequested);
  const rows = await executor
    .select({ nodeId })
    .from(pullRequests)
    .where(and(eq(organisation, organisationId), isInPresentRepository(organisationId), notExists(requests)))
    .orderBy(desc(id))
    .limit(limit);
  return rows.map(row => row.nodeId);
}
