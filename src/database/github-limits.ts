import { sql } from 'drizzle-orm';
import type { Database, Executor } from './client.ts';
import { githubLimits } from './schema.ts';

const blocked = {
  name: 'github_limit',
  text: `select ceil(extract(epoch from blocked_until - now()))::int from github_limits
    where credential = $1 and blocked_until > now()`,
};

/** Seconds until GitHub may be called again with the credential; 0 where it may be at once. */
export async function secondsBlocked(database: Database, credential: string): Promise<number> {
  const [row] = await database.read<[string]>(blocked, [credential]);
  return Number(row?.[0] ?? 0);
}

/**
 * Keeps all replicas from calling for a while. Where GitHub named no time, a minute, doubling up to an hour while it
 * goes on refusing.
 *
 * @param seconds undefined where GitHub named no time
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
      // One refusal seen by many requests at once counts once.
      setWhere: seconds === undefined ? sql`${githubLimits.blockedUntil} <= now()` : sql`true`,
    });
}

/** GitHub has answered: the next refusal is a first one again. */
export async function unblockGithub(executor: Executor, credential: string): Promise<void> {
  await executor
    .update(githubLimits)
    .set({ refusals: 0 })
    .where(sql`${githubLimits.credential} = ${credential} and ${githubLimits.refusals} > 0`);
}
