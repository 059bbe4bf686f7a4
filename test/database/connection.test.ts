import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { connectDatabase } from '../../src/database/client.ts';
import { migrateDatabase } from '../../src/database/migrations.ts';
import { parseDatabaseUrl } from '../../src/database-url.ts';
import { query } from '../support/database-server.ts';
import { startPooler } from '../support/pooler.ts';
import { listenOn } from '../support/raw-http.ts';
import { createEmptyDatabase, createMigratedDatabase } from '../support/service.ts';

const log = pino({ level: 'silent' });

async function poolerOf(url: string, mode: 'session' | 'transaction') {
  const pooler = await startPooler(url, mode);
  onTestFinished(() => pooler.close());
  return pooler;
}

test('a pooler of sessions that refuses settings at the start is used, and the settings hold', async () => {
  const { url } = await poolerOf(await createEmptyDatabase(), 'session');
  expect(await migrateDatabase(url)).toBeGreaterThan(0);
  const database = connectDatabase(url, log);
  onTestFinished(() => database.close());
  const shown = { read_only: 'on', sort: 'off', timeout: '4500ms', style: 'ISO, MDY' };
  const text = `select current_setting('default_transaction_read_only') as read_only, current_setting('enable_sort') as sort,
    current_setting('statement_timeout') as timeout, current_setting('datestyle') as style`;
  const columns = ['read_only', 'sort', 'timeout', 'style'] as const;
  const selection = { name: 'shown', text, parameters: [], columns };
  expect(await database.read<typeof shown>(selection, {})).toEqual([shown]);
  const { rows } = await database.transaction(executor => executor.execute(sql.raw(text)));
  expect(rows).toEqual([{ ...shown, read_only: 'off', sort: 'on' }]);
});

test('a pooler of transactions is refused in one line, before it leaves a lock behind', async () => {
  const target = await createEmptyDatabase();
  const { url } = await poolerOf(target, 'transaction');
  await expect(migrateDatabase(url)).rejects.toMatchObject({
    text: 'DATABASE_URL points to a pooler of transactions, and pullscore needs sessions of its own. Let it pool sessions (for PgBouncer, pool_mode = session), or connect to PostgreSQL directly; see docs/scaling.md.',
  });
  const locks = `select 1 from pg_locks where locktype = 'advisory' and database = (
    select oid from pg_database where datname = current_database())`;
  expect(await query(target, locks)).toEqual([]);
});

test('a pooler that refuses an option of the address is named, with what to do', async () => {
  const { url } = await poolerOf(await createEmptyDatabase(), 'session');
  await expect(migrateDatabase(`${url}?options=-c%20search_path%3Dpublic`)).rejects.toMatchObject({
    text: expect.stringMatching(
      /unsupported startup parameter: options\. The pooler refuses it: remove it from DATABASE_URL\.$/,
    ),
  });
});

test('our settings hold beside options in the address, whatever the role is set to', async () => {
  const url = await createMigratedDatabase();
  const name = new URL(url).pathname.slice(1);
  for (const setting of [
    "datestyle = 'SQL, DMY'",
    'bytea_output = escape',
    "intervalstyle = 'iso_8601'",
    'default_transaction_isolation = serializable',
  ]) {
    await query(url, `alter database "${name}" set ${setting}`);
  }
  const address = new URL(url);
  address.searchParams.set('options', '-c search_path=public -c timezone=Asia/Tokyo -c statement_timeout=9000');
  address.searchParams.set('statement_timeout', '8000');
  address.searchParams.set('application_name', 'another');
  const database = connectDatabase(address.href, log);
  onTestFinished(() => database.close());
  const shown = sql`select to_timestamp(0)::text as moment, '\\x61'::bytea::text as bytes, '1 day'::interval::text as day,
    current_setting('statement_timeout') as timeout, current_setting('application_name') as application,
    current_setting('search_path') as path, current_setting('transaction_isolation') as isolation`;
  expect((await database.executor.execute(shown)).rows).toEqual([
    {
      moment: '1970-01-01 00:00:00+00',
      bytes: '\\x61',
      day: '1 day',
      timeout: '4500ms',
      application: 'pullscore',
      path: 'public',
      isolation: 'read committed',
    },
  ]);
});

