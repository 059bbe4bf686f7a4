import { and, inArray, isNull, lte, not, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { type Lease, moveLease, takeLease } from './lease.ts';
import { areRulesSuspended } from './organisations.ts';
import { organisations, syncRequests } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/**
 * Takes the organisation that was served longest ago, of those with requests due and no lease: one organisation's
 * backlog does not hold up the others. Only the caller then fetches for it.
 *
 * @param organisationId undefined: any
 */
export function claimSyncTurn(
  executor: Executor,
  leaseSeconds: number,
  organisationId?: string,
): Promise<Lease | undefined> {
  const waiting = executor
    .select({ organisationId: syncRequests.organisationId })
    .from(syncRequests)
    .where(lte(syncRequests.dueAt, sql`now()`));
  return takeLease(executor, 'syncLeasedUntil', leaseSeconds, {
    isFree: and(isNull(organisations.removedAt), not(areRulesSuspended)),
    isWanted: inArray(organisations.id, waiting),
    organisationId,
    order: organisations.syncServedAt,
    changes: { syncServedAt: sql`now()` },
  });
}

/** @param turn `hasShown`: GitHub has shown a pull request of the organisation in it */
export const endSyncTurn = (
  executor: Executor,
  lease: Lease,
  { pauseSeconds, hasShown }: { pauseSeconds: number; hasShown: boolean },
): Promise<void> =>
  moveLease(
    executor,
    lease,
    secondsFromNow(pauseSeconds),
    // Not the present: what failed in the same turn has failed after that.
    hasShown ? { shownAt: sql`${organisations.syncServedAt}` } : {},
  );
