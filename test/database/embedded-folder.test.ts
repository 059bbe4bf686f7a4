import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { findServerUser } from '../../src/database/embedded-folder.ts';
import { parseDatabaseUrl } from '../../src/database-url.ts';
import {
  cleanUpAfterTests,
  isRoot,
  joinAt,
  joinInChild,
  leave,
  leaveInChild,
  nobody,
  ordinary,
  processesOf,
  query,
  refusalOf,
  root,
} from '../support/embedded.ts';
import { createHome } from '../support/home.ts';

cleanUpAfterTests();

/** For folders. */
const oddName = `Ünïcode, "söme" $HOME's place 日本語`;

/** Of root or us, for tests that leave its database as they found it: making one is the slow part. */
const shared = join(root, oddName);

describe('places', () => {
  it('the database works in a folder with spaces, quotes and letters of other alphabets', async () => {
    const database = await joinAt(shared);
    expect(await query(database.url, 'SELECT 1')).toBe(1);
  });

  it("a start refuses another major version's data, and says what it is", async () => {
    const database = await joinAt(shared);
    await leave(database);
    const file = join(database.dataDirectory, 'PG_VERSION');
    const version = readFileSync(file, 'utf8');
    onTestFinished(() => writeFileSync(file, version));
    writeFileSync(file, '11\n');
    const refusal = await refusalOf(joinAt(shared));
    expect(refusal).toContain('initialized by PostgreSQL version 11, which is not compatible with this version');
  });

  it('a start refuses a home that is a file', async () => {
    const file = join(root, 'file');
    writeFileSync(file, '');
    expect(await refusalOf(joinAt(file))).toContain('ENOTDIR');
  });
});

describe.runIf(ordinary !== undefined)('an ordinary user', () => {
  function createOwnFolder(): string {
    const folder = realpathSync(createHome('ordinary'));
    if (isRoot) chownSync(folder, nobody.uid, nobody.gid);
    return folder;
  }

  /** A folder with a database in the home `oddName`. */
  let original: string;
  beforeAll(async () => {
    original = createOwnFolder();
    await leaveInChild(await joinInChild(join(original, oddName), ordinary));
  });
  afterAll(() => rmSync(original, { recursive: true, force: true }));

  /** A home of this name that has a copy of the database: making one is the slow part. */
  function copyTo(name: string): string {
    const folder = createOwnFolder();
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const home = join(folder, name);
    mkdirSync(dirname(home), { recursive: true });
    execFileSync('cp', ['-a', join(original, oddName), home]);
    return home;
  }

  it('keeps everything in the home, closed to others', async () => {
    const home = join(original, oddName);
    const first = await joinInChild(home, ordinary);
    expect(first.dataDirectory).toBe(join(home, 'postgresql', 'data'));
    expect(statSync(home).mode & 0o777).toBe(0o700);
    expect(statSync(join(home, 'postgresql')).mode & 0o777).toBe(0o700);
    expect(await query(first.url, 'SELECT 1')).toBe(1);
    await leaveInChild(first);
    expect(processesOf(first.dataDirectory)).toEqual([]);
  });

  it('a home with a long path has its socket in a short folder of its own, which nobody can plant', async () => {
    const home = copyTo(join(`${oddName} ${'long'.repeat(30)}`, 'home'));
    const first = await joinInChild(home, ordinary);
    const folder = new URL(first.url).searchParams.get('host') ?? '';
    expect(folder).toMatch(/^\/tmp\/pullscore-\d+-\w{12}$/);
    expect(statSync(folder)).toMatchObject({ uid: ordinary?.uid ?? process.getuid?.(), mode: 0o040700 });
    const second = await joinInChild(home, ordinary);
    await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS one');
    await leaveInChild(first);
    expect(await query(second.url, 'SELECT one FROM kept')).toBe(1);
    await leaveInChild(second);

    rmSync(folder, { recursive: true });
    for (const plant of [() => symlinkSync(root, folder), () => mkdirSync(folder, { mode: 0o755 })]) {
      plant();
      if (isRoot && !statSync(folder).isSymbolicLink()) chownSync(folder, nobody.uid, nobody.gid);
      await expect(joinInChild(home, ordinary)).rejects.toThrow(
        /must be a folder that only user \d+ can enter: remove it/,
      );
      rmSync(folder, { recursive: true });
    }
  });

  it('a home with a comma in its path has its socket in such a folder, too: an address with one names several hosts', async () => {
    const database = await joinInChild(copyTo('scores, ours'), ordinary);
    const { host = '' } = parseDatabaseUrl(database.url);
    onTestFinished(() => rmSync(host, { recursive: true }));
    expect(host).toMatch(/^\/tmp\/pullscore-\d+-\w{12}$/);
    expect(await query(database.url, 'SELECT 1')).toBe(1);
    await leaveInChild(database);
  });

  it('what a start that was killed has left is removed once nobody can be working on it', async () => {
    const home = copyTo('killed');
    const [old, fresh] = ['.pullscore-unfinished-killed', '.pullscore-unfinished-begun'].map(name =>
      join(home, name),
    ) as [string, string];
    mkdirSync(old);
    mkdirSync(fresh);
    utimesSync(old, 0, Date.now() / 1000 - 7_200);
    await leaveInChild(await joinInChild(home, ordinary));
    expect([existsSync(old), existsSync(fresh)]).toEqual([false, true]);
  });

  it.runIf(isRoot)("root refuses an ordinary user's database", async () => {
    expect(await refusalOf(joinAt(join(original, oddName)))).toContain(
      'belongs to user 65534: run pullscore as that user',
    );
  });
});

