import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';

/** Work that stands in the database, of all organisations together. */
export interface Backlog {
  /** Sync requests, each in one of these. */
  waiting: number;
  /** GitHub does not show yet what a webhook announced: they are asked for again. */
  behind: number;
  /** They failed, and are tried again. */
  failing: number;
  /** They failed so often that nobody tries them again by himself. */
  parked: number;
  /** Seconds since when a sync request has been due without being taken up; 0 where none is. */
  overdueSeconds: number;
  /** Ranges of pull requests whose scores may be older than the rules in force. */
  rescoreRanges: number;
  /** Until when GitHub wants not to be called, in Unix seconds, by the organisation's login; of a token's: empty. */
  blockedUntil: Map<string, number>;
}

export async function readBacklog(executor: Executor): Promise<Backlog> {
  const [{ rows }, blocks] = await Promise.all([
    executor.execute<Record<'waiting' | 'behind' | 'failing' | 'parked' | 'overdue' | 'ranges', number>>(sql`
      select (count(*) filter (where last_error is null and behind_since is null))::int as waiting,
        (count(*) filter (where last_error is null and behind_since is not null))::int as behind,
        (count(*) filter (where last_error is not null and due_at is not null))::int as failing,
        (count(*) filter (where due_at is null))::int as parked,
        coalesce(extract(epoch from now() - min(due_at) filter (where due_at <= now())), 0)::float8 as overdue,
        (select count(*)::int from rescore_ranges) as ranges
      from sync_requests`),
    executor.execute<{ organisation: string; until: number }>(sql`
      select coalesce(login, '') as organisation, extract(epoch from blocked_until)::float8 as until
      from github_limits left join organisations on credential = 'app:' || id
      where blocked_until > now() and (credential = 'token' or login is not null)`),
  ]);
  const { waiting = 0, behind = 0, failing = 0, parked = 0, overdue = 0, ranges = 0 } = rows[0] ?? {};
  return {
    waiting,
    behind,
    failing,
    parked,
    overdueSeconds: overdue,
    rescoreRanges: ranges,
    blockedUntil: new Map(blocks.rows.map(({ organisation, until }) => [organisation, until])),
  };
}
