import { and, eq, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { TransactionOvertaken } from './failures.ts';
import { lockRulesetVersion } from './organisations.ts';
import { requestRescoring } from './rescoring.ts';
import { repositories } from './schema.ts';

export interface RepositoryValues {
  githubId: number;
  nodeId: string;
  /** `owner/name` */
  name: string;
}

/** As one parameter: a statement takes 65,535 at most, and an organisation may have more repositories. */
const isOneOf = (githubIds: readonly number[]) =>
  sql`${repositories.githubId} = any(${sql.param([...githubIds])}::bigint[])`;

export interface StoredRepository {
  id: string;
  /** `owner/name` as it is stored: a later fetch may have found another than the given one. */
  name: string;
}

/**
 * Adds those that are new and renames those that have another name, which rules can depend on; those of which a later
 * fetch is known stay as they are. Runs in a transaction.
 *
 * @param ticket drawn before GitHub was asked
 * @param beforeRenaming makes sure that nobody scores by the former name meanwhile: takes the lock that every save
 * holds shared. A caller who holds it shared can't wait for it, and must begin anew.
 * @returns by GitHub id
 */
export async function saveRepositories(
  executor: Executor,
  organisationId: string,
  ticket: number,
  values: readonly RepositoryValues[],
  beforeRenaming: () => Promise<unknown> = () => lockRulesetVersion(executor, organisationId, 'update'),
): Promise<Map<number, StoredRepository>> {
  const wanted = [...new Map(values.map(value => [value.githubId, value])).values()].sort(
    (a, b) => a.githubId - b.githubId,
  );
  if (wanted.length === 0) return new Map();
  const githubIds = wanted.map(repository => repository.githubId);
  const known = await executor
    .select()
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), isOneOf(githubIds)));
  const found = new Map<number, StoredRepository>(known.map(({ githubId, id, name }) => [githubId, { id, name }]));
  const rowOf = new Map(known.map(row => [row.githubId, row]));
  const changed = wanted.filter(value => {
    const one = rowOf.get(value.githubId);
    if (one === undefined) return true;
    return one.fetchTicket <= ticket && !(one.name === value.name && one.nodeId === value.nodeId);
  });
  if (changed.length === 0) return found;
  if (changed.some(({ githubId }) => found.has(githubId))) await beforeRenaming();
  const rows = changed.map(({ githubId, nodeId, name }) => ({
    organisationId,
    id: newId(),
    githubId,
    nodeId,
    name,
    fetchTicket: ticket,
  }));
  const saved: { id: string; githubId: number; name: string; inserted: boolean }[] = [];
  // A statement takes 65,535 parameters at most.
  for (let start = 0; start < rows.length; start += 1_000) {
    saved.push(
      ...(await executor
        .insert(repositories)
        .values(rows.slice(start, start + 1_000))
        .onConflictDoUpdate({
          target: [repositories.organisationId, repositories.githubId],
          set: { nodeId: sql`excluded.node_id`, name: sql`excluded.name`, fetchTicket: ticket },
          setWhere: sql`${repositories.fetchTicket} <= excluded.fetch_ticket`,
        })
        .returning({
          id: repositories.id,
          githubId: repositories.githubId,
          name: repositories.name,
          // Only a row that this statement inserted has no earlier version that it locked.
          inserted: sql<boolean>`(repositories.xmax = 0)`,
        })),
    );
  }
  const expected = saved.filter(({ githubId, inserted }) => inserted !== found.has(githubId));
  // Another replica saw one first, or renamed it, between our two statements: begin again and find it.
  if (expected.length < changed.length) throw new TransactionOvertaken();
  if (saved.some(({ inserted }) => !inserted)) await requestRescoring(executor, organisationId, { urlsInDoubt: true });
  for (const { githubId, id, name } of saved) found.set(githubId, { id, name });
  return found;
}

/**
 * Moves the tickets of those whose names GitHub has just told as they are stored: an answer to an earlier question, from
 * when they had other names for a while, may still be on its way.
 *
 * @param ticket drawn before GitHub was asked
 */
export async function confirmNames(
  executor: Executor,
  organisationId: string,
  ticket: number,
  values: readonly RepositoryValues[],
): Promise<void> {
  const githubIds = values.map(({ githubId }) => githubId);
  const names = values.map(({ name }) => name);
  await executor.execute(sql`
    update repositories set fetch_ticket = ${ticket}
    from unnest(${sql.param(githubIds)}::bigint[], ${sql.param(names)}::text[]) as called (github_id, name)
    where repositories.organisation_id = ${organisationId} and repositories.github_id = called.github_id
      and repositories.name = called.name and repositories.fetch_ticket < ${ticket}`);
}

export interface ImportPlace {
  /** The repository's id. */
  id: string;
  /** GitHub's cursor of the last page that came in; null before the first. */
  after: string | null;
  /** It was finished by the import that was interrupted, which the caller goes on with. */
  finished: boolean;
  /** By an import that was interrupted. */
  begun: boolean;
}

/** Stands for the place before the first page. */
const atTheStart = '';

/**
 * Where an import of the repositories begins, or goes on where one was interrupted: `import_cursor` is set from an
 * import's beginning to its end, and `imported_at` is its beginning.
 *
 * @returns by GitHub id, of those that are stored
 */
export async function findImportPlaces(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, ImportPlace>> {
  const rows = await executor
    .select({
      id: repositories.id,
      githubId: repositories.githubId,
      cursor: repositories.importCursor,
      beganAt: repositories.importedAt,
    })
    .from(repositories)
    .where(and(eq(repositories.organisationId, organisationId), isOneOf(githubIds)));
  const interrupted = rows.flatMap(({ cursor, beganAt }) => (cursor === null ? [] : [beganAt?.getTime() ?? 0]));
  const since = Math.min(...interrupted);
  return new Map(
    rows.map(({ id, githubId, cursor, beganAt }) => {
      const finished = cursor === null && beganAt !== null && beganAt.getTime() >= since;
      return [githubId, { id, after: cursor || null, finished, begun: cursor !== null || finished }];
    }),
  );
}

/** Begins an import of the repositories, or goes on with an interrupted one. Runs in a transaction. */
export async function beginImport(
  executor: Executor,
  organisationId: string,
  ticket: number,
  values: readonly RepositoryValues[],
): Promise<Map<number, ImportPlace>> {
  const saved = await saveRepositories(executor, organisationId, ticket, values);
  const places = await findImportPlaces(executor, organisationId, [...saved.keys()]);
  const fresh = [...places].flatMap(([githubId, { begun }]) => (begun ? [] : [githubId]));
  if (fresh.length > 0) {
    await executor
      .update(repositories)
      .set({ importCursor: atTheStart, importedAt: sql`now()` })
      .where(and(eq(repositories.organisationId, organisationId), isOneOf(fresh)));
  }
  return places;
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
