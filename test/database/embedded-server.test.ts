import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { Client } from 'pg';
import { pino } from 'pino';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { joinEmbeddedDatabase } from '../../src/database/embedded-server.ts';
import { createDeps } from '../../src/deps.ts';
import {
  children,
  cleanUpAfterTests,
  eventually,
  isRoot,
  joinAt,
  joined,
  joinInChild,
  leave,
  leaveInChild,
  nodeForAll,
  pidFile,
  processesOf,
  query,
  root,
  serverOf,
  startChild,
  startOf,
} from '../support/embedded.ts';

cleanUpAfterTests();

/** One home for the tests that can share one: making a database is the slow part. */
const shared = join(root, 'shared');

function modes(folder: string): Set<string> {
  const found = new Set<string>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const mode = statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.mode;
    // The server removes files while we look.
    if (mode === undefined) continue;
    found.add(`${entry.isDirectory() ? 'folder' : 'file'} ${(mode & 0o777).toString(8)}`);
  }
  return found;
}

describe('sharing', () => {
  it('processes that all join an empty home at once share one server', async () => {
    const home = join(root, 'at once');
    const users = await Promise.all([
      ...Array.from({ length: 2 }, async () => (await joinAt(home)).url),
      joinInChild(home).then(({ url }) => url),
    ]);
    expect(new Set(users).size).toBe(1);
    expect(new Set(await Promise.all(users.map(startOf))).size).toBe(1);
    expect(readdirSync(home)).toEqual(['postgresql']);
    await Promise.all([...children].map(child => leaveInChild({ child })));
  });

  it('a process that waits for another to stop the server names that one, and a signal ends its wait', async () => {
    const first = await joinAt(shared);
    const holder = new Client({ connectionString: first.url });
    holder.on('error', () => undefined);
    await holder.connect();
    const { rows } = await holder.query('select pg_backend_pid() as id');
    const locking = holder.query('select pg_advisory_lock(1886743661)');
    const isWaiting = "select count(*)::int from pg_locks where locktype = 'advisory' and not granted";
    await expect.poll(() => query(first.url, isWaiting)).toBe(1);
    await leave(first);
    await locking;
    const lines: string[] = [];
    const stopping = new AbortController();
    const log = (line: string) => {
      lines.push(line);
      stopping.abort();
    };
    await expect(joinEmbeddedDatabase({ home: shared, log, signal: stopping.signal })).rejects.toThrow('aborted');
    expect(lines).toEqual([
      `The database process ${rows[0].id} holds the lock of the embedded server's users: waiting for it`,
    ]);
    const second = joinAt(shared);
    await holder.end();
    expect((await second).url).toBe(first.url);
  });

  it('a copy of the folder, made while nothing uses it, is a backup that another home restores', async () => {
    const lines = readFileSync(new URL('../../docs/deployment.md', import.meta.url), 'utf8');
    const [, backup = '', restore = ''] =
      /```sh\n([^`]*?backup\.tar[^`]*?)node dist\/main.js migrate.*?\n([^`]*?)```/.exec(lines) ?? [];
    const cwd = join(root, 'backup');
    const home = join(cwd, '.pullscore');
    const type = (text: string) => execFileSync('sh', ['-euc', text], { cwd });
    const before = await joinAt(shared);
    await query(before.url, "create table backed_up as select 'this' as text");
    await leave(before);
    mkdirSync(cwd);
    symlinkSync(shared, home);
    type(backup);
    unlinkSync(home);
    await leave(await joinAt(home));
    type(restore);
    expect(await query((await joinAt(home)).url, 'select text from backed_up')).toBe('this');
  });

  it('the server stays up for a user without a connection just now, and ends with the last user', async () => {
    const [first, second] = [await joinAt(shared), await joinInChild(shared)];
    const started = await startOf(first.url);
    await leave(first);
    expect(await startOf(second.url)).toBe(started);
    await leaveInChild(second);
    expect(processesOf(first.dataDirectory)).toEqual([]);
  });

  it('the server ends when the last two users leave at once', async () => {
    const { dataDirectory } = await joinAt(shared);
    await joinAt(shared);
    await Promise.all([...joined].map(leave));
    expect(processesOf(dataDirectory)).toEqual([]);
  });

  it('the server ends if the program cannot use its database', async () => {
    const first = await joinAt(shared);
    await query(first.url, 'CREATE TABLE of_others ()');
    await leave(first);
    const starting = createDeps(loadConfig({ PULLSCORE_HOME: shared }), pino({ level: 'silent' }), {
      create: true,
      upgrade: false,
    });
    await expect(starting).rejects.toThrow('has tables that are not of pullscore');
    await expect.poll(() => processesOf(first.dataDirectory)).toEqual([]);
  });

  it('the server serves processes that join while the last one leaves', async () => {
    let last = await joinAt(shared);
    for (let round = 0; round < 3; round += 1) {
      const [next] = await Promise.all([joinAt(shared), leave(last)]);
      expect(await query(next.url, 'SELECT 1')).toBe(1);
      last = next;
    }
  });

  it('the next process takes over the server of one that was killed, and ends it', async () => {
    const { child, url, dataDirectory } = await joinInChild(shared);
    const started = await startOf(url);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const next = await joinAt(shared);
    expect(await startOf(next.url)).toBe(started);
    await leave(next);
    expect(processesOf(dataDirectory)).toEqual([]);
  });
});

describe('recovery', () => {
  it('brings a killed server back at the same address, with all that was committed', async () => {
    const database = await joinAt(shared);
    await query(database.url, 'CREATE TABLE committed AS SELECT 1 AS one');
    const killed = serverOf(database);
    process.kill(killed, 'SIGKILL');
    await vi.waitFor(() => expect(serverOf(database)).not.toBe(killed), { timeout: 20_000, interval: 10 });
    expect(await eventually(database.url, 'SELECT one FROM committed')).toBe(1);
  });

  it('brings a killed server back when its busy sessions have reached their timeouts', async () => {
    const database = await joinAt(shared);
    const busy = query(
      `${database.url}&statement_timeout=2000`,
      'SELECT count(*) FROM generate_series(1, 1e12::bigint) WHERE random() < 0',
    );
    const failure = busy.catch((error: Error) => error);
    const active = "SELECT count(*)::int FROM pg_stat_activity WHERE query LIKE '%generate_series%'";
    await expect.poll(() => query(database.url, active)).toBeGreaterThan(1);
    process.kill(serverOf(database), 'SIGKILL');
    expect(await failure).toBeInstanceOf(Error);
    expect(await eventually(database.url, 'SELECT 1')).toBe(1);
  });

  it('the server starts after it was killed together with its user', async () => {
    const before = await joinInChild(shared);
    await query(before.url, 'CREATE TABLE survived AS SELECT 1 AS one');
    for (const id of [before.child.pid ?? 0, serverOf(before)]) process.kill(id, 'SIGKILL');
    expect(existsSync(pidFile(before))).toBe(true);
    const after = await joinAt(shared);
    expect(await query(after.url, 'SELECT one FROM survived')).toBe(1);
  });

  it('a process stays a user of the server when its connection is cut', async () => {
    const database = await joinAt(shared);
    const held = "pg_stat_activity WHERE application_name = 'pullscore embedded'";
    const id = await query(database.url, `SELECT pid FROM ${held}`);
    await query(database.url, `SELECT pg_terminate_backend(${id})`);
    await expect.poll(() => query(database.url, `SELECT count(*)::int FROM ${held} AND pid <> ${id}`)).toBe(1);
    await leaveInChild(await joinInChild(shared));
    expect(await query(database.url, 'SELECT 1')).toBe(1);
  });

  it('a half-made database of a killed process is replaced', async () => {
    const home = join(root, 'half-made');
    const maker = startChild(home);
    const find = () => {
      const listed = execFileSync('ps', ['-axww', '-o', 'ppid=,command='], { encoding: 'utf8' });
      return new RegExp(`^ *${maker.pid} .*initdb -D (.*/\\.pullscore-unfinished-\\w+)/data`, 'm').exec(listed)?.[1];
    };
    const unfinished = await vi.waitFor(() => find() ?? expect.fail(), { timeout: 20_000, interval: 5 });
    onTestFinished(() => rmSync(unfinished, { recursive: true, force: true }));
    maker.kill('SIGKILL');
    const database = await joinAt(home);
    expect(await query(database.url, 'SELECT 1')).toBe(1);
  });

  it('a stale postmaster.pid does not hold up a start, even if its id is of another process now', async () => {
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

  it('the server does not get what Ctrl-C sends to our process group', async () => {
    const database = await joinAt(shared);
    const groups = execFileSync('ps', ['-o', 'pgid=', '-p', `${serverOf(database)}`, '-p', `${process.pid}`]);
    expect(new Set(groups.toString().trim().split(/\s+/)).size).toBe(2);
  });
});

describe('access', () => {
  it('the server listens on a socket only, in a folder that nobody else can enter', async () => {
    const { url, dataDirectory } = await joinAt(shared);
    expect(await query(url, 'SHOW listen_addresses')).toBe('');
    expect(new URL(url).searchParams.get('host')).toBe(dataDirectory);
    expect(statSync(dataDirectory).mode & 0o777).toBe(0o700);
    expect([...modes(dataDirectory)].filter(mode => !/^(file [67]|folder 7)00$/.test(mode))).toEqual(['file 777']);
    expect(statSync(join(dirname(dataDirectory), 'postgresql.log')).mode & 0o777).toBe(0o600);
  });

  it.runIf(existsSync('/proc/self/environ'))(
    'the server gets none of our variables, some of which are secrets',
    async () => {
      const variables = readFileSync(`/proc/${serverOf(await joinAt(shared))}/environ`, 'latin1').split('\0');
      const names = new Set(variables.map(variable => variable.replace(/=.*/s, '')));
      for (const allowed of ['PATH', 'LD_LIBRARY_PATH', 'LC_ALL', 'TZ', 'PG_GRANDPARENT_PID', ''])
        names.delete(allowed);
      expect([...names]).toEqual([]);
    },
  );

  it.runIf(isRoot)('the socket of the server refuses another user', async () => {
    const { url } = await joinAt(shared);
    const path = join(new URL(url).searchParams.get('host') ?? '', '.s.PGSQL.5432');
    const program = `require('net').connect(${JSON.stringify(path)}).on('error', ({ code }) => console.log(code))`;
    const stranger = { uid: 54_321, gid: 54_321, cwd: '/' };
    expect(execFileSync(nodeForAll(), ['-e', program], stranger).toString().trim()).toBe('EACCES');
  });
});

it('a start empties a log of more than 4 MiB', async () => {
  const first = await joinAt(shared);
  await leave(first);
  const log = join(dirname(first.dataDirectory), 'postgresql.log');
  writeFileSync(log, Buffer.alloc(5 * 1024 * 1024));
  await joinAt(shared);
  expect(statSync(log).size).toBeLessThan(1024 * 1024);
});

describe('text', () => {
  it('is UTF-8 that sorts by code points, with the ICU collations at hand', async () => {
    const { url } = await joinAt(shared);
    expect(await query(url, 'SHOW server_encoding')).toBe('UTF8');
    expect(await query(url, `SELECT 'Z' < 'a' AND 'z' < 'ä'`)).toBe(true);
    expect(await query(url, `SELECT 'Z' > 'a' COLLATE "und-x-icu" AND 'z' > 'ä' COLLATE "und-x-icu"`)).toBe(true);
  });
});
