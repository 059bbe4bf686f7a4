import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';

/**
 * Records for `change-feed.ts` that this transaction has changed these pull requests. The caller writes the
 * transaction's id into their `changed_by`.
 *
 * @param options `isDeletion`: it has deleted them; `isRange`: they are next to each other, and share an entry
 */
export async function recordChanges(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
  { isDeletion = false, isRange = false } = {},
): Promise<void> {
  if (ids.length === 0) return;
  const sorted = [...ids].sort();
  const [fromIds, untilIds] = isRange ? [sorted.slice(0, 1), sorted.slice(-1)] : [sorted, sorted];
  await executor.execute(sql`
    insert into changes (organisation_id, transaction, from_id, until_id, is_deletion)
    select ${organisationId}::uuid, pg_current_xact_id(), from_id, until_id, ${isDeletion}::boolean
    from unnest(${sql.param(fromIds)}::uuid[], ${sql.param(untilIds)}::uuid[]) as ids (from_id, until_id)`);
}
