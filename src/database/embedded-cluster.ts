import { type ExecFileOptions, execFile, execFileSync } from 'node:child_process';
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
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Binaries, findBinaries, type ServerUser, serverEnvironment } from './embedded-binaries.ts';
import { errorCode, giveToFolderOwner, homeFiles, readJsonFile, writeOwnFile } from './embedded-files.ts';
import { isGuardian, isIdTaken, serverProcesses } from './embedded-processes.ts';

/** A data directory with what belongs to it, all in one folder that comes into being whole. */
export interface Cluster {
  folder: string;
  data: string;
  binaries: Binaries;
  /** Undefined where PostgreSQL runs as the user that we are. */
  user: ServerUser | undefined;
  password: string;
  /** The port of the last run: with it the URL stays the same. */
  port: number | undefined;
}

/** Name of the database and of the role that owns it. */
export const databaseName = 'pullscore';

/** Where root's clusters and copies of PostgreSQL go when its server user cannot enter their own folders. */
const systemStore = '/var/lib/pullscore';

const asAnother = 'set DATABASE_URL, or run pullscore as an ordinary user';

const clusterFiles = (folder: string) => ({
  data: join(folder, 'data'),
  credentials: join(folder, 'credentials.json'),
  /** In a cluster outside its home: which home that is. */
  home: join(folder, 'home.json'),
});

interface Credentials {
  password: string;
  port?: number;
}

/** The cluster of `home`, made first where there is none. */
export async function openCluster(home: string, durable: boolean, note: (text: string) => void): Promise<Cluster> {
  const existing = existingCluster(home, note);
  if (existing !== undefined) return readCluster(home, existing);

  const user = newServerUser(home);
  const folder = makeFolder(home, user, note);
  const { credentials } = clusterFiles(folder);
  let published = false;
  try {
    const binaries = await findBinaries(user, () => binaryStores(home, folder, user));
    const password = randomBytes(24).toString('base64url');
    await initialise(binaries, user, folder, password, durable);
    writeOwnFile(credentials, JSON.stringify({ password } satisfies Credentials));
    published = publish(home, folder);
  } finally {
    if (!published) rmSync(folder, { recursive: true, force: true });
  }
  // Of two processes that made one at the same time, the first one's stands.
  const winner = existingCluster(home, note);
  if (winner === undefined) throw new Error(`the database in ${home} was removed while it was being made: try again`);
  return readCluster(home, winner);
}

export function rememberPort(cluster: Cluster, port: number): void {
  const { credentials } = clusterFiles(cluster.folder);
  writeOwnFile(credentials, JSON.stringify({ password: cluster.password, port } satisfies Credentials));
}

function existingCluster(home: string, note: (text: string) => void): string | undefined {
  const { cluster, location } = homeFiles(home);
  if (exists(clusterFiles(cluster).data)) return cluster;
  const elsewhere = readLocation(home);
  if (elsewhere === undefined) return undefined;
  if (exists(clusterFiles(elsewhere).data)) return elsewhere;
  note(`the database that ${location} names, ${elsewhere}, is gone: starting with an empty one`);
  rmSync(location, { force: true });
  return undefined;
}

