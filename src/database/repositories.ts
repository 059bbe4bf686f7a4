import { and, eq, inArray, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { pullRequests, repositories } from './schema.ts';

export interface RepositoryValues {
  githubId: number;
  nodeId: string;
  /** `owner/name` */
  name: string;
}

/**
 * Adds those that are new and renames those that have another name, whose pull requests must then be scored anew.
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
  const renamed = saved.filter(repository => known.some(one => one.githubId === repository.githubId));
  if (renamed.length > 0) {
    await executor
      .update(pullRequests)
      .set({ rulesetVersion: 0 })
      .where(
        and(
          eq(pullRequests.organisationId, organisationId),
          inArray(
            pullRequests.repositoryId,
            renamed.map(repository => repository.id),
          ),
        ),
      );
  }
  return ids;
}

const ofId = (organisationId: string, id: string) =>
  and(eq(repositories.organisationId, organisationId), eq(repositories.id, id));

/** Where an interrupted import of the repository stopped; null where none did. */
export async function findImportCursor(executor: Executor, organisationId: string, id: string): Promise<string | null> {
  const [repository] = await executor
    .select({ cursor: repositories.importCursor })
    .from(repositories)
    .where(ofId(organisationId, id));
  return repository?.cursor ?? null;
}

/** @param cursor null where the import is complete */
export async function saveImportCursor(
  executor: Executor,
  organisationId: string,
  id: string,
  cursor: string | null,
): Promise<void> {
  await executor
    .update(repositories)
    .set({ importCursor: cursor, ...(cursor === null ? { importedAt: sql`now()` } : {}) })
    .where(ofId(organisationId, id));
}
