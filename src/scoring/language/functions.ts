/** The functions of the rule language. docs/rules.md says what they mean; a test runs its examples. */
import { startOfDay } from '../../text/times.ts';
import type { FactType, SourceName } from '../facts.ts';
import { compileGlob } from './glob.ts';
import { compilePattern, matchesAny, type Pattern, PatternError, type Patterns, prepareWith } from './pattern.ts';
import { characterCount, containsText } from './text.ts';

export type Value = number | string | boolean | readonly string[];

export interface FunctionDefinition {
  name: string;
  /** How a call is written: it begins with the name. */
  signature: string;
  /** Types of the arguments; `literal` is a quoted text, known when the expression is checked. */
  parameters: readonly (FactType | 'literal')[];
  /** Whether the last parameter may be repeated: the signature ends with `…)`. */
  repeats: boolean;
  /** Facts that every call reads; they are passed first. */
  facts?: readonly SourceName[];
  result: FactType;
  /** Compiles the literals; the result is passed in their place, last. @throws PatternError */
  prepare?: (literals: readonly string[], patterns: Patterns) => unknown;
  /**
   * Never called with an absent text or list: the result is then absent, or false. An absent number is NaN and must
   * make the result NaN.
   */
  implementation: (...values: never[]) => Value;
}

type ListedFunction = Omit<FunctionDefinition, 'name' | 'repeats'>;

function hasLabel(labels: readonly string[], name: string): boolean {
  const wanted = name.toLowerCase();
  return labels.some(label => label.toLowerCase() === wanted);
}

function readDate(text: string): number {
  const time = startOfDay(text);
  if (time === undefined) throw new PatternError('is not a valid day; write it like "2026-01-31"');
  return time;
}

/** Rounds to the nearest integer, halves away from zero; `Math.round` would turn −0.5 into −0. */
export function roundHalfAway(value: number): number {
  return value < 0 ? -Math.round(-value) : Math.round(value);
}

/** By signature. */
const ofNumbers: Record<string, (...numbers: number[]) => number> = {
  'min(a, b, …)': Math.min,
  'max(a, b, …)': Math.max,
  'abs(x)': Math.abs,
  'round(x)': roundHalfAway,
  'floor(x)': Math.floor,
  'ceil(x)': Math.ceil,
  'clamp(x, low, high)': (x, low, high) => Math.min(Math.max(x, low), high),
  'per(n, unit)': (n, unit) => Math.trunc(n / unit),
  'sqrt(x)': Math.sqrt,
  'log(x)': x => (x > 0 ? Math.log(x) : Number.NaN),
  'exp(x)': Math.exp,
};

const numberFunctions = Object.entries(ofNumbers).map(([signature, implementation]): ListedFunction => {
  const [, ...parameters] = signature.match(/\w+/g) ?? [];
  return { signature, parameters: parameters.map(() => 'number'), result: 'number', implementation };
});

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
    // Only a mistake of ours could store other files beside these lines: no number is better than a wrong one.
    if (changes.length !== 2 * files.length) return Number.NaN;
    let lines = 0;
    for (const [index, file] of files.entries()) {
      if (matchesAny(file, globs) !== isCounted) continue;
      lines += linesOf(changes[2 * index] ?? 0, changes[2 * index + 1] ?? 0);
    }
    return lines;
  },
});

/** Labels that differ only by case are the same on GitHub. */
function compileLabelGlob(glob: string): Pattern {
  const { test, size } = compileGlob(glob.toLowerCase());
  return { test: label => test(label.toLowerCase()), size };
}

const fileFunctions: readonly ListedFunction[] = [
  ofFiles('any_file', 'boolean', (files, globs) => files.some(file => matchesAny(file, globs))),
  ofFiles('all_files', 'boolean', (files, globs) => files.length > 0 && files.every(file => matchesAny(file, globs))),
  ofFiles('count_files', 'number', (files, globs) => files.filter(file => matchesAny(file, globs)).length),
  ofLines('lines', true, (added, removed) => added + removed),
  ofLines('lines_except', false, (added, removed) => added + removed),
  ofLines('added', true, added => added),
  ofLines('removed', true, (_, removed) => removed),
];

const listed: readonly ListedFunction[] = [
  {
    signature: 'contains(text, part)',
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: containsText,
  },
  {
    signature: 'contains(list, item)',
    parameters: ['list', 'text'],
    result: 'boolean',
    implementation: (list: readonly string[], item: string) => list.includes(item),
  },
  {
    signature: 'starts_with(text, beginning)',
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: (text: string, beginning: string) => text.startsWith(beginning),
  },
  {
    signature: 'ends_with(text, ending)',
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: (text: string, ending: string) => text.endsWith(ending),
  },
  {
    signature: 'matches(text, "pattern")',
    parameters: ['text', 'literal'],
    result: 'boolean',
    prepare: prepareWith(compilePattern),
    implementation: matchesAny,
  },
  {
    signature: 'glob(text, "glob")',
    parameters: ['text', 'literal'],
    result: 'boolean',
    prepare: prepareWith(compileGlob),
    implementation: matchesAny,
  },
  {
    signature: 'lower(text)',
    parameters: ['text'],
    result: 'text',
    implementation: (text: string) => text.toLowerCase(),
  },
  {
    signature: 'length(text)',
    parameters: ['text'],
    result: 'number',
    implementation: characterCount,
  },
  {
    signature: 'length(list)',
    parameters: ['list'],
    result: 'number',
    implementation: (list: readonly string[]) => list.length,
  },
  ...numberFunctions,
  {
    signature: 'date("2026-01-31")',
    parameters: ['literal'],
    result: 'number',
    prepare: ([text = '']) => readDate(text),
    implementation: (time: number) => time,
  },
  {
    signature: 'has_label(name)',
    parameters: ['text'],
    facts: ['labels'],
    result: 'boolean',
    implementation: hasLabel,
  },
  {
    ...ofGlobs('any_label'),
    facts: ['labels'],
    result: 'boolean',
    prepare: prepareWith(compileLabelGlob),
    implementation: (labels: readonly string[], globs: Globs) => labels.some(label => matchesAny(label, globs)),
  },
  ...fileFunctions,
];

const definitions = listed.map((definition): FunctionDefinition => {
  const { signature } = definition;
  return { ...definition, name: signature.replace(/\(.*/, ''), repeats: signature.includes('…') };
});

/** By name; a function that takes a text or a list has two definitions. */
export const functions: ReadonlyMap<string, readonly FunctionDefinition[]> = new Map(
  definitions.map(({ name }) => [name, definitions.filter(definition => definition.name === name)]),
);
