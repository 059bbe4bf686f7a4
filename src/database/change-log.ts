import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { changes } from './schema.ts';

/*
 * What `change-feed.ts` reads. A transaction that changes what clients see of pull requests writes entries here, and its
 * id into the `changed_by` of these pull requests.
 */

/** Records that this transaction has changed, or deleted, these pull requests, which may be anywhere. */
export async function recordChanges(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
  { isDeletion = false } = {},
): Promise<void> {
  if (ids.length === 0) return;
  await executor.execute(sql`
    insert into changes (organisation_id, transaction, from_id, until_id, is_deletion)
    select ${organisationId}::uuid, pg_current_xact_id(), id, id, ${isDeletion}::boolean
    from unnest(${sql.param([...ids])}::uuid[]) as id`);
}

/** Records that this transaction has changed these pull requests, which are next to each other, in one row. */
export async function recordChangedRange(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
): Promise<void> {
  const sorted = [...ids].sort();
  const [fromId, untilId] = [sorted[0], sorted.at(-1)];
  if (fromId === undefined || untilId === undefined) return;
  await executor.insert(changes).values({
    organisationId,
    transaction: sql`pg_current_xact_id()`,
    fromId,
    untilId,
  });
}
