/** A checked expression, as it is compiled and explained. */
import type { FactType, SourceName } from '../facts.ts';
import type { FunctionDefinition, Value } from './functions.ts';
import { createPatterns, type Patterns } from './pattern.ts';
import type { ArithmeticOperator, ComparisonOperator, DefinitionError, LogicalOperator, Span } from './syntax.ts';
import { excerpt } from './text-operations.ts';

/** An expression without problems, and what it counts within the limits, with the definitions that it uses. */
export interface CheckedExpression {
  tree: TypedExpression;
  characters: number;
  nodes: number;
  depth: number;
}

export interface CheckedDefinition extends CheckedExpression {
  name: string;
  /** Its source text, to which the spans of its tree belong. */
  expression: string;
}

/**
 * What the expressions of a ruleset share. Definitions by name; an error in place of one that is not valid, undefined if
 * it is not checked yet.
 */
export type CheckedDefinitions = ReadonlyMap<string, CheckedDefinition | DefinitionError | undefined> & {
  readonly patterns: Patterns;
};

/** For expressions that share nothing. */
export const noDefinitions = (): CheckedDefinitions => Object.assign(new Map(), { patterns: createPatterns() });

type One = readonly [TypedExpression];
type Two = readonly [TypedExpression, TypedExpression];
type Three = readonly [TypedExpression, TypedExpression, TypedExpression];

/** Its span excludes brackets around it. `parts` are its direct parts; those in the source text are in its order. */
export type TypedExpression = { type: FactType } & Span &
  (
    | { kind: 'constant'; value: Value; parts: readonly [] }
    | { kind: 'fact'; name: SourceName; parts: readonly [] }
    /** Its part is the definition's tree. */
    | { kind: 'defined'; definition: CheckedDefinition; parts: One }
    | { kind: 'negation' | 'not'; parts: One }
    | { kind: 'arithmetic'; operator: ArithmeticOperator; parts: Two }
    /** Both sides have the same type: number or text, for `==` and `!=` also boolean. */
    | { kind: 'comparison'; operator: ComparisonOperator; parts: Two }
    | { kind: 'logical'; operator: LogicalOperator; parts: Two }
    /** The condition, the value if it is true, and the other value. */
    | { kind: 'choice'; parts: Three }
    /** `in` with constants of the left side's type. */
    | { kind: 'oneOf'; parts: One; options: readonly (number | string)[] }
    /** `in` with a fact that is a list. */
    | { kind: 'itemOf'; parts: Two }
    /**
     * `parts` are passed in order, then `prepared`, which is made of the `literals`. The facts that every call reads are
     * the first parts.
     */
    | {
        kind: 'call';
        definition: FunctionDefinition;
        parts: readonly TypedExpression[];
        literals: readonly string[];
        prepared: unknown;
      }
  );

export const typeNames = { number: 'a number', text: 'a text', boolean: 'true or false', list: 'a list' } as const;

/** A part of a source text and its type, for messages. */
export const typeOf = ({ start, end, type }: TypedExpression, source: string): string =>
  `${excerpt(source, start, end)} is ${typeNames[type]}`;

/** All parts of the expressions, those of definitions included. */
export function* allParts(trees: Iterable<TypedExpression>): Iterable<TypedExpression> {
  const waiting = [...trees];
  for (let tree = waiting.pop(); tree !== undefined; tree = waiting.pop()) {
    yield tree;
    waiting.push(...tree.parts);
  }
}

/** The names of all facts that the expressions read. */
export function factsRead(trees: Iterable<TypedExpression>): Set<SourceName> {
  const names = new Set<SourceName>();
  for (const part of allParts(trees)) if (part.kind === 'fact') names.add(part.name);
  return names;
}

/** The definitions that the expressions use, also those within others: source texts by name. */
export function definitionsUsed(trees: Iterable<TypedExpression>): Map<string, string> {
  const used = new Map<string, string>();
  for (const part of allParts(trees)) {
    if (part.kind === 'defined') used.set(part.definition.name, part.definition.expression);
  }
  return used;
}
