import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { ServerUser } from './binaries.ts';
import { errorCode, giveToFolderOwner, homeFiles, readJsonFile, writeOwnFile } from './files.ts';
import { isGuardian, serverProcesses } from './processes.ts';

/**
 * Where a cluster may lie, and the user that it belongs to. PostgreSQL refuses to run as root, so root's server is
 * another user's; a folder that this user cannot enter can hold neither data nor programs.
 */

/** Where root's clusters and copies of PostgreSQL go when its server user cannot enter their own folders. */
const systemStore = '/var/lib/pullscore';

const asAnother = 'set DATABASE_URL, or run pullscore as an ordinary user';

export const clusterFiles = (folder: string) => ({
  data: join(folder, 'data'),
  credentials: join(folder, 'credentials.json'),
  /** In a cluster outside its home: an `Owner`. */
  owner: join(folder, 'owner.json'),
});

/** Whose a cluster outside its home is. */
export interface Owner {
  home: string;
  durable: boolean;
}

/** As root: the owner of the home if it is someone else, or the system's `postgres`, which is made where missing. */
export function newServerUser(home: string): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = statSync(home);
  if (uid !== 0) return { uid, gid };
  const known = findUser('postgres');
  if (known !== undefined) return known;
  try {
    const options = ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent'];
    const env = { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin` };
    execFileSync('useradd', [...options, '--shell', '/usr/sbin/nologin', 'postgres'], { stdio: 'pipe', env });
  } catch {
    // Another process may have made it just now.
  }
  const made = findUser('postgres');
  if (made === undefined) {
    throw new Error(`PostgreSQL refuses to run as root, and no user "postgres" could be made: ${asAnother}`);
  }
  return made;
}

function findUser(name: string): ServerUser | undefined {
  try {
    const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }));
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    return undefined;
  }
}

/** Whether this user can work in a folder that it owns: tried, as modes alone do not tell. */
function canEnter(folder: string, user: ServerUser): boolean {
  try {
    execFileSync('/bin/sh', ['-c', 'cd -- "$0" && test -w .', folder], { ...user, cwd: '/', stdio: 'ignore' });
    return true;
  } catch (error) {
    if (typeof (error as { status?: unknown }).status === 'number') return false;
    const cause = (error as Error).message;
    throw new Error(`root cannot run PostgreSQL as user ${user.uid} here (${cause}): ${asAnother}`);
  }
}

/** A new folder for a cluster, under a name that says who is making it; `data` in it belongs to the server's user. */
export function makeFolder(owner: Owner, user: ServerUser | undefined, note: (text: string) => void): string {
  const { home } = owner;
  const name = `cluster-${process.pid}-${randomBytes(4).toString('hex')}`;
  const own = join(home, name);
  try {
    makeData(own, user);
  } catch (error) {
    // In a namespace of its own, say, that has no other users than root.
    if (errorCode(error) !== 'EINVAL' || user === undefined) throw error;
    rmSync(own, { recursive: true, force: true });
    throw new Error(
      `PostgreSQL refuses to run as root, and root cannot give files to user ${user.uid} here: ${asAnother}`,
    );
  }
  if (user === undefined || canEnter(clusterFiles(own).data, user)) return own;
  rmSync(own, { recursive: true });

  const store = clusterStore();
  removeAbandoned(store);
  for (const earlier of clustersIn(store).filter(path => readOwner(path)?.home === home)) {
    note(`an earlier database of ${home} is kept in ${earlier}: delete it if it is not needed`);
  }
  const folder = join(store, name);
  makeData(folder, user);
  writeOwnFile(clusterFiles(folder).owner, JSON.stringify(owner));
  if (!canEnter(clusterFiles(folder).data, user)) {
    rmSync(folder, { recursive: true });
    throw new Error(`the user that PostgreSQL runs as can enter neither ${home} nor ${store}: ${asAnother}`);
  }
  note(`PostgreSQL's user cannot enter ${home}: the database lies in ${folder}`);
  return folder;
}

function makeData(folder: string, user: ServerUser | undefined): void {
  const { data } = clusterFiles(folder);
  // A mode that only the joining side gives, to a home that it made as root.
  if (user !== undefined && (statSync(dirname(folder)).mode & 0o777) === 0o710) chownSync(dirname(folder), 0, user.gid);
  mkdirSync(folder, { mode: 0o700 });
  giveToFolderOwner(folder);
  mkdirSync(data, { mode: 0o700 });
  if (user === undefined) return;
  if (statSync(folder).uid === 0) {
    chownSync(folder, 0, user.gid);
    chmodSync(folder, 0o710);
  }
  chownSync(data, user.uid, user.gid);
}

function clusterStore(): string {
  try {
    makeSystemStore();
    return systemStore;
  } catch {
    const store = mkdtempSync(join(tmpdir(), 'pullscore-'));
    chmodSync(store, 0o711);
    return store;
  }
}

function makeSystemStore(): void {
  if (mkdirSync(systemStore, { recursive: true }) !== undefined) chmodSync(systemStore, 0o755);
  accessSync(systemStore, constants.W_OK);
}

/** Where a copy of PostgreSQL may go for this cluster. */
export function binaryStores(home: string, folder: string, user: ServerUser | undefined): string[] {
  if (user === undefined) return [home];
  try {
    makeSystemStore();
    return [systemStore, dirname(folder)];
  } catch {
    return [dirname(folder)];
  }
}

/** Unlike `existsSync` this fails where we may not look. */
export function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

export function readLocation(home: string): string | undefined {
  try {
    return readFileSync(homeFiles(home).location, 'utf8').trim();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

export function readOwner(cluster: string): Owner | undefined {
  return readJsonFile<Owner>(clusterFiles(cluster).owner);
}

function clustersIn(folder: string): string[] {
  const names = readdirSync(folder).filter(name => /^cluster-\d+-/.test(name));
  return names.map(name => join(folder, name));
}

/**
 * Removes what killed processes left half-made, and tests' clusters whose home is gone. Nobody else's: a home that is
 * not there may have been moved, or is not mounted just now.
 */
export function removeAbandoned(folder: string): void {
  for (const path of clustersIn(folder)) {
    try {
      if (isAbandoned(path)) rmSync(path, { recursive: true, force: true });
    } catch {
      // Someone else is removing it.
    }
  }
}

function isAbandoned(path: string): boolean {
  const { data, credentials } = clusterFiles(path);
  const maker = Number(basename(path).split('-')[1]);
  if (!exists(credentials)) return !isGuardian(maker);
  const owner = readOwner(path);
  if (owner === undefined || owner.durable || isGuardian(maker, owner.home)) return false;
  return readLocation(owner.home) !== path && serverProcesses(data).length === 0;
}