test.each([
  ['postgres://u:p@/db?host=/cloudsql/a:b:c', { host: '/cloudsql/a:b:c', database: 'db', user: 'u', password: 'p' }],
  ['postgres:///db?host=/run/postgresql&port=5433', { host: '/run/postgresql', port: 5433 }],
  ['postgres://u:p@[::1]:5433/db', { host: '::1', port: 5433 }],
  ['postgres://db/scores', { host: 'db', port: undefined, ssl: undefined }],
  ['postgres://db/scores?sslmode=disable', { ssl: false }],
  ['postgres://db/scores?sslmode=require', { ssl: {} }],
  ['postgres://db/scores?sslrootcert=system', { ssl: {} }],
  ['postgres://db/scores?sslmode=no-verify', { ssl: { rejectUnauthorized: false } }],
  ['postgres://db/scores?uselibpqcompat=true&sslmode=require', { ssl: { rejectUnauthorized: false } }],
])('%s is an address, without a warning', (text, expected) => {
  const warnings: unknown[] = [];
  const { emitWarning } = process;
  process.emitWarning = (warning: string | Error) => void warnings.push(warning);
  try {
    expect(parseDatabaseUrl(text)).toMatchObject(expected);
  } finally {
    process.emitWarning = emitWarning;
  }
  expect(warnings).toEqual([]);
});

const several =
  'DATABASE_URL names several hosts, which is not supported: name one, such as a proxy that leads to the primary';
const badPort = 'DATABASE_URL has a port that is not a number from 1 to 65535';
const encode = 'DATABASE_URL is not a valid address: percent-encode special characters in its password';

test.each([
  ['postgres://u:p@one:5432,two:5432/db', several],
  ['postgres://u:p@one,two/db', several],
  ['postgres://u:p@/db?host=one,two', several],
  ['postgres://u:p@db:99999/x', badPort],
  ['postgres://u:p@db:port/x', badPort],
  ['postgres://u:p@/x?host=/run&port=none', badPort],
  ['postgres://u:pa#ss@db:5432/x', encode],
  ['postgres://u:pa?ss@db/x', encode],
  [
    'postgres://db/x?service=one&passfile=two',
    'DATABASE_URL sets passfile, service, which is not supported: leave it out',
  ],
  [
    'postgres://db/x?sslmode=secure',
    'DATABASE_URL has an sslmode that is not one of disable, prefer, require, verify-ca, verify-full, no-verify',
  ],
  [
    'postgres://db/x?sslrootcert=/nonexistent.pem',
    "DATABASE_URL names the file /nonexistent.pem for TLS, which can't be read: ENOENT",
  ],
])('%s is refused with what is wrong', (text, expected) => {
  expect(() => parseDatabaseUrl(text)).toThrow(expected);
});

/** Answers the request for TLS with `answer`, and then speaks it. */
async function startTlsServer(answer: 'N' | 'S'): Promise<number> {
  const read = (name: string) =>
    readFileSync(fileURLToPath(new URL(`../support/certificate/${name}`, import.meta.url)));
  const server = createServer(socket => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(answer);
      if (answer === 'N') return;
      const tls = new TLSSocket(socket, { isServer: true, key: read('key.pem'), cert: read('certificate.pem') });
      tls.on('error', () => undefined);
    });
  });
  onTestFinished(() => void server.close());
  return listenOn(server);
}

test('a certificate of a private authority is named, with where to name the authority', async () => {
  const port = await startTlsServer('S');
  await expect(migrateDatabase(`postgres://u@localhost:${port}/x?sslmode=require`)).rejects.toMatchObject({
    text: `The certificate of the database server at localhost:${port} is not trusted: DEPTH_ZERO_SELF_SIGNED_CERT. Name its authority's certificate in DATABASE_URL, as sslrootcert=FILE, or in NODE_EXTRA_CA_CERTS; see docs/deployment.md.`,
  });
});

test('a certificate of another host is named so', async () => {
  const port = await startTlsServer('S');
  const file = fileURLToPath(new URL('../support/certificate/certificate.pem', import.meta.url));
  await expect(migrateDatabase(`postgres://u@127.0.0.1:${port}/x?sslrootcert=${file}`)).rejects.toMatchObject({
    text: `The certificate of the database server at 127.0.0.1:${port} is not trusted: ERR_TLS_CERT_ALTNAME_INVALID. In DATABASE_URL, use a host name that the certificate is for.`,
  });
});

test('a server without TLS is named so, with what to do', async () => {
  const port = await startTlsServer('N');
  await expect(migrateDatabase(`postgres://u@localhost:${port}/x?sslmode=require`)).rejects.toMatchObject({
    text: `The database x at localhost:${port} can't be used: The server does not support SSL connections. If the network is trusted, set sslmode=disable in DATABASE_URL.`,
  });
});
