import { createHash } from 'node:crypto';
import { and, eq, isNull, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { erasedPeople } from './schema.ts';

/*
 * Erased people, by a hash, so that no fetch, list or import brings them back. The hash keeps the list from being
 * one of ids at a glance. It is not a secret: a reader of the database can try all ids of GitHub.
 */

const hashOfPerson = (organisationId: string, githubId: number): string =>
  createHash('sha256').update(`${organisationId} ${githubId}`).digest('base64url');

const isPerson = (organisationId: string, githubId: number) =>
  and(eq(erasedPeople.organisationId, organisationId), eq(erasedPeople.idHash, hashOfPerson(organisationId, githubId)));

/** @param options `unfinished`: only people of whom something that was stored before may be left */
export async function readErased(
  executor: Executor,
  organisationId: string,
  { unfinished = false } = {},
): Promise<(githubId: number | null | undefined) => boolean> {
  const rows = await executor
    .select({ idHash: erasedPeople.idHash })
    .from(erasedPeople)
    .where(
      and(eq(erasedPeople.organisationId, organisationId), unfinished ? isNull(erasedPeople.finishedAt) : undefined),
    );
  if (rows.length === 0) return () => false;
  const hashes = new Set(rows.map(({ idHash }) => idHash));
  return githubId => githubId != null && hashes.has(hashOfPerson(organisationId, githubId));
}

/** From now on nothing about them is saved. */
export async function addErased(executor: Executor, organisationId: string, githubId: number): Promise<void> {
  await executor
    .insert(erasedPeople)
    .values({ organisationId, idHash: hashOfPerson(organisationId, githubId) })
    .onConflictDoUpdate({ target: [erasedPeople.organisationId, erasedPeople.idHash], set: { finishedAt: null } });
}

export async function finishErased(executor: Executor, organisationId: string, githubId: number): Promise<void> {
  await executor.update(erasedPeople).set({ finishedAt: sql`now()` }).where(isPerson(organisationId, githubId));
}

/** Lets them be saved again. @returns whether they were erased */
export async function removeErased(executor: Executor, organisationId: string, githubId: number): Promise<boolean> {
  const { rowCount } = await executor.delete(erasedPeople).where(isPerson(organisationId, githubId));
  return (rowCount ?? 0) > 0;
}
