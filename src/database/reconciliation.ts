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

/** The organisation that is due for the longest time, leased to the caller. */
export async function claimReconciliation(executor: Executor): Promise<Comparison | undefined> {
  const { rows } = await executor.execute<{ id: string; due_at: string }>(sql`
    update organisations set reconcile_due_at = now() + make_interval(secs => ${leaseSeconds})
    where id = (
      select id from organisations where webhooks_enabled and reconcile_due_at <= now()
      order by reconcile_due_at limit 1 for update skip locked
    )
    returning id, reconcile_due_at::text as due_at`);
  return rows[0] && { organisationId: rows[0].id, leasedUntil: rows[0].due_at };
}

/** Makes the organisation due at once, also where it is being compared already, and wakes the loops. */
export async function requestComparison(
  executor: Executor,
  organisationId: string,
  _options: { members?: boolean } = {},
): Promise<void> {
  await executor.update(organisations).set({ reconcileDueAt: sql`now()` }).where(eq(organisations.id, organisationId));
  await executor.execute(sql`select pg_notify('pullscore', 'reconcile')`);
}

/**
 * Renews the lease, or ends it. An organisation that was made due meanwhile stays so: the comparison under way may have
 * passed by what is to be found. So does one that another replica has taken over.
 *
 * @param seconds until it is due; undefined renews the lease
 */
export async function postponeReconciliation(
  executor: Executor,
  comparison: Comparison,
  seconds: number = leaseSeconds,
): Promise<void> {
  const { organisationId, leasedUntil } = comparison;
  const { rows } = await executor.execute<{ due_at: string }>(sql`
    update organisations set reconcile_due_at = now() + make_interval(secs => ${seconds}::double precision)
    where id = ${organisationId} and reconcile_due_at = ${leasedUntil}::timestamptz
    returning reconcile_due_at::text as due_at`);
  comparison.leasedUntil = rows[0]?.due_at ?? leasedUntil;
}

/** Up to which of GitHub's moments, in Unix seconds, the known ones of the repositories were compared, by GitHub id. */
export async function findReconciled(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, number | null>> {
  const rows = await executor
    .select({ githubId: repositories.githubId, reconciledAt: repositories.reconciledAt })
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), inArray(repositories.githubId, [...githubIds])));
  return new Map(rows.map(({ githubId, reconciledAt }) => [githubId, reconciledAt]));
}

export async function saveReconciled(
  executor: Executor,
  organisationId: string,
  githubId: number,
  reconciledAt: number,
): Promise<void> {
  await executor
    .update(repositories)
    .set({ reconciledAt })
    .where(and(eq(repositories.organisationId, organisationId), eq(repositories.githubId, githubId)));
}
