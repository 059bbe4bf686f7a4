import { migrateDatabase } from '../src/database/migrate.ts';
import { type AddedDatabase, addDatabase, startEmbeddedServer } from '../test/support/database-server.ts';

/** A PostgreSQL server for the time of a soak. */
export interface SoakServer {
  /** A new, empty database with the current schema. */
  createDatabase(): Promise<AddedDatabase>;
  close(): Promise<void>;
}

/** The server of TEST_DATABASE_URL, else an embedded one in a temporary folder. */
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
