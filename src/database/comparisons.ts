import { and, eq, isNotNull, lte, sql } from 'drizzle-orm';
import { storable } from '../text/storable.ts';
import type { Executor } from './client.ts';
import { type Lease, moveLease, takeLease } from './lease.ts';
import { notify } from './notifications.ts';
import { updateOrganisation } from './organisations.ts';
import { organisations } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/** Longer than a comparison takes. */
const maxComparisonSeconds = 86_400;

const notLeased = sql`'epoch'::timestamptz`;

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
  const { webhooksEnabled, comparisonDueAt, comparisonLeasedUntil, comparisonAgainAt, comparisonRequested } =
    organisations;
  // Also when the lease of a replica that was killed is over.
  const dueAt = sql`least(${comparisonDueAt}, nullif(${comparisonLeasedUntil}, ${notLeased}))`;
  return takeLease(executor, 'comparisonLeasedUntil', leaseSeconds, {
    isFree: and(lte(dueAt, sql`now()`), webhooksEnabled, periodic ? undefined : comparisonRequested),
    order: dueAt,
    changes: {
      // A request that comes meanwhile makes it due earlier, so it is not lost.
      comparisonDueAt: secondsFromNow(maxComparisonSeconds),
      // Null once it has come. Citus allows no `case` here.
      comparisonAgainAt: sql`nullif(${comparisonAgainAt}, least(${comparisonAgainAt}, now()))`,
    },
  });
}

/**
 * Requests a comparison as soon as the one under way has ended and the pace allows, and another one later: until then
 * GitHub may answer from before the event.
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
  const { comparisonDueAt, comparisonAgainAt, comparisonNotBefore, membersDueAt } = organisations;
  const earliest = sql`greatest(now(), ${comparisonNotBefore}, ${members ? membersDueAt : null})`;
  await updateOrganisation(executor, organisationId, {
    // If it has been due for longer, it keeps its place in the queue.
    comparisonDueAt: sql`least(${comparisonDueAt}, ${earliest})`,
    comparisonAgainAt: sql`greatest(${comparisonAgainAt}, ${secondsFromNow(seconds)}, ${earliest})`,
    comparisonRequested: true,
  });
  await notify(executor, 'compare');
}

/** A failure's text may quote GitHub. */
const maxFailureLength = 500;

interface ComparisonEnd {
  /** Seconds until the next one, if none is asked for. */
  next: number;
  /** Seconds until one that is asked for may start, if that is earlier than the next one. */
  pace: number;
  /** It has reached its end. Otherwise what was asked for still is. */
  isFinished: boolean;
  /** Why all or part of it failed. */
  failure: string | undefined;
}

/** Ends a comparison, and records for operators how it went. One that was requested meanwhile may cover more: it stays due. */
export async function endComparison(
  executor: Executor,
  comparison: Lease,
  { next, pace, isFinished, failure }: ComparisonEnd,
): Promise<void> {
  const { comparisonDueAt, comparisonAgainAt: again } = organisations;
  const notBefore = secondsFromNow(pace);
  await moveLease(executor, comparison, 0, {
    comparisonLeasedUntil: notLeased,
    comparisonDueAt: sql`least(${secondsFromNow(next)}, greatest(${notBefore}, least(${comparisonDueAt}, ${again})))`,
    comparisonNotBefore: notBefore,
    ...(isFinished && { comparisonRequested: sql`${again} is not null` }),
  });
  if (!isFinished && failure === undefined) return;
  await updateOrganisation(executor, comparison.organisationId, {
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
