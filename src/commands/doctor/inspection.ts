import { and, count, eq, isNull, sql } from 'drizzle-orm';
import { isValidToken } from '../../database/access-tokens.ts';
import type { Executor } from '../../database/client.ts';
import { isInPresentRepository } from '../../database/pull-requests.ts';
import { pullRequests, repositories } from '../../database/schema.ts';
import { isOneOf, oneRow } from '../../database/statement.ts';

/** How many processes keep pull requests and scores up to date: each has one connection for notifications. */
export async function countWorkers(executor: Executor): Promise<number> {
  const { rows } = await executor.execute<{ workers: number }>(sql`select count(*)::int as workers from pg_stat_activity
    where datname = current_database() and application_name = 'pullscore listener'`);
  return oneRow(rows).workers;
}

export async function inspectOrganisation(executor: Executor, organisationId: string) {
  const { rows } = await executor.execute<{
    members: number;
    users: number;
    /** Valid access tokens. */
    tokens: number;
    /** Seconds since the last delivery; null if none is stored. */
    sinceLastDelivery: number | null;
    /** Deliveries older than ten minutes that are not applied yet, except those that GitHub has yet to catch up with. */
    lateDeliveries: number;
    /** Seconds until its repositories are compared with GitHub; negative if that is overdue. */
    untilComparison: number;
    pullRequests: number;
    /** Seconds since the least recent fetch of a pull request whose repository has not left; null if none is stored. */
    sinceOldestFetch: number | null;
  }>(sql`select
    (select count(*)::int from members where organisation_id = ${organisationId} and left_at is null) as members,
    (select count(*)::int from users where organisation_id = ${organisationId}) as users,
    (select count(*)::int from access_tokens where organisation_id = ${organisationId} and ${isValidToken}) as tokens,
    (
      select extract(epoch from now() - max(received_at))::float8 from webhook_deliveries
      where organisation_id = ${organisationId}
    ) as "sinceLastDelivery",
    (
      select count(*)::int from webhook_deliveries
      where organisation_id = ${organisationId} and state = 'pending' and received_at < now() - interval '10 minutes'
        and not exists (
          select 1 from sync_requests where organisation_id = ${organisationId}
            and github_id = pull_request_github_id and last_error is null and behind_since is not null
        )
    ) as "lateDeliveries",
    coalesce((
      select extract(epoch from least(comparison_due_at, nullif(comparison_leased_until, 'epoch')) - now())::float8
      from organisations where id = ${organisationId}
    ), 0) as "untilComparison",
    (select count(*)::int from pull_requests where organisation_id = ${organisationId}) as "pullRequests",
    (
      select extract(epoch from now() - min(fetched_at))::float8 from pull_requests
      where organisation_id = ${organisationId} and ${isInPresentRepository(organisationId)}
    ) as "sinceOldestFetch"`);
  return oneRow(rows);
}

/** Which of the things that it needs an organisation already has. Takes the same time however much is stored. */
export async function findSetup(executor: Executor, organisationId: string) {
  const { rows } = await executor.execute<{
    /** The e-mail address of the first user; null if there are no users. */
    email: string | null;
    hasToken: boolean;
    hasMembers: boolean;
    hasPullRequests: boolean;
  }>(sql`select
    (select email from users where organisation_id = ${organisationId} order by id limit 1) as email,
    exists (select 1 from access_tokens where organisation_id = ${organisationId} and ${isValidToken}) as "hasToken",
    exists (select 1 from members where organisation_id = ${organisationId} and left_at is null) as "hasMembers",
    exists (select 1 from pull_requests where organisation_id = ${organisationId}) as "hasPullRequests"`);
  return oneRow(rows);
}

/**
 * Repositories with stored pull requests, first those that are marked as having left, then those that GitHub listed
 * longest ago: each comparison moves the tickets of all that it lists.
 */
export async function findUnconfirmedRepositories(executor: Executor, organisationId: string, limit: number) {
  const { id, name, nodeId, leftAt, ignoredBecause, fetchTicket } = repositories;
  const stored = await executor
    .select({ id: pullRequests.repositoryId, count: count() })
    .from(pullRequests)
    .where(eq(pullRequests.organisationId, organisationId))
    .groupBy(pullRequests.repositoryId);
  const counts = new Map(stored.map(repository => [repository.id, repository.count]));
  const rows = await executor
    .select({ id, nodeId, name })
    .from(repositories)
    // Ignored ones are there, unless a comparison has said that they have left.
    .where(
      and(eq(repositories.organisationId, organisationId), isOneOf(id, [...counts.keys()]), isNull(ignoredBecause)),
    )
    .orderBy(isNull(leftAt), fetchTicket, id)
    .limit(limit);
  return rows.map(({ id, nodeId, name }) => ({ nodeId, name, pullRequests: counts.get(id) ?? 0 }));
}
