import { createServer } from 'node:net';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/database/client.ts';
import { inspectSchema, isMigrated, migrateDatabase, migrationLock } from '../../src/database/migrations.ts';
import { query } from '../support/database-server.ts';
import { createMigrationsFolder, readJournal } from '../support/migrations.ts';
import { message } from '../support/pooler.ts';
import { listenOn } from '../support/raw-http.ts';
import { createDatabase, createEmptyDatabase, createMigratedDatabase, openClient } from '../support/service.ts';

function connect(url: string): Database {
  const database = connectDatabase(url, pino({ level: 'silent' }));
  onTestFinished(() => database.close());
  return database;
}

const countMigrations = 'select count(*)::int as count from drizzle.__drizzle_migrations';

test('if three replicas start on an empty database, one migrates it and all find it migrated', async () => {
  const url = await createEmptyDatabase();
  expect(await isMigrated(connect(url))).toBe(false);
  const applied = await Promise.all([migrateDatabase(url), migrateDatabase(url), migrateDatabase(url)]);
  const [{ count } = { count: 0 }] = await query<{ count: number }>(url, countMigrations);
  expect(applied.toSorted((a, b) => a - b)).toEqual([0, 0, count]);
  expect(count).toBeGreaterThan(0);
  expect(await isMigrated(connect(url))).toBe(true);
});

test('tables that another replica makes while a database is looked at are not taken for those of others', async () => {
  const url = await createEmptyDatabase();
  const client = await openClient(url);
  const ask = client.query.bind(client) as (text: string, values?: unknown[]) => Promise<object>;
  const askAfterMigration = async (text: string, values?: unknown[]) => {
    if (text.includes('from pg_class')) await migrateDatabase(url);
    return ask(text, values);
  };
  const observed = Object.assign(Object.create(client), { query: askAfterMigration });
  expect(await inspectSchema(observed, 'scores')).toEqual({ pendingMigrations: 0, refusal: undefined });
});

test('a replica goes on after the migrations of a later release, but does not start on them', async () => {
  const url = await createMigratedDatabase();
  await query(
    url,
    `insert into drizzle.__drizzle_migrations (hash, created_at)
      select 'of a later release', max(created_at) + 1000 from drizzle.__drizzle_migrations`,
  );
  expect(await isMigrated(connect(url))).toBe(true);
  await expect(migrateDatabase(url)).rejects.toMatchObject({
    text: 'The database schema is newer than this release of pullscore. Start that release, or restore the backup from before the upgrade.',
  });
});

describe('an index that is built concurrently', () => {
  const statement = 'create index concurrently "later" on "later_release" ("id")';
  const isValid = `select indisvalid as valid from pg_index where indexrelid = to_regclass('later')`;
  const countInvalid = `select count(*)::int as count from pg_index where not indisvalid`;

  /** A database before the migration that builds the index, and that migration. */
  async function prepare() {
    const url = await createMigratedDatabase();
    await query(url, 'create table later_release (id int); insert into later_release values (1), (1)');
    return { url, folder: await createMigrationsFolder({ added: [statement] }) };
  }

  /** The index waits for a transaction that has written its table. */
  async function migrateBesideWriter(url: string, folder: string) {
    const writer = await openClient(url);
    await writer.query('begin; insert into later_release values (2)');
    const migrating = migrateDatabase(url, { folder });
    await expect.poll(() => query(url, countInvalid)).toEqual([{ count: 1 }]);
    return { migrating, commit: () => writer.query('commit') };
  }

  test('lets others write the table, and waits for their transactions', async () => {
    const { url, folder } = await prepare();
    const { migrating, commit } = await migrateBesideWriter(url, folder);
    await query(url, 'insert into later_release values (3)');
    await commit();
    expect(await migrating).toBe(1);
    expect(await query(url, isValid)).toEqual([{ valid: true }]);
  });

  test('holds up a command, which is not told to do what is being done', async () => {
    const { url, folder } = await prepare();
    const { migrating, commit } = await migrateBesideWriter(url, folder);
    const command = migrateDatabase(url, { folder, create: false, upgrade: false });
    const countWaiting = `select count(*)::int as count from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and query like '%pg_try_advisory_lock%'`;
    await Promise.race([command, expect.poll(() => query(url, countWaiting)).toEqual([{ count: 1 }])]);
    await commit();
    expect(await Promise.all([migrating, command])).toEqual([1, 0]);
  });

  test('is dropped and built again if an interruption left it invalid', async () => {
    const { url, folder } = await prepare();
    await expect(query(url, statement.replace('index', 'unique index'))).rejects.toThrow('could not create unique');
    expect(await query(url, isValid)).toEqual([{ valid: false }]);
    expect(await migrateDatabase(url, { folder })).toBe(1);
    expect(await query(url, isValid)).toEqual([{ valid: true }]);
  });

  test('is kept if it was built, but not recorded', async () => {
    const { url, folder } = await prepare();
    await query(url, statement);
    const place = `select 'later'::regclass::oid::int as oid`;
    const before = await query(url, place);
    expect(await migrateDatabase(url, { folder })).toBe(1);
    expect(await query(url, place)).toEqual(before);
  });

  test('needs a migration of its own', async () => {
    const { url } = await prepare();
    const folder = await createMigrationsFolder({ added: [statement, 'alter table later_release add column n int'] });
    await expect(migrateDatabase(url, { folder })).rejects.toThrow('does nothing else');
  });
});

