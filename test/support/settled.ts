import { sql } from 'drizzle-orm';
import { expect, vi } from 'vitest';
import type { Database } from '../../src/database/client.ts';

/**
 * Waits until no transaction is under way that began before now: until then, the feed of changes does not show what is
 * committed. Other tests write in other databases of the same server.
 */
export async function waitUntilSettled({ executor }: Database): Promise<void> {
  const read = async (what: string) =>
    (await executor.execute<{ id: string }>(sql.raw(`select ${what} as id`))).rows[0]?.id;
  const own = BigInt((await read('pg_current_xact_id()')) ?? '0');
  await vi.waitFor(
    async () => expect(BigInt((await read('pg_snapshot_xmin(pg_current_snapshot())')) ?? '0')).toBeGreaterThan(own),
    { timeout: 20_000, interval: 5 },
  );
}
