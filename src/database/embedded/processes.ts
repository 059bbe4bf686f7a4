import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * Who a process id belongs to. Ids are reused (in containers the same small ones come back after each restart), so
 * no file's word for an id is taken before the process has been looked at.
 */

interface ProcessFacts {
  parent: number;
  /** The program's file name; undefined where the system does not tell. */
  name: string | undefined;
  /** The arguments, each followed by a space. */
  command: string;
  /** Undefined where the system does not tell. */
  workingDirectory: string | undefined;
}

const hasProcFolder = process.platform === 'linux';

/** Undefined for a process that is gone, or only waits to be reaped. */
function inspectProcess(id: number): ProcessFacts | undefined {
  try {
    if (!hasProcFolder) {
      const line = execFileSync('ps', ['-ww', '-o', 'ppid=,stat=,command=', '-p', String(id)], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      const match = /^\s*(\d+)\s+(\S+)\s+(.*)$/m.exec(line);
      if (match?.[1] === undefined || match[2]?.startsWith('Z')) return undefined;
      return { parent: Number(match[1]), name: undefined, command: `${match[3]} `, workingDirectory: undefined };
    }
    // "id (name) state parent …": the name may hold spaces and parentheses.
    const stat = readFileSync(`/proc/${id}/stat`, 'utf8');
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
    const command = readFileSync(`/proc/${id}/cmdline`, 'utf8').replaceAll('\0', ' ');
    return { parent: Number(parent), name, command, workingDirectory: workingDirectoryOf(id) };
  } catch {
    return undefined;
  }
}

function workingDirectoryOf(id: number): string | undefined {
  try {
    return readlinkSync(`/proc/${id}/cwd`);
  } catch {
    return undefined;
  }
}

export function parentOf(id: number): number | undefined {
  return inspectProcess(id)?.parent;
}

/** Whether a process, ours or another's, has this id; one waiting to be reaped counts. */
export function isIdTaken(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Whether `id` is a guardian: that of this (real) home, if one is given. */
export function isGuardian(id: number, home?: string): boolean {
  const command = inspectProcess(id)?.command;
  if (command === undefined || !/embedded[\\/]guardian\.[jt]s --home=/.test(command)) return false;
  return home === undefined || command.includes(`--home=${home} `);
}

/**
 * Whether `id` is a PostgreSQL process of this (real) data directory. Every one of them has it as its working
 * directory, which follows the folder when it is moved; elsewhere than on Linux the server's arguments must do.
 */
export function isServerProcess(id: number, data: string): boolean {
  const facts = inspectProcess(id);
  if (facts === undefined) return false;
  if (!hasProcFolder) return facts.command.includes(`/postgres -D ${data} `);
  return facts.name === 'postgres' && facts.workingDirectory === data;
}

/** All PostgreSQL processes of a data directory; empty elsewhere than on Linux. */
export function serverProcesses(data: string): number[] {
  if (!hasProcFolder) return [];
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
    .filter(id => isServerProcess(id, data));
}
