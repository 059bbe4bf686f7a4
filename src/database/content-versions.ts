import { sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { contentVersions } from './schema.ts';

/**
 * Gives the organisation's lists of pull requests a new version, so that no page from before is shown again. Every
 * transaction that changes what they show ends with this: the row stays locked for the commit only, and no other lock
 * is taken after it.
 */
export async function renewContentVersion(executor: Executor, organisationId: string): Promise<void> {
  await executor
    .insert(contentVersions)
    .values({ organisationId, version: newId() })
    .onConflictDoUpdate({ target: contentVersions.organisationId, set: { version: sql`excluded.version` } });
}
