import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Database } from '../../src/database/client.ts';
import { createScorer } from '../../src/scorer/scorer.ts';

export const hostileScript = fileURLToPath(new URL('hostile-scorer.ts', import.meta.url));

/** Its processes run `hostile-scorer.ts`. */
export const hostileScorer = (database: Database, log: Logger, limits: { maxQueueMs?: number } = {}) =>
  createScorer(database, log, { script: hostileScript, execArgv: ['--import', 'tsx'], ...limits });

/** Processes that run rules, of this process or of another one. */
export function scorersOf(parent = process.pid): number[] {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ');
  return children.map(Number).filter(pid => pid > 0 && /scorer\.[jt]s/.test(commandOf(pid)));
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
