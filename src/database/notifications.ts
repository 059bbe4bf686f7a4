import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';

/**
 * Wakes a loop in every replica once the transaction, if there is one, is committed. It is a statement of its own: within
 * one that reads tables, a distributed database would notify on another node than the one to which replicas listen.
 */
export async function notify(executor: Executor, loop: 'reconcile' | 'rescore' | 'sync'): Promise<void> {
  await executor.execute(sql`select pg_notify('pullscore', ${loop})`);
}
