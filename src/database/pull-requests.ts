import { and, asc, desc, eq, inArray, type SQL, sql } from 'drizzle-orm';
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

/** The specification's fields, and `createdAt` in Unix seconds. */
// Not as JSON: with `to_json` a page takes PostgreSQL two thirds more time, and saves this process nothing.
const fields = {
  id: pullRequests.id,
  createdAt: sql<number>`extract(epoch from ${pullRequests.createdAt})::bigint`,
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
};

const isOfOrganisation = eq(pullRequests.organisationId, placeholder('organisationId'));
const hasId = eq(pullRequests.id, placeholder('id'));

const pullRequestOfId = createSelection(
  'pull_request_of_id',
  query.select(fields).from(pullRequests).where(and(isOfOrganisation, hasId)),
  { givesByteStrings: true },
);

/** Its texts are byte strings. */
export type PullRequestRow = RowOf<typeof pullRequestOfId>;

type Direction = 'next' | 'previous';

function createPage(list: 'organisation' | 'member', direction: Direction) {
  const [isPast, order] = direction === 'next' ? [sql`<`, desc] : [sql`>`, asc];
  const { id, createdAt, memberId } = pullRequests;
  const isOfList = list === 'member' ? eq(memberId, placeholder('memberId')) : undefined;
  const position = sql`(to_timestamp(${placeholder('createdAt')}), ${placeholder('id')})`;
  return createSelection(
    `pull_requests_of_${list}_${direction}`,
    query
      .select(fields)
      .from(pullRequests)
      .where(and(isOfOrganisation, isOfList, sql`(${createdAt}, ${id}) ${isPast} ${position}`))
      .orderBy(order(createdAt), order(id)),
    { givesByteStrings: true },
  );
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

/** Latest first; towards the previous page in reverse. */
export function readPullRequestPage(
  database: Database,
  { organisationId, memberId }: { organisationId: string; memberId?: string },
  direction: Direction,
  from: PullRequestPosition,
  limit: number,
): Promise<PullRequestRow[]> {
  const page = pages[memberId === undefined ? 'organisation' : 'member'][direction];
  return database.read(limited(page, limit), { organisationId, memberId, ...from });
}

export async function findPullRequestRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read(pullRequestOfId, { organisationId, id });
  return row;
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
  await executor
    .insert(deletedPullRequests)
    .values(
      deleted.map(row => ({ organisationId, githubId: row.githubId, sourceUpdatedAt: row.sourceUpdatedAt, ticket })),
    );
  return deleted;
}
