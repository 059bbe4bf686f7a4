import { type ExecFileOptions, execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type Binaries, findBinaries, type ServerUser, serverEnvironment } from './binaries.ts';
import { errorCode, homeFiles, readJsonFile, writeOwnFile } from './files.ts';
import {
  binaryStores,
  clusterFiles,
  exists,
  makeFolder,
  newServerUser,
  readLocation,
  readOwner,
  removeAbandoned,
} from './places.ts';

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

interface Credentials {
  password: string;
  port?: number;
}

/** The cluster of `home`, made first where there is none. */
export async function openCluster(home: string, durable: boolean, note: (text: string) => void): Promise<Cluster> {
  removeAbandoned(home);
  const existing = existingCluster(home, note);
  if (existing !== undefined) return readCluster(home, existing);

  const user = newServerUser(home);
  const folder = makeFolder({ home, durable }, user, note);
  const { credentials } = clusterFiles(folder);
  let published = false;
  try {
    const binaries = await findBinaries(user, () => binaryStores(home, folder, user));
    const password = randomBytes(24).toString('base64url');
    await initialise(binaries, user, folder, password, durable);
    writeOwnFile(credentials, JSON.stringify({ password } satisfies Credentials));
    if (durable) bringToDisk(folder);
    published = publish(home, folder);
    if (durable) for (const changed of [dirname(folder), home]) bringToDisk(changed);
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
  if (exists(clusterFiles(elsewhere).data)) {
    const owner = readOwner(elsewhere);
    // A home that was moved is still the owner; a copy of one is not.
    if (owner !== undefined && owner.home !== home && readLocation(owner.home) === elsewhere) {
      throw new Error(
        `${elsewhere} is the database of ${owner.home}: delete ${location} to start with an empty one for ${home}`,
      );
    }
    return elsewhere;
  }
  note(`the database that ${location} names, ${elsewhere}, is gone: starting with an empty one`);
  rmSync(location, { force: true });
  return undefined;
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

/** A folder's own entries: without that a crash may forget that a file was made in it, or renamed. */
function bringToDisk(folder: string): void {
  const file = openSync(folder, 'r');
  fsyncSync(file);
  closeSync(file);
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
