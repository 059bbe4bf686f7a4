import { and, eq, inArray, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { leaseSeconds } from './lease.ts';
import { organisations, repositories } from './schema.ts';

/** The caller's lease on an organisation that it compares with GitHub. */
export interface Comparison {
  readonly organisationId: string;
  /** In PostgreSQL's text format. Until then the other replicas leave the organisation alone. */
  leasedUntil: string;
}

/**
 * Leases the organisation that has been due for longest to the caller. A comparison that starts after
 * `reconcile_again_at` is the repetition that was asked for.
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
 * Requests a comparison at once, even if one is under way, and another a minute later: until then GitHub may answer
 * from before the event.
 *
 * @param options `members`: the request is about members, so it waits until these may be listed again
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
      // If it has been due for longer, it keeps its place in the queue.
      reconcileDueAt: sql`least(${organisations.reconcileDueAt}, ${earliest})`,
      reconcileAgainAt: sql`greatest(${organisations.reconcileAgainAt}, now() + interval '1 minute', ${earliest})`,
    })
    .where(eq(organisations.id, organisationId));
  await executor.execute(sql`select pg_notify('pullscore', 'reconcile')`);
}

/**
 * Renews the lease, or ends it and makes the organisation due later. Nothing changes if a comparison was requested
 * meanwhile, which the one under way may not cover, or if another replica has taken over.
 *
 * @param seconds until the organisation is due; the default renews the lease
 */
export async function postponeReconciliation(
  executor: Executor,
  comparison: Comparison,
  seconds: number = leaseSeconds,
): Promise<void> {
  await setDue(executor, comparison, sql`now() + make_interval(secs => ${seconds}::double precision)`);
}

/**
 * Ends a complete comparison.
 *
 * @param seconds until the next one, unless a webhook has asked for an earlier one
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

/** @param cursor of the last repository that was compared; null if the next comparison starts with the first one */
export async function saveReconcileCursor(
  executor: Executor,
  organisationId: string,
  cursor: string | null,
): Promise<void> {
  await executor.update(organisations).set({ reconcileCursor: cursor }).where(eq(organisations.id, organisationId));
}

/** Each hundred members, one request, delay the next list by this: lists take a small share of the points. */
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
 * Records that the members were listed. The larger the list, the later the next one, and the comparison that includes
 * it.
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

/** How far the comparison of a repository is. Times are GitHub's, in Unix seconds. */
export interface RepositoryProgress {
  /** All changes before this are stored; null before the first comparison. */
  reconciledAt: number | null;
  /** While the comparison is interrupted: GitHub's cursor of the last page that was saved. */
  reconcileCursor: string | null;
  /** While the comparison is interrupted: what `reconciledAt` becomes at its end. */
  reconcileUntil: number | null;
}

/** Progress of those repositories that are known, by GitHub id. */
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