test("migrations that Drizzle's own migrator applied are not applied again", async () => {
  const url = await createEmptyDatabase();
  const client = await openClient(url);
  // It runs all in one transaction, in which the next one can't build its indexes.
  await migrate(drizzle({ client }), { migrationsFolder: await createMigrationsFolder({ last: 5 }) });
  const { length: all } = await readJournal();
  expect(await migrateDatabase(url)).toBe(all - 6);
});

test('a schema of an earlier release is refused without an upgrade, and an empty database is set up', async () => {
  const url = await createMigratedDatabase();
  const folder = await createMigrationsFolder({ added: ['create table later (n int)'] });
  const { length } = await readJournal();
  await expect(migrateDatabase(url, { upgrade: false, folder })).rejects.toMatchObject({
    text: 'The database schema is older than this release of pullscore. Run pullscore migrate, or start the service.',
  });
  expect(await query(url, countMigrations)).toEqual([{ count: length }]);
  expect(await migrateDatabase(url, { upgrade: true, folder })).toBe(1);
  expect(await migrateDatabase(url, { upgrade: false, folder })).toBe(0);
  const empty = await createEmptyDatabase();
  await expect(migrateDatabase(empty, { create: false, upgrade: false })).rejects.toThrow(
    'is not set up for pullscore',
  );
  expect(await migrateDatabase(empty, { upgrade: false })).toBe(length);
});

test('a database from before the first release is refused, with what to do', async () => {
  const url = await createEmptyDatabase();
  await query(
    url,
    `create table organisations (); create table pull_requests (); create table rulesets (); create table sync_requests ();
    create schema drizzle; create table drizzle.__drizzle_migrations (id serial, hash text, created_at bigint);
    insert into drizzle.__drizzle_migrations (hash, created_at) values ('of an earlier state', 1)`,
  );
  await expect(migrateDatabase(url)).rejects.toMatchObject({
    text: 'This database was made before the first release of pullscore. With the checkout that made it, save the rules: rules export. Then give this release an empty database, apply the rules, and import.',
  });
});

/** A table that is being read, and a migration that changes it. */
async function startReading() {
  const url = await createMigratedDatabase();
  const folder = await createMigrationsFolder({ added: ['alter table sync_requests add column later int'] });
  const reader = await openClient(url);
  await reader.query('begin; lock table sync_requests in access share mode');
  return { url, folder, reader };
}

test('a migration lets go of a table in use after a moment, and tries again', async () => {
  const { url, folder, reader } = await startReading();
  const migrating = migrateDatabase(url, { folder });
  const isWaiting = `select exists (
    select 1 from pg_locks where relation = 'sync_requests'::regclass and not granted) as waits`;
  const waits = async () => (await query<{ waits: boolean }>(url, isWaiting))[0]?.waits;
  await expect.poll(waits, { timeout: 20_000 }).toBe(true);
  await expect.poll(waits, { timeout: 20_000 }).toBe(false);
  await reader.query('commit');
  expect(await migrating).toBe(1);
});

