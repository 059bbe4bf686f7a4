/** The functions of the rule language. The documentation and the examples in it are made from this table. */
import type { FactName, FactType } from './facts.ts';
import { compileGlob } from './glob.ts';
import { compilePattern, type Pattern, PatternError } from './pattern.ts';
import { characterCount, containsText, startOfDay } from './text.ts';

export type Value = number | string | boolean | readonly string[];

/** Literal arguments made ready when the expression is checked. */
export interface Prepared {
  value: unknown;
  /** What the patterns among them cost at worst: see `patternLimits`. */
  cost: number;
}

export interface FunctionDefinition {
  name: string;
  /** How a call is written. */
  signature: string;
  /** One line of documentation. */
  description: string;
  /** An expression and its value for a pull request with these facts. */
  example: { expression: string; facts: { [Name in FactName]?: Value }; result: Value };
  /** Types of the arguments; `literal` is a quoted text, known when the expression is checked. */
  parameters: readonly (FactType | 'literal')[];
  /** Whether the last parameter may be given any number of times more. */
  repeats?: boolean;
  /** A fact that is read without being written; it is passed first. */
  fact?: FactName;
  result: FactType;
  /** Turns the literals into what is passed in their place, last. @throws PatternError */
  prepare?: (literals: readonly string[]) => Prepared;
  /**
   * Gets no absent text or list: the result is absent then, or false. An absent number is NaN, and the result of
   * computing with it must be NaN too.
   */
  implementation: (...values: never[]) => Value;
}

/** To the nearest integer, halves away from zero; `Math.round` takes −0.5 to −0. */
export function roundHalfAway(value: number): number {
  return value < 0 ? -Math.round(-value) : Math.round(value);
}

function hasLabel(labels: readonly string[], name: string): boolean {
  const wanted = name.toLowerCase();
  for (const label of labels) {
    if (label.toLowerCase() === wanted) return true;
  }
  return false;
}

function readDate(text: string): number {
  const time = startOfDay(text);
  if (time === undefined) throw new PatternError('is not a day; write it as in "2026-01-31"');
  return time;
}

const preparePattern = ([source = '']: readonly string[]): Prepared => {
  const pattern = compilePattern(source);
  return { value: pattern, cost: pattern.cost };
};

const prepareGlobs = (sources: readonly string[]): Prepared => {
  const globs = sources.map(compileGlob);
  return { value: globs, cost: globs.reduce((sum, glob) => sum + glob.cost, 0) };
};

function matchesAny(globs: readonly Pattern[], path: string): boolean {
  for (const glob of globs) {
    if (glob.test(path)) return true;
  }
  return false;
}

function countFiles(files: readonly string[], globs: readonly Pattern[]): number {
  let count = 0;
  for (const file of files) {
    if (matchesAny(globs, file)) count++;
  }
  return count;
}

