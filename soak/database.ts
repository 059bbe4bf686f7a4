import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { migrateDatabase } from '../src/database/migrations.ts';
import { type AddedDatabase, addDatabase, query, startEmbeddedServer } from '../test/support/database-server.ts';

/** For the time of a soak: the server of TEST_DATABASE_URL, with the Citus nodes of TEST_CITUS_WORKERS; else an embedded one in a temporary folder. */
export async function startServer() {
  const given = process.env.TEST_DATABASE_URL;
  const workers = process.env.TEST_CITUS_WORKERS?.split(',') ?? [];
  const { url, stop } = given ? { url: given, stop: async () => undefined } : await startEmbeddedServer('soak');
  return {
    /** A new, empty database with the current schema. */
    async createDatabase(): Promise<AddedDatabase> {
      const database = await addDatabase(url);
      if (workers.length === 0) {
        await migrateDatabase(database.url);
        return database;
      }
      return distribute(database, new URL(url).host, workers);
    },
    close: stop,
  };
}

/**
 * Spreads a new database over the nodes of a Citus cluster, as docs/scaling.md says.
 *
 * @param coordinator its address as the workers reach it, such as `127.0.0.1:5432`
 * @param workers their addresses; they take the coordinator's user
 */
async function distribute(database: AddedDatabase, coordinator: string, workers: string[]): Promise<AddedDatabase> {
  const on = (host: string, name: string) => Object.assign(new URL(database.url), { host, pathname: `/${name}` }).href;
  const address = (host: string) => {
    const { hostname, port } = new URL(`postgres://${host}`);
    return `('${hostname}', ${port || 5432})`;
  };
  for (const worker of workers) await query(on(worker, 'postgres'), `create database ${database.name}`);
  for (const node of [coordinator, ...workers]) await query(on(node, database.name), 'create extension citus');
  await query(database.url, `select citus_set_coordinator_host${address(coordinator)}`);
  for (const worker of workers) await query(database.url, `select citus_add_node${address(worker)}`);
  await migrateDatabase(database.url);
  await query(database.url, readFileSync('ops/distribute.sql', 'utf8'));
  return {
    ...database,
    async drop() {
      await database.drop();
      for (const worker of workers) await dropFrom(on(worker, 'postgres'), database.name);
    },
  };
}

/** Tries again while Citus's maintenance daemon is connected: `with (force)` does not end its connection. */
async function dropFrom(url: string, name: string, tries = 10): Promise<void> {
  await query(url, `drop database ${name} with (force)`).catch(async error => {
    if (tries === 1) throw error;
    await delay(500);
    await dropFrom(url, name, tries - 1);
  });
}
