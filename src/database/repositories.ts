import { and, eq, isNotNull, isNull, lt, or, sql } from 'drizzle-orm';
import type { PgInsertValue, PgUpdateSetSource } from 'drizzle-orm/pg-core';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { renewContentVersion } from './content-versions.ts';
import { TransactionOvertaken } from './driver-errors.ts';
import { lockOrganisation } from './organisations.ts';
import { requestRescoring } from './rescore-ranges.ts';
import { createFindByGithubId } from './rows-by-github-id.ts';
import { repositories } from './schema.ts';
import { asTable, hasGithubId, sortedForLocking } from './statement.ts';
import { requestUntrackedByRepository } from './untracked-pull-requests.ts';

export type StoredRepository = typeof repositories.$inferSelect;

type RepositoryValues = Pick<StoredRepository, 'githubId' | 'nodeId' | 'name'>;

/** Those that are stored, by GitHub id. */
export const findRepositories = createFindByGithubId(repositories);

const githubIdsOf = (values: readonly Pick<RepositoryValues, 'githubId'>[]) => values.map(({ githubId }) => githubId);

/** Whether GitHub's answer changes the name or node id of a stored repository. A row from a newer fetch stays. */
const isRenamed = (stored: StoredRepository, ticket: number, { name, nodeId }: RepositoryValues): boolean =>
  stored.fetchTicket <= ticket && (stored.name !== name || stored.nodeId !== nodeId);

/** The repository as {@link saveRepositories} would leave it. */
export function savedRepository(
  stored: ReadonlyMap<number, StoredRepository>,
  ticket: number,
  value: RepositoryValues,
): Pick<RepositoryValues, 'name'> {
  const row = stored.get(value.githubId);
  return row === undefined || isRenamed(row, ticket, value) ? value : row;
}

/** Whether a repository that had left, or was ignored, is tracked now. A row from a newer fetch stays. */
const hasReturned = (stored: StoredRepository, ticket: number): boolean =>
  stored.fetchTicket <= ticket && stored.leftAt !== null;

/**
 * Whether {@link saveRepositories} takes the organisation's exclusive lock. It does to rename one: otherwise a pull request
 * could be scored by the former name at the same time. And it does if one is tracked again: otherwise a pull request of it
 * could be set aside at the same time, and nothing would ask for it.
 */
export const needsExclusiveLock = (
  stored: ReadonlyMap<number, StoredRepository>,
  ticket: number,
  values: readonly RepositoryValues[],
): boolean =>
  values.some(value => {
    const row = stored.get(value.githubId);
    return row !== undefined && (isRenamed(row, ticket, value) || hasReturned(row, ticket));
  });

/**
 * Adds new repositories that the organisation tracks and renames known ones, whose pull requests are then scored again:
 * rules can depend on names. One that had left or was ignored loses its mark. A repository from a newer fetch stays as
 * it is. Runs in a transaction, before anything else in it locks repositories: others hold the organisation's lock, which
 * this may wait for, when they do.
 *
 * @param ticket drawn before GitHub was asked
 * @param lockedRows what {@link findRepositories} found under the organisation's lock, if the caller holds that. It must be
 * exclusive if {@link needsExclusiveLock} says so.
 * @returns by GitHub id, with the stored name, which may be from a newer fetch
 */
export async function saveRepositories(
  executor: Executor,
  organisationId: string,
  ticket: number,
  values: readonly RepositoryValues[],
  lockedRows?: ReadonlyMap<number, StoredRepository>,
): Promise<Map<number, Pick<StoredRepository, 'id' | 'name'>>> {
  const wanted = sortedForLocking(values);
  if (wanted.length === 0) return new Map();
  const stored = lockedRows ?? (await findRepositories(executor, organisationId, githubIdsOf(wanted)));
  const found = new Map<number, Pick<StoredRepository, 'id' | 'name'>>(stored);
  const changed = wanted.filter(value => {
    const row = stored.get(value.githubId);
    return row === undefined || isRenamed(row, ticket, value) || hasReturned(row, ticket);
  });
  if (changed.length === 0) return found;
  const renames = changed.some(value => {
    const row = stored.get(value.githubId);
    return row !== undefined && isRenamed(row, ticket, value);
  });
  if (lockedRows === undefined && needsExclusiveLock(stored, ticket, changed)) {
    await lockOrganisation(executor, organisationId, 'exclusive');
  }
  const rows = changed.map(value => ({ ...newRow(organisationId, value), fetchTicket: ticket }));
  const names = { nodeId: sql`excluded.node_id`, name: sql`excluded.name` };
  const saved = await upsert(executor, rows, { ...names, leftAt: null, ignoredBecause: null, fetchTicket: ticket });
  const expected = saved.filter(({ githubId, inserted }) => inserted !== found.has(githubId));
  // Another replica added or renamed one between our two statements: start again and find it.
  if (expected.length < changed.length) throw new TransactionOvertaken();
  if (renames) {
    await requestRescoring(executor, organisationId, { urlsStale: true });
    await renewContentVersion(executor, organisationId);
  }
  if ([...stored.values()].some(row => hasReturned(row, ticket))) {
    while (await requestUntrackedByRepository(executor, organisationId));
    // Their check runs may be out of date. With the organisation's lock, the caller goes on, and renews it at its end.
    if (lockedRows === undefined) await renewContentVersion(executor, organisationId, { isVisible: false });
  }
  for (const { githubId, id, name } of saved) found.set(githubId, { id, name });
  return found;
}

