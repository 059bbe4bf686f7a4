/**
 * What an expression is for every pull request that GitHub can have: the range of a number, and conditions that are always
 * or never true. What can't be told is left out, so that nothing said here is wrong.
 */

import { type Facts, factOf, type SourceName } from '../facts.ts';
import { compileExpression } from '../language/compile.ts';
import type { Value } from '../language/functions.ts';
import type { ArithmeticOperator, ComparisonOperator } from '../language/syntax.ts';
import { compareText } from '../language/text-operations.ts';
import { allParts, factsRead, type TypedExpression } from '../language/tree.ts';

/** The smallest and the largest value of a number, unless it is absent. */
type Range = readonly [min: number, max: number];
const anyNumber: Range = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
const notNegative: Range = [0, Number.POSITIVE_INFINITY];

/** Functions that never fall if any of their arguments rises. */
const rising: ReadonlySet<string> = new Set(['min', 'max', 'clamp', 'round', 'floor', 'ceil', 'sqrt', 'log', 'exp']);

/** Nor -0, which divides a number above 0 into one below. A range that has -0, and nothing below, begins with it. */
const isNotNegative = ([min]: Range) => min > 0 || Object.is(min, 0);

function rangeOfResult(operator: ArithmeticOperator, left: Range, right: Range): Range {
  if (operator === '+') return [left[0] + right[0], left[1] + right[1]];
  if (operator === '-') return [left[0] - right[1], left[1] - right[0]];
  const mayDivideByZero = operator === '/' && right[0] <= 0 && right[1] >= 0;
  if (operator === '%' || mayDivideByZero) return isNotNegative(left) && isNotNegative(right) ? notNegative : anyNumber;
  const ends = left
    .flatMap(one => right.map(other => (operator === '*' ? one * other : one / other)))
    // What is infinite here is a finite number of any size: 0 times that is 0.
    .map(end => (Number.isNaN(end) ? 0 : end));
  return [Math.min(...ends), Math.max(...ends)];
}

/** Hours between two of GitHub's times may be. All others are counts, moments or not below 0 on purpose. */
const mayBeNegative = (name: SourceName) => name.startsWith('hours_') && name !== 'hours_to_review';

export function rangeOf(tree: TypedExpression): Range {
  switch (tree.kind) {
    case 'constant':
      return [Number(tree.value), Number(tree.value)];
    case 'fact':
      return mayBeNegative(tree.name) ? anyNumber : notNegative;
    case 'defined':
      return rangeOf(tree.definition.tree);
    case 'negation': {
      const [min, max] = rangeOf(tree.parts[0]);
      return [-max, -min];
    }
    case 'arithmetic':
      return rangeOfResult(tree.operator, rangeOf(tree.parts[0]), rangeOf(tree.parts[1]));
    case 'choice': {
      const [, ...sides] = tree.parts;
      return rangeOfEither(sides);
    }
    case 'call':
      return rangeOfCall(tree);
    default:
      return anyNumber;
  }
}

function rangeOfEither(trees: readonly TypedExpression[]): Range {
  const ranges = trees.map(rangeOf);
  return [Math.min(...ranges.map(([min]) => min)), Math.max(...ranges.map(([, max]) => max))];
}

function rangeOfCall(tree: TypedExpression & { kind: 'call' }): Range {
  const constant = constantOf(tree);
  // Days before 1970, too.
  if (typeof constant === 'number') return [constant, constant];
  const { definition, parts } = tree;
  const { name } = definition;
  if (name === 'per') {
    const [min, max] = rangeOfResult('/', ...(parts.map(rangeOf) as [Range, Range]));
    return [Math.trunc(min), Math.trunc(max)];
  }
  if (name === 'default') return rangeOfEither(parts);
  if (name === 'weekday') return [1, 7];
  if (name === 'hour') return [0, 23];
  // No other function gives a number below 0.
  if (!rising.has(name)) return notNegative;
  const result = definition.implementation as (...numbers: number[]) => number;
  const ranges = parts.map(rangeOf);
  const [min, max] = [result(...ranges.map(([low]) => low)), result(...ranges.map(([, high]) => high))];
  return [Number.isNaN(min) ? anyNumber[0] : min, Number.isNaN(max) ? anyNumber[1] : max];
}

/** A text that the expression does not name. */
const otherText = Symbol('other text');

/** What a fact can be; null if it is absent. */
type Point = Value | typeof otherText | null;

/** Also by the name of a definition. */
export const isFact = (tree: TypedExpression, name: SourceName | undefined): boolean =>
  tree.kind === 'defined' ? isFact(tree.definition.tree, name) : tree.kind === 'fact' && tree.name === name;

type Constant = Value | null | undefined;
const constants = new WeakMap<TypedExpression, { value: Constant }>();

/** What an expression is that reads no facts, such as `date("2026-01-31")`: null if absent. Undefined for others. */
export function constantOf(tree: TypedExpression): Constant {
  const known = constants.get(tree);
  if (known !== undefined) return known.value;
  let value: Constant;
  if (tree.kind === 'constant') value = tree.value;
  else if (factsRead([tree]).size === 0) {
    const result = compileExpression(tree)({} as Facts);
    value = Number.isNaN(result) ? null : result;
  }
  constants.set(tree, { value });
  return value;
}

/** Undefined if it can't be told. */
function compare(operator: ComparisonOperator, left: Point, right: Point): boolean | undefined {
  if (left === null || right === null) return false;
  if (operator === '==') return left === right;
  if (operator === '!=') return left !== right;
  let order: number;
  // Not by subtraction: both may be infinite.
  if (typeof left === 'number' && typeof right === 'number') order = Number(left > right) - Number(left < right);
  else if (typeof left === 'string' && typeof right === 'string') order = compareText(left, right);
  else return undefined;
  return order === 0 ? operator.endsWith('=') : operator.startsWith(order < 0 ? '<' : '>');
}

