import { and, desc, eq, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import type { Organisation } from './organisations.ts';
import { webhookDeliveries } from './schema.ts';

/** A verified delivery that says: this pull request has changed. */
export interface PullRequestDelivery {
  guid: string;
  event: string;
  action: string;
  organisation: { githubId: number; login: string };
  pullRequest: { githubId: number; nodeId: string };
}

export type DeliveryOutcome = 'taken' | 'applied_before' | 'unknown_organisation' | 'webhooks_disabled';

/**
 * The delivery and the sync request that it makes are one statement: both are durable when it returns, or neither.
 * A GUID that was applied makes no request; one that was taken but not yet applied makes its request again, which
 * folds into the pending one.
 */
export async function takePullRequestDelivery(
  executor: Executor,
  delivery: PullRequestDelivery,
): Promise<DeliveryOutcome> {
  const { guid, event, action, organisation, pullRequest } = delivery;
  const { rows } = await executor.execute<{ known: boolean; enabled: boolean; taken: boolean }>(sql`
    with organisation as (
      select id, webhooks_enabled from organisations
      where github_id = ${organisation.githubId} or (github_id is null and lower(login) = lower(${organisation.login}))
    ), ticket as materialized (
      select nextval('tickets') as ticket
    ), delivery as (
      insert into webhook_deliveries
        (organisation_id, guid, event, action, state, pull_request_github_id, ticket)
      select id, ${guid}, ${event}, ${action}, 'pending', ${pullRequest.githubId}::bigint, ticket
      from organisation, ticket where webhooks_enabled
      on conflict (organisation_id, guid) do update set ticket = excluded.ticket
        where webhook_deliveries.state = 'pending'
      returning organisation_id, ticket
    ), request as (
      insert into sync_requests (organisation_id, github_id, node_id, ticket)
      select organisation_id, ${pullRequest.githubId}::bigint, ${pullRequest.nodeId}, ticket from delivery
      on conflict (organisation_id, github_id) do update
        set node_id = excluded.node_id, ticket = greatest(sync_requests.ticket, excluded.ticket),
          requested_at = now(), due_at = now(), attempts = 0, last_error = null
      returning pg_notify('pullscore', 'sync')
    )
    select exists (select from organisation) as known,
      exists (select from organisation where webhooks_enabled) as enabled,
      exists (select from request) as taken`);
  const [row] = rows;
  if (row?.known !== true) return 'unknown_organisation';
  if (!row.enabled) return 'webhooks_disabled';
  return row.taken ? 'taken' : 'applied_before';
}

/**
 * Records a delivery whose effect is brought about in the same transaction.
 *
 * @returns 'taken' where the effect is still to be brought about
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

/** The latest first, for the operator to look at. */
export function listDeliveries(executor: Executor, organisationId: string, limit: number) {
  return executor
    .select({
      guid: webhookDeliveries.guid,
      event: webhookDeliveries.event,
      action: webhookDeliveries.action,
      state: webhookDeliveries.state,
      receivedAt: webhookDeliveries.receivedAt,
      appliedAt: webhookDeliveries.appliedAt,
    })
    .from(webhookDeliveries)
    .where(eq(webhookDeliveries.organisationId, organisationId))
    .orderBy(desc(webhookDeliveries.receivedAt))
    .limit(limit);
}

/** Deliveries are kept for 30 days, longer than GitHub can redeliver them. */
export async function forgetOldDeliveries(executor: Executor): Promise<void> {
  await executor
    .delete(webhookDeliveries)
    .where(
      and(eq(webhookDeliveries.state, 'applied'), sql`${webhookDeliveries.receivedAt} < now() - interval '30 days'`),
    );
}
