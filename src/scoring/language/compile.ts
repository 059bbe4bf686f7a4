/**
 * Turns checked rules into JavaScript. The source text consists of fixed templates, indexes, and operators and fact
 * names from our own tables. Everything else in a rule (numbers, texts, patterns, names) is passed by reference.
 */

import { type Facts, factOf, type ReviewFacts, type SourceName } from '../facts.ts';
import type { RuleLogic } from '../rule.ts';
import type { Value } from './functions.ts';
import { clampScore, effectOf, scoreLimits } from './rounding.ts';
import { compareText } from './text-operations.ts';
import type { TypedExpression } from './tree.ts';

export interface CheckedEntry {
  /** The rule's name. */
  name: string;
  /** Its place in the rule, from 1. */
  entry: number;
  /** With the whole condition. */
  logic: RuleLogic;
  condition: TypedExpression;
  value: TypedExpression;
  /** It counts for each review of a pull request. */
  isOfReview: boolean;
  /** It gives bots no points for their reviews. */
  skipsBots: boolean;
}

/** The entries' conditions and values. */
export const treesOf = (entries: readonly CheckedEntry[]): TypedExpression[] =>
  entries.flatMap(({ condition, value }) => [condition, value]);

export interface Score {
  /** A 32-bit signed integer. */
  score: number;
  /** JSON text of an array of breakdown entries. */
  breakdown: string;
  /**
   * JSON text of an array with `reviewer` (login), `member` (`mem_…`), `score` and `breakdown` of each review; null if
   * there are none, or the ruleset gives reviews no points.
   */
  reviewScores: string | null;
}

/** V8 does not optimise functions of more than 60 KB of bytecode; this much source stays well below. */
const sourceLimit = 20_000;

/** Adds some of the entries to a result; its breakdown still lacks the closing bracket. */
type ScoreChunk = (facts: Facts, review: ReviewFacts | undefined, result: Score) => void;

/** The same text in the form that V8 compares by reference. */
const interned = (text: string) => Object.keys({ [text]: 0 })[0] ?? text;

/** The same function, which does not repeat the work of its last call. */
function remembering<Result>(work: (...values: never[]) => Result): typeof work {
  let last: readonly unknown[] = [];
  let result: Result;
  return (...values) => {
    if (values.length !== last.length || values.some((value, index) => !Object.is(value, last[index]))) {
      result = work(...values);
      last = values;
    }
    return result;
  };
}

/**
 * Collects the constants, facts, variables and statements of one function.
 *
 * @param isForReviews it is called for all reviews of a pull request, whose files and texts stay the same
 * @param keepsParts each part is evaluated once, whatever its value is needed for
 */
