import { migrateDatabase } from '../src/database/migrate.ts';
import { type AddedDatabase, addDatabase, startEmbeddedServer } from '../test/support/database-server.ts';

/** A PostgreSQL for as long as a soak takes. */
export interface SoakServer {
  /** A database of its own, with the current schema and nothing in it. */
  createDatabase(): Promise<AddedDatabase>;
  close(): Promise<void>;
}

/** The one of TEST_DATABASE_URL, else an embedded one in a folder that is removed. */
export async function startServer(): Promise<SoakServer> {
  const given = process.env.TEST_DATABASE_URL;
  const { url, stop } = given ? { url: given, stop: async () => undefined } : await startEmbeddedServer('soak');
  return {
    async createDatabase() {
      const database = await addDatabase(url);
      await migrateDatabase(database.url);
      return database;
    },
    close: stop,
  };
}
