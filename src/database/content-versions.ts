import { sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { contentVersions } from './schema.ts';

/**
 * Gives the organisation's lists of pull requests a new version, so that no page from before is shown again. Every
 * transaction that changes what they show ends with this: the row stays locked for the commit only, and no other lock
 * is taken after it. Only a renaming goes on, under the organisation's exclusive lock, which keeps the others out.
 *
 * @param options `isVisible`: false if clients see no difference; then only check runs are looked at again
 */
export async function renewContentVersion(
  executor: Executor,
  organisationId: string,
  { isVisible = true } = {},
): Promise<void> {
  const storedVersion = newId();
  await executor
    .insert(contentVersions)
    .values({ organisationId, version: storedVersion, storedVersion })
    .onConflictDoUpdate({
      target: contentVersions.organisationId,
      set: { storedVersion, ...(isVisible ? { version: sql`excluded.version` } : {}) },
    });
}