function createWriter(isForReviews = false, keepsParts = false) {
  const constants: unknown[] = [];
  const constantNames = new Map<unknown, string>();
  const facts = new Map<SourceName, string>();
  const kept = new Map<TypedExpression, string>();
  let variables = 0;
  let statements = '';

  function constant(value: unknown): string {
    const name = constantNames.get(value) ?? `k${constants.push(value) - 1}`;
    constantNames.set(value, name);
    return name;
  }

  function fact({ name, type }: TypedExpression & { kind: 'fact' }): string {
    const variable = facts.get(name) ?? `f${facts.size}`;
    facts.set(name, variable);
    return type === 'number' && factOf(name)?.absence !== undefined ? `(${variable} ?? NaN)` : variable;
  }

  /** The code for a part that is used twice: for the first use, and for the second. */
  function twice(tree: TypedExpression): [first: string, again: string] {
    const code = write(tree);
    if (tree.kind === 'fact' || tree.kind === 'constant') return [code, code];
    const variable = `t${variables++}`;
    return [`(${variable} = ${code})`, variable];
  }

  /**
   * Code that is true if no value is absent, and the code for each value after it. Any text or list but a constant may
   * be null, even a required fact: a missing one must not make a score throw. Absent numbers are NaN; booleans are never
   * absent.
   */
  function present(trees: readonly TypedExpression[]): { guard: string; values: string[] } {
    const guards: string[] = [];
    const values = trees.map(tree => {
      if (tree.type === 'number' || tree.type === 'boolean' || tree.kind === 'constant') return write(tree);
      const [first, again] = twice(tree);
      guards.push(`${first} != null && `);
      return again;
    });
    return { guard: guards.join(''), values };
  }

  function writeComparison(tree: TypedExpression & { kind: 'comparison' }): string {
    const { operator, parts } = tree;
    const [left, right] = parts;
    if (left.type === 'number' && operator !== '==') {
      if (operator !== '!=') return `(${write(left)} ${operator} ${write(right)})`;
      // Not `!==`, which is true for NaN.
      const [one, oneAgain] = twice(left);
      const [two, twoAgain] = twice(right);
      return `(${one} < ${two} || ${oneAgain} > ${twoAgain})`;
    }
    // A value that is absent differs from every constant.
    if (operator === '==' && parts.some(({ kind }) => kind === 'constant')) {
      return `(${write(left)} === ${write(right)})`;
    }
    const { guard, values } = present(parts);
    const [one, two] = values;
    if (operator === '==' || operator === '!=') return `(${guard}${one} ${operator}= ${two})`;
    return `(${guard}${constant(compareText)}(${one}, ${two}) ${operator} 0)`;
  }

  function writeCall({ definition, parts, prepared, type }: TypedExpression & { kind: 'call' }): string {
    const { guard, values } = definition.takesAbsent ? { guard: '', values: parts.map(write) } : present(parts);
    if (definition.prepare !== undefined) values.push(constant(prepared));
    const { implementation } = definition;
    // A comparison of arguments takes longer than arithmetic.
    const isCostly = parts.some(part => part.type === 'text' || part.type === 'list');
    const called =
      isForReviews && isCostly ? remembering(implementation as (...values: never[]) => unknown) : implementation;
    const call = `${constant(called)}(${values.join(', ')})`;
    if (guard === '') return call;
    if (type === 'boolean') return `(${guard}${call})`;
    return `(${guard}true ? ${call} : ${type === 'number' ? 'NaN' : 'null'})`;
  }

  function write(tree: TypedExpression): string {
    if (!keepsParts || tree.kind === 'constant' || tree.kind === 'fact') return writeInline(tree);
    const known = kept.get(tree);
    if (known !== undefined) return known;
    const code = writeInline(tree);
    const name = `p${kept.size}`;
    statements += `const ${name} = ${code};\n`;
    kept.set(tree, name);
    return name;
  }

  function writeInline(tree: TypedExpression): string {
    switch (tree.kind) {
      case 'constant':
        return constant(typeof tree.value === 'string' ? interned(tree.value) : tree.value);
      case 'fact':
        return fact(tree);
      case 'defined':
        return write(tree.definition.tree);
      case 'negation':
        return `(- ${write(tree.parts[0])})`;
      case 'not':
        return `(! ${write(tree.parts[0])})`;
      case 'arithmetic':
      case 'logical':
        return `(${write(tree.parts[0])} ${tree.operator} ${write(tree.parts[1])})`;
      case 'comparison':
        return writeComparison(tree);
      case 'choice':
        return `(${write(tree.parts[0])} ? ${write(tree.parts[1])} : ${write(tree.parts[2])})`;
      case 'oneOf':
        return `${constant(new Set(tree.options))}.has(${write(tree.parts[0])})`;
      case 'itemOf': {
        const { guard, values } = present(tree.parts);
        return `(${guard}${values[1]}.includes(${values[0]}))`;
      }
      case 'call':
        return writeCall(tree);
    }
  }

  const writeCondition = ({ condition, skipsBots }: CheckedEntry) =>
    `${skipsBots ? '!review.reviewer_is_bot && ' : ''}${write(condition)}`;

  function add(entry: CheckedEntry): void {
    const { name, logic, value } = entry;
    const { expression, effect } = logic;
    const sign = effect.action === 'ADD' ? '+' : '-';
    const before = ['{"name":', JSON.stringify(name), ',"action":"', effect.action, '","effect":'];
    const after = [',"expression":', JSON.stringify(expression), '}'];
    // Joined, because V8 keeps a text built with + in pieces, and every breakdown would carry them along.
    const piece = (...parts: (string | number)[]) => constant(parts.join(''));
    const test = writeCondition(entry);
    const fixed = fixedValue(value);
    if (fixed !== undefined) {
      const points = effectOf(fixed);
      if (points === 0) return;
      const json = [...before, points, ...after];
      statements += `if (${test}) { score ${sign}= ${constant(points)}; `;
      statements += `out += out === '' ? ${piece('[', ...json)} : ${piece(',', ...json)}; }\n`;
      return;
    }
    statements += `if (${test}) { v = ${write(value)}; v = v < 0 ? -round(-v) : round(v); `;
    statements += `if (v !== 0 && v >= ${scoreLimits.minimum} && v <= ${scoreLimits.maximum}) { score ${sign}= v; `;
    statements += `out += (out === '' ? ${piece('[', ...before)} : ${piece(',', ...before)}) + v + ${piece(...after)}; } }\n`;
  }

  /** Facts of a review are with all others, or apart, since a copy of all takes longer than a score. */
  function make(body: string): unknown {
    const lines = [
      '"use strict";',
      'const round = Math.round;',
      ...constants.map((_, index) => `const k${index} = k[${index}];`),
      'return function (facts, review = facts, result) {',
      ...[...facts].map(
        ([name, variable]) => `const ${variable} = ${factOf(name)?.isOfReview ? 'review' : 'facts'}.${name};`,
      ),
      ...Array.from({ length: variables }, (_, index) => `let t${index};`),
      `${body} };`,
    ];
    return new Function('k', lines.join('\n'))(constants);
  }

  function finish(): ScoreChunk {
    const begin = 'let score = result.score, out = result.breakdown, v = 0;\n';
    const end = 'result.score = score; result.breakdown = out;';
    return make(`${begin}${statements}${end}`) as ScoreChunk;
  }

  const finishValue = <Result>(code: string) => make(`${statements}return ${code};`) as (facts: Facts) => Result;

  return { add, finish, write, writeCondition, finishValue, isFull: () => statements.length > sourceLimit };
}

