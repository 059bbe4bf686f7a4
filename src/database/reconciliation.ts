import { and, eq, inArray, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { leaseSeconds } from './lease.ts';
import { organisations, repositories } from './schema.ts';

/** An organisation that the caller compares. */
export interface Comparison {
  readonly organisationId: string;
  /** Until then the other replicas leave it alone; as PostgreSQL writes it. */
  leasedUntil: string;
}

/**
 * The organisation that is due for the longest time, leased to the caller. A comparison that starts after a moment at
 * which it was to be repeated is that repetition.
 */
export async function claimReconciliation(executor: Executor): Promise<Comparison | undefined> {
  const { rows } = await executor.execute<{ id: string; due_at: string }>(sql`
    update organisations set
      reconcile_due_at = now() + make_interval(secs => ${leaseSeconds}),
      reconcile_again_at = case when reconcile_cursor is null and reconcile_again_at <= now()
        then null else reconcile_again_at end
    where id = (
      select id from organisations where webhooks_enabled and reconcile_due_at <= now()
      order by reconcile_due_at limit 1 for no key update skip locked
    )
    returning id, reconcile_due_at::text as due_at`);
  return rows[0] && { organisationId: rows[0].id, leasedUntil: rows[0].due_at };
}

/**
 * Has the organisation compared at once, even if it is being compared already, and once more a minute later: until then
 * GitHub may answer from before the event.
 *
 * @param options `members`: what is wanted are the members, so it waits until these may be listed again
 */
export async function requestComparison(
  executor: Executor,
  organisationId: string,
  { members = false }: { members?: boolean } = {},
): Promise<void> {
  const earliest = members ? sql`greatest(now(), ${organisations.membersDueAt})` : sql`now()`;
  await executor
    .update(organisations)
    .set({
      // What has been due for longer keeps its place before the others.
      reconcileDueAt: sql`least(${organisations.reconcileDueAt}, ${earliest})`,
      reconcileAgainAt: sql`greatest(${organisations.reconcileAgainAt}, now() + interval '1 minute', ${earliest})`,
    })
    .where(eq(organisations.id, organisationId));
  await executor.execute(sql`select pg_notify('pullscore', 'reconcile')`);
}

/**
 * Renews the lease, or gives it up until later. An organisation that was made due meanwhile stays so: the comparison
 * under way may have passed by what is to be found. So does one that another replica has taken over.
 *
 * @param seconds until it is due; undefined renews the lease
 */
export async function postponeReconciliation(
  executor: Executor,
  comparison: Comparison,
  seconds: number = leaseSeconds,
): Promise<void> {
  await setDue(executor, comparison, sql`now() + make_interval(secs => ${seconds}::double precision)`);
}

/**
 * Ends a comparison that is complete.
 *
 * @param seconds until it is due again, unless a webhook has asked for an earlier one
 */
export async function endReconciliation(executor: Executor, comparison: Comparison, seconds: number): Promise<void> {
  const regular = sql`now() + make_interval(secs => ${seconds}::double precision)`;
  await setDue(executor, comparison, sql`greatest(now(), least(${regular}, reconcile_again_at))`);
}

async function setDue(executor: Executor, comparison: Comparison, due: ReturnType<typeof sql>): Promise<void> {
  const { organisationId, leasedUntil } = comparison;
  const { rows } = await executor.execute<{ due_at: string }>(sql`
    update organisations set reconcile_due_at = ${due}
    where id = ${organisationId} and reconcile_due_at = ${leasedUntil}::timestamptz
    returning reconcile_due_at::text as due_at`);
  comparison.leasedUntil = rows[0]?.due_at ?? leasedUntil;
}

/** @param cursor of the last repository that was compared; null if the next comparison begins with the first one */
export async function saveReconcileCursor(
  executor: Executor,
  organisationId: string,
  cursor: string | null,
): Promise<void> {
  await executor.update(organisations).set({ reconcileCursor: cursor }).where(eq(organisations.id, organisationId));
}

/** Seconds that each hundred members, one request, keep the next list waiting: it takes a small share of the points. */
const secondsPerHundredMembers = 6;

/** Whether the members may be listed again. */
export async function areMembersDue(executor: Executor, organisationId: string): Promise<boolean> {
  const [row] = await executor
    .select({ due: sql<boolean>`${organisations.membersDueAt} <= now()` })
    .from(organisations)
    .where(eq(organisations.id, organisationId));
  return row?.due ?? false;
}

/**
 * The members were listed. The larger the list, the longer it is until the next one, and until the comparison that is to
 * include it.
 */
export async function saveMembersListed(executor: Executor, organisationId: string, members: number): Promise<void> {
  const seconds = Math.floor(members / 100) * secondsPerHundredMembers;
  const due = sql`now() + make_interval(secs => ${seconds})`;
  await executor
    .update(organisations)
    .set({
      membersDueAt: due,
      reconcileAgainAt: sql`case when ${organisations.reconcileAgainAt} is not null
        then greatest(${organisations.reconcileAgainAt}, ${due}) end`,
    })
    .where(eq(organisations.id, organisationId));
}

/** How far the comparison of a repository is. Moments are GitHub's, in Unix seconds. */
export interface RepositoryProgress {
  /** What changed before is here; null before the first comparison. */
  reconciledAt: number | null;
  /** GitHub's cursor of the last page that was saved, while its comparison is interrupted. */
  reconcileCursor: string | null;
  /** What `reconciledAt` becomes at the end of that. */
  reconcileUntil: number | null;
}

/** Of the known ones of the repositories, by GitHub id. */
export async function findReconciled(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, RepositoryProgress>> {
  const { githubId, reconciledAt, reconcileCursor, reconcileUntil } = repositories;
  const rows = await executor
    .select({ githubId, reconciledAt, reconcileCursor, reconcileUntil })
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), inArray(repositories.githubId, [...githubIds])));
  return new Map(rows.map(row => [row.githubId, row]));
}

export async function saveReconciled(
  executor: Executor,
  organisationId: string,
  githubId: number,
  progress: Partial<RepositoryProgress>,
): Promise<void> {
  await executor
    .update(repositories)
    .set(progress)
    .where(and(eq(repositories.organisationId, organisationId), eq(repositories.githubId, githubId)));
}
