import { and, desc, eq, gt, sql } from 'drizzle-orm';
import { unionAll } from 'drizzle-orm/pg-core';
import type { Database, Executor } from './client.ts';
import type { Organisation } from './organisations.ts';
import { isInRepository } from './pull-requests.ts';
import { pullRequests, repositories, syncRequests, webhookDeliveries } from './schema.ts';
import { createStatement, hasGithubId, placeholder } from './statement.ts';

/** A verified delivery about a change of a pull request. */
export interface PullRequestDelivery {
  guid: string;
  event: string;
  action: string;
  organisation: { githubId: number; login: string };
  /** Undefined if the payload has none. */
  repositoryGithubId?: number | undefined;
  pullRequest: {
    githubId: number;
    nodeId: string;
    /** The payload's `updated_at` in Unix seconds: no older state settles the delivery. Null if it has none. */
    minSourceUpdatedAt: number | null;
  };
  /** How long GitHub gets to catch up before it is asked. */
  delaySeconds: number;
}

export type DeliveryOutcome =
  | 'taken'
  | 'applied_before'
  | 'unknown_organisation'
  | 'webhooks_disabled'
  | 'ignored_repository';

// In SQL, because it writes two tables at once.
const takeDeliveries = createStatement(
  'take_deliveries',
  sql`with given as materialized (
    select * from unnest(${placeholder('guids')}::text[], ${placeholder('events')}::text[], ${placeholder('actions')}::text[],
      ${placeholder('ownerIds')}::bigint[], ${placeholder('logins')}::text[], ${placeholder('githubIds')}::bigint[],
      ${placeholder('nodeIds')}::text[], ${placeholder('updatedAts')}::float8[],
      ${placeholder('delays')}::int[], ${placeholder('repositoryIds')}::bigint[]) with ordinality
      as given (guid, event, action, owner_github_id, login, github_id, node_id, updated_at, delay_seconds,
        repository_github_id, place)
  ), addressed as materialized (
    select given.*, organisation.id as organisation_id, organisation.webhooks_enabled
    from given left join lateral (
      select id, webhooks_enabled from organisations
      where github_id = owner_github_id or (github_id is null and lower(organisations.login) = lower(given.login))
      order by github_id limit 1
    ) as organisation on true
  ), ignored as materialized (
    select place from addressed
    join repositories on repositories.organisation_id = addressed.organisation_id
      and repositories.github_id = repository_github_id
    where ignored_because is not null
  ), drawn as materialized (
    -- A distributed database draws and notifies where the replicas listen, since this reads no table. The notification
    -- is sent when the statement is durable.
    select nextval('tickets') as ticket, pg_notify('pullscore', 'sync')::text
    where exists (select 1 from addressed where webhooks_enabled)
  ), delivery as (
    insert into webhook_deliveries
      (organisation_id, guid, event, action, state, pull_request_github_id, pull_request_node_id, ticket)
    select distinct on (organisation_id, guid)
      organisation_id, guid, event, action, 'pending', github_id, node_id, ticket
    from addressed, drawn where webhooks_enabled and place not in (select place from ignored)
    order by organisation_id, guid, place desc
    -- A delivery whose pull request GitHub did not show is taken again, too: the operator may have given access since.
    on conflict (organisation_id, guid) do update set ticket = excluded.ticket, state = 'pending', applied_at = null
      where webhook_deliveries.state <> 'applied'
    returning organisation_id, guid
  ), taken as materialized (
    select addressed.*, ticket from addressed join delivery using (organisation_id, guid), drawn
  ), request as (
    insert into sync_requests
      (organisation_id, github_id, node_id, ticket, min_source_updated_at, requested_at, due_at)
    select distinct on (organisation_id, github_id) organisation_id, github_id, node_id, ticket,
      to_timestamp(max(updated_at) over same), now(), now() + make_interval(secs => max(delay_seconds) over same)
    from taken window same as (partition by organisation_id, github_id)
    order by organisation_id, github_id, place desc
    on conflict (organisation_id, github_id) do update
      -- The node id stays: if one of the two is wrong, GitHub's answer shows which.
      set ticket = greatest(sync_requests.ticket, excluded.ticket),
        min_source_updated_at = greatest(sync_requests.min_source_updated_at, excluded.min_source_updated_at),
        requested_at = excluded.requested_at, is_background = false,
        -- A webhook about a failing one brings its next try forward. In UTC, because a distributed database allows no
        -- sum here that depends on the session's time zone. If GitHub gets time, it keeps it: this delivery may be older.
        due_at = case
          when sync_requests.last_error is not null then greatest(least(sync_requests.due_at,
            (excluded.due_at at time zone 'UTC' + make_interval(secs => ${placeholder('minRetrySeconds')})) at time zone 'UTC'),
            case when excluded.due_at > excluded.requested_at then excluded.due_at end)
          when sync_requests.behind_since is null and sync_requests.failed_at is null
            then greatest(sync_requests.due_at, excluded.due_at)
          else excluded.due_at end,
        -- If the floor is higher now, the wait starts over. If GitHub gets time, no other request carries this one.
        behind_since = case when excluded.min_source_updated_at > sync_requests.min_source_updated_at
          or excluded.due_at > excluded.requested_at then null else sync_requests.behind_since end
    returning github_id
  )
  select case when organisation_id is null then 'unknown_organisation'
    when not webhooks_enabled then 'webhooks_disabled'
    when place in (select place from ignored) then 'ignored_repository'
    when exists (select 1 from taken where taken.place = addressed.place) then 'taken'
    else 'applied_before' end as outcome
  from addressed order by place`,
);

