/** What an expression means, written down as plainly as possible: compiled rules are compared with this. */
import type { Facts } from '../../src/scoring/facts.ts';
import type { Value } from '../../src/scoring/functions.ts';
import type { BreakdownEntry, RuleAction } from '../../src/scoring/ruleset.ts';
import type { TypedExpression } from '../../src/scoring/tree.ts';

/** Undefined stands for absent. */
type Result = Value | undefined;

const codePoints = (text: string) => Array.from(text, character => character.codePointAt(0) ?? 0);

function order(left: Value, right: Value): number {
  if (typeof left === 'number' && typeof right === 'number') return left < right ? -1 : left > right ? 1 : 0;
  const [one, two] = [codePoints(String(left)), codePoints(String(right))];
  for (let index = 0; ; index++) {
    const [a, b] = [one[index], two[index]];
    if (a === undefined || b === undefined) return (a === undefined ? 0 : 1) - (b === undefined ? 0 : 1);
    if (a !== b) return a - b;
  }
}

const comparisons = {
  '==': (left: Value, right: Value) => order(left, right) === 0,
  '!=': (left: Value, right: Value) => order(left, right) !== 0,
  '<': (left: Value, right: Value) => order(left, right) < 0,
  '<=': (left: Value, right: Value) => order(left, right) <= 0,
  '>': (left: Value, right: Value) => order(left, right) > 0,
  '>=': (left: Value, right: Value) => order(left, right) >= 0,
};

const arithmetic = {
  '+': (left: number, right: number) => left + right,
  '-': (left: number, right: number) => left - right,
  '*': (left: number, right: number) => left * right,
  '/': (left: number, right: number) => left / right,
  '%': (left: number, right: number) => left % right,
};

/** A computation without a result, such as 0 / 0, is absent. */
const present = (value: Value): Result => (Number.isNaN(value) ? undefined : value);

export function evaluate(tree: TypedExpression, facts: Facts): Result {
  const of = (part: TypedExpression) => evaluate(part, facts);
  switch (tree.kind) {
    case 'constant':
      return tree.value;
    case 'fact':
      return facts[tree.name] ?? (tree.type === 'boolean' ? false : undefined);
    case 'not':
      return of(tree.operand) !== true;
    case 'negation': {
      const operand = of(tree.operand);
      return operand === undefined ? undefined : -Number(operand);
    }
    case 'arithmetic': {
      const [left, right] = [of(tree.left), of(tree.right)];
      if (left === undefined || right === undefined) return undefined;
      return present(arithmetic[tree.operator](Number(left), Number(right)));
    }
    case 'comparison': {
      const [left, right] = [of(tree.left), of(tree.right)];
      if (left === undefined || right === undefined) return false;
      return comparisons[tree.operator](left, right);
    }
    case 'logical': {
      const [left, right] = [of(tree.left), of(tree.right)];
      return tree.operator === '&&' ? left === true && right === true : left === true || right === true;
    }
    case 'choice':
      return of(tree.condition) === true ? of(tree.consequent) : of(tree.alternate);
    case 'oneOf': {
      const left = of(tree.left);
      return tree.options.some(option => option === left);
    }
    case 'itemOf': {
      const [left, list] = [of(tree.left), of(tree.list)];
      return left !== undefined && Array.isArray(list) && list.includes(left);
    }
    case 'call': {
      const values = tree.values.map(of);
      if (values.some(value => value === undefined)) return tree.type === 'boolean' ? false : undefined;
      const prepared = tree.definition.prepare === undefined ? [] : [tree.prepared];
      return present((tree.definition.implementation as (...values: unknown[]) => Value)(...values, ...prepared));
    }
  }
}

export interface ReferenceEntry {
  name: string;
  action: RuleAction;
  expression: string;
  condition: TypedExpression;
  value: TypedExpression;
}

export function score(
  entries: readonly ReferenceEntry[],
  facts: Facts,
): { score: number; breakdown: BreakdownEntry[] } {
  const breakdown: BreakdownEntry[] = [];
  let total = 0n;
  for (const { name, action, expression, condition, value } of entries) {
    if (evaluate(condition, facts) !== true) continue;
    const exact = evaluate(value, facts);
    if (typeof exact !== 'number' || !Number.isFinite(exact)) continue;
    const effect = Math.sign(exact) * Math.round(Math.abs(exact));
    if (effect === 0 || effect > 2147483647 || effect < -2147483648) continue;
    breakdown.push({ name, action, effect, expression });
    total += action === 'ADD' ? BigInt(effect) : -BigInt(effect);
  }
  const held = total > 2147483647n ? 2147483647n : total < -2147483648n ? -2147483648n : total;
  return { score: Number(held), breakdown };
}
