import pg from 'pg';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../src/database/embedded.ts';
import { migrateDatabase } from '../src/database/migrate.ts';
import { newId } from '../src/ids.ts';

export async function withClient<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A benchmark's own database, kept for the next run: it has this organisation and nothing else. */
export async function joinEmptied(
  name: string,
  { login, id }: { login: string; id: number },
): Promise<EmbeddedDatabase> {
  const server = await joinEmbeddedDatabase({ home: `bench/.data/${name}` });
  await migrateDatabase(server.url);
  await withClient(server.url, async client => {
    await client.query('truncate organisations cascade');
    await client.query(
      `insert into organisations (id, github_id, login, name, photo_url) values ($1, $2, $3, 'Bench', '')`,
      [newId(), id, login],
    );
  });
  return server;
}