test('a migration that never gets its lock gives up, and says why', async () => {
  const { url, folder } = await startReading();
  await expect(migrateDatabase(url, { folder, maxWaitMs: 0 })).rejects.toMatchObject({
    text: "The database schema can't be brought up to date: canceling statement due to lock timeout. Other sessions hold locks on its tables: end them, then try again.",
  });
});

describe('a migration lock that another session holds', () => {
  async function hold(url: string) {
    const holder = await openClient(url, 'a session left behind');
    const { rows } = await holder.query('select pg_backend_pid() as id, pg_advisory_lock($1)', [migrationLock.key]);
    return Number(rows[0]?.id);
  }

  test('does not hold up a schema that is up to date', async () => {
    const url = await createMigratedDatabase();
    await hold(url);
    expect(await migrateDatabase(url)).toBe(0);
  });

  test('is logged with its holder, and the wait ends with what to do', async () => {
    const url = await createEmptyDatabase();
    const id = await hold(url);
    const lines: string[] = [];
    const wait = {
      log: (line: string) => lines.push(line),
      // It has waited long enough once that is logged.
      get maxWaitMs() {
        return lines.length === 0 ? 60_000 : 0;
      },
    };
    await expect(migrateDatabase(url, wait)).rejects.toMatchObject({
      text: `The database process ${id} (a session left behind) holds the lock of migrations. Wait until it has finished. If nothing works there, end it in the database: select pg_terminate_backend(${id})`,
    });
    expect(lines).toEqual([
      `The database process ${id} (a session left behind) holds the lock of migrations: waiting for it`,
    ]);
  });

  test('is waited for until a signal comes', async () => {
    const url = await createEmptyDatabase();
    await hold(url);
    const stopping = new AbortController();
    const log = () => stopping.abort();
    await expect(migrateDatabase(url, { signal: stopping.signal, log })).rejects.toThrow();
  });
});

test('a failed migration leaves no change and no lock behind', async () => {
  const url = await createMigratedDatabase();
  const before = await query(url, countMigrations);
  const folder = await createMigrationsFolder({ added: ['create table first (n int)', 'create table second (n int)'] });
  await query(url, 'create table second (in_the_way int)');
  await expect(migrateDatabase(url, { folder })).rejects.toMatchObject({
    text: `The database schema can't be brought up to date: relation "second" already exists. Check the rights of the user in DATABASE_URL.`,
  });
  expect(await query(url, countMigrations)).toEqual(before);
  await query(url, 'drop table second');
  expect(await migrateDatabase(url, { folder })).toBe(1);
});

/** Replies to each message with the next of these. @returns its port */
async function startServer(...replies: Buffer[]): Promise<number> {
  const server = createServer(socket => {
    socket.on('data', () => {
      const reply = replies.shift();
      if (reply !== undefined) socket.write(reply);
    });
  });
  onTestFinished(() => void server.close());
  return listenOn(server);
}

test.each([
  [
    'that is missing',
    [message('R', '\0\0\0\x0aSCRAM-SHA-256\0\0'), message('R', '\0\0\0\x0br=a')],
    'it asks for a password, and none is set',
  ],
  ['that is wrong', [message('E', 'SFATAL\0VFATAL\0C28P01\0Mauthentication failed\0\0')], 'authentication failed'],
])('a password %s is named, with where to set it', async (_, replies, reason) => {
  const port = await startServer(...replies);
  await expect(migrateDatabase(`postgres://nobody@127.0.0.1:${port}/none`)).rejects.toMatchObject({
    text: `The database none at 127.0.0.1:${port} can't be used: ${reason}. Check the password in DATABASE_URL or PGPASSWORD.`,
  });
});

test('a server that accepts a connection and says nothing is given up soon', async () => {
  const port = await startServer();
  const start = performance.now();
  await expect(migrateDatabase(`postgres://nobody:hush@127.0.0.1:${port}/none`)).rejects.toMatchObject({
    text: `The database server at 127.0.0.1:${port} can't be reached: no answer. Check DATABASE_URL and that the server runs.`,
  });
  expect(performance.now() - start).toBeLessThan(30_000);
});

