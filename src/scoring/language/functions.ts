/** The functions of the rule language. docs/rules.md says what they mean; a test runs its examples. */

import { startOfDay } from '../../text/times.ts';
import type { FactType, SourceName } from '../facts.ts';
import { compileGlob } from './glob.ts';
import { compilePattern, matchesAny, type Pattern, PatternError, type Patterns, prepareWith } from './pattern.ts';
import { roundHalfAway } from './rounding.ts';
import { characterCount, containsText } from './text-operations.ts';

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
  /** Whether it is called with what is absent, too: a text or a list is then null or undefined. */
  takesAbsent?: boolean;
  /**
   * Otherwise never called with an absent text or list: the result is then absent, or false. An absent number is NaN and
   * must make the result NaN.
   */
  implementation: (...values: never[]) => Value;
}

type Implementation = FunctionDefinition['implementation'];
type Texts = readonly string[];
type Globs = readonly Pattern[];

/** Labels that differ only by case are the same on GitHub. A sigma has another small letter at the end of a word. */
const withoutCase = (label: string) => label.toLowerCase().replaceAll('ς', 'σ');

function hasLabel(labels: Texts, name: string): boolean {
  const wanted = withoutCase(name);
  return labels.some(label => withoutCase(label) === wanted);
}

const isKnown = (value: Value | null | undefined) => value !== null && value !== undefined && !Number.isNaN(value);

const defaultTo = (value: Value | null | undefined, other: Value) => (isKnown(value) ? value : other) as Value;

/** In seconds; 0 without a text. */
function readOffset([text = '+00:00']: readonly string[]): number {
  const [, sign, hours, minutes] = /^([+-])(0\d|1[0-4]):([0-5]\d)$/.exec(text) ?? [];
  if (sign === undefined) throw new PatternError('has no valid offset from UTC; write it like "+02:00"');
  return Number(`${sign}1`) * (Number(hours) * 3_600 + Number(minutes) * 60);
}

/** Of a whole number; never negative. `%` takes a thousand times as long for huge ones, which nobody means as times. */
const modulo = (x: number, divisor: number) =>
  Math.min(Math.max(0, x - divisor * Math.floor(x / divisor)), divisor - 1);

/** 1 January 1970 was a Thursday. */
const weekdayOf = (time: number, offset: number) => modulo(Math.floor((time + offset) / 86_400) + 3, 7) + 1;

const hourOf = (time: number, offset: number) => Math.floor(modulo(Math.floor(time + offset), 86_400) / 3_600);

function readDate(text: string): number {
  const time = startOfDay(text);
  if (time === undefined) throw new PatternError('is not a valid day; write it like "2026-01-31"');
  return time;
}

/**
 * Adds up lines of files.
 *
 * @param isCounted whether the files that match are counted, or all others
 */
const sumLines =
  (isCounted: boolean, linesOf: (added: number, removed: number) => number) =>
  (files: Texts, changes: readonly number[], globs: Globs) => {
    // Only a mistake of ours could store other files beside these lines: no number is better than a wrong one.
    if (changes.length !== 2 * files.length) return Number.NaN;
    let lines = 0;
    for (const [index, file] of files.entries()) {
      if (matchesAny(file, globs) !== isCounted) continue;
      lines += linesOf(changes[2 * index] ?? 0, changes[2 * index + 1] ?? 0);
    }
    return lines;
  };

function compileLabelGlob(glob: string): Pattern {
  const { test, size } = compileGlob(withoutCase(glob));
  return { test: label => test(withoutCase(label)), size };
}

const textParameters = ['text', 'other', 'part', 'beginning', 'ending', 'item', 'name'];

function typeOfParameter(name: string): FactType | 'literal' {
  if (name.startsWith('"')) return 'literal';
  if (name === 'list') return 'list';
  return textParameters.includes(name) ? 'text' : 'number';
}

