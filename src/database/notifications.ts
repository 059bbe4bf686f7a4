import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';

/**
 * Wakes a loop in every replica, once the transaction is committed if there is one. A statement of its own: a distributed
 * database may run one that reads tables on another node than the one to which replicas listen.
 */
export async function notify(executor: Executor, loop: 'compare' | 'rescore' | 'sync'): Promise<void> {
  await executor.execute(sql`select pg_notify('pullscore', ${loop})`);
}
