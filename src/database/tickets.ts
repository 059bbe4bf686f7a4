import { sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { tickets } from './schema.ts';

/** Draws a number that is higher than all numbers drawn before, on any replica. */
export async function drawTicket(executor: Executor): Promise<number> {
  const { rows } = await executor.execute<{ ticket: string }>(sql`select nextval(${tickets.seqName}) as ticket`);
  return Number(rows[0]?.ticket);
}