/** @param implementations by signature, whose parameters say their types by their names */
const define = (
  result: FactType,
  implementations: Readonly<Record<string, Implementation>>,
  others: Pick<FunctionDefinition, 'facts' | 'prepare' | 'takesAbsent'> = {},
): FunctionDefinition[] =>
  Object.entries(implementations).map(([signature, implementation]) => {
    const [name = '', ...parameters] = signature.match(/"[^"]*"|\w+/g) ?? [];
    const repeats = signature.includes('…');
    return { name, signature, parameters: parameters.map(typeOfParameter), repeats, result, implementation, ...others };
  });

const prepareGlobs = prepareWith(compileGlob);

const definitions = [
  ...define('boolean', {
    'contains(text, part)': containsText,
    'contains(list, item)': (list: Texts, item: string) => list.includes(item),
    'starts_with(text, beginning)': (text: string, beginning: string) => text.startsWith(beginning),
    'ends_with(text, ending)': (text: string, ending: string) => text.endsWith(ending),
  }),
  ...define('boolean', { 'matches(text, "pattern")': matchesAny }, { prepare: prepareWith(compilePattern) }),
  ...define('boolean', { 'glob(text, "glob")': matchesAny }, { prepare: prepareGlobs }),
  ...define('text', { 'lower(text)': (text: string) => text.toLowerCase() }),
  ...define('number', {
    'length(text)': characterCount,
    'length(list)': (list: Texts) => list.length,
    'min(a, b, …)': Math.min,
    'max(a, b, …)': Math.max,
    'abs(x)': Math.abs,
    'round(x)': roundHalfAway,
    'floor(x)': Math.floor,
    'ceil(x)': Math.ceil,
    'clamp(x, low, high)': (x: number, low: number, high: number) => Math.min(Math.max(x, low), high),
    'per(n, unit)': (n: number, unit: number) => Math.trunc(n / unit),
    'sqrt(x)': Math.sqrt,
    'log(x)': (x: number) => (x > 0 ? Math.log(x) : Number.NaN),
    'exp(x)': Math.exp,
  }),
  ...define('boolean', { 'known(x)': isKnown, 'known(text)': isKnown, 'known(list)': isKnown }, { takesAbsent: true }),
  ...define('number', { 'default(x, y)': defaultTo }, { takesAbsent: true }),
  ...define('text', { 'default(text, other)': defaultTo }, { takesAbsent: true }),
  ...define(
    'number',
    {
      'weekday(time)': weekdayOf,
      'weekday(time, "+02:00")': weekdayOf,
      'hour(time)': hourOf,
      'hour(time, "+02:00")': hourOf,
    },
    { prepare: readOffset },
  ),
  ...define('number', { 'date("2026-01-31")': (time: number) => time }, { prepare: ([text = '']) => readDate(text) }),
  ...define('boolean', { 'has_label(name)': hasLabel }, { facts: ['labels'] }),
  ...define(
    'boolean',
    { 'any_label("glob", …)': (labels: Texts, globs: Globs) => labels.some(label => matchesAny(label, globs)) },
    { facts: ['labels'], prepare: prepareWith(compileLabelGlob) },
  ),
  ...define(
    'boolean',
    {
      'any_file("glob", …)': (files: Texts, globs: Globs) => files.some(file => matchesAny(file, globs)),
      'all_files("glob", …)': (files: Texts, globs: Globs) =>
        files.length > 0 && files.every(file => matchesAny(file, globs)),
    },
    { facts: ['files'], prepare: prepareGlobs },
  ),
  ...define(
    'number',
    { 'count_files("glob", …)': (files: Texts, globs: Globs) => files.filter(file => matchesAny(file, globs)).length },
    { facts: ['files'], prepare: prepareGlobs },
  ),
  ...define(
    'number',
    {
      'lines("glob", …)': sumLines(true, (added, removed) => added + removed),
      'lines_except("glob", …)': sumLines(false, (added, removed) => added + removed),
      'added("glob", …)': sumLines(true, added => added),
      'removed("glob", …)': sumLines(true, (_, removed) => removed),
    },
    { facts: ['files', 'file_changes'], prepare: prepareGlobs },
  ),
];

/** By name; a function has a definition for each type that it takes, and for each number of values. */
export const functions: ReadonlyMap<string, readonly FunctionDefinition[]> = new Map(
  definitions.map(({ name }) => [name, definitions.filter(definition => definition.name === name)]),
);
