import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Config } from '../../src/config.ts';
import type { Database } from '../../src/database/client.ts';
import { createScorer } from '../../src/scorer/scorer.ts';

const hostileScript = fileURLToPath(new URL('hostile-scorer.ts', import.meta.url));

/** Its processes run `hostile-scorer.ts`. */
export const hostileScorer = (
  database: Database,
  log: Logger,
  options: { maxQueueMs?: number; environment?: Config['scorerEnvironment'] } = {},
) => createScorer(database, log, { environment: {}, script: hostileScript, execArgv: ['--import', 'tsx'], ...options });

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
