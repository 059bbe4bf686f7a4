import { type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import type { Member } from './members.ts';
import { isReviewedBy, reviewOf } from './reviews.ts';

/**
 * All that is stored about a person, as rows of our tables: whatever column is added later is among it. What the audit log
 * says names them by login.
 */
export async function readPersonalData(
  executor: Executor,
  organisationId: string,
  { id, githubId, login, formerLogins }: Member,
) {
  const names = sql`${sql.param([login, ...formerLogins])}::text[]`;
  const isOwn = sql`member_id = ${id}`;
  const rowsOf = async (table: string, isWanted: SQL, given?: SQL) => {
    const name = sql.identifier(table);
    const { rows } = await executor.execute<{ row: Record<string, unknown> }>(sql`
      select ${given ?? sql`to_jsonb(${name}) - 'organisation_id'`} as row from ${name}
      where organisation_id = ${organisationId} and ${isWanted} order by 1`);
    return rows.map(({ row }) => row);
  };
  const own = sql`select id from pull_requests where organisation_id = ${organisationId} and ${isOwn}`;
  const ownOnGithub = sql`select github_id from pull_requests where organisation_id = ${organisationId} and ${isOwn}`;
  const page = sql`jsonb_build_object('id', id, 'url', url)`;
  return {
    members: await rowsOf('members', sql`id = ${id}`),
    pull_requests: await rowsOf(
      'pull_requests',
      isOwn,
      // Who reviewed them, and for how many points, is about others.
      sql`to_jsonb(pull_requests) - '{organisation_id,reviewers,review_scores}'::text[]`,
    ),
    score_changes: await rowsOf('score_changes', sql`pull_request_id in (${own})`),
    check_runs: await rowsOf('check_runs', sql`pull_request_id in (${own})`),
    sync_requests: await rowsOf('sync_requests', sql`github_id in (${ownOnGithub})`),
    webhook_deliveries: await rowsOf('webhook_deliveries', sql`pull_request_github_id in (${ownOnGithub})`),
    untracked_pull_requests: await rowsOf('untracked_pull_requests', sql`author_github_id = ${githubId}`),
    /** Pull requests of others. */
    assigned_to: await rowsOf('pull_requests', sql`assignees && ${names} and not ${isOwn}`, page),
    merged: await rowsOf('pull_requests', sql`merged_by = any(${names}) and not ${isOwn}`, page),
    reviewed: await rowsOf(
      'pull_requests',
      isReviewedBy(id),
      sql`jsonb_build_object('id', id, 'url', url, ${reviewOf(id)})`,
    ),
    audit_events: await rowsOf(
      'audit_events',
      sql`lower(subject) in (select lower(name) from unnest(${names}) as name)`,
    ),
  };
}
