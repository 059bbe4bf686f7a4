import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client } from 'pg';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../../src/database/embedded.ts';
import { ServiceError } from '../../src/errors.ts';
import { createHome } from '../support/home.ts';

/** Every user may pass through it, as through most folders that people work in. */
const root = realpathSync(createHome('embedded'));
/** One home for the tests that can share one: making a database is the slow part. */
const shared = join(root, 'shared');

const joined = new Set<EmbeddedDatabase>();
const children = new Set<ChildProcess>();
const dataDirectories = new Set<string>();

async function joinAt(home: string): Promise<EmbeddedDatabase> {
  const database = await joinEmbeddedDatabase({ home, durable: false });
  joined.add(database);
  dataDirectories.add(database.dataDirectory);
  return database;
}

async function leave(database: EmbeddedDatabase): Promise<void> {
  joined.delete(database);
  await database.leave();
}

/** Another process that joins, tells the URL, and stays until it is killed. */
async function joinInChild(home: string): Promise<{ child: ChildProcess; url: string }> {
  const module = new URL('../../src/database/embedded.ts', import.meta.url).href;
  const program = `
    import { joinEmbeddedDatabase } from ${JSON.stringify(module)};
    const { url } = await joinEmbeddedDatabase({ home: ${JSON.stringify(home)}, durable: false });
    process.stdout.write(url);
    setInterval(() => {}, 1000);`;
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const child = spawn(process.execPath, ['--import', tsx, '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.add(child);
  if (child.stdout === null) throw new Error('no pipe');
  const [output] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, url: output.toString() };
}

async function query(url: string, text: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  // A killed server is told of here as well as by the query that it fails.
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query<unknown[]>({ text, rowMode: 'array' });
    return rows[0]?.[0];
  } finally {
    await client.end();
  }
}

/** Tries again while a server is being brought back. */
function eventually(url: string, text: string): Promise<unknown> {
  return vi.waitFor(() => query(url, text), { timeout: 5000, interval: 25 });
}

/** Living processes, guardians and servers alike, that name one of these folders in their arguments. */
function processesOf(...folders: string[]): string[] {
  return execFileSync('ps', ['-axww', '-o', 'pid=,stat=,command='], { encoding: 'utf8' })
    .split('\n')
    .filter(line => !/^\s*\d+\s+Z/.test(line) && /guardian\.[jt]s|postgres/.test(line))
    .filter(line => folders.some(folder => line.includes(folder)));
}

function gone(...folders: string[]): Promise<void> {
  return vi.waitFor(() => expect(processesOf(...folders)).toEqual([]), { timeout: 5000, interval: 25 });
}

const guardianOf = (home: string): number => JSON.parse(readFileSync(join(home, 'server.json'), 'utf8')).pid;
const pidFile = (database: EmbeddedDatabase) => join(database.dataDirectory, 'postmaster.pid');
const serverOf = (database: EmbeddedDatabase) => Number(readFileSync(pidFile(database), 'utf8').split('\n')[0]);
const port = (url: string) => Number(new URL(url).port);

function modes(folder: string): Set<string> {
  const found = new Set<string>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const { mode } = statSync(join(entry.parentPath, entry.name));
    found.add(`${entry.isDirectory() ? 'folder' : 'file'} ${(mode & 0o777).toString(8)}`);
  }
  return found;
}

function accepts(host: string, portNumber: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host, port: portNumber, timeout: 1000 }, () => resolve(true));
    socket.on('error', () => resolve(false)).on('timeout', () => resolve(false));
    void once(socket, 'connect').then(
      () => socket.destroy(),
      () => socket.destroy(),
    );
  });
}

afterEach(async () => {
  await Promise.all([...joined].map(leave));
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  await gone(root, ...dataDirectories);
});

afterAll(() => {
  rmSync(root, { recursive: true, force: true });
  // A database that could not lie in its home has a folder of its own elsewhere.
  for (const data of dataDirectories) rmSync(dirname(data), { recursive: true, force: true });
});

describe('sharing', () => {
  it('gives one server to processes that all join an empty home at once', async () => {
    const home = join(root, 'at once');
    const users = await Promise.all([
      ...Array.from({ length: 8 }, async () => (await joinAt(home)).url),
      ...Array.from({ length: 2 }, async () => (await joinInChild(home)).url),
    ]);
    expect(new Set(users).size).toBe(1);
    const starts = await Promise.all(users.map(url => query(url, 'SELECT pg_postmaster_start_time()::text')));
    expect(new Set(starts).size).toBe(1);
    expect(readdirSync(home).filter(name => name.startsWith('cluster-'))).toEqual([]);
  });

  it('keeps the data and the URL when all have left and one joins again', async () => {
    const first = await joinAt(shared);
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await leave(first);
    await gone(shared);
    const second = await joinAt(shared);
    expect(await query(second.url, 'SELECT answer FROM kept')).toBe(42);
    expect(second.url).toBe(first.url);
  });

  it('keeps the server up for the others when one leaves', async () => {
    const [first, second] = [await joinAt(shared), await joinAt(shared)];
    const started = await query(first.url, 'SELECT pg_postmaster_start_time()::text');
    await leave(first);
    expect(await query(second.url, 'SELECT pg_postmaster_start_time()::text')).toBe(started);
  });

  it('leaves nothing running when its only user is killed', async () => {
    const { child, url } = await joinInChild(shared);
    expect(await query(url, 'SELECT 1')).toBe(1);
    child.kill('SIGKILL');
    await gone(shared);
    expect(existsSync(join(shared, 'server.json'))).toBe(false);
  });
});

