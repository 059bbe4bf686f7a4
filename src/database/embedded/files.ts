import { randomBytes } from 'node:crypto';
import { chownSync, linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * What PULLSCORE_HOME holds, as the joining processes and the guardian both know it:
 * `postgresql/` (the cluster, or `location`, a file naming the place that it had to take), `server.json` (the running
 * guardian), `starting` (the process that is starting one), `postgresql.log`.
 */
export const homeFiles = (home: string) => ({
  cluster: join(home, 'postgresql'),
  location: join(home, 'location'),
  server: join(home, 'server.json'),
  starting: join(home, 'starting'),
  log: join(home, 'postgresql.log'),
});

/** How to reach a running guardian. */
export interface ServerFile {
  pid: number;
  /** The control port on 127.0.0.1. */
  port: number;
  /** The first line that a client sends; who cannot read the file cannot join. */
  secret: string;
}

/** The guardian's one-line answer to the secret. */
export interface ControlAnswer {
  url?: string;
  dataDirectory?: string;
  durable?: boolean;
  /** This guardian is ending: look again for another. */
  retry?: true;
}

/** A line of the guardian's standard output while it starts. */
export interface StartMessage {
  ready?: true;
  /** Another guardian has the data directory: look again. */
  retry?: true;
  error?: string;
  note?: string;
}

export function readServerFile(home: string): ServerFile | undefined {
  return readJsonFile<ServerFile>(homeFiles(home).server);
}

/** Undefined for a file that is missing or no JSON; any other failure is thrown. */
export function readJsonFile<Content>(path: string): Content | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Content;
  } catch (error) {
    if (error instanceof SyntaxError || errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Writes a file, readable by its owner only, that others see whole or not at all. The owner is that of its folder
 * even where root writes, so that an ordinary user can go on after a command that was run as root.
 * @param exclusive to leave a file that is there already; the answer is then false.
 */
export function writeOwnFile(path: string, text: string, exclusive = false): boolean {
  const temporary = `${path}.${process.pid}-${randomBytes(4).toString('hex')}`;
  writeFileSync(temporary, text, { mode: 0o600, flag: 'wx', flush: true });
  try {
    giveToFolderOwner(temporary);
    if (!exclusive) {
      renameSync(temporary, path);
      return true;
    }
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if (exclusive && errorCode(error) === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

export function giveToFolderOwner(path: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(dirname(path));
  if (uid !== 0) chownSync(path, uid, gid);
}

export function errorCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}
