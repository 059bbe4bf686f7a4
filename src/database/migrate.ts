import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { ServiceError } from '../errors.ts';
import type { Database } from './client.ts';
import { driverError } from './failures.ts';
import type { Selection } from './statement.ts';

/** Two levels up, from the sources and from the build. */
const migrationsFolder = fileURLToPath(new URL('../../migrations', import.meta.url));

/** Any number will do, as long as every release uses the same. */
const advisoryLock = 1_886_743_660;

/** How long a migration waits for a lock, and how often and how soon it tries again. */
const lockTimeoutMs = 2_000;
const retryDelayMs = 3_000;
const maxAttempts = 20;

/** PostgreSQL's error code. */
const lockNotAvailable = '55P03';

/** A server that is starting may take a moment; a missing one must be reported soon. */
const connectTimeoutMs = 3_000;

/**
 * Brings the schema up to date. If several replicas start together, one migrates; the others wait for the lock and find
 * nothing left to do.
 *
 * @returns how many migrations were applied
 * @throws ServiceError `database_unavailable` that says why the server can't be used
 */
export async function migrateDatabase(url: string): Promise<number> {
  const client = await connectToServer(url, { application_name: 'pullscore migrate' });
  try {
    requireUsable(await readServerFacts(client));
    await client.query('select pg_advisory_lock($1)', [advisoryLock]);
    const before = await appliedMigrations(client);
    if ((await newestMigration(client)) > Math.max(...releasedMigrations())) {
      throw new ServiceError('database_unavailable', "The database's schema is of a later release than this program.", {
        action: 'Start that release, or restore the backup from before the upgrade.',
      });
    }
    // A change of a table waits for its readers and writers, and all later ones wait for the change.
    await client.query(`set lock_timeout = ${lockTimeoutMs}`);
    for (let tried = 1; ; tried += 1) {
      try {
        await migrate(drizzle({ client }), { migrationsFolder });
        return (await appliedMigrations(client)) - before;
      } catch (error) {
        if (driverError(error)?.code !== lockNotAvailable || tried === maxAttempts) throw error;
        await delay(retryDelayMs);
      }
    }
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof pg.DatabaseError ? error.cause : error;
    if (!(cause instanceof pg.DatabaseError)) throw error;
    throw new ServiceError(
      'database_unavailable',
      `The database's schema can't be brought up to date: ${cause.message}.`,
      { action: 'Check the rights of the user in DATABASE_URL.', cause: error },
    );
  } finally {
    await client.end();
  }
}

/** @throws ServiceError `database_unavailable` that says why the server can't be used */
export async function connectToServer(url: string, options: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client({ connectionTimeoutMillis: connectTimeoutMs, ...options, connectionString: url });
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    throw refusalOf(error, client);
  }
  return client;
}

export interface ServerFacts {
  /** PostgreSQL's `server_version_num`: 170002 is 17.2. */
  version: number;
  database: string;
  encoding: string;
  /** Whether names can be sorted as people sort them. */
  icu: boolean;
}

export async function readServerFacts(client: pg.Client): Promise<ServerFacts> {
  const { rows } = await client.query<ServerFacts>(
    `select current_setting('server_version_num')::int as version, current_database() as database,
      current_setting('server_encoding') as encoding,
      exists (select 1 from pg_collation where collname = 'und-x-icu') as icu`,
  );
  const [facts] = rows;
  if (facts === undefined) throw new Error('the server did not describe itself');
  return facts;
}

/** @throws ServiceError `database_unavailable` that says what the server lacks */
export function requireUsable({ version, database, encoding, icu }: ServerFacts): void {
  const lacking = (message: string, action: string) => new ServiceError('database_unavailable', message, { action });
  if (version < 150_000) {
    throw lacking(`PostgreSQL ${Math.floor(version / 10_000)} is too old.`, 'Use version 15 or newer.');
  }
  if (encoding !== 'UTF8') {
    throw lacking(
      `The database ${database} has the encoding ${encoding}, and pullscore needs UTF8.`,
      `Create another one with "create database NAME encoding 'UTF8' locale 'C.UTF-8' template template0", and name it in DATABASE_URL.`,
    );
  }
  if (!icu) throw lacking('This PostgreSQL is built without ICU, which sorts names.', 'Use one that has it.');
}

/** Names the server, never the password. */
function refusalOf(error: unknown, { host, port, database = '' }: pg.Client): ServiceError {
  const refusal = (text: string, action: string) =>
    new ServiceError('database_unavailable', text, { action, cause: error });
  const place = host.startsWith('/') ? host : `${host}:${port}`;
  const { code, message } = error instanceof Error ? (error as NodeJS.ErrnoException) : { message: String(error) };
  if (error instanceof pg.DatabaseError) {
    return refusal(`The database ${database} at ${place} can't be used: ${message}.`, 'Check DATABASE_URL.');
  }
  // An error that joins those of several addresses has no text of its own.
  const reason = code ?? (message === 'timeout expired' ? 'no answer' : message);
  return refusal(
    `The database server at ${place} can't be reached: ${reason}.`,
    'Check DATABASE_URL and that the server runs.',
  );
}

async function appliedMigrations(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ present: boolean }>(
    `select to_regclass('drizzle.__drizzle_migrations') is not null as present`,
  );
  if (rows[0]?.present !== true) return 0;
  const counted = await client.query<{ count: number }>(
    'select count(*)::int as count from drizzle.__drizzle_migrations',
  );
  return counted.rows[0]?.count ?? 0;
}

/** Timestamps of this release's migrations, by which Drizzle orders them. */
function releasedMigrations(): number[] {
  const journal = `${migrationsFolder}/meta/_journal.json`;
  if (!existsSync(journal)) throw new Error(`${journal} is missing: the installation is incomplete`);
  const { entries } = JSON.parse(readFileSync(journal, 'utf8')) as { entries: { when: number }[] };
  return entries.map(entry => entry.when);
}

/** How many of this release's migrations have not been applied. */
export async function countPendingMigrations(client: pg.Client): Promise<number> {
  const released = releasedMigrations();
  const newest = await newestMigration(client);
  return released.filter(when => when > newest).length;
}

/** The timestamp of the newest migration that was applied; 0 if none was. */
async function newestMigration(client: pg.Client): Promise<number> {
  if ((await appliedMigrations(client)) === 0) return 0;
  const { rows } = await client.query<{ newest: string | null }>(
    'select max(created_at) as newest from drizzle.__drizzle_migrations',
  );
  return Number(rows[0]?.newest ?? 0);
}

// Drizzle keeps this table, so our schema does not have it.
const migrationsPresent: Selection<{ present: string }> = {
  name: 'migrations_present',
  text: `select to_regclass('drizzle.__drizzle_migrations') is not null`,
  parameters: [],
  columns: ['present'],
};
const newestApplied: Selection<{ newest: string | null }> = {
  name: 'newest_migration',
  text: 'select max(created_at) from drizzle.__drizzle_migrations',
  parameters: [],
  columns: ['newest'],
};

/** Whether all of this release's migrations have been applied. A replica that runs goes on after those of a later one. */
export async function isMigrated(database: Database): Promise<boolean> {
  const [schema] = await database.read(migrationsPresent, {});
  if (schema?.present !== 't') return false;
  const [applied] = await database.read(newestApplied, {});
  return Number(applied?.newest ?? 0) >= Math.max(...releasedMigrations());
}
