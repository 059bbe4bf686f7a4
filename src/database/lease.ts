import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { organisations } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/** The caller's lease on one kind of work for an organisation. */
export interface Lease {
  readonly organisationId: string;
  /** Holds the end of the lease. */
  readonly column: 'checksDueAt' | 'pruneDueAt' | 'comparisonDueAt' | 'syncLeasedUntil';
  /** How long the other replicas leave the work alone, unless the lease is renewed. */
  readonly seconds: number;
  /** In PostgreSQL's text format. Another value in the column means that another replica has changed it. */
  until: string;
}

// No cast to text: that depends on the session's settings, so `returning` must not have it. Drizzle reads text anyway.
const untilOf = (column: Lease['column']) => sql<string>`${organisations[column]}`;

/**
 * @param isFree the lease is taken only if this still holds
 * @param changes saved in the same statement
 * @returns undefined if another replica was faster
 */
export async function takeLease(
  executor: Executor,
  column: Lease['column'],
  organisationId: string,
  seconds: number,
  isFree: SQL | undefined,
  changes: { comparisonAgainAt?: null; syncServedAt?: SQL } = {},
): Promise<Lease | undefined> {
  const [taken] = await executor
    .update(organisations)
    .set({ ...changes, [column]: secondsFromNow(seconds) })
    .where(and(eq(organisations.id, organisationId), isFree))
    .returning({ until: untilOf(column) });
  return taken && { organisationId, column, seconds, until: taken.until };
}

/**
 * Moves the end of a lease: the default renews it, and `now()` ends it. Nothing changes if another replica has taken
 * over, or the work was requested meanwhile.
 *
 * @param changes saved in the same statement
 */
export async function moveLease(
  executor: Executor,
  lease: Lease,
  until: SQL = secondsFromNow(lease.seconds),
  changes: { comparisonRequested?: SQL; checksVersion?: string; shownAt?: SQL } = {},
): Promise<void> {
  const isHeld = sql`${organisations[lease.column]} = ${lease.until}::timestamptz`;
  const [moved] = await executor
    .update(organisations)
    .set({ ...changes, [lease.column]: until })
    .where(and(eq(organisations.id, lease.organisationId), isHeld))
    .returning({ until: untilOf(lease.column) });
  lease.until = moved?.until ?? lease.until;
}