const definitions: readonly FunctionDefinition[] = [
  {
    name: 'contains',
    signature: 'contains(text, part)',
    description: 'Whether a text has another within it; case counts.',
    example: { expression: 'contains(title, "fix")', facts: { title: 'A small fix' }, result: true },
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: containsText,
  },
  {
    name: 'contains',
    signature: 'contains(list, item)',
    description: 'Whether one of the items of a list is this text; case counts.',
    example: { expression: 'contains(assignees, "ada")', facts: { assignees: ['ada', 'bob'] }, result: true },
    parameters: ['list', 'text'],
    result: 'boolean',
    implementation: (list: readonly string[], item: string) => list.includes(item),
  },
  {
    name: 'starts_with',
    signature: 'starts_with(text, beginning)',
    description: 'Whether a text begins with another; case counts.',
    example: { expression: 'starts_with(title, "feat")', facts: { title: 'feat: search' }, result: true },
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: (text: string, beginning: string) => text.startsWith(beginning),
  },
  {
    name: 'ends_with',
    signature: 'ends_with(text, ending)',
    description: 'Whether a text ends with another; case counts.',
    example: { expression: 'ends_with(author, "[bot]")', facts: { author: 'renovate[bot]' }, result: true },
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: (text: string, ending: string) => text.endsWith(ending),
  },
  {
    name: 'matches',
    signature: 'matches(text, "pattern")',
    description: 'Whether a regular expression in RE2 syntax matches anywhere in a text; `^` and `$` tie it down.',
    example: { expression: 'matches(title, "^[A-Z]+-\\\\d+: ")', facts: { title: 'ABC-12: Search' }, result: true },
    parameters: ['text', 'literal'],
    result: 'boolean',
    prepare: preparePattern,
    implementation: (text: string, pattern: Pattern) => pattern.test(text),
  },
  {
    name: 'glob',
    signature: 'glob(text, "glob")',
    description: 'Whether a glob matches the whole of a text: `*` within a folder, `**` across, `?`, `[a-z]`, `{a,b}`.',
    example: { expression: 'glob(base, "release/*")', facts: { base: 'release/2.1' }, result: true },
    parameters: ['text', 'literal'],
    result: 'boolean',
    prepare: prepareGlobs,
    implementation: (text: string, globs: readonly Pattern[]) => matchesAny(globs, text),
  },
  {
    name: 'lower',
    signature: 'lower(text)',
    description: 'A text in lower case.',
    example: { expression: 'lower(title) == "wip"', facts: { title: 'WIP' }, result: true },
    parameters: ['text'],
    result: 'text',
    implementation: (text: string) => text.toLowerCase(),
  },
  {
    name: 'length',
    signature: 'length(text)',
    description: 'How many characters a text has.',
    example: { expression: 'length(body)', facts: { body: 'Naïve 🙂' }, result: 7 },
    parameters: ['text'],
    result: 'number',
    implementation: characterCount,
  },
  {
    name: 'length',
    signature: 'length(list)',
    description: 'How many items a list has.',
    example: { expression: 'length(labels)', facts: { labels: ['bug', 'urgent'] }, result: 2 },
    parameters: ['list'],
    result: 'number',
    implementation: (list: readonly string[]) => list.length,
  },
  {
    name: 'min',
    signature: 'min(a, b, …)',
    description: 'The smallest of two numbers or more.',
    example: { expression: 'min(50, additions)', facts: { additions: 70 }, result: 50 },
    parameters: ['number', 'number'],
    repeats: true,
    result: 'number',
    implementation: Math.min,
  },
  {
    name: 'max',
    signature: 'max(a, b, …)',
    description: 'The largest of two numbers or more.',
    example: { expression: 'max(0, 10 - comments)', facts: { comments: 12 }, result: 0 },
    parameters: ['number', 'number'],
    repeats: true,
    result: 'number',
    implementation: Math.max,
  },
  {
    name: 'abs',
    signature: 'abs(x)',
    description: 'A number without its sign.',
    example: { expression: 'abs(additions - deletions)', facts: { additions: 3, deletions: 8 }, result: 5 },
    parameters: ['number'],
    result: 'number',
    implementation: Math.abs,
  },
  {
    name: 'round',
    signature: 'round(x)',
    description: 'The nearest integer; halves go away from zero.',
    example: { expression: 'round(hours_to_merge)', facts: { hours_to_merge: 2.5 }, result: 3 },
    parameters: ['number'],
    result: 'number',
    implementation: roundHalfAway,
  },
  {
    name: 'floor',
    signature: 'floor(x)',
    description: 'The next integer below.',
    example: { expression: 'floor(size / 20)', facts: { size: 59 }, result: 2 },
    parameters: ['number'],
    result: 'number',
    implementation: Math.floor,
  },
  {
    name: 'ceil',
    signature: 'ceil(x)',
    description: 'The next integer above.',
    example: { expression: 'ceil(size / 20)', facts: { size: 41 }, result: 3 },
    parameters: ['number'],
    result: 'number',
    implementation: Math.ceil,
  },
  {
    name: 'clamp',
    signature: 'clamp(x, low, high)',
    description: 'A number held between two others; where they cross, the high one wins.',
    example: { expression: 'clamp(commits, 1, 5)', facts: { commits: 9 }, result: 5 },
    parameters: ['number', 'number', 'number'],
    result: 'number',
    implementation: (x: number, low: number, high: number) => Math.min(Math.max(x, low), high),
  },
  {
    name: 'per',
    signature: 'per(n, unit)',
    description: 'How many whole units a number holds.',
    example: { expression: 'per(additions, 20)', facts: { additions: 59 }, result: 2 },
    parameters: ['number', 'number'],
    result: 'number',
    implementation: (n: number, unit: number) => Math.trunc(n / unit),
  },
  {
    name: 'date',
    signature: 'date("2026-01-31")',
    description: 'The first second of a day, UTC, as a Unix time.',
    example: { expression: 'created_at >= date("2026-01-31")', facts: { created_at: 1_769_817_600 }, result: true },
    parameters: ['literal'],
    result: 'number',
    prepare: ([text = '']) => ({ value: readDate(text), cost: 0 }),
    implementation: (time: number) => time,
  },
  {
    name: 'has_label',
    signature: 'has_label(name)',
    description: 'Whether the pull request has this label; case does not count.',
    example: { expression: 'has_label("bug")', facts: { labels: ['Bug'] }, result: true },
    parameters: ['text'],
    fact: 'labels',
    result: 'boolean',
    implementation: hasLabel,
  },
  {
    name: 'any_file',
    signature: 'any_file("glob", …)',
    description: 'Whether one of the globs matches one of the changed files.',
    example: { expression: 'any_file("**/*.sql")', facts: { files: ['db/1.sql', 'README.md'] }, result: true },
    parameters: ['literal'],
    repeats: true,
    fact: 'files',
    result: 'boolean',
    prepare: prepareGlobs,
    implementation: (files: readonly string[], globs: readonly Pattern[]) =>
      files.some(file => matchesAny(globs, file)),
  },
  {
    name: 'all_files',
    signature: 'all_files("glob", …)',
    description: 'Whether each changed file is matched by one of the globs; false where there is no file.',
    example: {
      expression: 'all_files("docs/**", "*.md")',
      facts: { files: ['docs/a/b.png', 'README.md'] },
      result: true,
    },
    parameters: ['literal'],
    repeats: true,
    fact: 'files',
    result: 'boolean',
    prepare: prepareGlobs,
    implementation: (files: readonly string[], globs: readonly Pattern[]) =>
      files.length > 0 && files.every(file => matchesAny(globs, file)),
  },
  {
    name: 'count_files',
    signature: 'count_files("glob", …)',
    description: 'How many changed files are matched by one of the globs.',
    example: { expression: 'count_files("test/**")', facts: { files: ['test/a.ts', 'src/a.ts'] }, result: 1 },
    parameters: ['literal'],
    repeats: true,
    fact: 'files',
    result: 'number',
    prepare: prepareGlobs,
    implementation: countFiles,
  },
];

/** By name; a function that takes a text or a list has two definitions. */
export const functions: ReadonlyMap<string, readonly FunctionDefinition[]> = new Map(
  definitions.map(({ name }) => [name, definitions.filter(definition => definition.name === name)]),
);