/**
 * Renews the tickets of repositories whose stored names GitHub has just confirmed: an older answer with another name
 * may still be on its way.
 */
export async function confirmNames(
  executor: Executor,
  organisationId: string,
  ticket: number,
  values: readonly RepositoryValues[],
): Promise<void> {
  await executor.execute(sql`
    update repositories set fetch_ticket = ${ticket}
    from ${asTable(values, 'called', '"githubId" bigint, name text')}
    where repositories.organisation_id = ${organisationId} and repositories.github_id = called."githubId"
      and repositories.name = called.name and repositories.fetch_ticket < ${ticket}`);
}

/**
 * Repositories missing from GitHub's list, chosen at random: some may be missing for ever.
 *
 * @param ticket of the list
 */
export function findUnlistedRepositories(
  executor: Executor,
  organisationId: string,
  ticket: number,
  limit: number,
): Promise<StoredRepository[]> {
  const { fetchTicket, leftAt, ignoredBecause } = repositories;
  const isExpected = or(isNull(leftAt), isNotNull(ignoredBecause));
  return executor
    .select()
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), isExpected, lt(fetchTicket, ticket)))
    .orderBy(sql`random()`)
    .limit(limit);
}

/**
 * Marks repositories that are no longer in the organisation. One from a newer fetch stays as it is.
 *
 * @returns names of those that were marked
 */
export async function markRepositoriesLeft(
  executor: Executor,
  organisationId: string,
  ticket: number,
  githubIds: readonly number[],
): Promise<string[]> {
  const marked = await executor
    .update(repositories)
    .set({ leftAt: sql`now()`, ignoredBecause: null, fetchTicket: ticket })
    .where(and(hasGithubId(repositories, organisationId, githubIds), lt(repositories.fetchTicket, ticket)))
    .returning({ name: repositories.name });
  return marked.map(({ name }) => name);
}

/**
 * Marks repositories that belong to other owners as those that have left, and ignored ones. Ones that are not stored are
 * added, so that their return is seen; others keep their names, with which their pull requests were scored. A repository
 * from a newer fetch stays as it is.
 *
 * @param values `ignoredBecause`: null if it belongs to another owner
 */
export async function saveUntrackedRepositories(
  executor: Executor,
  organisationId: string,
  ticket: number,
  values: readonly (RepositoryValues & Pick<StoredRepository, 'ignoredBecause'>)[],
): Promise<void> {
  const stored = await findRepositories(executor, organisationId, githubIdsOf(values));
  const changed = sortedForLocking(values).filter(({ githubId, ignoredBecause }) => {
    const row = stored.get(githubId);
    return row === undefined || row.leftAt === null || row.ignoredBecause !== ignoredBecause;
  });
  const rows = changed.map(value => ({
    ...newRow(organisationId, value),
    ignoredBecause: value.ignoredBecause,
    leftAt: sql`now()`,
    fetchTicket: ticket,
  }));
  const marks = { leftAt: sql`excluded.left_at`, ignoredBecause: sql`excluded.ignored_because` };
  await upsert(executor, rows, { ...marks, fetchTicket: ticket });
}

const newRow = (organisationId: string, { githubId, nodeId, name }: RepositoryValues) => ({
  organisationId,
  id: newId(),
  githubId,
  nodeId,
  name,
});