test.each(['SQL_ASCII', 'LATIN1'])(
  'a database of the encoding %s is refused by it, with the way to another',
  async encoding => {
    const url = await createEmptyDatabase(`encoding '${encoding}' locale 'C' template template0`);
    await expect(migrateDatabase(url)).rejects.toMatchObject({
      message: expect.stringMatching(`^The database \\w+ has the encoding ${encoding}, and pullscore needs UTF8\\.$`),
      action: /^Create another one with "create database .*DATABASE_URL\.$/,
    });
    expect(await query(url, `select relname from pg_class where relname = 'organisations'`)).toEqual([]);
  },
);

test('a server older than PostgreSQL 15 is refused by its version', async () => {
  const integer = (value: number, bytes: number) => {
    const buffer = Buffer.alloc(bytes);
    buffer.writeIntBE(value, 0, bytes);
    return buffer;
  };
  const numbers = [integer(0, 4), integer(0, 2), integer(23, 4), integer(4, 2), integer(-1, 4), integer(0, 2)];
  const ready = message('Z', 'I');
  const answer = Buffer.concat([
    message('T', Buffer.concat([integer(1, 2), Buffer.from('version\0'), ...numbers])),
    message('D', Buffer.concat([integer(1, 2), integer(6, 4), Buffer.from('140012')])),
    message('C', 'SELECT 1\0'),
    ready,
  ]);
  // To the settings, the question for the version, and the release of locks.
  const port = await startServer(Buffer.concat([message('R', integer(0, 4)), ready]), answer, answer, answer);
  await expect(migrateDatabase(`postgres://nobody@127.0.0.1:${port}/none`)).rejects.toMatchObject({
    text: 'PostgreSQL 14 is too old. Use version 15 or newer.',
  });
});

/** What PostgreSQL's catalogue says about the tables. */
let url: string;
let drop: () => Promise<void>;
beforeAll(async () => {
  ({ url, drop } = await createDatabase());
});
afterAll(() => drop());

const tables = `select oid, relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`;

test("every organisation's table has a primary key that starts with the organisation", async () => {
  const rows = await query<{ relname: string; first: string | null }>(
    url,
    `select relname, (
        select attname from pg_constraint join pg_attribute on attrelid = conrelid and attnum = conkey[1]
        where conrelid = tables.oid and contype = 'p'
      ) as first from (${tables}) as tables order by relname`,
  );
  const others = rows.filter(({ first }) => first !== 'organisation_id').map(({ relname }) => relname);
  // Except the organisations themselves, and what belongs to all: a token's limits, and what services report.
  expect(others).toEqual(['github_limits', 'organisations', 'service_reports']);
  expect(rows.length).toBeGreaterThan(10);
});

test("every foreign key between organisations' tables starts with the organisation, on both sides", async () => {
  const rows = await query<{ source: string; target: string; columns: string[]; targets: string[] }>(
    url,
    `select conrelid::regclass::text as source, confrelid::regclass::text as target,
      array(select attname::text from unnest(conkey) with ordinality as key (number, position)
        join pg_attribute on attrelid = conrelid and attnum = number order by position) as columns,
      array(select attname::text from unnest(confkey) with ordinality as key (number, position)
        join pg_attribute on attrelid = confrelid and attnum = number order by position) as targets
    from pg_constraint where contype = 'f'`,
  );
  const between = rows.filter(({ target }) => target !== 'organisations');
  expect(between.map(({ source, target }) => `${source} → ${target}`).toSorted()).toEqual([
    'access_tokens → users',
    'check_runs → pull_requests',
    'pull_requests → members',
    'pull_requests → repositories',
  ]);
  for (const { columns, targets } of between)
    expect([columns[0], targets[0]]).toEqual(['organisation_id', 'organisation_id']);
  const toOrganisations = rows.filter(({ target }) => target === 'organisations');
  for (const { columns, targets } of toOrganisations) expect([columns, targets]).toEqual([['organisation_id'], ['id']]);
});

test("every unique index on an organisation's tables includes the organisation", async () => {
  const rows = await query<{ name: string; columns: string[] }>(
    url,
    `select indexrelid::regclass::text as name, array(
        select attname::text from pg_attribute where attrelid = indrelid and attnum = any(indkey)
      ) as columns
    from pg_index join (${tables}) as tables on tables.oid = indrelid
    where indisunique and relname not in ('organisations', 'github_limits', 'service_reports')`,
  );
  expect(rows.filter(({ columns }) => !columns.includes('organisation_id'))).toEqual([]);
});
