/** A database with a million pull requests, or as many as ROWS says, kept for the next run. */
import { renewContentVersion } from '../src/database/content-versions.ts';
import { users } from '../src/database/schema.ts';
import type { User } from '../src/database/users.ts';
import { formatId } from '../src/ids.ts';
import { applyRules, createTenant, createToken } from '../test/support/tenants.ts';
import { print } from './report.ts';
import { joinDatabase } from './world.ts';

export const pullRequests = Number(process.env.ROWS ?? 1_000_000);

export const allPullRequests = `${pullRequests.toLocaleString('en')} pull requests`;

const members = 500;

export type Stored = Awaited<ReturnType<typeof joinStored>>;

export async function joinStored() {
  const joined = await joinDatabase(`bench/.data/${pullRequests}-with-reviewers`);
  const [known] = await joined.database.executor.select().from(users);
  const user = known ?? (await fill(joined));
  const { organisationId } = user;
  // A token is made anew for each run.
  const token = await createToken(joined, user, ['read', 'rules:read']);
  // Other benchmarks, and a run that was broken off, leave their members, their rules and their work.
  await joined.query('delete from members where github_id > $1', [members]);
  await applyRules(joined, organisationId, {});
  await renewContentVersion(joined.database.executor, organisationId);
  await joined.query('delete from rescore_ranges');
  return { ...joined, organisationId, token };
}

type Joined = Awaited<ReturnType<typeof joinDatabase>>;

async function fill(joined: Joined): Promise<User> {
  print(`filling a database with ${pullRequests} pull requests…`);
  const { organisation, user } = await createTenant(joined, { login: 'bench' });
  await insertPullRequests(joined, organisation.id);
  await joined.query('vacuum analyze');
  return user;
}

/** One in so many has a thousand files; the others have one. */
export const manyFilesEvery = 1_000;

/** The same number from 0 to 1 for a row, each time. */
const share = (seed: number) => `(n::bigint * ${seed} % 1000003 / 1000003.0)`;

/**
 * Rows of about 1,300 bytes, their ids in the order of their coming in, as ours are, of 500 members in 50 repositories: a
 * quarter in the first one, and few of many. Most are merged, few are drafts, and only the first of those is in one of
 * the last ten repositories. Seven of eight were reviewed, by one to three members.
 */
async function insertPullRequests({ query, value }: Joined, organisationId: string): Promise<void> {
  await query(
    `insert into members (organisation_id, id, github_id, login, name, photo_url)
      select $1, uuidv7(), n, 'member-' || n, 'Member ' || n, '' from generate_series(1, $2::int) n`,
    [organisationId, members],
  );
  const memberIds = await value<string[]>('(select array_agg(id order by github_id) from members)');
  await query(
    `insert into repositories (organisation_id, id, github_id, node_id, name)
      select $1, uuidv7(), n, 'R_' || n, 'bench/repository-' || n from generate_series(1, 50) n`,
    [organisationId],
  );
  await query(
    `insert into pull_requests (organisation_id, id, repository_id, member_id, github_id, node_id, url, head_sha, number,
        title, body, state, draft, author, author_association, author_is_bot, base, head, from_fork, additions,
        deletions, changed_files, commits, comments, reviews, approvals, changes_requested,
        writer_approvals, times_changes_requested, bot_reviews, self_merged, linked_issues,
        created_at, source_updated_at, merged_at, closed_at, labels, assignees, files, file_changes, score, score_breakdown, ruleset_version,
        fetch_ticket, facts_version, ready_at, reviewers)
      select $1, uuidv7(), repositories[repository], members[member], n, 'PR_' || n,
        'https://github.com/bench/repository/pull/' || n, md5(n::text) || '00000000', n, 'Change number ' || n,
        repeat('## Why' || E'\n\n' || 'The "' || md5(n::text) || '" case fails when **count** is 0 — see the log.' || E'\n- [x] tests\n', 9), state, false,
        'member-' || member, 'MEMBER', false, 'main', 'topic', false, n % 500, n % 300, n % 20, n % 7, n % 9,
        n % 4, n % 3, 0, 0, 0, 0, false, n % 2, to_timestamp(created_at), to_timestamp(closed_at + floor(${share(15_485_863)} * 2000000)),
        case when state = 'merged' then to_timestamp(closed_at) end,
        case when state in ('merged', 'closed') then to_timestamp(closed_at) end, '{bug}', '{}',
        case when n % $3 = 0 then many.files else '{src/main.ts}' end,
        case when n % $3 = 0 then many.file_changes else json_build_array(n % 500, n % 300) end, 15,
        '[{"name":"Small","action":"ADD","effect":10,"expression":"size <= 200"},{"name":"Merged","action":"ADD","effect":5,"expression":"merged"}]',
        0, 0, 3, to_timestamp(created_at), given.reviewers::json
      from generate_series(1, $2::int) n
        cross join lateral (
          select case n when 1 then 50 else 1 + floor(50 * ${share(7_919)} ^ 3)::int end as repository,
            1 + floor(500 * ${share(104_729)} ^ 2)::int as member, 1500000000 + n / 3 * 180 as created_at
        ) a
        cross join lateral (
          select case when n = 1 then 'draft' when ${share(1_299_709)} < 0.76 then 'merged' when ${share(1_299_709)} < 0.97 then 'closed'
              when ${share(1_299_709)} < 0.998 or repository > 40 then 'open' else 'draft' end as state,
            created_at + floor(${share(32_452_843)} * 3000000) as closed_at
        ) b
        cross join lateral (
          select '[' || coalesce(string_agg(format('{"member":"%s","login":"member-%s","isBot":false,"verdict":"%s",'
              || '"comments":%s,"firstReviewAt":%s,"requestedAt":%s,"mayWrite":true}',
              ($4::text[])[1 + n * r % 500], 1 + n * r % 500,
              case (n + r) % 3 when 0 then 'commented' when 1 then 'changes_requested' else 'approved' end,
              (n + r) % 5, created_at + n % 90 * 3600 + r, case n % 2 when 0 then created_at::text else 'null' end), ','), '')
            || ']' as reviewers
          from generate_series(1, case n % 8 when 0 then 0 else 1 + n % 3 end) r
        ) given,
        (select array_agg(id) as members from members) m, (select array_agg(id) as repositories from repositories) r,
        (
          select array_agg('src/components/part-' || f || '/index.ts') as files,
            (select json_agg(1 - v % 2) from generate_series(0, 1999) v) as file_changes
          from generate_series(1, 1000) f
        ) many`,
    [organisationId, pullRequests, manyFilesEvery, memberIds.map(id => formatId('mem', id))],
  );
}
