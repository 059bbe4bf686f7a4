import { sql } from 'drizzle-orm';
import type { Database, Executor } from './client.ts';
import { githubLimits } from './schema.ts';

const blocked = {
  name: 'github_limit',
  text: `select ceil(extract(epoch from blocked_until - now()))::int from github_limits
    where credential = $1 and blocked_until > now()`,
};

/** Seconds until GitHub may be called again with the credential; 0 means now. */
export async function secondsBlocked(database: Database, credential: string): Promise<number> {
  const [row] = await database.read<[string]>(blocked, [credential]);
  return Number(row?.[0] ?? 0);
}

/** GitHub's points for an hour. */
export interface Points {
  limit: number;
  remaining: number;
  /** In Unix seconds. */
  resetAt: number;
}

const points = {
  name: 'github_points',
  text: `select points, remaining_points, extract(epoch from reset_at)::bigint,
      ceil(extract(epoch from reset_at - now()))::int
    from github_limits where credential = $1 and reset_at > now()`,
};

/** The credential's points as GitHub last reported them; undefined after their reset, or if there was no report. */
export async function findPoints(
  database: Database,
  credential: string,
): Promise<(Points & { secondsToReset: number }) | undefined> {
  const [row] = await database.read<[string, string, string, string]>(points, [credential]);
  if (row === undefined) return undefined;
  const [limit = 0, remaining = 0, resetAt = 0, secondsToReset = 0] = row.map(Number);
  return { limit, remaining, resetAt, secondsToReset };
}

/**
 * Keeps all replicas from calling GitHub for a while. If GitHub named no time: a minute, doubling up to an hour while
 * it keeps refusing.
 *
 * @param seconds undefined if GitHub named no time
 */
export async function blockGithub(executor: Executor, credential: string, seconds: number | undefined): Promise<void> {
  const wait =
    seconds === undefined
      ? sql`least(3600, 60 * 2 ^ least(${githubLimits.refusals}, 6))::int`
      : sql`${seconds}::double precision`;
  await executor
    .insert(githubLimits)
    .values({
      credential,
      blockedUntil: sql`now() + make_interval(secs => ${seconds ?? 60}::double precision)`,
      refusals: seconds === undefined ? 1 : 0,
    })
    .onConflictDoUpdate({
      target: githubLimits.credential,
      set: {
        blockedUntil: sql`greatest(${githubLimits.blockedUntil}, now() + make_interval(secs => ${wait}))`,
        ...(seconds === undefined && { refusals: sql`${githubLimits.refusals} + 1` }),
      },
      // A refusal of many requests at once counts once.
      setWhere: seconds === undefined ? sql`${githubLimits.blockedUntil} <= now()` : sql`true`,
    });
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
      .where(sql`${githubLimits.credential} = ${credential} and ${githubLimits.refusals} > 0`);
    return;
  }
  // GitHub counts by the hour. If its clock is ahead, the reset would come too late.
  await executor.execute(sql`
    insert into github_limits as known (credential, points, remaining_points, reset_at)
    values (${credential}, ${reported.limit}, ${reported.remaining},
      least(to_timestamp(${reported.resetAt}::double precision), now() + interval '1 hour'))
    on conflict (credential) do update set
      refusals = 0,
      points = excluded.points,
      remaining_points = case when excluded.reset_at = known.reset_at
        then least(excluded.remaining_points, known.remaining_points) else excluded.remaining_points end,
      reset_at = excluded.reset_at
    where known.refusals > 0 or known.reset_at is null or excluded.reset_at > known.reset_at
      or (excluded.reset_at = known.reset_at and excluded.remaining_points < known.remaining_points)`);
}
