import { and, asc, desc, eq, inArray, type SQL, Subquery, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { recordChanges } from './changes.ts';
import type { Database, Executor } from './client.ts';
import { createExistsAnywhere, lockOrganisation } from './organisations.ts';
import { deletedPullRequests, pullRequests, repositories, scoreChanges } from './schema.ts';
import { createSelection, limited, placeholder, query, type RowOf } from './statement.ts';

export type StoredPullRequest = typeof pullRequests.$inferSelect;

/** Joins pull requests with their repositories. */
export const isInRepository = and(
  eq(repositories.organisationId, pullRequests.organisationId),
  eq(repositories.id, pullRequests.repositoryId),
);

/** Whether the repository is still in the organisation: pull requests of others are not fetched. */
export const isInPresentRepository = (organisationId: string) =>
  sql`${pullRequests.repositoryId} not in (
    select id from repositories where organisation_id = ${organisationId} and left_at is not null)`;

const unixSeconds = (column: PgColumn) => sql<number>`extract(epoch from ${column})::bigint`;

/** What clients are shown. Times are in Unix seconds. */
// Not as JSON: with `to_json` a page takes PostgreSQL two thirds more time, and saves this process nothing.
const fields = {
  id: pullRequests.id,
  createdAt: unixSeconds(pullRequests.createdAt),
  memberId: pullRequests.memberId,
  githubId: pullRequests.githubId,
  number: pullRequests.number,
  url: pullRequests.url,
  state: pullRequests.state,
  title: pullRequests.title,
  body: pullRequests.body,
  additions: pullRequests.additions,
  deletions: pullRequests.deletions,
  commits: pullRequests.commits,
  changedFiles: pullRequests.changedFiles,
  score: pullRequests.score,
  scoreBreakdown: pullRequests.scoreBreakdown,
  author: pullRequests.author,
  labels: sql<string>`array_to_json(${pullRequests.labels})`,
  base: pullRequests.base,
  updatedAt: unixSeconds(pullRequests.sourceUpdatedAt),
  mergedAt: sql<number | null>`${unixSeconds(pullRequests.mergedAt)}`,
  closedAt: sql<number | null>`${unixSeconds(pullRequests.closedAt)}`,
  rulesetVersion: pullRequests.rulesetVersion,
  repository: sql<string>`(select ${repositories.name} from ${repositories} where ${isInRepository})`,
};

/** Texts of people; the others are ASCII. */
const byteStrings = ['url', 'title', 'body', 'scoreBreakdown', 'author', 'labels', 'base', 'repository'] as const;

const isOfOrganisation = eq(pullRequests.organisationId, placeholder('organisationId'));
const hasId = eq(pullRequests.id, placeholder('id'));

const pullRequestOfId = createSelection(
  'pull_request_of_id',
  query.select(fields).from(pullRequests).where(and(isOfOrganisation, hasId)),
  byteStrings,
);

const pullRequestsOfIds = createSelection(
  'pull_requests_of_ids',
  query
    .select(fields)
    .from(pullRequests)
    .where(and(isOfOrganisation, sql`${pullRequests.id} = any(${placeholder('ids')}::uuid[])`)),
  byteStrings,
);

type Direction = 'next' | 'previous';

/** Bytes of descriptions and breakdowns on a page. With all else, the page stays below a megabyte. */
const maxPageBytes = 900_000;

/** A page without longer ones is within {@link maxPageBytes}, whatever its size. */
const maxShortBytes = { body: 5_600, scoreBreakdown: 3_300 };

/** Up to this, a page of short texts is small enough for a short read. */
const maxShortRows = 26;

const { body, scoreBreakdown } = pullRequests;
// The size as it is stored, compressed, costs nothing.
const isShortBreakdown = sql`pg_column_size(${scoreBreakdown}) <= 2048
  and octet_length(${scoreBreakdown}::text) <= ${maxShortBytes.scoreBreakdown}`;

/** Longer texts are null. */
const shortFields = {
  ...fields,
  body: sql<string | null>`case when octet_length(${body}) <= ${maxShortBytes.body} then ${body} end`,
  scoreBreakdown: sql<string | null>`case when ${isShortBreakdown} then ${scoreBreakdown} end`,
};

/** Texts are null in the row after the page's last one: they are not read from storage. */
const longFields = {
  ...fields,
  body: sql<string | null>`case when rows_beyond = 0 then ${body} end`,
  scoreBreakdown: sql<string | null>`case when rows_beyond = 0 then ${scoreBreakdown} end`,
};

function createPage(list: 'organisation' | 'member', direction: Direction) {
  const [isPast, order] = direction === 'next' ? [sql`<`, desc] : [sql`>`, asc];
  const { id, createdAt, memberId } = pullRequests;
  const isOfList = list === 'member' ? eq(memberId, placeholder('memberId')) : undefined;
  const position = sql`(to_timestamp(${placeholder('createdAt')}), ${placeholder('id')})`;
  const isInPage = and(isOfOrganisation, isOfList, sql`(${createdAt}, ${id}) ${isPast} ${position}`);
  const name = `pull_requests_of_${list}_${direction}`;

  const upToHere = sql`(order by ${order(createdAt)}, ${order(id)} rows unbounded preceding)`;
  // A first row over the maximum counts as the maximum: it is always on the page. PostgreSQL stops reading at the second
  // row beyond, because a count can't fall.
  const withRowsBeyond = sql`
    select *, count(*) filter (where bytes > ${maxPageBytes}) over ${upToHere} as rows_beyond
    from (
      select *, sum(least(octet_length(${body}) + octet_length(${scoreBreakdown}::text), ${maxPageBytes}))
        over ${upToHere} as bytes
      from ${pullRequests} where ${isInPage}
    ) as pull_requests`;
  return {
    short: createSelection(
      name,
      query.select(shortFields).from(pullRequests).where(isInPage).orderBy(order(createdAt), order(id)),
      byteStrings,
    ),
    long: createSelection(
      `${name}_long`,
      query
        .select(longFields)
        .from(new Subquery<string, Record<string, unknown>>(withRowsBeyond, {}, 'pull_requests'))
        .where(sql`rows_beyond <= 1`)
        .orderBy(order(createdAt), order(id)),
      byteStrings,
    ),
  };
}

const pages = {
  organisation: { next: createPage('organisation', 'next'), previous: createPage('organisation', 'previous') },
  member: { next: createPage('member', 'next'), previous: createPage('member', 'previous') },
};

/** `createdAt` in Unix seconds, or the text `infinity`. */
export type PullRequestPosition = { createdAt: number | 'infinity'; id: string };

/** Comes before every pull request, so that the first page needs no statement of its own. */
export const beforeAllPullRequests: PullRequestPosition = {
  createdAt: 'infinity',
  id: 'ffffffff-ffff-ffff-ffff-ffffffffffff',
};

/** Without a body or breakdown, it only shows that the list goes on. */
export type PullRequestRow = RowOf<(typeof pages)['member']['next']['short']>;

export const isWhole = (row: PullRequestRow) => row.body !== null && row.scoreBreakdown !== null;

/**
 * Latest first; towards the previous page in reverse. If there are more rows than fit a page, the last one may not be
 * whole; at least one is.
 *
 * Windows cost half as much again as a page of ordinary rows. So the sum of bytes is only asked for if a row is long.
 */
export async function readPullRequestPage(
  database: Database,
  { organisationId, memberId }: { organisationId: string; memberId?: string },
  direction: Direction,
  from: PullRequestPosition,
  limit: number,
): Promise<PullRequestRow[]> {
  const { short, long } = pages[memberId === undefined ? 'organisation' : 'member'][direction];
  const values = { organisationId, memberId, ...from };
  const rows = await database[limit <= maxShortRows ? 'read' : 'readStep'](limited(short, limit), values);
  return rows.slice(0, limit - 1).every(isWhole) ? rows : database.readStep(limited(long, limit), values);
}

export async function findPullRequestRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read(pullRequestOfId, { organisationId, id });
  return row;
}

