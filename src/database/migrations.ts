import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import pg from 'pg';
import { databaseUnavailable } from '../errors.ts';
import { packageFolder } from '../package.ts';
import { type AdvisoryLock, type LockWait, takeAdvisoryLock } from './advisory-lock.ts';
import type { Database } from './client.ts';
import { connectToServer, requireUsable } from './connection.ts';
import { createSelection, query } from './statement.ts';

const migrationsFolder = join(packageFolder, 'migrations');

export const migrationLock: AdvisoryLock = { key: 1_886_743_660, name: 'migrations' };

/** What is wrong, and what to do. */
type Refusal = readonly [message: string, action: string];

const laterSchema: Refusal = [
  'The database schema is newer than this release of pullscore.',
  'Start that release, or restore the backup from before the upgrade.',
];

const earlierSchema: Refusal = [
  'The database schema is older than this release of pullscore.',
  'Run pullscore migrate, or start the service.',
];

const missingSchema = (database: string): Refusal => [
  `The database ${database} is not set up for pullscore.`,
  'Check DATABASE_URL. To set up an empty database, run pullscore migrate, start the service or add an organisation.',
];

/** How long a migration waits for a lock of a table, how soon it tries again, and for how long in all. */
const lockTimeoutMs = 2_000;
const retryDelayMs = 3_000;
const maxRetryingMs = 120_000;

const lockNotAvailable = '55P03';
const deadlockDetected = '40P01';
const undefinedTable = '42P01';

const concurrentIndex = /^\s*create\s+(?:unique\s+)?index\s+concurrently\s+"?(\w+)/i;

/** `signal` also ends a migration under way; `maxWaitMs` is also for the locks of tables. */
export interface MigrationOptions extends LockWait {
  /** False refuses a database without our schema; otherwise an empty one gets it. */
  create?: boolean;
  /** False refuses the schema of an earlier release. */
  upgrade?: boolean;
  /** Other migrations than this release's, for tests. */
  folder?: string;
}

/**
 * Brings the schema up to date. If several replicas start together, one migrates; the others wait for the lock and find
 * nothing left to do. A schema that is up to date needs no lock.
 *
 * @returns how many migrations were applied
 * @throws ServiceError `database_unavailable` that says why the server can't be used
 */
export async function migrateDatabase(url: string, options: MigrationOptions = {}): Promise<number> {
  const { create = true, upgrade = true, folder = migrationsFolder, signal } = options;
  const client = await connectToServer(url, { application_name: 'pullscore migrate', pipeline: true });
  // What waits then fails, and what was begun is rolled back.
  const interrupt = () => void client.end().catch(() => undefined);
  signal?.addEventListener('abort', interrupt);
  if (signal?.aborted) interrupt();
  try {
    const { database } = await requireUsable(client, url);
    const findPending = async () => {
      const { isNew, pending, refusal } = await readSchema(client, database, folder);
      if (isNew && !create) throw databaseUnavailable(...missingSchema(database));
      if (refusal !== undefined) throw databaseUnavailable(...refusal);
      return { isRefused: !isNew && !upgrade && pending.length > 0, pending };
    };
    if ((await findPending()).pending.length === 0) return 0;
    await takeAdvisoryLock(client, migrationLock, options);
    // Only now is it known that nobody is about to apply them.
    const { isRefused, pending } = await findPending();
    if (isRefused) throw databaseUnavailable(...earlierSchema);
    for (const migration of pending) await applyMigration(client, migration, options.maxWaitMs);
    return pending.length;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    throw databaseUnavailable(
      `The database schema can't be brought up to date: ${error.message}.`,
      error.code === lockNotAvailable
        ? 'Other sessions hold locks on its tables: end them, then try again.'
        : 'Check the rights of the user in DATABASE_URL.',
      { cause: error },
    );
  } finally {
    signal?.removeEventListener('abort', interrupt);
    // A pooler may keep the session, and with it the lock.
    await client.query('select pg_advisory_unlock_all()').catch(() => undefined);
    await client.end().catch(() => undefined);
  }
}

/** A database with these, and without our first migration, was made by a checkout from before the first release. */
const ownTables = ['organisations', 'pull_requests', 'rulesets', 'sync_requests'];
const unreleasedSchema: Refusal = [
  'This database was made before the first release of pullscore.',
  'With the checkout that made it, save the rules: rules export. Then give this release an empty database, apply the rules, and import.',
];

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

/** @returns why a database without our schema can't get it, and what to do; undefined if it is empty */
async function findForeignTables(client: pg.Client, database: string): Promise<Refusal | undefined> {
  const { rows } = await client.query<{ name: string }>(findTables);
  if (rows.length === 0) return undefined;
  if (ownTables.every(own => rows.some(({ name }) => name === own))) return unreleasedSchema;
  const names = rows.slice(0, maxNamed).map(({ name }) => name);
  const others = rows.length - names.length;
  return [
    `The database ${database} has tables that are not of pullscore: ${names.join(', ')}${others > 0 ? ` and ${others} more` : ''}.`,
    'Create an empty database for pullscore, and name that one in DATABASE_URL.',
  ];
}

/**
 * Gives up a lock that it does not get soon, because later readers and writers wait behind it, and tries again.
 *
 * Statements are sent one by one, without waiting for replies, and Citus runs them on one shard after another: it
 * refuses several statements in a message, and parallel changes of tables that refer to each other.
 */
async function applyMigration(client: pg.Client, migration: MigrationMeta, maxWaitMs = maxRetryingMs): Promise<void> {
  if (migration.sql.some(statement => concurrentIndex.test(statement))) {
    for (const statement of migration.sql) await buildIndex(client, statement);
    for (const statement of recordOf(migration)) await client.query(statement);
    return;
  }
  for (const begunAt = performance.now(); ; ) {
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
      if ((code !== lockNotAvailable && code !== deadlockDetected) || performance.now() - begunAt > maxWaitMs)
        throw error;
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

interface SchemaState {
  isNew: boolean;
  /** Migrations that have not been applied. */
  pending: MigrationMeta[];
  /** Why the service would refuse the schema. */
  refusal: Refusal | undefined;
}

async function readSchema(client: pg.Client, database: string, folder: string): Promise<SchemaState> {
  const migrations = readMigrationFiles({ migrationsFolder: folder });
  const newest = await newestMigration(client, migrations[0]);
  const isNew = newest === 0;
  const isLater = newest > (migrations.at(-1)?.folderMillis ?? 0);
  const pending = migrations.filter(({ folderMillis }) => folderMillis > newest);
  const foreign = isNew ? await findForeignTables(client, database) : undefined;
  // Another replica may have made them since.
  if (foreign !== undefined && (await newestMigration(client, migrations[0])) > 0) {
    return readSchema(client, database, folder);
  }
  return { isNew, pending, refusal: isLater ? laterSchema : foreign };
}

/** For operators: how many migrations have not been applied, and why the service would refuse the schema. */
export async function inspectSchema(client: pg.Client, database: string) {
  const { pending, refusal } = await readSchema(client, database, migrationsFolder);
  return { pendingMigrations: pending.length, refusal };
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
const newestApplied = createSelection(
  'newest_migration',
  query.select({ newest: sql<string | null>`max(created_at)` }).from(sql`drizzle.__drizzle_migrations`),
);

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
