import { and, eq, gt, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { updateOrganisation } from './organisations.ts';
import { githubLimits, organisations } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/** GitHub's points for an hour. */
export interface Points {
  limit: number;
  remaining: number;
  /** In Unix seconds. */
  resetAt: number;
}

export type Limits = Awaited<ReturnType<typeof findLimits>>;

/** Resets closer than this end the same hour: GitHub's may move by seconds from reply to reply. */
const toleranceSeconds = 1_800;

/**
 * `secondsBlocked` until GitHub may be called again, 0 means now; `refusals` in a row for which GitHub named no time; and
 * the points as GitHub last reported them, undefined after their reset or if there was no report. `used`: those that
 * {@link countPoints} has counted for the organisation.
 */
export async function findLimits(executor: Executor, credential: string, organisationId: string) {
  const { blockedUntil, refusals, points, remainingPoints, resetAt } = githubLimits;
  const { id, pointsResetAt, pointsUsed } = organisations;
  const isOfThisHour = sql`${pointsResetAt} > ${resetAt} - make_interval(secs => ${toleranceSeconds})`;
  const [row] = await executor
    .select({
      secondsBlocked: sql<number>`greatest(0, ceil(extract(epoch from ${blockedUntil} - now())))::int`,
      refusals,
      limit: sql<number>`${points}`,
      remaining: sql<number>`${remainingPoints}`,
      resetAt: sql<number>`extract(epoch from ${resetAt})::float8`,
      secondsToReset: sql<number>`coalesce(ceil(extract(epoch from ${resetAt} - now())), 0)::int`,
      used: sql<number>`coalesce(${pointsUsed}, 0)`,
    })
    .from(githubLimits)
    .leftJoin(organisations, and(eq(id, organisationId), isOfThisHour))
    .where(eq(githubLimits.credential, credential));
  return {
    secondsBlocked: row?.secondsBlocked ?? 0,
    refusals: row?.refusals ?? 0,
    points: row !== undefined && row.secondsToReset > 0 ? row : undefined,
  };
}

/**
 * Keeps all replicas from calling GitHub for a while. A longer wait stays.
 *
 * @param refusals in a row, this one included, for which GitHub named no time; 0 if it named one
 */
export async function blockGithub(executor: Executor, credential: string, seconds: number, refusals = 0) {
  const set = {
    blockedUntil: sql`greatest(${githubLimits.blockedUntil}, excluded.blocked_until)`,
    refusals: sql`greatest(${githubLimits.refusals}, excluded.refusals)`,
  };
  await executor
    .insert(githubLimits)
    .values({ credential, blockedUntil: secondsFromNow(seconds), refusals })
    .onConflictDoUpdate({ target: githubLimits.credential, set });
}

/**
 * GitHub has answered: the next refusal counts as the first again. Replies come in any order, so the lowest points of
 * an hour count, and those of a later hour replace them.
 *
 * @param reported undefined on a GitHub Enterprise Server without rate limits
 */
export async function saveReply(executor: Executor, credential: string, reported: Points | undefined): Promise<void> {
  if (reported === undefined) {
    await executor
      .update(githubLimits)
      .set({ refusals: 0 })
      .where(and(eq(githubLimits.credential, credential), gt(githubLimits.refusals, 0)));
    return;
  }
  const { refusals, remainingPoints, resetAt } = githubLimits;
  await executor
    .insert(githubLimits)
    .values({
      credential,
      // Not now(): a statement that began a moment earlier would take that for the future.
      blockedUntil: sql`to_timestamp(0)`,
      points: reported.limit,
      remainingPoints: reported.remaining,
      // GitHub counts by the hour. If its clock is ahead, the reset would come too late.
      resetAt: sql`least(to_timestamp(${reported.resetAt}::double precision), now() + interval '1 hour')`,
    })
    .onConflictDoUpdate({
      target: githubLimits.credential,
      set: {
        refusals: 0,
        points: sql`excluded.points`,
        remainingPoints: sql`case when excluded.reset_at = ${resetAt}
          then least(excluded.remaining_points, ${remainingPoints}) else excluded.remaining_points end`,
        resetAt: sql`excluded.reset_at`,
      },
      setWhere: sql`${refusals} > 0 or ${resetAt} is null or excluded.reset_at > ${resetAt}
        or (excluded.reset_at = ${resetAt} and excluded.remaining_points < ${remainingPoints})`,
    });
}

const timeOf = (unixSeconds: number) => sql`to_timestamp(${unixSeconds}::double precision)`;

/** Whether the organisation's points are of the hour that ends then. */
const isOfHour = (end: SQL) =>
  sql`${organisations.pointsResetAt} > ${end} - make_interval(secs => ${toleranceSeconds})`;

/**
 * Counts points that the organisation's webhooks and PUT syncs have used.
 *
 * @param resetAt when the hour ends in which they were used, in Unix seconds
 */
export async function countPoints(
  executor: Executor,
  organisationId: string,
  count: number,
  resetAt: number,
): Promise<void> {
  const { pointsUsed, pointsResetAt } = organisations;
  // GitHub counts by the hour. If one reply names a reset years ahead, points would stay counted until then.
  const end = sql`least(${timeOf(resetAt)}, now() + interval '1 hour')`;
  // A reply from the hour before may be counted late.
  const latest = sql`greatest(${pointsResetAt}, ${end})`;
  // Citus allows no `case` here.
  const used = sql`least(${pointsUsed} * ((${isOfHour(end)}) is true)::int + ${count}::bigint, 2147483647)`;
  await updateOrganisation(executor, organisationId, { pointsUsed: used, pointsResetAt: latest });
}

/** How many organisations have used more of the hour's points than are left. */
export function countAboveShare(executor: Executor, { remaining, resetAt }: Points): Promise<number> {
  const { pointsUsed } = organisations;
  return executor.$count(organisations, and(gt(pointsUsed, remaining), isOfHour(timeOf(resetAt))));
}