export type WholePullRequestRow = RowOf<typeof pullRequestsOfIds>;

/** By id. */
export async function findPullRequestRows(
  database: Database,
  organisationId: string,
  ids: readonly string[],
): Promise<Map<string, WholePullRequestRow>> {
  const rows = await database.readStep(pullRequestsOfIds, { organisationId, ids });
  return new Map(rows.map(row => [row.id, row]));
}

export const pullRequestExistsAnywhere = createExistsAnywhere('pull_request_anywhere', pullRequests);

export const countPullRequests = (executor: Executor, organisationId: string): Promise<number> =>
  executor.$count(pullRequests, eq(pullRequests.organisationId, organisationId));

/** A pull request's ids, here and on GitHub. */
export type PullRequestReference = Pick<StoredPullRequest, 'id' | 'githubId' | 'nodeId'>;

/** References of those that are stored, in any order. */
export function findPullRequestReferences(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
): Promise<PullRequestReference[]> {
  const { id, githubId, nodeId } = pullRequests;
  return executor
    .select({ id, githubId, nodeId })
    .from(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), inArray(id, [...ids])));
}

/** What commands show of a pull request. `repository` is `owner/name`. */
export type PullRequestDetails = Pick<StoredPullRequest, 'id' | 'number' | 'title' | 'url'> & { repository: string };

