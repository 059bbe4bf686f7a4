import { and, eq, inArray, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { organisations, repositories } from './schema.ts';

/** Seconds for which a claimed organisation is left alone by the other replicas; renewed with each page. */
const leaseSeconds = 10;

/** The organisation that is due for the longest time, leased to the caller. */
export async function claimReconciliation(executor: Executor): Promise<string | undefined> {
  const { rows } = await executor.execute<{ id: string }>(sql`
    update organisations set reconcile_due_at = now() + make_interval(secs => ${leaseSeconds})
    where id = (
      select id from organisations where webhooks_enabled and reconcile_due_at <= now()
      order by reconcile_due_at limit 1 for update skip locked
    )
    returning id`);
  return rows[0]?.id;
}

/** @param seconds until it is due; undefined renews the lease */
export async function postponeReconciliation(
  executor: Executor,
  organisationId: string,
  seconds: number = leaseSeconds,
): Promise<void> {
  await executor
    .update(organisations)
    .set({ reconcileDueAt: sql`now() + make_interval(secs => ${seconds}::double precision)` })
    .where(eq(organisations.id, organisationId));
}

/**
 * Those of the repositories that are known, by GitHub id: their name, and up to which of GitHub's moments, in Unix
 * seconds, they were compared.
 */
export async function findReconciled(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, { name: string; reconciledAt: number | null }>> {
  const rows = await executor
    .select({ githubId: repositories.githubId, name: repositories.name, reconciledAt: repositories.reconciledAt })
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), inArray(repositories.githubId, [...githubIds])));
  return new Map(rows.map(({ githubId, ...known }) => [githubId, known]));
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
