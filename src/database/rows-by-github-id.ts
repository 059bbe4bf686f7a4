import type { PgTable } from 'drizzle-orm/pg-core';
import type { Executor } from './client.ts';
import { type GithubColumns, hasGithubId } from './statement.ts';

/** Creates the function that finds rows by their ids on GitHub, and returns them by these ids. */
export const createFindByGithubId =
  <Row extends { githubId: number }>(table: PgTable & GithubColumns & { readonly $inferSelect: Row }) =>
  async (executor: Executor, organisationId: string, githubIds: readonly number[]): Promise<Map<number, Row>> => {
    if (githubIds.length === 0) return new Map();
    const isWanted = hasGithubId(table, organisationId, githubIds);
    const rows = (await executor.select().from<PgTable>(table).where(isWanted)) as Row[];
    return new Map(rows.map(row => [row.githubId, row]));
  };

/** Creates the function that deletes rows by their ids on GitHub. */
export const createRemoveByGithubId =
  (table: PgTable & GithubColumns) =>
  async (executor: Executor, organisationId: string, githubIds: readonly number[]): Promise<void> => {
    if (githubIds.length > 0) await executor.delete(table).where(hasGithubId(table, organisationId, githubIds));
  };