/** By id. */
export async function describePullRequests(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
): Promise<Map<string, PullRequestDetails>> {
  if (ids.length === 0) return new Map();
  const { id, number, title, url } = pullRequests;
  const rows = await executor
    .select({ id, repository: repositories.name, number, title, url })
    .from(pullRequests)
    .innerJoin(repositories, isInRepository)
    .where(and(eq(pullRequests.organisationId, organisationId), inArray(id, [...ids])));
  return new Map(rows.map(row => [row.id, row]));
}

/**
 * Deletes the pull request as {@link deletePullRequests} does. Runs in a transaction.
 *
 * @returns the address of its page; undefined if it was not there
 */
export async function deletePullRequest(
  executor: Executor,
  organisationId: string,
  id: string,
  ticket: number,
): Promise<string | undefined> {
  // A save under way holds this lock shared and ends first: its result is deleted. The next save sees the tombstone.
  await lockOrganisation(executor, organisationId, 'exclusive');
  const [deleted] = await deletePullRequests(executor, organisationId, eq(pullRequests.id, id), ticket);
  return deleted?.url;
}

/**
 * Deletes pull requests with their score changes, and leaves tombstones: no fetch that began before, or that finds
 * nothing newer, brings them back. The caller holds the organisation's exclusive lock.
 *
 * @param ticket drawn for this deletion
 * @returns those that it deleted
 */
export async function deletePullRequests(
  executor: Executor,
  organisationId: string,
  condition: SQL,
  ticket: number,
): Promise<Pick<StoredPullRequest, 'githubId' | 'url'>[]> {
  const { id, githubId, sourceUpdatedAt, url } = pullRequests;
  const deleted = await executor
    .delete(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), condition))
    .returning({ id, githubId, sourceUpdatedAt, url });
  if (deleted.length === 0) return [];
  const ids = deleted.map(row => row.id);
  await executor
    .delete(scoreChanges)
    .where(and(eq(scoreChanges.organisationId, organisationId), inArray(scoreChanges.pullRequestId, ids)));
  // They can't exist yet: the saves that stored the pull requests removed them.
  const rows = deleted.map(({ githubId, sourceUpdatedAt }) => ({ organisationId, githubId, sourceUpdatedAt, ticket }));
  await executor.insert(deletedPullRequests).values(rows);
  await recordChanges(executor, organisationId, ids, { isDeletion: true });
  return deleted;
}
