import { type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import type { Member } from './members.ts';
import { isReviewedBy, reviewOf } from './reviews.ts';

/**
 * All that is stored about people, as rows of our tables: whatever column is added later is among it. What the audit log
 * says names them by login.
 */
export async function readPersonalData(executor: Executor, organisationId: string, people: readonly Member[]) {
  const memberIds = people.map(({ id }) => id);
  const ids = sql`${sql.param(memberIds)}::uuid[]`;
  const githubIds = sql`${sql.param(people.map(({ githubId }) => githubId))}::bigint[]`;
  const logins = people.flatMap(({ login, formerLogins }) => [login, ...formerLogins]);
  const names = sql`${sql.param(logins)}::text[]`;
  const rowsOf = async (table: string, isWanted: SQL, given?: SQL) => {
    const name = sql.identifier(table);
    const { rows } = await executor.execute<{ row: Record<string, unknown> }>(sql`
      select ${given ?? sql`to_jsonb(${name}) - 'organisation_id'`} as row from ${name}
      where organisation_id = ${organisationId} and ${isWanted} order by 1`);
    return rows.map(({ row }) => row);
  };
  const own = sql`select id from pull_requests where organisation_id = ${organisationId} and member_id = any(${ids})`;
  const ownOnGithub = sql`select github_id from pull_requests
    where organisation_id = ${organisationId} and member_id = any(${ids})`;
  const page = sql`jsonb_build_object('id', id, 'url', url)`;
  return {
    members: await rowsOf('members', sql`id = any(${ids})`),
    pull_requests: await rowsOf(
      'pull_requests',
      sql`member_id = any(${ids})`,
      // Who reviewed them, and for how many points, is about others.
      sql`to_jsonb(pull_requests) - '{organisation_id,reviewers,review_scores}'::text[]`,
    ),
    score_changes: await rowsOf('score_changes', sql`pull_request_id in (${own})`),
    check_runs: await rowsOf('check_runs', sql`pull_request_id in (${own})`),
    sync_requests: await rowsOf('sync_requests', sql`github_id in (${ownOnGithub})`),
    webhook_deliveries: await rowsOf('webhook_deliveries', sql`pull_request_github_id in (${ownOnGithub})`),
    untracked_pull_requests: await rowsOf('untracked_pull_requests', sql`author_github_id = any(${githubIds})`),
    /** Pull requests of others. */
    assigned_to: await rowsOf('pull_requests', sql`assignees && ${names} and not member_id = any(${ids})`, page),
    merged: await rowsOf('pull_requests', sql`merged_by = any(${names}) and not member_id = any(${ids})`, page),
    reviewed: await rowsOf(
      'pull_requests',
      isReviewedBy(memberIds),
      sql`jsonb_build_object('id', id, 'url', url, ${reviewOf(memberIds)})`,
    ),
    audit_events: await rowsOf(
      'audit_events',
      sql`lower(subject) in (select lower(name) from unnest(${names}) as name)`,
    ),
  };
}
