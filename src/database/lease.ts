import { and, eq, lte, type SQL, sql } from 'drizzle-orm';
import type { PgColumn, PgUpdateSetSource } from 'drizzle-orm/pg-core';
import type { Executor } from './client.ts';
import { organisations } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/** The caller's lease on one kind of work for an organisation. */
export interface Lease {
  readonly organisationId: string;
  /** Holds the end of the lease. */
  readonly column: 'checksDueAt' | 'pruneDueAt' | 'comparisonLeasedUntil' | 'syncLeasedUntil';
  /** How long the other replicas leave the work alone, unless the lease is renewed. */
  readonly seconds: number;
  /** In PostgreSQL's text format. Another value in the column means that another replica has changed it. */
  until: string;
}

// No cast to text: that depends on the session's settings, so `returning` must not have it. Drizzle reads text anyway.
const untilOf = (column: Lease['column']) => sql<string>`${organisations[column]}`;

interface Claim {
  /** Holds when the organisation is chosen, and still when the lease is taken. */
  isFree?: SQL | undefined;
  /** Reads other tables, so it holds only when the organisation is chosen. */
  isWanted?: SQL;
  /** Only this organisation. */
  organisationId?: string | undefined;
  /** The first by this column is chosen. By default, that is the one whose lease ended first. */
  order?: PgColumn | SQL;
  /** Saved in the same statement. */
  changes?: PgUpdateSetSource<typeof organisations>;
}

/** Leases the first organisation whose lease is over to the caller. @returns undefined if there is none */
export async function takeLease(
  executor: Executor,
  column: Lease['column'],
  seconds: number,
  { isFree, isWanted, organisationId: onlyId, order = organisations[column], changes }: Claim = {},
): Promise<Lease | undefined> {
  const { id } = organisations;
  const isNext = and(lte(organisations[column], sql`now()`), isFree, onlyId === undefined ? undefined : eq(id, onlyId));
  for (;;) {
    const found = executor.select({ id }).from(organisations).where(and(isNext, isWanted));
    const [next] = await found.orderBy(order).limit(1);
    if (next === undefined) return undefined;
    const [taken] = await executor
      .update(organisations)
      .set({ ...changes, [column]: secondsFromNow(seconds) })
      .where(and(eq(id, next.id), isNext))
      .returning({ until: untilOf(column) });
    // Otherwise another replica was faster, and the next organisation is another one.
    if (taken !== undefined) return { organisationId: next.id, column, seconds, until: taken.until };
  }
}

/**
 * Moves the end of a lease: the default renews it. Nothing changes if another replica has taken over, or the work was
 * requested meanwhile.
 *
 * @param seconds until its end
 * @param changes saved in the same statement; an end among them replaces `seconds`
 */
export async function moveLease(
  executor: Executor,
  lease: Lease,
  seconds = lease.seconds,
  changes: PgUpdateSetSource<typeof organisations> = {},
): Promise<void> {
  const isHeld = sql`${organisations[lease.column]} = ${lease.until}::timestamptz`;
  const [moved] = await executor
    .update(organisations)
    .set({ [lease.column]: secondsFromNow(seconds), ...changes })
    .where(and(eq(organisations.id, lease.organisationId), isHeld))
    .returning({ until: untilOf(lease.column) });
  lease.until = moved?.until ?? lease.until;
}
