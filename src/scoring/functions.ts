/** The functions of the rule language. The documentation and its examples are generated from this table. */
import type { FactName, FactType, SourceName } from './facts.ts';
import { fileFunctions } from './file-functions.ts';
import { compileGlob } from './glob.ts';
import { numberFunctions } from './number-functions.ts';
import { compilePattern, matchesAny, PatternError, prepareWith } from './pattern.ts';
import { characterCount, containsText, startOfDay } from './text.ts';

export type Value = number | string | boolean | readonly string[];

type ExampleFacts = { [Name in FactName]?: Value } & { file_changes?: readonly number[] };

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
  /** One line of documentation. */
  description: string;
  /** An expression and its value for a pull request with these facts. */
  example: { expression: string; facts: ExampleFacts; result: Value };
  /** Types of the arguments; `literal` is a quoted text, known when the expression is checked. */
  parameters: readonly (FactType | 'literal')[];
  /** Whether the last parameter may be repeated. */
  repeats?: boolean;
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

export type ListedFunction = Omit<FunctionDefinition, 'name'>;

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
    description: 'Whether a text contains another; case matters.',
    example: { expression: 'contains(title, "fix")', facts: { title: 'A small fix' }, result: true },
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: containsText,
  },
  {
    signature: 'contains(list, item)',
    description: 'Whether a list contains this item; case matters.',
    example: { expression: 'contains(assignees, "ada")', facts: { assignees: ['ada', 'bob'] }, result: true },
    parameters: ['list', 'text'],
    result: 'boolean',
    implementation: (list: readonly string[], item: string) => list.includes(item),
  },
  {
    signature: 'starts_with(text, beginning)',
    description: 'Whether a text starts with another; case matters.',
    example: { expression: 'starts_with(title, "feat")', facts: { title: 'feat: search' }, result: true },
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: (text: string, beginning: string) => text.startsWith(beginning),
  },
  {
    signature: 'ends_with(text, ending)',
    description: 'Whether a text ends with another; case matters.',
    example: { expression: 'ends_with(author, "[bot]")', facts: { author: 'renovate[bot]' }, result: true },
    parameters: ['text', 'text'],
    result: 'boolean',
    implementation: (text: string, ending: string) => text.endsWith(ending),
  },
  {
    signature: 'matches(text, "pattern")',
    description: 'Whether a regular expression in RE2 syntax matches anywhere in a text; `^` and `$` anchor it.',
    example: { expression: 'matches(title, "^[A-Z]+-\\\\d+: ")', facts: { title: 'ABC-12: Search' }, result: true },
    parameters: ['text', 'literal'],
    result: 'boolean',
    prepare: prepareWith(compilePattern),
    implementation: matchesAny,
  },
  {
    signature: 'glob(text, "glob")',
    description: 'Whether a glob matches a whole text: `*` within a folder, `**` across, `?`, `[a-z]`, `{a,b}`.',
    example: { expression: 'glob(base, "release/*")', facts: { base: 'release/2.1' }, result: true },
    parameters: ['text', 'literal'],
    result: 'boolean',
    prepare: prepareWith(compileGlob),
    implementation: matchesAny,
  },
  {
    signature: 'lower(text)',
    description: 'A text in lower case.',
    example: { expression: 'lower(title) == "wip"', facts: { title: 'WIP' }, result: true },
    parameters: ['text'],
    result: 'text',
    implementation: (text: string) => text.toLowerCase(),
  },
  {
    signature: 'length(text)',
    description: 'The number of characters in a text.',
    example: { expression: 'length(body)', facts: { body: 'Naïve 🙂' }, result: 7 },
    parameters: ['text'],
    result: 'number',
    implementation: characterCount,
  },
  {
    signature: 'length(list)',
    description: 'The number of items in a list.',
    example: { expression: 'length(labels)', facts: { labels: ['bug', 'urgent'] }, result: 2 },
    parameters: ['list'],
    result: 'number',
    implementation: (list: readonly string[]) => list.length,
  },
  ...numberFunctions,
  {
    signature: 'date("2026-01-31")',
    description: 'The start of a day, UTC, in Unix seconds.',
    example: { expression: 'created_at >= date("2026-01-31")', facts: { created_at: 1_769_817_600 }, result: true },
    parameters: ['literal'],
    result: 'number',
    prepare: ([text = '']) => ({ value: readDate(text), cost: 0 }),
    implementation: (time: number) => time,
  },
  {
    signature: 'has_label(name)',
    description: 'Whether the pull request has this label; case does not matter.',
    example: { expression: 'has_label("bug")', facts: { labels: ['Bug'] }, result: true },
    parameters: ['text'],
    facts: ['labels'],
    result: 'boolean',
    implementation: hasLabel,
  },
  ...fileFunctions,
];

const definitions = listed.map(
  (definition): FunctionDefinition => ({ ...definition, name: definition.signature.replace(/\(.*/, '') }),
);

/** By name; a function that takes a text or a list has two definitions. */
export const functions: ReadonlyMap<string, readonly FunctionDefinition[]> = new Map(
  definitions.map(({ name }) => [name, definitions.filter(definition => definition.name === name)]),
);
