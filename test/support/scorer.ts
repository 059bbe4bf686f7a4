import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Database } from '../../src/database/client.ts';
import { createScorer } from '../../src/scorer/scorer.ts';

export const hostileScript = fileURLToPath(new URL('hostile-scorer.ts', import.meta.url));

/** Its processes run `hostile-scorer.ts`. */
export const hostileScorer = (database: Database, log: Logger, limits: { maxQueueMs?: number } = {}) =>
  createScorer(database, log, { script: hostileScript, execArgv: ['--import', 'tsx'], ...limits });

/** Processes that run rules, of this process or of another one. */
export const scorersOf = (parent = process.pid): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter(pid => pid > 0 && parentOf(pid) === parent && /scorer\.[jt]s/.test(read(`/proc/${pid}/cmdline`)));

// See proc(5): the fourth field, the second after the name. The list of children that a process has can lack some.
const parentOf = (pid: number) => Number(read(`/proc/${pid}/stat`).split(') ')[1]?.split(' ')[1]);

/** Empty if the process has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
