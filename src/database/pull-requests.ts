import { and, eq, inArray } from 'drizzle-orm';
import type { Database, Executor } from './client.ts';
import { lockOrganisation } from './organisations.ts';
import { deletedPullRequests, pullRequests, scoreChanges } from './schema.ts';

export type StoredPullRequest = typeof pullRequests.$inferSelect;

/** The specification's fields in PostgreSQL's text format; `createdAt` in Unix seconds. */
export type PullRequestRow = [
  id: string,
  createdAt: string,
  memberId: string,
  githubId: string,
  number: string,
  url: string,
  state: string,
  title: string,
  body: string,
  additions: string,
  deletions: string,
  commits: string,
  changedFiles: string,
  score: string,
  scoreBreakdown: string,
];

// Not as JSON: with `to_json` a page takes PostgreSQL two thirds more time, and saves this process nothing.
const columns = `id, extract(epoch from created_at)::bigint, member_id, github_id, number, url, state, title, body,
  additions, deletions, commits, changed_files, score, score_breakdown`;

type Direction = 'next' | 'previous';

/**
 * The limit is in the text, not in a parameter: only then does PostgreSQL see that an index scan is always cheap, and
 * plans the statement once per connection instead of once per request.
 */
const page = (list: 'organisation' | 'member', direction: Direction, limit: number) => ({
  name: `pull_requests_of_${list}_${direction}_${limit}`,
  text: `select ${columns} from pull_requests
    where organisation_id = $1 and ${list === 'member' ? 'member_id = $4 and' : ''}
      (created_at, id) ${direction === 'next' ? '<' : '>'} (to_timestamp($2), $3)
    order by ${direction === 'next' ? 'created_at desc, id desc' : 'created_at, id'} limit ${Math.trunc(limit)}`,
});

const ofId = {
  name: 'pull_request_of_id',
  text: `select ${columns} from pull_requests where organisation_id = $1 and id = $2`,
};

/** Probes one index entry per organisation; runs only if the caller's own has no such pull request. */
const anywhere = {
  name: 'pull_request_anywhere',
  text: `select exists (select from organisations join pull_requests on organisation_id = organisations.id
    where pull_requests.id = $1)`,
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
  const values = [organisationId, from.createdAt, from.id];
  return memberId === undefined
    ? database.read(page('organisation', direction, limit), values)
    : database.read(page('member', direction, limit), [...values, memberId]);
}

export async function findPullRequestRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read<PullRequestRow>(ofId, [organisationId, id]);
  return row;
}

export async function pullRequestExistsAnywhere(database: Database, id: string): Promise<boolean> {
  const [row] = await database.read(anywhere, [id]);
  return row?.[0] === 't';
}

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

/**
 * Deletes the pull request and leaves a tombstone: no fetch that began before, or that finds nothing newer, brings it
 * back. Runs in a transaction.
 *
 * @param ticket drawn for this deletion: a repeated transaction recognises its own tombstone by it
 * @returns false if the pull request does not exist
 */
export async function deletePullRequest(
  executor: Executor,
  organisationId: string,
  id: string,
  ticket: number,
): Promise<boolean> {
  // A save under way holds this lock shared and ends first: its result is deleted. The next save sees the tombstone.
  await lockOrganisation(executor, organisationId, 'exclusive');
  const [deleted] = await executor
    .delete(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), eq(pullRequests.id, id)))
    .returning({ githubId: pullRequests.githubId, sourceUpdatedAt: pullRequests.sourceUpdatedAt });
  if (deleted === undefined) {
    const [own] = await executor
      .select({ ticket: deletedPullRequests.ticket })
      .from(deletedPullRequests)
      .where(and(eq(deletedPullRequests.organisationId, organisationId), eq(deletedPullRequests.ticket, ticket)));
    return own !== undefined;
  }
  await executor
    .delete(scoreChanges)
    .where(and(eq(scoreChanges.organisationId, organisationId), eq(scoreChanges.pullRequestId, id)));
  // It can't exist yet: the save that stored the pull request removed it.
  await executor.insert(deletedPullRequests).values({ organisationId, ...deleted, ticket });
  return true;
}
