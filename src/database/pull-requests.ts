import { and, eq, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { recordChanges } from './change-log.ts';
import type { Database, Executor } from './client.ts';
import { createExistsAnywhere } from './organisations.ts';
import { deletedPullRequests, pullRequests, repositories, scoreChanges } from './schema.ts';
import { createSelection, isOneOf, placeholder, query, type RowOf } from './statement.ts';

export type StoredPullRequest = typeof pullRequests.$inferSelect;

/** Joins pull requests with their repositories. */
export const isInRepository = and(
  eq(repositories.organisationId, pullRequests.organisationId),
  eq(repositories.id, pullRequests.repositoryId),
);

/** Whether the repository is still in the organisation, and not ignored: pull requests of others are not fetched. */
export const isInPresentRepository = (organisationId: string) =>
  sql`${pullRequests.repositoryId} not in (
    select id from repositories where organisation_id = ${organisationId} and left_at is not null)`;

// With `extract`, decimals would take a tenth of a page's time in PostgreSQL. Times on GitHub are whole seconds.
const unixSeconds = (column: PgColumn) => sql<number>`date_part('epoch', ${column})::bigint`;

/** What clients of every version are shown. Times are in Unix seconds. */
// Not as JSON: with `to_json` a page takes PostgreSQL two thirds more time, and saves this process nothing.
export const sharedFields = {
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
};

/** What clients of the newest version are shown. */
export const fields = {
  ...sharedFields,
  author: pullRequests.author,
  labels: sql<string>`array_to_json(${pullRequests.labels})`,
  base: pullRequests.base,
  updatedAt: unixSeconds(pullRequests.sourceUpdatedAt),
  mergedAt: sql<number | null>`${unixSeconds(pullRequests.mergedAt)}`,
  closedAt: sql<number | null>`${unixSeconds(pullRequests.closedAt)}`,
  rulesetVersion: pullRequests.rulesetVersion,
  reviewScores: pullRequests.reviewScores,
  repository: sql<string>`(select ${repositories.name} from ${repositories} where ${isInRepository})`,
};

/**
 * What clients that follow changes are shown: the repository's name as it is in `url`. Both follow a renaming when the pull
 * request is scored again, which is a change. The other name is there before, and could be gone again by then.
 */
export const followedFields = {
  ...fields,
  // A regular expression would take a third of a page's time in PostgreSQL.
  repository: sql<string>`case split_part(${pullRequests.url}, '/', -2)
    when 'pull' then split_part(${pullRequests.url}, '/', -4) || '/' || split_part(${pullRequests.url}, '/', -3)
    else ${fields.repository} end`,
};

/** Texts of people; the others are ASCII. */
export const byteStrings = [
  'url',
  'title',
  'body',
  'scoreBreakdown',
  'reviewScores',
  'author',
  'labels',
  'base',
  'repository',
] as const;

export const isOfOrganisation = eq(pullRequests.organisationId, placeholder('organisationId'));
const hasId = eq(pullRequests.id, placeholder('id'));

const pullRequestOfId = createSelection(
  'pull_request_of_id',
  query.select(fields).from(pullRequests).where(and(isOfOrganisation, hasId)),
  byteStrings,
);

const pullRequestsOfIds = createSelection(
  'pull_requests_of_ids',
  query
    .select(followedFields)
    .from(pullRequests)
    .where(and(isOfOrganisation, sql`${pullRequests.id} = any(${placeholder('ids')}::uuid[])`)),
  byteStrings,
);

export async function findPullRequestRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read(pullRequestOfId, { organisationId, id });
  return row;
}

type WholePullRequestRow = RowOf<typeof pullRequestsOfIds>;

/** By id, as clients that follow changes are shown them. */
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

/** `repository` is `owner/name`; `ignoredBecause` says why it is ignored, and is null if it is not. */
export type PullRequestReference = Pick<StoredPullRequest, 'id' | 'nodeId' | 'number' | 'title' | 'url'> & {
  repository: string;
  ignoredBecause: string | null;
};

/** References of those that are stored, by id. */
export async function findPullRequestReferences(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
): Promise<Map<string, PullRequestReference>> {
  if (ids.length === 0) return new Map();
  const { id, nodeId, number, title, url } = pullRequests;
  const { name: repository, ignoredBecause } = repositories;
  const rows = await executor
    .select({ id, nodeId, number, title, url, repository, ignoredBecause })
    .from(pullRequests)
    .innerJoin(repositories, isInRepository)
    .where(and(eq(pullRequests.organisationId, organisationId), isOneOf(id, ids)));
  return new Map(rows.map(row => [row.id, row]));
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
  ids: readonly string[],
  ticket: number,
): Promise<Pick<StoredPullRequest, 'githubId' | 'url'>[]> {
  const { id, githubId, sourceUpdatedAt, url } = pullRequests;
  const deleted = await executor
    .delete(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), isOneOf(id, ids)))
    .returning({ id, githubId, sourceUpdatedAt, url });
  if (deleted.length === 0) return [];
  const deletedIds = deleted.map(row => row.id);
  await executor
    .delete(scoreChanges)
    .where(and(eq(scoreChanges.organisationId, organisationId), isOneOf(scoreChanges.pullRequestId, deletedIds)));
  // They can't exist yet: the saves that stored the pull requests removed them.
  const rows = deleted.map(({ githubId, sourceUpdatedAt }) => ({ organisationId, githubId, sourceUpdatedAt, ticket }));
  await executor.insert(deletedPullRequests).values(rows);
  await recordChanges(executor, organisationId, deletedIds, { isDeletion: true });
  return deleted;
}