/**
 * Adds rows. A stored one gets the columns of `set`, unless it is from a newer fetch.
 *
 * @returns those that were added or changed
 */
async function upsert(
  executor: Executor,
  rows: readonly PgInsertValue<typeof repositories>[],
  set: PgUpdateSetSource<typeof repositories>,
) {
  const { organisationId, id, githubId, name, fetchTicket } = repositories;
  // xmax is 0 only in a row that this statement inserted: one that it updated was locked first.
  const inserted = sql<boolean>`(repositories.xmax = 0)`;
  const target = [organisationId, githubId];
  const setWhere = sql`${fetchTicket} <= excluded.fetch_ticket`;
  const saved = [];
  // A statement takes at most 65,535 parameters.
  for (let start = 0; start < rows.length; start += 1_000) {
    const insertion = executor.insert(repositories).values(rows.slice(start, start + 1_000));
    const update = insertion.onConflictDoUpdate({ target, set, setWhere });
    saved.push(...(await update.returning({ id, githubId, name, inserted })));
  }
  return saved;
}

export interface ImportPlace {
  /** GitHub's cursor of the last page that was saved; null before the first. */
  after: string | null;
  /** The interrupted import, which the caller continues, has read all of the repository. */
  finished: boolean;
  /** The interrupted import has started or finished it. */
  begun: boolean;
}

/**
 * Where an import of the repositories starts, or continues if one was interrupted: `import_cursor` is set until all of the
 * repository is read, and `imported_at`, until the import ends, is when it started.
 *
 * @param maxAgeMs an older import is not continued
 * @returns places of those that are stored, by GitHub id
 */
export async function findImportPlaces(
  executor: Executor,
  organisationId: string,
  wanted: readonly Pick<RepositoryValues, 'githubId'>[],
  maxAgeMs: number,
): Promise<Map<number, ImportPlace>> {
  const rows = [...(await findRepositories(executor, organisationId, githubIdsOf(wanted))).values()];
  const oldest = Date.now() - maxAgeMs;
  const places = rows.map(({ githubId, importCursor, importedAt }) => {
    const startedAt = importedAt?.getTime() ?? 0;
    return { githubId, startedAt, isImported: importCursor === null, cursor: startedAt < oldest ? null : importCursor };
  });
  const since = Math.min(...places.filter(({ cursor }) => cursor !== null).map(({ startedAt }) => startedAt));
  return new Map(
    places.map(({ githubId, startedAt, isImported, cursor }) => {
      const finished = isImported && startedAt >= since;
      return [githubId, { after: cursor || null, finished, begun: cursor !== null || finished }];
    }),
  );
}

/** Starts an import of stored repositories, or continues an interrupted one. Runs in a transaction. */
export async function beginImport(
  executor: Executor,
  organisationId: string,
  wanted: readonly Pick<RepositoryValues, 'githubId'>[],
  maxAgeMs: number,
): Promise<Map<number, ImportPlace>> {
  const places = await findImportPlaces(executor, organisationId, wanted, maxAgeMs);
  const fresh = [...places].flatMap(([githubId, { begun }]) => (begun ? [] : [githubId]));
  if (fresh.length > 0) {
    await executor
      .update(repositories)
      .set({ importCursor: '', importedAt: sql`now()` })
      .where(hasGithubId(repositories, organisationId, fresh));
  }
  return places;
}

/**
 * Ends an import of the repositories that was not interrupted. Those that it could not read in full keep their places, but
 * the others no longer count as finished: the next import reads them again.
 */
export async function endImport(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<void> {
  await executor
    .update(repositories)
    .set({ importedAt: null })
    .where(and(hasGithubId(repositories, organisationId, githubIds), isNull(repositories.importCursor)));
}

/** How far the import or the comparison of a repository is. */
export async function saveProgress(
  executor: Executor,
  organisationId: string,
  githubId: number,
  progress: Partial<Pick<StoredRepository, 'importCursor' | 'comparedAt'>>,
): Promise<void> {
  await executor
    .update(repositories)
    .set(progress)
    .where(hasGithubId(repositories, organisationId, [githubId]));
}

/** Those that the organisation ignores, by name. */
export const listIgnoredRepositories = (executor: Executor, organisationId: string): Promise<StoredRepository[]> =>
  executor
    .select()
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), isNotNull(repositories.ignoredBecause)))
    .orderBy(sql`lower(${repositories.name})`);
