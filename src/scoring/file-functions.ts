/** The functions about changed files. */
import type { ListedFunction } from './functions.ts';
import { compileGlob } from './glob.ts';
import { matchesAny, type Pattern, prepareWith } from './pattern.ts';

const ofGlobs = {
  parameters: ['literal'],
  repeats: true,
  prepare: prepareWith(compileGlob),
} satisfies Partial<ListedFunction>;

/**
 * A function that adds up lines of files.
 *
 * @param isCounted whether the files that match are counted, or all others
 */
const lineFunction = (
  { name, description, glob, result }: { name: string; description: string; glob: string; result: number },
  isCounted: boolean,
  linesOf: (added: number, removed: number) => number,
): ListedFunction => ({
  ...ofGlobs,
  signature: `${name}("glob", …)`,
  description,
  example: {
    expression: `${name}("${glob}")`,
    facts: { files: ['src/a.ts', 'package-lock.json'], file_changes: [40, 12, 0, 900, 300, 0] },
    result,
  },
  facts: ['files', 'file_changes'],
  result: 'number',
  implementation: (files: readonly string[], changes: readonly number[], globs: readonly Pattern[]) => {
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
  {
    ...ofGlobs,
    signature: 'any_file("glob", …)',
    description: 'Whether any of the globs matches any changed file.',
    example: { expression: 'any_file("**/*.sql")', facts: { files: ['db/1.sql', 'README.md'] }, result: true },
    facts: ['files'],
    result: 'boolean',
    implementation: (files: readonly string[], globs: readonly Pattern[]) =>
      files.some(file => matchesAny(file, globs)),
  },
  {
    ...ofGlobs,
    signature: 'all_files("glob", …)',
    description: 'Whether every changed file matches one of the globs; false if there are no files.',
    example: {
      expression: 'all_files("docs/**", "*.md")',
      facts: { files: ['docs/a/b.png', 'README.md'] },
      result: true,
    },
    facts: ['files'],
    result: 'boolean',
    implementation: (files: readonly string[], globs: readonly Pattern[]) =>
      files.length > 0 && files.every(file => matchesAny(file, globs)),
  },
  {
    ...ofGlobs,
    signature: 'count_files("glob", …)',
    description: 'The number of changed files that match one of the globs.',
    example: { expression: 'count_files("test/**")', facts: { files: ['test/a.ts', 'src/a.ts'] }, result: 1 },
    facts: ['files'],
    result: 'number',
    implementation: (files: readonly string[], globs: readonly Pattern[]) =>
      files.filter(file => matchesAny(file, globs)).length,
  },
  lineFunction(
    {
      name: 'lines',
      description: 'Lines added and removed in files that match one of the globs.',
      glob: 'src/**',
      result: 52,
    },
    true,
    (added, removed) => added + removed,
  ),
  lineFunction(
    {
      name: 'lines_except',
      description: 'Lines added and removed in files that match none of the globs.',
      glob: '**/*-lock.json',
      result: 52,
    },
    false,
    (added, removed) => added + removed,
  ),
  lineFunction(
    { name: 'added', description: 'Lines added in files that match one of the globs.', glob: 'src/**', result: 40 },
    true,
    added => added,
  ),
  lineFunction(
    { name: 'removed', description: 'Lines removed in files that match one of the globs.', glob: 'src/**', result: 12 },
    true,
    (_, removed) => removed,
  ),
];