describe.runIf(isRoot)('root', () => {
  it('keeps its data in one store, as a user of the system: the home is closed to others', async () => {
    const { dataDirectory } = await joinAt(shared);
    expect(statSync(root).mode & 0o777).toBe(0o700);
    expect(dirname(dirname(dataDirectory))).toBe('/var/lib/pullscore');
    expect(readlinkSync(join(shared, 'postgresql'))).toBe(dirname(dataDirectory));
    const { uid } = statSync(dataDirectory);
    expect(readFileSync('/etc/passwd', 'utf8')).toMatch(new RegExp(`^(pullscore|postgres):[^:]*:${uid}:`, 'm'));
  });

  it('keeps its database when the home moves, and gets a new one when the home was deleted', async () => {
    const first = await joinAt(shared);
    await leave(first);
    const away = `${shared} away`;
    renameSync(shared, away);
    const moved = await joinAt(away);
    expect(moved.dataDirectory).toBe(first.dataDirectory);
    await leave(moved);
    const second = await joinAt(shared);
    expect(second.dataDirectory).not.toBe(first.dataDirectory);
    expect(existsSync(first.dataDirectory)).toBe(true);
    await leave(second);
    rmSync(shared, { recursive: true });
    renameSync(away, shared);
  });

  it('prefers a user pullscore to postgres, and refuses to run the server as nobody', async () => {
    const line = (name: string, id: number) => `${name}:x:${id}:${id + 1}::/:/bin/sh\n`;
    const others = `${line('root', 0)}${line('nobody', 65_534)}${line('notpostgres', 7)}`;
    expect(findServerUser(`${others}${line('postgres', 5)}`)).toEqual({ uid: 5, gid: 6 });
    expect(findServerUser(`${others}${line('postgres', 5)}${line('pullscore', 8)}`)).toEqual({ uid: 8, gid: 9 });
    expect(() => findServerUser(others)).toThrow(
      expect.objectContaining({
        code: 'database_unavailable',
        text: 'You are root. PostgreSQL does not run as root, and there is no user pullscore or postgres to run it. Create one (useradd --system pullscore), run this as another user, or set DATABASE_URL.',
      }),
    );
    const database = await joinAt(shared);
    await leave(database);
    const { dataDirectory } = database;
    const { uid } = statSync(dataDirectory);
    onTestFinished(() => void execFileSync('chown', ['-R', `${uid}`, dataDirectory]));
    execFileSync('chown', ['-R', '65534', dataDirectory]);
    expect(await refusalOf(joinAt(shared))).toContain(`chown -R pullscore ${dataDirectory}`);
  });

  it('follows no link of another user, and none out of its store', async () => {
    const home = shared;
    await leave(await joinAt(home));
    const link = join(home, 'postgresql');
    const store = readlinkSync(link);
    onTestFinished(() => {
      rmSync(link, { recursive: true, force: true });
      symlinkSync(store, link);
    });
    execFileSync('chown', ['-h', '65534', link]);
    expect(await refusalOf(joinAt(home))).toContain('belongs to user 65534');
    unlinkSync(link);
    const outside = mkdtempSync(join(root, 'outside-'));
    symlinkSync(outside, link);
    expect(await refusalOf(joinAt(home))).toContain(outside);
    unlinkSync(link);
    mkdirSync(link);
    const refusal = await refusalOf(joinAt(home));
    expect(refusal).toContain(`its data is in ${realpathSync(link)}`);
    expect(refusal).toContain(': run pullscore as the user that created it');
  });
});