describe('recovery', () => {
  it('brings a killed server back at the same address', async () => {
    const database = await joinAt(shared);
    const { url } = database;
    const killed = serverOf(database);
    process.kill(killed, 'SIGKILL');
    await vi.waitFor(() => expect(serverOf(database)).not.toBe(killed), { timeout: 5000, interval: 10 });
    expect(await eventually(url, 'SELECT 1')).toBe(1);
  });

  it('ends a busy session of a killed server, and brings the server back', async () => {
    const database = await joinAt(shared);
    const busy = query(database.url, 'SELECT count(*) FROM generate_series(1, 1e12::bigint) WHERE random() < 0');
    const failure = busy.catch((error: Error) => error);
    const active = "SELECT count(*)::int FROM pg_stat_activity WHERE query LIKE '%generate_series%'";
    await expect.poll(() => query(database.url, active)).toBeGreaterThan(1);
    const killed = serverOf(database);
    process.kill(killed, 'SIGKILL');
    expect(await failure).toBeInstanceOf(Error);
    await vi.waitFor(() => expect(serverOf(database)).not.toBe(killed), { timeout: 5000, interval: 10 });
    expect(await eventually(database.url, 'SELECT 1')).toBe(1);
  });

  it('brings guardian and server back for those who stay when the guardian is killed', async () => {
    const database = await joinAt(shared);
    const { url } = database;
    const killed = guardianOf(shared);
    process.kill(killed, 'SIGKILL');
    await vi.waitFor(() => expect(guardianOf(shared)).not.toBe(killed), { timeout: 5000, interval: 10 });
    expect(await eventually(url, 'SELECT 1')).toBe(1);
    expect(database.url).toBe(url);
  });

  it('starts after user, guardian and server were killed together', async () => {
    const before = await joinAt(shared);
    await query(before.url, 'CREATE TABLE IF NOT EXISTS survived AS SELECT 1 AS one');
    const { child } = await joinInChild(shared);
    await leave(before);
    for (const id of [child.pid ?? 0, guardianOf(shared), serverOf(before)]) process.kill(id, 'SIGKILL');
    expect(existsSync(pidFile(before))).toBe(true);
    const after = await joinAt(shared);
    expect(await query(after.url, 'SELECT one FROM survived')).toBe(1);
  });

  it('makes a database after the guardian was killed while it made one', async () => {
    const home = join(root, 'half-made');
    const joining = joinAt(home);
    const unfinished = () => (existsSync(home) ? readdirSync(home) : []).find(name => name.startsWith('cluster-'));
    const maker = await vi.waitFor(() => Number(/^cluster-(\d+)-/.exec(unfinished() ?? '')?.[1] ?? expect.fail()), {
      timeout: 5000,
      interval: 5,
    });
    process.kill(maker, 'SIGKILL');
    expect(await query((await joining).url, 'SELECT 1')).toBe(1);
    expect(unfinished()).toBeUndefined();
  });

  it("is not held up by a stale postmaster.pid whose id another of the user's processes has now", async () => {
    const first = await joinAt(shared);
    const stale = readFileSync(pidFile(first), 'utf8');
    await leave(first);
    const { uid, gid } = statSync(first.dataDirectory);
    const stranger = spawn('sleep', ['60'], { uid, gid, cwd: '/', stdio: 'ignore' });
    children.add(stranger);
    writeFileSync(pidFile(first), stale.replace(/^\d+/, String(stranger.pid)));
    const second = await joinAt(shared);
    expect(await query(second.url, 'SELECT 1')).toBe(1);
    expect(stranger.exitCode).toBeNull();
  });

  it('is not held up by a server.json whose port another program has now', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const address = silent.address();
    const content = { pid: process.pid, port: typeof address === 'object' ? address?.port : 0, secret: 'x' };
    await leave(await joinAt(shared));
    writeFileSync(join(shared, 'server.json'), JSON.stringify(content));
    const database = await joinAt(shared);
    expect(await query(database.url, 'SELECT 1')).toBe(1);
    silent.close();
  });

  it('takes another port when its own is taken', async () => {
    const first = await joinAt(shared);
    await leave(first);
    const other = createServer().listen(port(first.url), '127.0.0.1');
    await once(other, 'listening');
    const second = await joinAt(shared);
    expect(port(second.url)).not.toBe(port(first.url));
    expect(await query(second.url, 'SELECT 1')).toBe(1);
    other.close();
  });

  it('keeps the server up while signals of the terminal and of service managers reach the guardian', async () => {
    const database = await joinAt(shared);
    const server = serverOf(database);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(guardianOf(shared), signal);
    const second = await joinAt(shared);
    expect(await query(second.url, 'SELECT 1')).toBe(1);
    expect(serverOf(database)).toBe(server);
    // A session of its own: what Ctrl-C sends to our process group does not reach it.
    const sessions = execFileSync('ps', ['-o', 'pgid=', '-p', `${guardianOf(shared)}`, '-p', `${process.pid}`]);
    expect(new Set(sessions.toString().trim().split(/\s+/)).size).toBe(2);
  });
});

