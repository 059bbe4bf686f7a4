import { and, eq, inArray, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { requestRescoring } from './rescoring.ts';
import { repositories } from './schema.ts';

export interface RepositoryValues {
  githubId: number;
  nodeId: string;
  /** `owner/name` */
  name: string;
}

/**
 * Adds those that are new and renames those that have another name, which rules can depend on.
 *
 * @returns ids by GitHub id
 */
export async function saveRepositories(
  executor: Executor,
  organisationId: string,
  values: readonly RepositoryValues[],
): Promise<Map<number, string>> {
  const wanted = [...new Map(values.map(value => [value.githubId, value])).values()].sort(
    (a, b) => a.githubId - b.githubId,
  );
  if (wanted.length === 0) return new Map();
  const githubIds = wanted.map(repository => repository.githubId);
  const known = await executor
    .select({
      id: repositories.id,
      githubId: repositories.githubId,
      nodeId: repositories.nodeId,
      name: repositories.name,
    })
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), inArray(repositories.githubId, githubIds)));
  const ids = new Map(known.map(repository => [repository.githubId, repository.id]));
  const changed = wanted.filter(
    value =>
      !known.some(one => one.githubId === value.githubId && one.name === value.name && one.nodeId === value.nodeId),
  );
  if (changed.length === 0) return ids;
  const saved = await executor
    .insert(repositories)
    .values(changed.map(({ githubId, nodeId, name }) => ({ organisationId, id: newId(), githubId, nodeId, name })))
    .onConflictDoUpdate({
      target: [repositories.organisationId, repositories.githubId],
      set: { nodeId: sql`excluded.node_id`, name: sql`excluded.name` },
    })
    .returning({ id: repositories.id, githubId: repositories.githubId });
  for (const repository of saved) ids.set(repository.githubId, repository.id);
  if (saved.some(({ githubId }) => known.some(one => one.githubId === githubId))) {
    await requestRescoring(executor, organisationId);
  }
  return ids;
}

export interface ImportPlace {
  /** The repository's id. */
  id: string;
  /** GitHub's cursor of the last page that came in; null before the first. */
  after: string | null;
  /** It was finished by the import that was interrupted, which the caller goes on with. */
  finished: boolean;
}

/** Stands for the place before the first page. */
const atTheStart = '';

/**
 * Begins an import of the repositories, or finds where an interrupted one stands: `import_cursor` is set from an
 * import's beginning to its end, and `imported_at` is its beginning. Runs in a transaction.
 *
 * @returns by GitHub id
 */
export async function beginImport(
  executor: Executor,
  organisationId: string,
  values: readonly RepositoryValues[],
): Promise<Map<number, ImportPlace>> {
  const ids = [...(await saveRepositories(executor, organisationId, values)).values()];
  const rows = await executor
    .select({
      id: repositories.id,
      githubId: repositories.githubId,
      cursor: repositories.importCursor,
      beganAt: repositories.importedAt,
    })
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), inArray(repositories.id, ids)));
  const interrupted = rows.flatMap(({ cursor, beganAt }) => (cursor === null ? [] : [beganAt?.getTime() ?? 0]));
  const since = Math.min(...interrupted);
  const places = rows.map(({ id, githubId, cursor, beganAt }) => {
    const finished = cursor === null && beganAt !== null && beganAt.getTime() >= since;
    return [githubId, { id, after: cursor || null, finished, fresh: cursor === null && !finished }] as const;
  });
  const fresh = places.flatMap(([, place]) => (place.fresh ? [place.id] : []));
  if (fresh.length > 0) {
    await executor
      .update(repositories)
      .set({ importCursor: atTheStart, importedAt: sql`now()` })
      .where(and(eq(repositories.organisationId, organisationId), inArray(repositories.id, fresh)));
  }
  return new Map(places);
}

/** @param cursor null where the import of the repository is complete */
export async function saveImportCursor(
  executor: Executor,
  organisationId: string,
  id: string,
  cursor: string | null,
): Promise<void> {
  await executor
    .update(repositories)
    .set({ importCursor: cursor })
    .where(and(eq(repositories.organisationId, organisationId), eq(repositories.id, id)));
}
