import { asc, getTableColumns, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { newId } from '../ids.ts';
import { recordChanges } from './change-log.ts';
import { expectLastCheckRuns } from './check-runs.ts';
import type { Executor } from './client.ts';
import { TransactionOvertaken } from './driver-errors.ts';
import { fields } from './pull-requests.ts';
import { createFindByGithubId, createRemoveByGithubId } from './rows-by-github-id.ts';
import { deletedPullRequests, pullRequests, scoreChanges } from './schema.ts';
import { hasGithubId, sortedForLocking } from './statement.ts';

/*
 * Saves fetched pull requests, in a transaction that holds the organisation's lock. To avoid deadlocks, stored rows are
 * locked in the order of our ids, as re-scoring does, and new rows are inserted in the order of GitHub's.
 */

type PullRequestValues = Omit<typeof pullRequests.$inferInsert, 'organisationId' | 'id' | 'factsVersion' | 'changedBy'>;

/** Raise it with each new column for a fact: see `newerColumns`. */
const factsVersion = 3;

type KnownPullRequest = Pick<typeof pullRequests.$inferSelect, 'memberId' | 'closedAt' | 'score' | 'changedBy'>;

/** Locks those that are stored. @returns by GitHub id */
export async function lockPullRequests(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, KnownPullRequest>> {
  const { githubId, memberId, closedAt, score, changedBy } = pullRequests;
  const rows = await executor
    .select({ githubId, memberId, closedAt, score, changedBy })
    .from(pullRequests)
    .where(hasGithubId(pullRequests, organisationId, githubIds))
    .orderBy(asc(pullRequests.id))
    .for('update');
  return new Map(rows.map(({ githubId, ...known }) => [githubId, known]));
}

/** Those that were deleted here and have not come back, by GitHub id, with the deletion's ticket. */
export const findTombstones = createFindByGithubId(deletedPullRequests);

export const removeTombstones = createRemoveByGithubId(deletedPullRequests);

const keptColumns = new Set(['organisationId', 'id', 'githubId', 'changedBy']);

const excluded = ({ name }: PgColumn) => sql.raw(`excluded."${name}"`);

const columns: Record<string, PgColumn> = getTableColumns(pullRequests);

/** Every column that comes from a fetch, set to the row that was to be inserted. */
const fetchedColumns: Record<string, SQL> = Object.fromEntries(
  Object.entries(columns)
    .filter(([property]) => !keptColumns.has(property))
    .map(([property, column]) => [property, excluded(column)]),
);

/** The columns that any version shows. Two have other names there, and names of repositories are in `url`. */
const shownColumns = [...Object.keys(fields), 'sourceUpdatedAt', 'repositoryId'].flatMap(property =>
  keptColumns.has(property) ? [] : (columns[property] ?? []),
);

const rowOf = (expressionOf: (column: PgColumn) => SQL) => {
  const values = shownColumns.map(column =>
    // `json` can't be compared.
    column.getSQLType() === 'json' ? sql`${expressionOf(column)}::text` : expressionOf(column),
  );
  return sql`(${sql.join(values, sql`, `)})`;
};

/** Stays as it is if clients see no difference. */
const changedBy = sql`case when ${rowOf(column => sql`${column}`)} is distinct from ${rowOf(excluded)}
  then excluded.changed_by else ${pullRequests.changedBy} end`;

/**
 * Inserts or updates the pull requests, each whole or not at all: a row stays as it is if its
 * (`source_updated_at`, `fetch_ticket`) is ahead of the given pair. Records every change of a score.
 *
 * @param known the result of {@link lockPullRequests}
 * @returns `saved`: GitHub ids of those that were written; `isVisible`: clients see a difference
 */
export async function savePullRequests(
  executor: Executor,
  organisationId: string,
  values: readonly PullRequestValues[],
  known: ReadonlyMap<number, KnownPullRequest>,
): Promise<{ saved: Set<number>; isVisible: boolean }> {
  if (values.length === 0) return { saved: new Set(), isVisible: false };
  const rows = await executor
    .insert(pullRequests)
    .values(
      sortedForLocking(values).map(value => ({
        organisationId,
        id: newId(),
        factsVersion,
        changedBy: sql`pg_current_xact_id()`,
        ...value,
      })),
    )
    .onConflictDoUpdate({
      target: [pullRequests.organisationId, pullRequests.githubId],
      set: { ...fetchedColumns, changedBy },
      setWhere: sql`(${pullRequests.sourceUpdatedAt}, ${pullRequests.fetchTicket})
        <= (excluded.source_updated_at, excluded.fetch_ticket)`,
    })
    .returning({
      id: pullRequests.id,
      githubId: pullRequests.githubId,
      closedAt: pullRequests.closedAt,
      score: pullRequests.score,
      rulesetVersion: pullRequests.rulesetVersion,
      changedBy: pullRequests.changedBy,
      // xmax is 0 only in a row that this statement inserted: one that it updated was locked first.
      inserted: sql<boolean>`(pull_requests.xmax = 0)`,
    });

  const scoresChanged: (typeof scoreChanges.$inferInsert)[] = [];
  const changed: string[] = [];
  const reopened: string[] = [];
  for (const row of rows) {
    const before = known.get(row.githubId);
    // Another replica inserted it between our two statements: start again and find it.
    if (before === undefined && !row.inserted) throw new TransactionOvertaken();
    if (before?.changedBy !== row.changedBy) changed.push(row.id);
    // It may be closed again already.
    if (before !== undefined && before.closedAt !== null && before.closedAt !== row.closedAt) reopened.push(row.id);
    if (before?.score === row.score) continue;
    scoresChanged.push({
      organisationId,
      pullRequestId: row.id,
      fromScore: before?.score ?? null,
      toScore: row.score,
      cause: 'pull_request',
      rulesetVersion: row.rulesetVersion,
    });
  }
  if (scoresChanged.length > 0) await executor.insert(scoreChanges).values(scoresChanged);
  await recordChanges(executor, organisationId, changed);
  await expectLastCheckRuns(executor, organisationId, reopened);
  return { saved: new Set(rows.map(row => row.githubId)), isVisible: changed.length > 0 };
}
