import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { Logger } from 'pino';
import type { Executor } from './client.ts';
import { organisations } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/** How long the other replicas leave claimed work alone. A lease is renewed while the work goes on. */
export const leaseSeconds = 8;

/** The caller's lease on one kind of work for an organisation. */
export interface Lease {
  readonly organisationId: string;
  /** Holds the end of the lease. */
  readonly column: 'checksDueAt' | 'pruneDueAt' | 'comparisonDueAt' | 'syncLeasedUntil';
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
  isFree: SQL | undefined,
  changes: { comparisonAgainAt?: null; syncServedAt?: SQL } = {},
): Promise<Lease | undefined> {
  const [taken] = await executor
    .update(organisations)
    .set({ ...changes, [column]: secondsFromNow(leaseSeconds) })
    .where(and(eq(organisations.id, organisationId), isFree))
    .returning({ until: untilOf(column) });
  return taken && { organisationId, column, until: taken.until };
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
  until: SQL = secondsFromNow(leaseSeconds),
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

/**
 * Renews a lease every third of {@link leaseSeconds} while the work goes on. A failed renewal is logged and does not
 * stop the work: another replica may then start the same work. Resolves after the last renewal has ended.
 */
export async function whileRenewing(
  executor: Executor,
  lease: Lease,
  log: Logger,
  work: () => Promise<void>,
): Promise<void> {
  // One after the other: each builds on what the previous one stored.
  let renewal: Promise<unknown> = Promise.resolve();
  const timer = setInterval(
    () => {
      renewal = renewal
        .then(() => moveLease(executor, lease))
        .catch((error: unknown) =>
          log.warn({ err: error }, 'a lease was not renewed: another replica may do the same work'),
        );
    },
    (leaseSeconds * 1000) / 3,
  );
  try {
    await work();
  } finally {
    clearInterval(timer);
    await renewal;
  }
}
