import { and, eq, isNotNull, sql } from 'drizzle-orm';
import { storable } from '../text/storable.ts';
import type { Executor } from './client.ts';
import { type Lease, moveLease, takeLease } from './lease.ts';
import { notify } from './notifications.ts';
import { updateOrganisation } from './organisations.ts';
import { organisations } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/**
 * Leases the organisation that has been due for longest to the caller. A comparison that starts after
 * `comparison_again_at` is the repetition that was asked for.
 *
 * @param options `periodic: false` leaves out those that nobody asked for
 */
export function claimComparison(
  executor: Executor,
  leaseSeconds: number,
  { periodic = true }: { periodic?: boolean } = {},
): Promise<Lease | undefined> {
  const { webhooksEnabled, comparisonAgainAt, comparisonRequested } = organisations;
  return takeLease(executor, 'comparisonDueAt', leaseSeconds, {
    isFree: and(webhooksEnabled, periodic ? undefined : comparisonRequested),
    // Null once it has come. Citus allows no `case` here.
    changes: { comparisonAgainAt: sql`nullif(${comparisonAgainAt}, least(${comparisonAgainAt}, now()))` },
  });
}

/**
 * Requests a comparison at once, even if one is under way, and another one later: until then GitHub may answer from before
 * the event.
 *
 * @param seconds until the repetition
 * @param options `members`: the request is about members, so it waits until these may be listed again
 */
export async function requestComparison(
  executor: Executor,
  organisationId: string,
  seconds: number,
  { members = false }: { members?: boolean } = {},
): Promise<void> {
  const earliest = members ? sql`greatest(now(), ${organisations.membersDueAt})` : sql`now()`;
  await updateOrganisation(executor, organisationId, {
    // If it has been due for longer, it keeps its place in the queue.
    comparisonDueAt: sql`least(${organisations.comparisonDueAt}, ${earliest})`,
    comparisonAgainAt: sql`greatest(${organisations.comparisonAgainAt}, ${secondsFromNow(seconds)}, ${earliest})`,
    comparisonRequested: true,
  });
  await notify(executor, 'compare');
}

/**
 * Ends a complete comparison. Nothing changes if another was requested meanwhile, which this one may not cover.
 *
 * @param seconds until the next one, unless a webhook has asked for an earlier one
 */
export async function endComparison(executor: Executor, comparison: Lease, seconds: number): Promise<void> {
  const again = organisations.comparisonAgainAt;
  const dueAt = sql`greatest(now(), least(${secondsFromNow(seconds)}, ${again}))`;
  await moveLease(executor, comparison, seconds, {
    comparisonDueAt: dueAt,
    comparisonRequested: sql`${again} is not null`,
  });
}

/** A failure's text may quote GitHub. */
const maxFailureLength = 500;

/**
 * Records for operators how a comparison went.
 *
 * @param result `isFinished`: it has reached its end. `failure`: why all or part of it failed
 */
export async function saveComparisonResult(
  executor: Executor,
  organisationId: string,
  { isFinished, failure }: { isFinished: boolean; failure: string | undefined },
): Promise<void> {
  if (!isFinished && failure === undefined) return;
  await updateOrganisation(executor, organisationId, {
    ...(isFinished && { comparedAt: sql`now()` }),
    ...(failure !== undefined && {
      comparisonFailedAt: sql`now()`,
      comparisonFailure: storable(failure.slice(0, maxFailureLength)),
    }),
  });
}

/** Whether the members may be listed again. */
export async function areMembersDue(executor: Executor, organisationId: string): Promise<boolean> {
  const [row] = await executor
    .select({ due: sql<boolean>`${organisations.membersDueAt} <= now()` })
    .from(organisations)
    .where(eq(organisations.id, organisationId));
  return row?.due ?? false;
}

/**
 * Records that the members were listed.
 *
 * @param seconds until the next list, and the comparison that includes it
 */
export async function saveMembersListed(executor: Executor, organisationId: string, seconds: number): Promise<void> {
  const { id, membersDueAt, comparisonAgainAt } = organisations;
  await updateOrganisation(executor, organisationId, { membersDueAt: secondsFromNow(seconds) });
  await executor
    .update(organisations)
    .set({ comparisonAgainAt: sql`greatest(${comparisonAgainAt}, ${membersDueAt})` })
    .where(and(eq(id, organisationId), isNotNull(comparisonAgainAt)));
}
