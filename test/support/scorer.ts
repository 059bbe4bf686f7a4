import { readdirSync, readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Database } from '../../src/database/client.ts';
import { createScorer } from '../../src/scorer/scorer.ts';
import { bundleProgram } from './bundle.ts';

/** The bundle of `hostile-scorer.ts`. */
export const hostileScript = () => bundleProgram(new URL('hostile-scorer.ts', import.meta.url));

export const hostileScorer = (
  database: Database,
  log: Logger,
  options: Partial<Parameters<typeof createScorer>[2]> = {},
) =>
  createScorer(database, log, {
    environment: {},
    script: hostileScript(),
    ...options,
  });

/** Processes that run rules, of this process or of another one. */
export const scorersOf = (parent = process.pid): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter(pid => pid > 0 && parentOf(pid) === parent && /scorer\.[jt]s/.test(read(`/proc/${pid}/cmdline`)));

/** See proc(5): such as `T` if the system has stopped it; undefined if it has ended. */
export function stateOf(pid: number): string | undefined {
  const state = read(`/proc/${pid}/stat`).split(') ')[1]?.[0];
  return state === 'Z' ? undefined : state;
}

// See proc(5): the fourth field, the second after the name. The list of children that a process has can lack some.
const parentOf = (pid: number) => Number(read(`/proc/${pid}/stat`).split(') ')[1]?.split(' ')[1]);

/** Of a service's process and those that run its rules: resident now (VmRSS), or at most so far (VmHWM). */
export const memoryOf = (processId: number, field: 'VmRSS' | 'VmHWM'): number =>
  [processId, ...scorersOf(processId)]
    .map(id => Number(new RegExp(`${field}:\\s+(\\d+)`).exec(read(`/proc/${id}/status`))?.[1] ?? 0) / 1024)
    .reduce((sum, megabytes) => sum + megabytes);

/** Empty if the process has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