/** Values of a fact such that any other one makes the same conditions true as one of them. */
function pointsOf(name: SourceName, conditions: readonly TypedExpression[]): Point[] {
  const { type, absence, values } = factOf(name) ?? {};
  if (type === undefined || type === 'list') return [];
  if (type === 'boolean') return [true, false];
  const absent = absence === undefined ? [] : [null];
  const constants = conditions.flatMap((part): readonly Point[] => {
    if (!part.parts.some(side => isFact(side, name))) return [];
    return part.kind === 'oneOf' ? part.options : part.parts.flatMap(side => constantOf(side) ?? []);
  });
  if (type === 'text') {
    const known: readonly Point[] = values ?? [otherText];
    return [...new Set([...known, ...constants, ...absent])];
  }
  const numbers = [...new Set([0, ...constants.filter(value => typeof value === 'number')])].filter(Number.isFinite);
  if (!name.startsWith('hours_')) {
    // Whole numbers, 0 or more.
    const points = numbers.flatMap(value => [Math.ceil(value), Math.floor(value) + 1]);
    return [...new Set(points.filter(point => point >= 0)), ...absent];
  }
  numbers.sort((one, other) => one - other);
  const between = numbers.map((value, index) => (value + (numbers[index + 1] ?? value + 2)) / 2);
  const points = [(numbers[0] ?? 0) - 1, ...numbers, ...between];
  return [...points.filter(point => point >= 0 || mayBeNegative(name)), ...absent];
}

/** Conditions of more parts are not searched, so that 10,000 of them take two seconds. */
const maxConditionParts = 60;

/** A condition that is always or never true, and the fact that makes it so; undefined if it needs none. */
export interface Constancy {
  isTrue: boolean;
  because: SourceName | undefined;
}

/**
 * The parts of an expression that are always or never true. Looks at one fact at a time, whatever the others are: so it
 * finds `size > 100 && size < 50`, and not what contradicts itself only through two facts.
 */
export function constantParts(tree: TypedExpression): Map<TypedExpression, Constancy> {
  const constant = new Map<TypedExpression, Constancy>();
  const parts = [...allParts([tree])];
  if (parts.length > maxConditionParts) return constant;
  const conditions = parts.filter(({ kind }) => ['comparison', 'oneOf', 'itemOf'].includes(kind));
  for (const name of [undefined, ...factsRead([tree])]) {
    const seen = new Map<TypedExpression, boolean | undefined>();
    for (const point of name === undefined ? [null] : pointsOf(name, conditions)) {
      truthOf(tree, name, point, (part, truth) => {
        seen.set(part, !seen.has(part) || seen.get(part) === truth ? truth : undefined);
      });
    }
    for (const [part, isTrue] of seen) {
      if (isTrue !== undefined && !constant.has(part)) constant.set(part, { isTrue, because: name });
    }
  }
  return constant;
}

/**
 * Whether a condition is true if a fact has this value; undefined if that depends on others, or can't be told.
 *
 * @param found called with each part that is a condition
 */
function truthOf(
  tree: TypedExpression,
  name: SourceName | undefined,
  point: Point,
  found: (part: TypedExpression, truth: boolean | undefined) => void,
): boolean | undefined {
  const [one, two, three] = tree.parts.map(part =>
    // Most parts are numbers and texts without conditions in them.
    part.type === 'boolean' || part.parts.length > 0 ? truthOf(part, name, point, found) : undefined,
  );
  if (tree.type !== 'boolean') return undefined;
  const operandOf = (part: TypedExpression) => (isFact(part, name) ? point : constantOf(part));
  let truth: boolean | undefined;
  const usesDefinition = tree.kind === 'defined' || tree.parts.some(({ kind }) => kind === 'defined');
  if (tree.kind === 'constant') truth = tree.value === true;
  // Definitions that alone decide are switches, set on purpose.
  else if (usesDefinition && constantOf(tree) !== undefined) truth = undefined;
  else if (isFact(tree, name)) truth = point === true;
  else if (tree.kind === 'fact') {
    // It follows from `state`.
    if (tree.name === 'merged' && name === 'state') truth = point === 'merged';
  } else if (tree.kind === 'defined') truth = one;
  else if (tree.kind === 'not') truth = one === undefined ? undefined : !one;
  else if (tree.kind === 'logical') {
    const decisive = tree.operator === '||';
    truth = one === decisive || two === decisive ? decisive : one === two ? one : undefined;
  } else if (tree.kind === 'choice') truth = one === undefined ? (two === three ? two : undefined) : one ? two : three;
  else if (tree.kind === 'comparison') {
    const [left, right] = tree.parts.map(operandOf);
    if (left !== undefined && right !== undefined) truth = compare(tree.operator, left, right);
  } else if (tree.kind === 'call' && tree.definition.name === 'known') {
    const value = tree.parts[0] && operandOf(tree.parts[0]);
    if (value !== undefined) truth = value !== null;
  } else if (tree.kind === 'itemOf') {
    const [value, list] = tree.parts.map(operandOf);
    if (value !== undefined && Array.isArray(list)) truth = list.some(item => item === value);
  } else if (tree.kind === 'oneOf') {
    const value = operandOf(tree.parts[0]);
    if (value !== undefined) truth = tree.options.some(option => option === value);
  }
  found(tree, truth);
  return truth;
}
