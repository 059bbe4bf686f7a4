import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { connectDatabase } from '../src/database/client.ts';
import { joinEmbeddedDatabase } from '../src/database/embedded-server.ts';
import { migrateDatabase } from '../src/database/migrations.ts';
import { createTenant } from '../test/support/tenants.ts';

/** A benchmark's own database, kept for the next run. */
export async function joinDatabase(name: string) {
  const server = await joinEmbeddedDatabase({ home: `bench/.data/${name}` });
  await migrateDatabase(server.url);
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  // Unlike those of the service, its statements may take minutes.
  const pool = new pg.Pool({ connectionString: server.url });
  const query = async <Row extends object>(statement: string | pg.QueryConfig, values?: unknown[]): Promise<Row[]> =>
    (await pool.query<Row>(statement, values)).rows;
  const value = async <Value>(expression: string, values?: unknown[]): Promise<Value> =>
    (await query<{ value: Value }>(`select ${expression} as value`, values))[0]?.value as Value;
  return {
    url: server.url,
    database,
    query,
    /** Of an SQL expression. */
    value,
    /** How many rows there are, by what follows `from`. */
    count: (from: string, values?: unknown[]) => value<number>(`(select count(*)::int from ${from})`, values),
    /** Resolves when the condition holds. */
    async until(condition: string, values?: unknown[]): Promise<void> {
      while (!(await value<boolean>(condition, values))) await delay(20);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([pool.end(), database.close()]);
      await server.leave();
    },
  };
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/**
 * One that has these organisations and nothing else.
 *
 * @returns with a token of the first one
 */
export async function joinEmptied(name: string, organisations: readonly { login: string; id: number }[]) {
  const joined = await joinDatabase(name);
  await joined.query('truncate organisations cascade');
  const tokens: string[] = [];
  for (const { login, id } of organisations) {
    tokens.push((await createTenant(joined, { login, githubId: id })).token);
  }
  return { ...joined, token: tokens[0] ?? '' };
}