describe('access', () => {
  it('listens on loopback only', async () => {
    const { url } = await joinAt(shared);
    expect(await query(url, 'SHOW listen_addresses')).toBe('127.0.0.1');
    expect(await query(url, 'SHOW unix_socket_directories')).toBe('');
    expect(await accepts('127.0.0.1', port(url))).toBe(true);
    // A server on all addresses would answer here, too.
    expect(await accepts('127.0.0.2', port(url))).toBe(false);
  });

  it('refuses a wrong password', async () => {
    const { url } = await joinAt(shared);
    const wrong = new URL(url);
    wrong.password = 'wrong';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
    wrong.password = '';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toThrow(/password/);
  });

  it('tells the URL to nobody who does not know the secret', async () => {
    await joinAt(shared);
    const { port: control } = JSON.parse(readFileSync(join(shared, 'server.json'), 'utf8'));
    const socket = connect({ host: '127.0.0.1', port: control });
    let received = '';
    socket.on('data', data => {
      received += data;
    });
    socket.write(`${'x'.repeat(32)}\n`);
    await once(socket, 'close');
    expect(received).toBe('');
  });

  it('keeps every file to its owner, and the password off every command line', async () => {
    const { url, dataDirectory } = await joinAt(shared);
    const passable = process.getuid?.() === 0 ? ['folder 710'] : [];
    expect([...modes(shared)].sort()).toEqual(['file 600', 'folder 700', ...passable]);
    expect(dirname(dirname(dataDirectory))).toBe(shared);
    const all = execFileSync('ps', ['-axww', '-o', 'command='], { encoding: 'utf8' });
    expect(all).not.toContain(new URL(url).password);
  });
});

describe('text', () => {
  it('is UTF-8 that sorts by code points, with the ICU collations at hand', async () => {
    const { url } = await joinAt(shared);
    expect(await query(url, 'SHOW server_encoding')).toBe('UTF8');
    expect(await query(url, `SELECT 'Z' < 'a' AND 'z' < 'ä'`)).toBe(true);
    expect(await query(url, `SELECT 'Z' > 'a' COLLATE "und-x-icu" AND 'z' > 'ä' COLLATE "und-x-icu"`)).toBe(true);
  });
});

describe('places', () => {
  it('works in a folder with a long name of spaces, quotes and letters of other alphabets', async () => {
    const home = join(root, `Ünïcode "söme" $HOME's place 日本語 ${'long'.repeat(30)}`, 'home');
    const database = await joinAt(home);
    expect(await query(database.url, 'SELECT 1')).toBe(1);
    expect(database.dataDirectory.startsWith(home)).toBe(true);
  });

  it.runIf(process.getuid?.() === 0)(
    'works as root below a folder that only root may enter, and starts afresh when the home is deleted',
    async () => {
      const closed = mkdtempSync(join(root, 'closed-'));
      const home = join(closed, 'home');
      const first = await joinAt(home);
      expect(await query(first.url, 'CREATE TABLE mine AS SELECT 1 AS one')).toBeUndefined();
      expect(first.dataDirectory.startsWith(closed)).toBe(false);
      expect(statSync(first.dataDirectory).uid).not.toBe(0);
      expect([...modes(dirname(first.dataDirectory))].sort()).toEqual(['file 600', 'folder 700']);
      await leave(first);

      const second = await joinAt(home);
      expect(second.dataDirectory).toBe(first.dataDirectory);
      expect(await query(second.url, 'SELECT one FROM mine')).toBe(1);
      await leave(second);

      rmSync(home, { recursive: true });
      const third = await joinAt(home);
      expect(await query(third.url, "SELECT to_regclass('mine')")).toBeNull();
      expect(existsSync(first.dataDirectory)).toBe(false);
    },
  );

  it("refuses another major version's data, and says what to do", async () => {
    const database = await joinAt(shared);
    await leave(database);
    const file = join(database.dataDirectory, 'PG_VERSION');
    const version = readFileSync(file, 'utf8');
    writeFileSync(file, '11\n');
    const failure = await joinAt(shared).catch((error: unknown) => error);
    writeFileSync(file, version);
    expect(failure).toBeInstanceOf(ServiceError);
    expect(failure).toMatchObject({ code: 'database_unavailable' });
    expect((failure as ServiceError).message).toMatch(/made by PostgreSQL 11, .*move .* away/);
  });

  it('refuses a home that is a file, and says what to do', async () => {
    const file = join(root, 'file');
    writeFileSync(file, '');
    await expect(joinAt(file)).rejects.toThrow(/set PULLSCORE_HOME or DATABASE_URL/);
  });
});