/** A value that is a plain number, such as 5 or -5; undefined for others. */
function fixedValue(tree: TypedExpression): number | undefined {
  if (tree.kind === 'constant' && typeof tree.value === 'number') return tree.value;
  if (tree.kind !== 'negation') return undefined;
  const operand = fixedValue(tree.parts[0]);
  return operand === undefined ? undefined : -operand;
}

/** Compiles one expression. An absent number becomes NaN, an absent text or list null. */
export function compileExpression(tree: TypedExpression): (facts: Facts) => Value | null {
  const { write, finishValue } = createWriter();
  return finishValue(write(tree));
}

/** Gives the values of these parts, in their order, as {@link compileExpression} does, for all reviews of a pull request. */
export function compileParts(trees: readonly TypedExpression[]): (facts: Facts) => (Value | null)[] {
  const { write, finishValue } = createWriter(true, true);
  return finishValue(`[${trees.map(write).join(', ')}]`);
}

/**
 * Compiles entries, all of pull requests or all of reviews, into as few functions as V8 optimises.
 *
 * @returns a function that never throws, and always gives the same score for the same facts
 */
function compileEntries(entries: readonly CheckedEntry[]): (facts: Facts, review?: ReviewFacts) => Score {
  const chunks: ScoreChunk[] = [];
  const isForReviews = entries.some(entry => entry.isOfReview);
  let writer = createWriter(isForReviews);
  for (const entry of entries) {
    if (writer.isFull()) {
      chunks.push(writer.finish());
      writer = createWriter(isForReviews);
    }
    writer.add(entry);
  }
  chunks.push(writer.finish());
  return (facts, review) => {
    const sum = { score: 0, breakdown: '', reviewScores: null };
    for (const add of chunks) add(facts, review, sum);
    const { score, breakdown } = sum;
    return { score: clampScore(score), breakdown: breakdown === '' ? '[]' : `${breakdown}]`, reviewScores: null };
  };
}

function reviewsIn({ given_reviews: given }: Facts, entries: readonly CheckedEntry[]): ReviewFacts[] {
  const skipsBots = entries.every(entry => entry.skipsBots);
  return (given ?? []).filter(({ reviewer_is_bot: isBot }) => !(isBot && skipsBots));
}

/** The facts of each review of a pull request that rules score, with those of the pull request. */
export const scoredReviews = (facts: Facts, entries: readonly CheckedEntry[]): (Facts & ReviewFacts)[] =>
  reviewsIn(facts, entries).map(review => ({ ...facts, ...review }));

function compileReviews(entries: readonly CheckedEntry[]): (facts: Facts) => string | null {
  const scoreReview = compileEntries(entries);
  return facts => {
    let out = '';
    for (const review of reviewsIn(facts, entries)) {
      const { score, breakdown } = scoreReview(facts, review);
      const of = `"reviewer":${JSON.stringify(review.reviewer)},"member":${JSON.stringify(review.member)}`;
      out += `${out === '' ? '[' : ','}{${of},"score":${score},"breakdown":${breakdown}}`;
    }
    return out === '' ? null : `${out}]`;
  };
}

/** Compiles what a pull request and its reviews are worth: see {@link compileEntries}. */
export function compileScore(entries: readonly CheckedEntry[]): (facts: Facts) => Score {
  const reviewEntries = entries.filter(entry => entry.isOfReview);
  const scorePullRequest = compileEntries(entries.filter(entry => !entry.isOfReview));
  if (reviewEntries.length === 0) return scorePullRequest;
  const scoreReviews = compileReviews(reviewEntries);
  return facts => {
    const score = scorePullRequest(facts);
    score.reviewScores = scoreReviews(facts);
    return score;
  };
}

/** What each entry adds to a score, without a breakdown: negative if it subtracts, 0 if it does not count. */
export function compileEffects(entries: readonly CheckedEntry[]): (facts: Facts) => number[] {
  const compiled = entries.map(entry => {
    const { write, writeCondition, finishValue } = createWriter(entry.isOfReview);
    const sign = entry.logic.effect.action === 'ADD' ? 1 : -1;
    return { sign, valueFor: finishValue<number>(`${writeCondition(entry)} ? ${write(entry.value)} : 0`) };
  });
  return facts => compiled.map(({ sign, valueFor }) => sign * effectOf(valueFor(facts)));
}