/**
 * Stores deliveries and their sync requests in one statement: all are durable when it returns, or none. A redelivery of
 * one that is not yet applied makes its request again, which folds into the pending one. Rows are written in the order
 * of their keys, to avoid deadlocks.
 *
 * @param minRetrySeconds until the earliest next try of a failing pull request
 * @returns outcomes in the order given
 */
export async function takePullRequestDeliveries(
  database: Pick<Database, 'write'>,
  deliveries: readonly PullRequestDelivery[],
  minRetrySeconds: number,
): Promise<DeliveryOutcome[]> {
  const rows = await database.write<{ outcome: DeliveryOutcome }>(takeDeliveries, {
    guids: deliveries.map(({ guid }) => guid),
    events: deliveries.map(({ event }) => event),
    actions: deliveries.map(({ action }) => action),
    ownerIds: deliveries.map(({ organisation }) => organisation.githubId),
    logins: deliveries.map(({ organisation }) => organisation.login),
    githubIds: deliveries.map(({ pullRequest }) => pullRequest.githubId),
    nodeIds: deliveries.map(({ pullRequest }) => pullRequest.nodeId),
    updatedAts: deliveries.map(({ pullRequest }) => pullRequest.minSourceUpdatedAt),
    delays: deliveries.map(({ delaySeconds }) => delaySeconds),
    repositoryIds: deliveries.map(({ repositoryGithubId }) => repositoryGithubId ?? null),
    minRetrySeconds,
  });
  return rows.map(({ outcome }) => outcome);
}

/**
 * The pull request that a comment is on: the payload has the numeric id of the issue, which is another one. Undefined
 * if the pull request is neither stored nor about to be fetched.
 */
export async function findCommentedPullRequest(
  executor: Executor,
  organisationId: string,
  issue: { repositoryGithubId: number; number: number; nodeId: string },
): Promise<{ githubId: number; nodeId: string } | undefined> {
  const { githubId, nodeId } = pullRequests;
  const stored = executor
    .select({ githubId, nodeId })
    .from(pullRequests)
    .innerJoin(repositories, isInRepository)
    .where(
      and(
        eq(pullRequests.organisationId, organisationId),
        eq(repositories.githubId, issue.repositoryGithubId),
        eq(pullRequests.number, issue.number),
      ),
    );
  const requested = executor
    .select({ githubId: syncRequests.githubId, nodeId: syncRequests.nodeId })
    .from(syncRequests)
    .where(and(eq(syncRequests.organisationId, organisationId), eq(syncRequests.nodeId, issue.nodeId)));
  const [found] = await unionAll(stored, requested).limit(1);
  return found;
}

/**
 * Records a delivery that is applied in the same transaction.
 *
 * @returns `taken` if the caller has to apply it
 */
export async function takeAppliedDelivery(
  executor: Executor,
  { guid, event, action }: Pick<PullRequestDelivery, 'guid' | 'event' | 'action'>,
  organisation: Organisation,
): Promise<Exclude<DeliveryOutcome, 'unknown_organisation'>> {
  if (!organisation.webhooksEnabled) return 'webhooks_disabled';
  const inserted = await executor
    .insert(webhookDeliveries)
    .values({
      organisationId: organisation.id,
      guid,
      event,
      action,
      state: 'applied',
      ticket: 0,
      appliedAt: sql`now()`,
    })
    .onConflictDoNothing()
    .returning({ guid: webhookDeliveries.guid });
  return inserted.length > 0 ? 'taken' : 'applied_before';
}

/** Latest first, for operators. */
export function listDeliveries(executor: Executor, organisationId: string, limit: number) {
  return executor
    .select()
    .from(webhookDeliveries)
    .where(eq(webhookDeliveries.organisationId, organisationId))
    .orderBy(desc(webhookDeliveries.receivedAt))
    .limit(limit);
}

/** Deliveries of the last days whose pull request GitHub has not shown since. */
export async function countGoneDeliveries(executor: Executor, organisationId: string, days: number): Promise<number> {
  const { pullRequestGithubId, receivedAt, state, ticket } = webhookDeliveries;
  const isRecent = gt(receivedAt, sql`now() - make_interval(days => ${days})`);
  const gone = await executor
    .select({ githubId: pullRequestGithubId, ticket })
    .from(webhookDeliveries)
    .where(and(eq(webhookDeliveries.organisationId, organisationId), isRecent, eq(state, 'gone')));
  const { githubId, fetchTicket } = pullRequests;
  const githubIds = gone.flatMap(delivery => delivery.githubId ?? []);
  const stored = await executor
    .select({ githubId, fetchTicket })
    .from(pullRequests)
    .where(hasGithubId(pullRequests, organisationId, githubIds));
  const fetchTickets = new Map<number | null, number>(stored.map(row => [row.githubId, row.fetchTicket]));
  return gone.filter(delivery => (fetchTickets.get(delivery.githubId) ?? 0) <= delivery.ticket).length;
}
