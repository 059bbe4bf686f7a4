import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { rescoreRanges } from './schema.ts';

/* What operators see of the work that waits, and the retry that they can ask for. */

export interface SyncRequestCounts {
  waiting: number;
  /** Of the waiting ones: GitHub does not show yet what a webhook announced. That is not a failure. */
  behind: number;
  /** Of the waiting ones: parked, or to be tried again. */
  failing: number;
  /** Of the failing ones. */
  parked: number;
  /** Since the first of those that are due became so; 0 if none is due. */
  overdueSeconds: number;
}

/** @param organisationId undefined counts those of all organisations */
export async function countSyncRequests(executor: Executor, organisationId?: string): Promise<SyncRequestCounts> {
  const { rows } = await executor.execute<Record<string, number>>(sql`
    select count(*)::int as waiting,
      (count(*) filter (where last_error is null and behind_since is not null))::int as behind,
      (count(*) filter (where last_error is not null))::int as failing,
      (count(*) filter (where due_at is null))::int as parked,
      coalesce(extract(epoch from now() - min(due_at) filter (where due_at <= now()))::int, 0) as overdue
    from sync_requests ${organisationId === undefined ? sql`` : sql`where organisation_id = ${organisationId}`}`);
  const { waiting = 0, behind = 0, failing = 0, parked = 0, overdue = 0 } = rows[0] ?? {};
  return { waiting, behind, failing, parked, overdueSeconds: overdue };
}

/** The work that waits in all organisations together. */
export interface Backlog {
  /** Each sync request counts as one of `waiting`, `behind`, `failing` and `parked`. */
  waiting: number;
  /** GitHub does not show yet what a webhook announced: they are fetched again. */
  behind: number;
  /** They failed, and are tried again. */
  failing: number;
  /** They failed so often that only a change on GitHub or an operator starts another try. */
  parked: number;
  overdueSeconds: number;
  /** Ranges of pull requests whose scores may be older than the rules in force. */
  rescoreRanges: number;
  /** When GitHub may be called again, in Unix seconds, by the organisation's login; by `''` for a token. */
  blockedUntil: Map<string, number>;
}

export async function readBacklog(executor: Executor): Promise<Backlog> {
  const [{ waiting, behind, failing, parked, overdueSeconds }, ranges, blocks] = await Promise.all([
    countSyncRequests(executor),
    executor.$count(rescoreRanges),
    executor.execute<{ organisation: string; until: number }>(sql`
      select coalesce(login, '') as organisation, extract(epoch from blocked_until)::float8 as until
      from github_limits left join organisations on credential = 'app:' || id
      where blocked_until > now() and (credential = 'token' or login is not null)`),
  ]);
  return {
    waiting: waiting - behind - failing,
    behind,
    failing: failing - parked,
    parked,
    overdueSeconds,
    rescoreRanges: ranges,
    blockedUntil: new Map(blocks.rows.map(({ organisation, until }) => [organisation, until])),
  };
}

export interface FailingRequest {
  githubId: number;
  nodeId: string;
  /** `owner/name#number`; null if the pull request is not stored. */
  name: string | null;
  url: string | null;
  attempts: number;
  reason: string;
  requestedAt: Date;
  /** When it is tried next; null if it is parked. */
  dueAt: Date | null;
}

/** Parked ones first, then those that are tried next. */
export async function listFailingRequests(
  executor: Executor,
  organisationId: string,
  limit: number,
): Promise<FailingRequest[]> {
  const { rows } = await executor.execute<{
    github_id: string;
    node_id: string;
    name: string | null;
    url: string | null;
    attempts: number;
    reason: string;
    requested: number;
    due: number | null;
  }>(sql`
    select requests.github_id, requests.node_id, repositories.name || '#' || stored.number as name, stored.url,
      requests.attempts, requests.last_error as reason, extract(epoch from requests.requested_at)::float8 as requested,
      extract(epoch from requests.due_at)::float8 as due
    from sync_requests as requests
    left join pull_requests as stored
      on stored.organisation_id = requests.organisation_id and stored.github_id = requests.github_id
    left join repositories
      on repositories.organisation_id = stored.organisation_id and repositories.id = stored.repository_id
    where requests.organisation_id = ${organisationId} and requests.last_error is not null
    order by requests.due_at nulls first, requests.github_id limit ${limit}`);
  return rows.map(row => ({
    githubId: Number(row.github_id),
    nodeId: row.node_id,
    name: row.name,
    url: row.url,
    attempts: row.attempts,
    reason: row.reason,
    requestedAt: new Date(row.requested * 1000),
    dueAt: row.due === null ? null : new Date(row.due * 1000),
  }));
}

/** Makes failed requests due at once, parked ones included, as if they were new. */
export async function retrySyncRequests(
  executor: Executor,
  organisationId: string,
): Promise<{ retried: number; parked: number }> {
  const { rows } = await executor.execute<{ retried: number; parked: number }>(sql`
    with failed as (
      select github_id, due_at is null as parked from sync_requests
      where organisation_id = ${organisationId} and last_error is not null order by github_id for update
    ), retried as (
      -- With a new ticket, a fetch that is already under way neither ends nor defers it.
      update sync_requests set due_at = now(), attempts = 0, last_error = null, is_isolated = false,
        ticket = nextval('tickets')
      from failed where organisation_id = ${organisationId} and sync_requests.github_id = failed.github_id
      returning failed.parked
    )
    select count(*)::int as retried, (count(*) filter (where parked))::int as parked, pg_notify('pullscore', 'sync')
    from retried`);
  return { retried: rows[0]?.retried ?? 0, parked: rows[0]?.parked ?? 0 };
}
