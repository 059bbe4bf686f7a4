import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import pg from 'pg';
import { databaseUnavailable, type ServiceError } from '../errors.ts';
import type { Database } from './client.ts';
import type { Selection } from './statement.ts';

const migrationsFolder = join(dirname(createRequire(import.meta.url).resolve('#package.json')), 'migrations');

/** Any number will do, as long as every release uses the same. */
const advisoryLock = 1_886_743_660;

/** What is wrong, and what to do. */
export const laterSchema = [
  'The database schema is newer than this release of pullscore.',
  'Start that release, or restore the backup from before the upgrade.',
] as const;

/** How often a replica asks whether another has finished migrating. */
const advisoryLockPollMs = 200;

/** How long a migration waits for a lock, and how often and how soon it tries again. */
const lockTimeoutMs = 2_000;
const retryDelayMs = 3_000;
const maxAttempts = 20;

const lockNotAvailable = '55P03';
const deadlockDetected = '40P01';
const undefinedTable = '42P01';

const concurrentIndex = /^\s*create\s+(?:unique\s+)?index\s+concurrently\s+"?(\w+)/i;

/** A server that is starting may take a moment; a missing one must be reported soon. */
const connectTimeoutMs = 3_000;

const unavailable = (text: string, action: string, cause?: unknown) => databaseUnavailable(text, action, { cause });

/**
 * Brings the schema up to date. If several replicas start together, one migrates; the others wait for the lock and find
 * nothing left to do.
 *
 * @param options `create: false` refuses a database without our schema; otherwise an empty one gets it. `upgrade: false`
 * refuses the schema of an earlier release. `folder` has other migrations than this release's, for tests.
 * @returns how many migrations were applied
 * @throws ServiceError `database_unavailable` that says why the server can't be used
 */
export async function migrateDatabase(
  url: string,
  {
    create = true,
    upgrade = true,
    folder = migrationsFolder,
  }: { create?: boolean; upgrade?: boolean; folder?: string } = {},
): Promise<number> {
  const client = await connectToServer(url, { application_name: 'pullscore migrate', pipeline: true });
  try {
    const { database } = await requireUsable(client);
    await takeAdvisoryLock(client);
    const migrations = readMigrationFiles({ migrationsFolder: folder });
    const newest = await newestMigration(client, migrations[0]);
    if (newest === 0) await requireOwn(client, database, create);
    const pending = migrations.filter(({ folderMillis }) => folderMillis > newest);
    if (newest > (migrations.at(-1)?.folderMillis ?? 0)) throw unavailable(...laterSchema);
    if (!upgrade && newest > 0 && pending.length > 0) {
      throw unavailable(
        'The database schema is older than this release of pullscore.',
        'Run pullscore migrate, or start the service.',
      );
    }
    for (const migration of pending) await applyMigration(client, migration);
    return pending.length;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    throw unavailable(
      `The database schema can't be brought up to date: ${error.message}.`,
      error.code === lockNotAvailable
        ? 'Other sessions hold locks on its tables: end them, then try again.'
        : 'Check the rights of the user in DATABASE_URL.',
      error,
    );
  } finally {
    await client.end();
  }
}

/** A database with these, and without our first migration, was made by a checkout from before the first release. */
const ownTables = ['organisations', 'pull_requests', 'rulesets', 'sync_requests'];
const unreleasedSchema = [
  'This database was made before the first release of pullscore.',
  'With the checkout that made it, save the rules: rules export. Then give this release an empty database, apply the rules, and import.',
] as const;

/** How many tables of others a refusal names. */
const maxNamed = 3;

/** Tables of extensions, such as PostGIS, belong to nobody. */
const findTables = `select case nspname when 'public' then relname else nspname || '.' || relname end as name
  from pg_class join pg_namespace on pg_namespace.oid = relnamespace
  where relkind in ('r', 'p', 'f') and not relispartition and nspname !~ '^pg_' and nspname <> 'information_schema'
    and not exists (
      select 1 from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e'
    )
  order by name`;

/**
 * Lets a database without our schema get it, if it is empty.
 *
 * @throws ServiceError `database_unavailable` if it has tables, or if the schema must not be created
 */
