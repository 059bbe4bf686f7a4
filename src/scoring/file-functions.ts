/** The functions about changed files. */
import type { ListedFunction, Value } from './functions.ts';
import { compileGlob } from './glob.ts';
import { matchesAny, type Pattern, prepareWith } from './pattern.ts';

type Files = readonly string[];
type Globs = readonly Pattern[];

const ofGlobs = (name: string) =>
  ({
    signature: `${name}("glob", …)`,
    parameters: ['literal'],
    prepare: prepareWith(compileGlob),
  }) satisfies Partial<ListedFunction>;

const ofFiles = (
  name: string,
  result: 'boolean' | 'number',
  implementation: (files: Files, globs: Globs) => Value,
): ListedFunction => ({ ...ofGlobs(name), facts: ['files'], result, implementation });

/**
 * A function that adds up lines of files.
 *
 * @param isCounted whether the files that match are counted, or all others
 */
const ofLines = (
  name: string,
  isCounted: boolean,
  linesOf: (added: number, removed: number) => number,
): ListedFunction => ({
  ...ofGlobs(name),
  facts: ['files', 'file_changes'],
  result: 'number',
  implementation: (files: Files, changes: readonly number[], globs: Globs) => {
    // While a release is replaced, the one before may store other files beside the lines of this one.
    if (changes.length !== 3 * files.length) return Number.NaN;
    let lines = 0;
    for (const [index, file] of files.entries()) {
      if (matchesAny(file, globs) !== isCounted) continue;
      lines += linesOf(changes[3 * index] ?? 0, changes[3 * index + 1] ?? 0);
    }
    return lines;
  },
});

export const fileFunctions: readonly ListedFunction[] = [
  ofFiles('any_file', 'boolean', (files, globs) => files.some(file => matchesAny(file, globs))),
  ofFiles('all_files', 'boolean', (files, globs) => files.length > 0 && files.every(file => matchesAny(file, globs))),
  ofFiles('count_files', 'number', (files, globs) => files.filter(file => matchesAny(file, globs)).length),
  ofLines('lines', true, (added, removed) => added + removed),
  ofLines('lines_except', false, (added, removed) => added + removed),
  ofLines('added', true, added => added),
  ofLines('removed', true, (_, removed) => removed),
];
