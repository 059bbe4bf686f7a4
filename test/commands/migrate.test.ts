import { describe, expect, test } from 'vitest';
import { joinEmbeddedDatabase } from '../../src/database/embedded-server.ts';
import { migrationLock } from '../../src/database/migrations.ts';
import { query } from '../support/database-server.ts';
import { createEarlierDatabase, readJournal } from '../support/migrations.ts';
import { createEmptyDatabase, openClient } from '../support/service.ts';
import { complaintOf, newHome, runHere, runJson, startHere } from './support.ts';

async function countApplied(url: string): Promise<number | undefined> {
  const text = 'select count(*)::int as count from drizzle.__drizzle_migrations';
  return (await query<{ count: number }>(url, text))[0]?.count;
}

const countAll = async () => (await readJournal()).length;

test('commands leave the schema of an earlier release to those that migrate, and say so', async () => {
  const all = await countAll();
  const url = await createEarlierDatabase(all - 2);
  const type = (...operands: string[]) => runHere({ DATABASE_URL: url }, ...operands);
  for (const line of ['organisation list', 'organisation add acme', 'audit-log', 'explain acme/web#1']) {
    expect(await complaintOf(type(line))).toBe(
      'pullscore: The database schema is older than this release of pullscore. Run pullscore migrate, or start the service.',
    );
  }
  await type('doctor');
  expect(await countApplied(url)).toBe(all - 1);
  expect((await type('migrate')).code).toBe(0);
  expect(await countApplied(url)).toBe(all);
  expect((await type('organisation list')).code).toBe(0);
});

test.each(['serve', 'worker'])('%s brings the schema up to date', async command => {
  const all = await countAll();
  const url = await createEarlierDatabase(all - 2);
  // Then it finds that it can't listen, and ends.
  const environment = { DATABASE_URL: url, HOST: '192.0.2.1', METRICS_PORT: '1' };
  expect((await runHere(environment, command)).stderr).toContain('HOST 192.0.2.1 is not an address of this machine.');
  expect(await countApplied(url)).toBe(all);
});

test('serve names the holder of the migration lock, and a signal ends its wait', async () => {
  const url = await createEmptyDatabase();
  const holder = await openClient(url);
  await holder.query('select pg_advisory_lock($1)', [migrationLock.key]);
  const serving = startHere({ DATABASE_URL: url, PORT: '0' }, 'serve');
  await serving.shows(/The database process \d+ holds the lock of migrations: waiting for it/);
  serving.interrupt();
  expect(await serving.ended).toMatchObject({ code: 0, stdout: '' });
});

test('migrate moves all of the embedded database to another one, once nothing uses it', async () => {
  const home = newHome('moving');
  const embedded = { PULLSCORE_HOME: home };
  const own = { ...embedded, DATABASE_URL: await createEmptyDatabase() };
  expect(await complaintOf(runHere(embedded, 'migrate --from-embedded'), 2)).toBe(
    'pullscore: There is no database to copy to. Set DATABASE_URL to it.',
  );
  await runJson(embedded, 'organisation add acme');
  const ada = ['--organisation', 'acme', '--name', 'Ada \\ "Łucja"\'s 🦊', '--email', 'ada@acme.example'];
  await runJson(embedded, 'user add', ...ada);
  await runJson(embedded, 'token create --user ada@acme.example');
  const server = await joinEmbeddedDatabase({ home });
  await query(server.url, "select setval('tickets', 4711)");
  expect((await runHere(own, 'migrate --from-embedded')).stderr).toBe(
    'pullscore: Another process uses the embedded database. Stop the service, and run this again.\n',
  );
  const contents = async (url: string) => {
    const rows = await query<{ name: string }>(
      url,
      "select tablename as name from pg_tables where schemaname = 'public'",
    );
    const found = rows.map(async ({ name }) => [name, await query(url, `select * from "${name}" order by 1, 2`)]);
    return Object.fromEntries(await Promise.all(found));
  };
  const before = await contents(server.url);
  await server.leave();
  const { copied } = await runJson<{ copied: number }>(own, 'migrate --from-embedded');
  expect(copied).toBe(Object.values(before).flat().length);
  expect(await contents(own.DATABASE_URL)).toEqual(before);
  expect(await query(own.DATABASE_URL, "select nextval('tickets')::int as ticket")).toEqual([{ ticket: 4712 }]);
  expect((await runHere(own, 'migrate --from-embedded')).stderr).toMatch(
    /has organisations already, so nothing was copied/,
  );
});

const tablesIn = (url: string) =>
  query(
    url,
    "select schemaname, tablename from pg_tables where schemaname not in ('pg_catalog', 'information_schema')",
  );

describe('a database without our schema', () => {
  test.each([
    ['an empty database', ''],
    ['the database of another application', 'create table users (email text)'],
  ])('commands that set up no database leave %s as it is, and say what to do', async (_name, statement) => {
    const url = await createEmptyDatabase();
    if (statement !== '') await query(url, statement);
    const before = await tablesIn(url);
    const [{ name } = { name: '' }] = await query<{ name: string }>(url, 'select current_database() as name');
    for (const line of [
      'organisation list',
      'user add --organisation acme --name Ada --email ada@acme.example',
      'standings --organisation acme',
      'explain acme/web#1',
    ]) {
      expect(await complaintOf(runHere({ DATABASE_URL: url }, line))).toBe(
        `pullscore: The database ${name} is not set up for pullscore. Check DATABASE_URL. To set up an empty database, run pullscore migrate, start the service or add an organisation.`,
      );
    }
    expect(await tablesIn(url)).toEqual(before);
  });

  test('commands that set up a database refuse one that has tables of others', async () => {
    const url = await createEmptyDatabase();
    // Another application that uses Drizzle is known by its migrations.
    await query(
      url,
      `create table users (); create table orders (); create table basket (); create schema shop;
      create table shop.goods (); create schema drizzle;
      create table drizzle.__drizzle_migrations (id serial, hash text, created_at bigint);
      insert into drizzle.__drizzle_migrations (hash, created_at) values ('theirs', 9e12)`,
    );
    const before = await tablesIn(url);
    const [{ name } = { name: '' }] = await query<{ name: string }>(url, 'select current_database() as name');
    for (const line of ['migrate', 'serve', 'worker', 'organisation add acme']) {
      expect(await complaintOf(runHere({ DATABASE_URL: url, PORT: '0' }, line))).toBe(
        `pullscore: The database ${name} has tables that are not of pullscore: basket, drizzle.__drizzle_migrations, orders and 2 more. Create an empty database for pullscore, and name that one in DATABASE_URL.`,
      );
    }
    expect(await tablesIn(url)).toEqual(before);
  });

  test('migrate sets up a database whose only tables are those of an extension', async () => {
    const url = await createEmptyDatabase();
    await query(url, 'create table of_extension (); alter extension plpgsql add table of_extension');
    expect(await runJson({ DATABASE_URL: url }, 'migrate')).toEqual({ applied: await countAll() });
  });
});

test('the first organisation sets up an empty database', async () => {
  const url = await createEmptyDatabase();
  expect((await runHere({ DATABASE_URL: url }, 'organisation add acme')).code).toBe(0);
  expect(await countApplied(url)).toBe(await countAll());
});