async function requireOwn(client: pg.Client, database: string, create: boolean): Promise<void> {
  if (!create) {
    throw unavailable(
      `The database ${database} is not set up for pullscore.`,
      'Check DATABASE_URL. To set up an empty database, run pullscore migrate, start the service or add an organisation.',
    );
  }
  const { rows } = await client.query<{ name: string }>(findTables);
  if (rows.length === 0) return;
  if (ownTables.every(own => rows.some(({ name }) => name === own))) throw unavailable(...unreleasedSchema);
  const names = rows.slice(0, maxNamed).map(({ name }) => name);
  const others = rows.length - names.length;
  throw unavailable(
    `The database ${database} has tables that are not of pullscore: ${names.join(', ')}${others > 0 ? ` and ${others} more` : ''}.`,
    'Create an empty database for pullscore, and name that one in DATABASE_URL.',
  );
}

/**
 * Asks again and again: a statement that waits for the lock would be a transaction that has begun, and building an
 * index concurrently waits for all of these to end.
 */
async function takeAdvisoryLock(client: pg.Client): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [advisoryLock]);
    if (rows[0]?.taken === true) return;
    await delay(advisoryLockPollMs);
  }
}

/**
 * Gives up a lock that it does not get soon, because later readers and writers wait behind it, and tries again.
 *
 * Statements are sent one by one, without waiting for replies, and Citus runs them on one shard after another: it
 * refuses several statements in a message, and parallel changes of tables that refer to each other.
 */
async function applyMigration(client: pg.Client, migration: MigrationMeta): Promise<void> {
  if (migration.sql.some(statement => concurrentIndex.test(statement))) {
    for (const statement of migration.sql) await buildIndex(client, statement);
    for (const statement of recordOf(migration)) await client.query(statement);
    return;
  }
  for (let tried = 1; ; tried += 1) {
    try {
      const settings = [
        `set local lock_timeout = ${lockTimeoutMs}`,
        "set local citus.multi_shard_modify_mode = 'sequential'",
      ];
      const statements = ['begin', ...settings, ...migration.sql, ...recordOf(migration), 'commit'];
      await Promise.all(statements.map(statement => client.query(statement)));
      return;
    } catch (error) {
      // After a lost connection there is nothing to roll back.
      await client.query('rollback').catch(() => undefined);
      const code = error instanceof pg.DatabaseError ? error.code : undefined;
      if ((code !== lockNotAvailable && code !== deadlockDetected) || tried === maxAttempts) throw error;
      await delay(retryDelayMs);
    }
  }
}

/**
 * Builds an index outside a transaction, while others write the table. It waits for their transactions as long as it
 * takes, because nobody waits for it. An interrupted build leaves an invalid index behind, which is replaced; one that
 * was built but not recorded is kept.
 */
async function buildIndex(client: pg.Client, statement: string): Promise<void> {
  const name = concurrentIndex.exec(statement)?.[1];
  if (name === undefined)
    throw new Error(`a migration that builds indexes concurrently does nothing else: ${statement}`);
  const { rows } = await client.query<{ valid: boolean }>(
    'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
    [`"${name}"`],
  );
  if (rows[0]?.valid === true) return;
  // The nodes of a distributed database may lack it.
  if (rows[0] !== undefined) await client.query(`drop index concurrently if exists "${name}"`);
  await client.query(statement);
}

/** In Drizzle's table, as its own migrator does. */
const recordOf = ({ hash, folderMillis }: MigrationMeta) => [
  'create schema if not exists drizzle',
  'create table if not exists drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)',
  `insert into drizzle.__drizzle_migrations (hash, created_at) values ('${hash}', ${folderMillis})`,
];

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

