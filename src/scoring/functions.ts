/** The functions of the rule language. docs/rules.md says what they mean; a test runs its examples. */
import type { FactType, SourceName } from './facts.ts';
import { fileFunctions } from './file-functions.ts';
import { compileGlob } from './glob.ts';
import { numberFunctions } from './number-functions.ts';
import { compilePattern, matchesAny, PatternError, prepareWith } from './pattern.ts';
import { characterCount, containsText, startOfDay } from './text.ts';

export type Value = number | string | boolean | readonly string[];

/** Literal arguments, compiled when the expression is checked. */
export interface Prepared {
  value: unknown;
  /** The maximum cost of their patterns: see `patternLimits`. */
  cost: number;
}

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
  prepare?: (literals: readonly string[]) => Prepared;
  /**
   * Never called with an absent text or list: the result is then absent, or false. An absent number is NaN and must
   * make the result NaN.
   */
  implementation: (...values: never[]) => Value;
}

export type ListedFunction = Omit<FunctionDefinition, 'name' | 'repeats'>;

function hasLabel(labels: readonly string[], name: string): boolean {
  const wanted = name.toLowerCase();
  return labels.some(label => label.toLowerCase() === wanted);
}

function readDate(text: string): number {
  const time = startOfDay(text);
  if (time === undefined) throw new PatternError('is not a valid day; write it like "2026-01-31"');
  return time;
}

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
    prepare: ([text = '']) => ({ value: readDate(text), cost: 0 }),
    implementation: (time: number) => time,
  },
  {
    signature: 'has_label(name)',
    parameters: ['text'],
    facts: ['labels'],
    result: 'boolean',
    implementation: hasLabel,
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
