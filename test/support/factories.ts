import { sql } from 'drizzle-orm';
import { renewContentVersion } from '../../src/database/content-versions.ts';
import { newId } from '../../src/ids.ts';
import type { Service, Tenant } from './service.ts';

/**
 * Inserts pull requests straight into the database, in bulk: only for tests that read pages.
 *
 * @param createdAt of each pull request, in Unix seconds
 * @returns their UUIDs, in that order
 */
export async function insertPullRequests(
  { database }: Pick<Service, 'database'>,
  { organisation }: Pick<Tenant, 'organisation'>,
  createdAt: readonly number[],
): Promise<string[]> {
  const ids = createdAt.map(newId);
  await database.executor.execute(sql`
    with member as (
      insert into members (organisation_id, id, github_id, login, name, photo_url)
      values (${organisation.id}, ${newId()}, 1, 'grace', 'Grace Hopper', 'https://photos.example/grace')
      on conflict (organisation_id, github_id) do update set login = excluded.login returning id
    ), repository as (
      insert into repositories (organisation_id, id, github_id, node_id, name)
      values (${organisation.id}, ${newId()}, 1, 'R_1', 'acme/web')
      on conflict (organisation_id, github_id) do update set name = excluded.name returning id
    ), start as (
      select coalesce(max(github_id), 0) as github_id from pull_requests where organisation_id = ${organisation.id}
    )
    insert into pull_requests (organisation_id, id, repository_id, member_id, github_id, node_id, url, head_sha, number, title,
      body, state, draft, author, author_association, author_is_bot, base, head, from_fork, additions, deletions,
      changed_files, commits, comments, reviews, approvals, changes_requested, writer_approvals, times_changes_requested, bot_reviews, self_merged,
      linked_issues, created_at,
      source_updated_at, labels, assignees, files, score, score_breakdown, ruleset_version, fetch_ticket)
    select ${organisation.id}, row.id, repository.id, member.id, start.github_id + row.number,
      'PR_' || start.github_id + row.number, 'https://github.com/acme/web/pull/' || row.number, repeat('c', 40), row.number,
      'Pull request ' || row.number, '', 'open', false, 'grace', 'MEMBER', false, 'main', 'topic', false, 1, 1, 1, 1, 0,
      0, 0, 0, 0, 0, 0, false, 0, to_timestamp(row.created_at), to_timestamp(row.created_at), '{}', '{}', '{}', 0, '[]', 0, 1
    from member, repository, start,
      unnest(${sql.param(ids)}::uuid[], ${sql.param([...createdAt])}::double precision[])
        with ordinality as row (id, created_at, number)`);
  await renewContentVersion(database.executor, organisation.id);
  return ids;
}