function readLocation(home: string): string | undefined {
  try {
    return readFileSync(homeFiles(home).location, 'utf8').trim();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function readCluster(home: string, folder: string): Promise<Cluster> {
  const { data, credentials } = clusterFiles(folder);
  const { uid, gid } = statSync(data);
  const self = process.getuid?.();
  if (uid === 0 || (self !== 0 && self !== uid)) {
    throw new Error(
      `${data} belongs to user ${uid}: run pullscore as its owner, or set PULLSCORE_HOME or DATABASE_URL`,
    );
  }
  const user = self === 0 ? { uid, gid } : undefined;
  const binaries = await findBinaries(user, () => binaryStores(home, folder, user));
  const version = readFileSync(join(data, 'PG_VERSION'), 'utf8').trim();
  if (version !== binaries.major) {
    throw new Error(
      `${data} was made by PostgreSQL ${version}, and this release brings ${binaries.major}: ` +
        `use the release that made it, or move ${folder} away to start with an empty database`,
    );
  }
  const known = readJsonFile<Credentials>(credentials);
  if (known === undefined) throw new Error(`${credentials} is missing or damaged: restore it, or move ${folder} away`);
  return { folder, data, binaries, user, password: known.password, port: known.port };
}

/** As root: the owner of the home if it is someone else, or the system's `postgres`, which is made where missing. */
function newServerUser(home: string): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = statSync(home);
  if (uid !== 0) return { uid, gid };
  const known = findUser('postgres');
  if (known !== undefined) return known;
  try {
    const options = ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent'];
    execFileSync('useradd', [...options, '--shell', '/usr/sbin/nologin', 'postgres'], { stdio: 'pipe' });
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
function makeFolder(home: string, user: ServerUser | undefined, note: (text: string) => void): string {
  const name = `cluster-${process.pid}-${randomBytes(4).toString('hex')}`;
  removeAbandoned(home);
  const own = join(home, name);
  // A mode that only the joining side gives, to a home that it made as root.
  if (user !== undefined && (statSync(home).mode & 0o777) === 0o710) chownSync(home, 0, user.gid);
  makeData(own, user);
  if (user === undefined || canEnter(clusterFiles(own).data, user)) return own;
  rmSync(own, { recursive: true });

  const store = clusterStore();
  removeAbandoned(store);
  const folder = join(store, name);
  makeData(folder, user);
  const parent = statSync(dirname(home));
  writeOwnFile(clusterFiles(folder).home, JSON.stringify({ home, device: parent.dev, inode: parent.ino }));
  if (!canEnter(clusterFiles(folder).data, user)) {
    rmSync(folder, { recursive: true });
    throw new Error(`the user that PostgreSQL runs as can enter neither ${home} nor ${store}: ${asAnother}`);
  }
  note(`PostgreSQL's user cannot enter ${home}: the database lies in ${folder}`);
  return folder;
}

function makeData(folder: string, user: ServerUser | undefined): void {
  const { data } = clusterFiles(folder);
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

function binaryStores(home: string, folder: string, user: ServerUser | undefined): string[] {
  if (user === undefined) return [home];
  try {
    makeSystemStore();
    return [systemStore, dirname(folder)];
  } catch {
    return [dirname(folder)];
  }
}

/** Unlike `existsSync` this fails where we may not look. */
function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

async function initialise(
  binaries: Binaries,
  user: ServerUser | undefined,
  folder: string,
  password: string,
  durable: boolean,
): Promise<void> {
  const { data } = clusterFiles(folder);
  const options = { ...user, cwd: '/', env: serverEnvironment };
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600, flag: 'wx' });
  if (user !== undefined) chownSync(passwordFile, user.uid, user.gid);
  // Text sorts by code points; `und-x-icu` and the other ICU collations are imported by initdb itself.
  const text = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const access = [`--username=${databaseName}`, '--auth=scram-sha-256', `--pwfile=${passwordFile}`];
  await run(binaries.initdb, ['-D', data, ...text, ...access, '--no-sync', '--no-instructions'], options);
  rmSync(passwordFile);
  // Renaming the empty database costs half of what making another does; -F, since all is brought to disk below.
  const rename = `ALTER DATABASE postgres RENAME TO ${databaseName};\n\n`;
  await run(binaries.postgres, ['--single', '-F', '-j', '-D', data, 'template1'], options, rename);
  if (durable) await run(binaries.initdb, ['-D', data, '--sync-only'], options);
}

function run(command: string, parameters: string[], options: ExecFileOptions, input = ''): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = execFile(command, parameters, options, (error, _output, errors) => {
      if (error === null) return resolve();
      const lines = String(errors).trim().split('\n');
      const line = lines.find(text => /error|FATAL|PANIC/.test(text)) ?? lines.at(-1);
      reject(new Error(`the embedded database could not be made: ${line || error.message}`));
    });
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}

/** Makes a finished cluster that of its home. False if the home has got one meanwhile. */
function publish(home: string, folder: string): boolean {
  const { cluster, location } = homeFiles(home);
  if (dirname(folder) !== home) return !exists(cluster) && writeOwnFile(location, `${folder}\n`, true);
  try {
    renameSync(folder, cluster);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOTEMPTY' || errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Removes what killed processes left half-made, and clusters outside their home whose home was deleted. */
export function removeAbandoned(folder: string): void {
  for (const name of readdirSync(folder)) {
    const maker = /^cluster-(\d+)-/.exec(name)?.[1];
    if (maker === undefined) continue;
    const path = join(folder, name);
    try {
      if (isAbandoned(path, Number(maker))) rmSync(path, { recursive: true, force: true });
    } catch {
      // Someone else is removing it.
    }
  }
}

function isAbandoned(path: string, maker: number): boolean {
  const { data, home: homeFile } = clusterFiles(path);
  const owner = readJsonFile<{ home: string; device: number; inode: number }>(homeFile);
  if (owner === undefined) return !isIdTaken(maker);
  // A home that is only not mounted now lies, so far as can be seen, in another folder than it did.
  const parent = statSync(dirname(owner.home), { throwIfNoEntry: false });
  if (parent?.dev !== owner.device || parent.ino !== owner.inode) return false;
  const isBeingMade = maker !== process.pid && isGuardian(maker, owner.home);
  if (isBeingMade || serverProcesses(data).length > 0) return false;
  return !exists(owner.home) || readLocation(owner.home) !== path;
}

/** For a cluster outside its home: removes it if its home has been deleted. */
export function removeIfAbandoned(cluster: Cluster): void {
  if (!exists(clusterFiles(cluster.folder).home)) return;
  const store = dirname(cluster.folder);
  removeAbandoned(store);
  const isEmpty = !readdirSync(store).some(name => name.startsWith('cluster-'));
  if (isEmpty && store !== systemStore) rmSync(store, { recursive: true, force: true });
}
