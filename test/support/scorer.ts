import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import type { Logger } from 'pino';
import type { Database } from '../../src/database/client.ts';
import { createScorer } from '../../src/scorer/scorer.ts';

const cache = fileURLToPath(new URL('../../node_modules/.cache/pullscore-tests/', import.meta.url));
let bundle: string | undefined;

/** Bundled once: a process then starts in a third of the time that it takes with tsx. */
function bundleHostileScorer(): string {
  if (bundle !== undefined) return bundle;
  const {
    outputFiles: [built],
  } = buildSync({
    entryPoints: [fileURLToPath(new URL('hostile-scorer.ts', import.meta.url))],
    write: false,
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['pg-native', 'pino'],
    banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
  });
  mkdirSync(cache, { recursive: true });
  bundle = join(cache, 'hostile-scorer.js');
  // Another worker may start it just now.
  const unfinished = `${bundle}.${process.pid}`;
  writeFileSync(unfinished, built?.contents ?? '');
  renameSync(unfinished, bundle);
  return bundle;
}

/** Its processes run `hostile-scorer.ts`. */
export const hostileScorer = (
  database: Database,
  log: Logger,
  options: Partial<Parameters<typeof createScorer>[2]> = {},
) => createScorer(database, log, { environment: {}, script: bundleHostileScorer(), ...options });

/** Processes that run rules, of this process or of another one. */
export const scorersOf = (parent = process.pid): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter(pid => pid > 0 && parentOf(pid) === parent && /scorer\.[jt]s/.test(read(`/proc/${pid}/cmdline`)));

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
