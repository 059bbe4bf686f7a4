/** Rules, facts and values of expressions for tests. */

import { expect } from 'vitest';
import {
  emptyReview,
  type FactName,
  type Facts,
  factNames,
  factTable,
  type ReviewFacts,
} from '../../src/scoring/facts.ts';
import { compileExpression } from '../../src/scoring/language/compile.ts';
import { checkDefinitions, type Definition } from '../../src/scoring/language/definitions.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import type { Value } from '../../src/scoring/language/functions.ts';
import { ExpressionError } from '../../src/scoring/language/syntax.ts';
import { createPlan } from '../../src/scoring/plan/plan.ts';
import type { RuleAction, RuleDefinition, RuleLogic } from '../../src/scoring/rule.ts';
import { checkRuleset, type RuleKind, type Ruleset } from '../../src/scoring/ruleset.ts';
import { interpret } from './interpreter.ts';

/** One entry's contribution to a score. `effect` is the rounded value; `action` says how it counts. */
export interface BreakdownEntry {
  name: string;
  action: RuleAction;
  effect: number;
  expression: string;
}

/** What a review is worth. */
export interface ReviewScore {
  reviewer: string | null;
  member: string | null;
  score: number;
  breakdown: BreakdownEntry[];
}

type GivenFacts = { [Name in FactName]?: Value | null } & {
  file_changes?: readonly number[] | null;
  given_reviews?: readonly ReviewFacts[] | null;
};

export const entry = (expression: string, value: string, action: RuleAction = 'ADD'): RuleLogic => ({
  expression,
  effect: { action, value },
});

export const rule = (name: string, ...logic: RuleLogic[]): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic,
});

/** A condition whose pattern takes about two milliseconds to read. */
export const slowToRead = (index: number): string =>
  `matches(title, "\\\\pL\\\\pN\\\\pP\\\\pS\\\\pM\\\\p{Lo}\\\\p{Ll}\\\\b(?m:^$)${index}")`;

/** Rules without definitions. */
export const rulesetOf = (rules: readonly RuleDefinition[]): Ruleset => ({
  definitions: [],
  reviews: [],
  rules: [...rules],
});

/** Rules of reviews without others. */
export const reviewRules = (...reviews: RuleDefinition[]): Ruleset => ({ ...rulesetOf([]), reviews });

/** A plan of rulesets that are not checked yet. */
export const newPlan = (before: Ruleset, after: Ruleset, of: RuleKind = 'rules') =>
  createPlan(checkRuleset(before), checkRuleset(after), of);

/** A review by nobody with the given facts. */
export const reviewWith = (given: Partial<ReviewFacts> = {}): ReviewFacts => ({
  ...emptyReview,
  verdict: 'commented',
  ...given,
});

/** The given facts; all others are empty, but none is absent. */
export function factsWith(given: GivenFacts = {}): Facts {
  const defaults = { number: 0, text: '', boolean: false, list: [] };
  const facts = Object.fromEntries(factNames.map(name => [name, defaults[factTable[name].type]]));
  return { ...facts, file_changes: [], ...given } as Facts;
}

/** Expressions by the names that they have in a ruleset. */
export type Defined = Record<string, string>;

export const definitionsOf = (defined: Defined): Definition[] =>
  Object.entries(defined).map(([name, expression]) => ({ name, expression }));

const checkedOf = (defined: Defined) => checkDefinitions(definitionsOf(defined)).checked;

/** Why an expression is refused, or `accepted`. */
export function problemOf(source: string, expected: 'boolean' | 'number' = 'boolean', defined: Defined = {}): string {
  try {
    parseExpression(source, expected, checkedOf(defined));
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
  return 'accepted';
}

/** What a condition or value gives; compiled code and interpreter must agree. */
export function evaluate(source: string, given: GivenFacts = {}, defined: Defined = {}): Value | null {
  const type = problemOf(source, 'boolean', defined) === 'accepted' ? 'boolean' : 'number';
  const tree = parseExpression(source, type, checkedOf(defined));
  const facts = factsWith(given);
  const value = compileExpression(tree)(facts);
  expect(interpret(tree, facts) ?? Number.NaN).toBe(value);
  return value;
}

const refusals = /more than 200|deeper than 32|longer than|is not a value of/;

/** @returns undefined for a random expression over a limit, or that compares a fact with a text that it never has */
export function parsed(source: string, type: 'boolean' | 'number') {
  try {
    return parseExpression(source, type);
  } catch (error) {
    if (!(error instanceof ExpressionError) || !refusals.test(error.message)) throw error;
    return undefined;
  }
}
