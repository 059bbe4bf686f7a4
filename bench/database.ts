import pg from 'pg';
import { pino } from 'pino';
import { connectDatabase } from '../src/database/client.ts';
import { joinEmbeddedDatabase } from '../src/database/embedded.ts';
import { migrateDatabase } from '../src/database/migrations.ts';
import { createTenant } from '../test/support/tenants.ts';

export async function withClient<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/**
 * A benchmark's own database, kept for the next run: it has these organisations and nothing else.
 *
 * @returns with a token of the first one
 */
export async function joinEmptied(name: string, ...organisations: { login: string; id: number }[]) {
  const server = await joinEmbeddedDatabase({ home: `bench/.data/${name}` });
  await migrateDatabase(server.url);
  await withClient(server.url, client => client.query('truncate organisations cascade'));
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  const tokens: string[] = [];
  for (const { login, id } of organisations) {
    tokens.push((await createTenant({ database }, { login, githubId: id })).token);
  }
  await database.close();
  return { url: server.url, leave: () => server.leave(), token: tokens[0] ?? '' };
}
