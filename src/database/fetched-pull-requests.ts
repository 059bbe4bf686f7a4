import { and, asc, eq, getTableColumns, inArray, type SQL, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { TransactionOvertaken } from './failures.ts';
import { deletedPullRequests, pullRequests, scoreChanges } from './schema.ts';

/*
 * What saving fetched pull requests needs, within the transaction that holds the organisation's ruleset version.
 * Stored rows are locked in the order of our ids, in which they are scored anew, too; new ones come in the order of
 * GitHub's: two savers, or a saver and a re-scoring, hardly ever wait for each other in a ring.
 */

export type PullRequestValues = Omit<typeof pullRequests.$inferInsert, 'organisationId' | 'id'>;

export interface KnownPullRequest {
  memberId: string;
  score: number;
}

/** Locks those of them that are stored. */
export async function lockPullRequests(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, KnownPullRequest>> {
  const rows = await executor
    .select({ githubId: pullRequests.githubId, memberId: pullRequests.memberId, score: pullRequests.score })
    .from(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), inArray(pullRequests.githubId, [...githubIds])))
    .orderBy(asc(pullRequests.id))
    .for('update');
  return new Map(rows.map(({ githubId, ...known }) => [githubId, known]));
}

/** Those of them that were deleted here and have not come back, with the deletion's ticket. */
export async function findTombstones(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, { sourceUpdatedAt: number; ticket: number }>> {
  const rows = await executor
    .select()
    .from(deletedPullRequests)
    .where(
      and(
        eq(deletedPullRequests.organisationId, organisationId),
        inArray(deletedPullRequests.githubId, [...githubIds]),
      ),
    );
  return new Map(rows.map(row => [row.githubId, row]));
}

export async function removeTombstones(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<void> {
  if (githubIds.length === 0) return;
  await executor
    .delete(deletedPullRequests)
    .where(
      and(
        eq(deletedPullRequests.organisationId, organisationId),
        inArray(deletedPullRequests.githubId, [...githubIds]),
      ),
    );
}

const keptColumns = new Set(['organisationId', 'id', 'githubId']);

/** Every column that a fetch decides, from the row that was to be inserted. */
const fetchedColumns: Record<string, SQL> = Object.fromEntries(
  Object.entries(getTableColumns(pullRequests))
    .filter(([property]) => !keptColumns.has(property))
    .map(([property, column]) => [property, sql.raw(`excluded."${column.name}"`)]),
);

/**
 * Inserts or updates the pull requests, each whole or not at all: a row stays as it is where its
 * (`source_updated_at`, `fetch_ticket`) is ahead of the given pair. Records every change of a score.
 *
 * @param known what {@link lockPullRequests} found of them
 * @returns the GitHub ids of those that were written
 */
export async function savePullRequests(
  executor: Executor,
  organisationId: string,
  values: readonly PullRequestValues[],
  known: ReadonlyMap<number, KnownPullRequest>,
): Promise<Set<number>> {
  if (values.length === 0) return new Set();
  const saved = await executor
    .insert(pullRequests)
    .values(
      [...values].sort((a, b) => a.githubId - b.githubId).map(value => ({ organisationId, id: newId(), ...value })),
    )
    .onConflictDoUpdate({
      target: [pullRequests.organisationId, pullRequests.githubId],
      set: fetchedColumns,
      setWhere: sql`(${pullRequests.sourceUpdatedAt}, ${pullRequests.fetchTicket})
        <= (excluded.source_updated_at, excluded.fetch_ticket)`,
    })
    .returning({
      id: pullRequests.id,
      githubId: pullRequests.githubId,
      score: pullRequests.score,
      rulesetVersion: pullRequests.rulesetVersion,
      // Only a row that this statement inserted has no earlier version that it locked.
      inserted: sql<boolean>`(pull_requests.xmax = 0)`,
    });

  const changes: (typeof scoreChanges.$inferInsert)[] = [];
  for (const row of saved) {
    const before = known.get(row.githubId);
    // Another replica saw it first between our two statements: begin again and find it.
    if (before === undefined && !row.inserted) throw new TransactionOvertaken();
    if (before?.score === row.score) continue;
    changes.push({
      organisationId,
      pullRequestId: row.id,
      fromScore: before?.score ?? null,
      toScore: row.score,
      cause: 'pull_request',
      rulesetVersion: row.rulesetVersion,
    });
  }
  if (changes.length > 0) await executor.insert(scoreChanges).values(changes);
  return new Set(saved.map(row => row.githubId));
}
