import { sql } from 'drizzle-orm';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../src/config.ts';
import { connectDatabase } from '../src/database/client.ts';
import { createDeps } from '../src/deps.ts';
import { createLog } from '../src/log.ts';
import { createDatabase, createMigratedDatabase } from './support/service.ts';

function logging(logLevel = 'info') {
  const lines: string[] = [];
  return { lines, log: createLog({ logLevel }, { write: line => lines.push(line) }) };
}

/** A database for one test, and what its connection logs. */
async function connected() {
  const { url, drop } = await createDatabase();
  const { lines, log } = logging();
  const database = connectDatabase(url, log);
  onTestFinished(async () => {
    await database.close();
    await drop();
  });
  return { url, database, lines, log };
}

test('a failed query is logged with its code and place, without its parameters', async () => {
  const { database, lines, log } = await connected();
  const failing = database.executor.execute(sql`select ${'ada@acme.example'}::text, ${'x'.repeat(100_000)}::int`);
  await failing.catch((err: unknown) => log.error({ err }, 'failed'));
  expect(lines).toHaveLength(1);
  expect(lines[0]).not.toContain('ada@acme.example');
  expect(lines[0]?.length).toBeLessThan(20_000);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    msg: 'failed',
    err: { type: 'DatabaseError', code: '22P02', query: 'select $1::text, $2::int' },
  });
  expect(JSON.parse(lines[0] ?? '').err.stack).toContain('deps.test.ts');
});

test('an idle connection that is lost is logged without the connection, which holds its settings', async () => {
  const { url, database, lines } = await connected();
  await database.executor.execute(sql`select 1`);
  const other = connectDatabase(url, logging().log);
  await other.executor.execute(
    sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
      and backend_type = 'client backend'`,
  );
  await other.close();
  await expect.poll(() => lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    msg: 'an idle database connection was lost',
    err: { code: '57P01' },
  });
  expect(JSON.parse(lines[0] ?? '').err).not.toHaveProperty('client');
});

test('a failed connection is logged in one line without a stack, because an outage repeats it often', async () => {
  const { lines, log } = logging();
  const database = connectDatabase('postgres://nobody@127.0.0.1:1/none', log);
  onTestFinished(() => database.close());
  const ways = [
    () => database.executor.execute(sql`select ${'ada@acme.example'}::text`),
    () => database.transaction(async executor => executor.execute(sql`select 1`)),
    () => database.read({ name: 'one', text: 'select 1', parameters: [], columns: [] }, {}),
  ];
  for (const way of ways) await way().catch((err: unknown) => log.error({ err }, 'failed'));
  expect(lines.map(line => JSON.parse(line).err)).toEqual(
    ways.map(() => ({ type: 'Error', message: 'connect ECONNREFUSED 127.0.0.1:1', code: 'ECONNREFUSED' })),
  );
});

test('other errors are logged with their causes, and no authorization', () => {
  const { lines, log } = logging();
  const err = Object.assign(new Error('outer', { cause: new Error('inner') }), {
    request: { headers: { authorization: 'token hush' } },
  });
  const headers = { authorization: 'Bearer hush' };
  log.error({ err, headers, response: { headers } });
  expect(lines.join()).not.toContain('hush');
  expect(JSON.parse(lines[0] ?? '').err).toMatchObject({ message: 'outer', cause: { message: 'inner' } });
});

test('nothing below the log level is logged', () => {
  const { lines, log } = logging('error');
  log.warn('a warning');
  log.error('an error');
  expect(lines.map(line => JSON.parse(line).msg)).toEqual(['an error']);
});

test('the log warns of an address of GitHub that is not encrypted', async () => {
  const { lines, log } = logging();
  const environment = {
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    GITHUB_API_URL: 'http://github.acme.example',
  };
  await expect(createDeps(loadConfig(environment), log, { create: true, upgrade: true })).rejects.toThrow();
  expect(lines.join()).toContain('GITHUB_API_URL is not https');
});

test('closing the dependencies leaves no database connection open', async () => {
  const url = await createMigratedDatabase();
  const deps = await createDeps(loadConfig({ DATABASE_URL: url }), logging().log, { create: true, upgrade: false });
  expect(deps.migrationsApplied).toBe(0);
  await deps.database.read({ name: 'one', text: 'select 1', parameters: [], columns: [] }, {});
  await deps.database.executor.execute(sql`select 1`);
  await deps.close();
  const other = connectDatabase(url, logging().log);
  onTestFinished(() => other.close());
  const open = sql`select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
    and backend_type = 'client backend'`;
  // PostgreSQL ends its processes a moment after the connections.
  await expect.poll(async () => (await other.executor.execute(open)).rows).toEqual([]);
});
