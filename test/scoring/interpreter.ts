import type { Facts } from '../../src/scoring/facts.ts';
import type { Value } from '../../src/scoring/language/functions.ts';
import type { ArithmeticOperator, ComparisonOperator } from '../../src/scoring/language/syntax.ts';
import { compareText } from '../../src/scoring/language/text-operations.ts';
import type { TypedExpression } from '../../src/scoring/language/tree.ts';

const arithmetic: Record<ArithmeticOperator, (left: number, right: number) => number> = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '/': (left, right) => left / right,
  '%': (left, right) => left % right,
};

const comparisons: Record<ComparisonOperator, (order: number) => boolean> = {
  '==': order => order === 0,
  '!=': order => order !== 0,
  '<': order => order < 0,
  '<=': order => order <= 0,
  '>': order => order > 0,
  '>=': order => order >= 0,
};

/** Negative, zero or positive. Both have the same type; infinities of the same sign are equal. */
function order(left: Value, right: Value): number {
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  return left === right ? 0 : left < right ? -1 : 1;
}

/** The rule language as it is defined, without any code generation: compiled code must give the same. Null is absent. */
export function interpret(tree: TypedExpression, facts: Facts): Value | null {
  const value = valueOfTree(tree, facts);
  return Number.isNaN(value) ? null : value;
}

function valueOfTree(tree: TypedExpression, facts: Facts): Value | null {
  if (tree.kind === 'constant') return tree.value;
  if (tree.kind === 'fact') return facts[tree.name] as Value | null;
  if (tree.kind === 'defined') return interpret(tree.definition.tree, facts);
  const parts = tree.parts.map(part => interpret(part, facts));
  const [left = null, right = null, other = null] = parts;
  const isAbsent = left === null || right === null;
  switch (tree.kind) {
    case 'not':
      return left !== true;
    case 'negation':
      return left === null ? null : -Number(left);
    case 'arithmetic':
      return isAbsent ? null : arithmetic[tree.operator](Number(left), Number(right));
    case 'comparison':
      return !isAbsent && comparisons[tree.operator](order(left, right));
    case 'logical':
      return tree.operator === '&&' ? left === true && right === true : left === true || right === true;
    case 'choice':
      return left === true ? right : other;
    case 'oneOf':
      return tree.options.some(option => option === left);
    case 'itemOf':
      return Array.isArray(right) && right.some(item => item === left);
    case 'call': {
      if (!tree.definition.takesAbsent && parts.includes(null)) return tree.type === 'boolean' ? false : null;
      const { definition, prepared } = tree;
      const given = definition.prepare === undefined ? parts : [...parts, prepared];
      return (definition.implementation as (...values: unknown[]) => Value)(...given);
    }
  }
}
