/** Organisations with a user and a token, and their rows in bulk: for tests, soaks and benchmarks. */
import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { generateAccessToken, hashAccessToken } from '../../src/access-token.ts';
import { addAccessToken } from '../../src/database/access-tokens.ts';
import { renewContentVersion } from '../../src/database/content-versions.ts';
import { addOrganisation, type Organisation } from '../../src/database/organisations.ts';
import { applyRuleset, type RulesetWithSource } from '../../src/database/rules.ts';
import { addUser, type User } from '../../src/database/users.ts';
import type { Deps } from '../../src/deps.ts';
import { newId } from '../../src/ids.ts';

export interface Tenant {
  organisation: Organisation;
  user: User;
  token: string;
}

/** An organisation with a user who holds a token of every scope. */
export async function createTenant(
  { database }: Pick<Deps, 'database'>,
  values: { login?: string; githubId?: number; nodeId?: string; scopes?: readonly string[] } = {},
): Promise<Tenant> {
  const login = values.login ?? `org-${randomUUID().slice(0, 8)}`;
  const organisation = await addOrganisation(database.executor, {
    login,
    githubId: values.githubId ?? null,
    nodeId: values.nodeId ?? null,
    name: login,
    photoUrl: `https://photos.example/${login}`,
  });
  if (organisation === undefined) throw new Error(`the organisation ${login} already exists`);
  const user = await addUser(database.executor, {
    organisationId: organisation.id,
    name: 'Ada Lovelace',
    email: `ada@${login}.example`,
    photoUrl: 'https://photos.example/ada',
  });
  if (user === undefined) throw new Error('the user already exists');
  const token = await createToken({ database }, user, values.scopes);
  return { organisation, user, token };
}

export async function createToken(
  { database }: Pick<Deps, 'database'>,
  user: User,
  scopes: readonly string[] = ['read', 'sync', 'delete'],
  expiresAt: Date | null = null,
): Promise<string> {
  const token = generateAccessToken();
  await addAccessToken(database.executor, {
    organisationId: user.organisationId,
    userId: user.id,
    name: '',
    tokenHash: hashAccessToken(token),
    scopes: [...scopes],
    expiresAt,
  });
  return token;
}

/** Puts rules in force. What is not given is empty. */
export const applyRules = (
  { database }: Pick<Deps, 'database'>,
  organisationId: string,
  given: Partial<RulesetWithSource>,
) =>
  database.transaction(executor =>
    applyRuleset(executor, organisationId, { definitions: [], rules: [], reviews: [], source: '', ...given }),
  );

/**
 * Inserts pull requests straight into the database, in bulk: only for tests that read pages.
 *
 * @param created when, in Unix seconds; or how many, a second apart
 * @returns their UUIDs, in that order
 */
export async function insertPullRequests(
  { database }: Pick<Deps, 'database'>,
  { organisation }: Pick<Tenant, 'organisation'>,
  created: readonly number[] | number,
): Promise<string[]> {
  const createdAt =
    typeof created === 'number' ? Array.from({ length: created }, (_, index) => 1_700_000_000 + index) : [...created];
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
      unnest(${sql.param(ids)}::uuid[], ${sql.param(createdAt)}::double precision[])
        with ordinality as row (id, created_at, number)`);
  await renewContentVersion(database.executor, organisation.id);
  return ids;
}

/**
 * Inserts members straight into the database, in bulk: `member-1` and so on.
 *
 * @param name of all of them, if it is not `Member 1` and so on
 */
export async function insertMembers(
  { database }: Pick<Deps, 'database'>,
  { organisation }: { organisation: Pick<Organisation, 'id'> },
  count: number,
  name?: string,
): Promise<void> {
  await database.executor.execute(sql`
    insert into members (organisation_id, id, github_id, login, name, photo_url, created_at)
    select ${organisation.id}::uuid, gen_random_uuid(), 1000 + number, 'member-' || number,
      coalesce(${name ?? null}::text, 'Member ' || number), 'https://photos.example/' || number,
      -- Many share a moment.
      to_timestamp(1700000000 + number % 3 * 0.000001)
    from generate_series(1, ${count}::int) as number`);
}