/** @throws ServiceError `database_unavailable` that says what the server lacks */
export async function requireUsable(client: pg.Client): Promise<ServerFacts> {
  const { rows } = await client.query<ServerFacts>(
    `select current_setting('server_version_num')::int as version, current_database() as database,
      current_setting('server_encoding') as encoding,
      exists (select 1 from pg_collation where collname = 'und-x-icu') as icu`,
  );
  const [facts] = rows;
  if (facts === undefined) throw new Error('the server did not describe itself');
  const { version, database, encoding, icu } = facts;
  if (version < 150_000) {
    throw unavailable(`PostgreSQL ${Math.floor(version / 10_000)} is too old.`, 'Use version 15 or newer.');
  }
  if (encoding !== 'UTF8') {
    throw unavailable(
      `The database ${database} has the encoding ${encoding}, and pullscore needs UTF8.`,
      `Create another one with "create database NAME encoding 'UTF8' locale 'C.UTF-8' template template0", and name it in DATABASE_URL.`,
    );
  }
  if (!icu) {
    throw unavailable(
      'This PostgreSQL is built without ICU, which sorts names.',
      'Use a PostgreSQL that is built with ICU.',
    );
  }
  return facts;
}

/** `host:port`, or the folder of a Unix socket. */
export const placeOf = ({ host, port }: pg.Client): string => (host.startsWith('/') ? host : `${host}:${port}`);

/** Names the server, never the password. */
function refusalOf(error: unknown, client: pg.Client): ServiceError {
  const place = placeOf(client);
  const { code, message } = error instanceof Error ? (error as NodeJS.ErrnoException) : { message: String(error) };
  // 28P01 is a wrong password. Without one, the driver itself fails.
  const isPasswordMissing = /^SASL: .*password must be/.test(message);
  if (error instanceof pg.DatabaseError || isPasswordMissing) {
    const reason = isPasswordMissing ? 'it asks for a password, and none is set' : message;
    return unavailable(
      `The database ${client.database ?? ''} at ${place} can't be used: ${reason}.`,
      isPasswordMissing || code === '28P01'
        ? 'Check the password in DATABASE_URL or PGPASSWORD.'
        : 'Check DATABASE_URL.',
      error,
    );
  }
  // An error that joins those of several addresses has no text of its own.
  const reason = code ?? (message === 'timeout expired' ? 'no answer' : message);
  return unavailable(
    `The database server at ${place} can't be reached: ${reason}.`,
    'Check DATABASE_URL and that the server runs.',
    error,
  );
}

/** How many of this release's migrations have not been applied, and whether a later release has applied others. */
export async function inspectSchema(client: pg.Client): Promise<{ pendingMigrations: number; isLater: boolean }> {
  const migrations = readMigrationFiles({ migrationsFolder });
  const newest = await newestMigration(client, migrations[0]);
  const millis = migrations.map(({ folderMillis }) => folderMillis);
  return { pendingMigrations: millis.filter(each => each > newest).length, isLater: newest > (millis.at(-1) ?? 0) };
}

/**
 * The timestamp of the newest migration that was applied; 0 if none of ours was. Other applications may use Drizzle, too.
 *
 * @param first of our migrations
 */
async function newestMigration(client: pg.Client, first: MigrationMeta | undefined): Promise<number> {
  const { rows } = await client.query<{ present: boolean }>(
    `select to_regclass('drizzle.__drizzle_migrations') is not null as present`,
  );
  if (rows[0]?.present !== true) return 0;
  const applied = await client.query<{ newest: string | null }>(
    'select max(created_at) filter (where exists (select 1 from drizzle.__drizzle_migrations where hash = $1)) as newest from drizzle.__drizzle_migrations',
    [first?.hash],
  );
  return Number(applied.rows[0]?.newest ?? 0);
}

// Drizzle keeps this table, so our schema does not have it.
const newestApplied: Selection<{ newest: string | null }> = {
  name: 'newest_migration',
  text: 'select max(created_at) from drizzle.__drizzle_migrations',
  parameters: [],
  columns: ['newest'],
};

/** Of this release; read once. */
let newestMillis: number | undefined;

/**
 * Whether all of this release's migrations have been applied. A running replica keeps going after a later release has
 * migrated.
 */
export async function isMigrated(database: Database): Promise<boolean> {
  const [applied] = await database.read(newestApplied, {}).catch((error: unknown) => {
    if (error instanceof pg.DatabaseError && error.code === undefinedTable) return [];
    throw error;
  });
  newestMillis ??= readMigrationFiles({ migrationsFolder }).at(-1)?.folderMillis ?? 0;
  return Number(applied?.newest ?? 0) >= newestMillis;
}
