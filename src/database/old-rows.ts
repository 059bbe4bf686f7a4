import { and, asc, eq, gt, lte, type SQL, sql } from 'drizzle-orm';
import type { Database, Executor } from './client.ts';
import { updateOrganisation } from './organisations.ts';
import { auditEvents, organisations, pullRequests, scoreChanges } from './schema.ts';
import { asTable, beforeAllIds, isOneOf } from './statement.ts';

/* Keeps tables that grow with every webhook, request and ruleset within bounds, in steps that are short, whatever has piled up. */

/** Rows that one statement deletes. */
const maxDeleted = 5_000;

/** Pull requests whose score changes are folded at once. */
const foldSize = 500;

/** How long rows are kept, as PostgreSQL's intervals. */
export interface Retention {
  deliveries: string;
  /** Of a pull request that can't be fetched; its sync request stays. */
  pendingDeliveries: string;
  syncEvents: string;
  auditEvents: string;
  changes: string;
  /** After they are over. */
  limits: string;
}

/** Statements that each delete the oldest of the rows that nobody needs any more. */
const deletions = (organisationId: string, kept: Retention): readonly SQL[] => [
  sql`
    delete from webhook_deliveries where organisation_id = ${organisationId} and guid = any(array(
      select guid from webhook_deliveries
      where organisation_id = ${organisationId} and received_at < now() - ${kept.deliveries}::interval
        and (state <> 'pending' or received_at < now() - ${kept.pendingDeliveries}::interval)
      order by received_at limit ${maxDeleted} for update skip locked
    ))`,
  sql`
    delete from audit_events where organisation_id = ${organisationId} and id = any(array(
      select id from audit_events
      where organisation_id = ${organisationId} and happened_at < now() - ${kept.syncEvents}::interval
        and (action = 'pull_request.sync' or happened_at < now() - ${kept.auditEvents}::interval)
      order by happened_at limit ${maxDeleted}
    ))`,
  // Entries of the feed of changes that came with a copy of another database, where ids of transactions were higher: until
  // they are reached here, new entries would come before them, and be taken for old by the next statement.
  sql`
    delete from changes where organisation_id = ${organisationId} and (transaction, from_id) in (
      select transaction, from_id from changes
      where organisation_id = ${organisationId} and transaction >= pg_snapshot_xmax(pg_current_snapshot())
      limit ${maxDeleted}
    )`,
  // Those that a later one follows which is old as well: so a client's own entry is there exactly if all after it are.
  sql`
    with oldest as (
      select transaction, from_id, recorded_at from changes where organisation_id = ${organisationId}
      order by transaction, from_id limit ${maxDeleted + 1}
    )
    delete from changes where organisation_id = ${organisationId} and (transaction, from_id) < (
      select transaction, from_id from oldest where recorded_at < now() - ${kept.changes}::interval
      order by transaction desc, from_id desc limit 1
    )`,
  // Such as those of a former token.
  sql`delete from github_limits where greatest(blocked_until, reset_at) < now() - ${kept.limits}::interval`,
];

/**
 * Deletes them in short steps, one kind after the other.
 *
 * @param signal ends it after the step under way
 */
export async function deleteOldRows(
  executor: Executor,
  organisationId: string,
  kept: Retention,
  signal?: AbortSignal,
): Promise<void> {
  for (const deletion of deletions(organisationId, kept)) {
    let deleted: number | null = maxDeleted;
    while (deleted === maxDeleted && !signal?.aborted) deleted = (await executor.execute(deletion)).rowCount;
  }
  while (!signal?.aborted && (await deleteEventsOfRemovedOrganisation(executor, kept)));
}

/** Deletes the audit events of a removed organisation once its removal is an old one; the record of the removal goes last. */
async function deleteEventsOfRemovedOrganisation(executor: Executor, kept: Retention): Promise<boolean> {
  const { action, happenedAt, organisationId } = auditEvents;
  const [removed] = await executor
    .select({ id: organisationId })
    .from(auditEvents)
    .where(sql`${action} = 'organisation.remove' and ${happenedAt} < now() - ${kept.auditEvents}::interval`)
    .limit(1);
  if (removed === undefined) return false;
  await executor.execute(sql`
    delete from audit_events where organisation_id = ${removed.id} and id = any(array(
      select id from audit_events where organisation_id = ${removed.id} order by id limit ${maxDeleted}
    ))`);
  return true;
}

/**
 * Folds the score changes of the next pull requests, in the order of their ids: all but the latest of each become one
 * row a month. Two replicas that fold the same rows, or a change that comes meanwhile, do no harm.
 *
 * @returns false after the last pull request; the next call starts from the first
 */
export async function foldScoreChanges(
  { executor, transaction }: Pick<Database, 'executor' | 'transaction'>,
  organisationId: string,
  keptChanges: number,
): Promise<boolean> {
  const [organisation] = await executor
    .select({ foldedId: organisations.foldedId })
    .from(organisations)
    .where(eq(organisations.id, organisationId));
  const after = organisation?.foldedId ?? beforeAllIds;
  const next = await executor
    .select({ id: pullRequests.id })
    .from(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), gt(pullRequests.id, after)))
    .orderBy(asc(pullRequests.id))
    .limit(foldSize);
  const until = next.at(-1)?.id;
  if (until !== undefined) await transaction(each => foldChangesOf(each, organisationId, [after, until], keptChanges));
  const isLast = next.length < foldSize;
  await updateOrganisation(executor, organisationId, { foldedId: isLast ? null : until });
  return !isLast;
}

/** Folds the changes of the pull requests whose ids are above `after`, up to and including `until`. Runs in a transaction. */
async function foldChangesOf(
  executor: Executor,
  organisationId: string,
  [after, until]: readonly [string, string],
  keptChanges: number,
): Promise<void> {
  const { id, pullRequestId } = scoreChanges;
  const isOfRange = and(
    eq(scoreChanges.organisationId, organisationId),
    gt(pullRequestId, after),
    lte(pullRequestId, until),
  );
  type Folded = { id: number; is_last: boolean; from_score: number | null; changes: number };
  const { rows } = await executor.execute<Folded>(
    sql`
      with numbered as (
        select pull_request_id, id, from_score, changes,
          row_number() over (partition by pull_request_id order by id desc) as place,
          -- A transaction that began before another may end after it. Months must not go back, or rows would no longer
          -- follow each other.
          date_trunc('month', max(changed_at) over (partition by pull_request_id order by id) at time zone 'UTC') as month
        from score_changes where ${isOfRange}
      ), folded as (
        select id, id = max(id) over whole as is_last, first_value(from_score) over whole as from_score,
          sum(changes) over whole as changes, count(*) over whole as rows
        from numbered where place > ${keptChanges}
        window whole as (partition by pull_request_id, month
          order by id rows between unbounded preceding and unbounded following)
      )
      select id::float8, is_last, from_score, changes::int from folded where rows > 1`,
  );
  if (rows.length === 0) return;
  const kept = rows.filter(row => row.is_last);
  const idsOf = (some: typeof rows) => some.map(row => row.id);
  await executor.delete(scoreChanges).where(and(isOfRange, isOneOf(id, idsOf(rows.filter(row => !row.is_last)))));
  await executor.execute(sql`
    update score_changes set from_score = folded.from_score, changes = folded.changes
    from ${asTable(kept, 'folded', 'id bigint, from_score int, changes int')}
    where ${isOfRange} and ${isOneOf(id, idsOf(kept))} and score_changes.id = folded.id`);
}
