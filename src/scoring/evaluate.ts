/**
 * What an expression means, part by part: a plain walk over the checked tree, for explanations. The compiled code must
 * give the same; a test compares them.
 */
import { absentWhere, type FactName, type Facts, isOptionalFact } from './facts.ts';
import type { Value } from './functions.ts';
import type { Pattern } from './pattern.ts';
import type { ArithmeticOperator, ComparisonOperator } from './syntax.ts';
import { compareText } from './text.ts';
import type { TypedExpression } from './tree.ts';

/** A part of an expression and what it comes to for one pull request. */
export interface ExplainedPart {
  /** As written, without brackets around it; of a fact that a function reads by itself, the fact's name. */
  source: string;
  kind: 'operation' | 'fact' | 'constant';
  /** Null if it is absent. Of a number also infinite. */
  value: Value | null;
  /** What the value alone does not tell, such as why it is absent; often empty. Lower case, without a full stop. */
  note: string;
  /** False for the side of a `?` that was not chosen. */
  chosen: boolean;
  /** The parts that it is made of, constants left out, and chains of one logical operator in one row. */
  parts: ExplainedPart[];
}

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

/** Below, at or above zero; both have one type. Infinities of one sign are equal. */
function order(left: Value, right: Value): number {
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  return left === right ? 0 : left < right ? -1 : 1;
}

const timeOf = (seconds: number) => {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString().replace('.000', '');
};

/** Why a fact is absent, or what it is made of. */
function noteOfFact(name: FactName, facts: Facts): string {
  const value = facts[name];
  if (value === null) return isOptionalFact(name) ? absentWhere[name] : '';
  if (name === 'size') return `additions ${facts.additions} + deletions ${facts.deletions}`;
  return typeof value === 'number' && name.endsWith('_at') ? timeOf(value) : '';
}

const shownFiles = 3;

function listFiles(files: readonly string[]): string {
  const more = files.length - shownFiles;
  return `${files.slice(0, shownFiles).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Which of the files decided. */
function noteOfFiles(functionName: string, globs: readonly Pattern[], facts: Facts): string {
  const { files, changed_files: all } = facts;
  if (files.length === 0) return 'there are no files';
  const isMatched = (file: string) => globs.some(glob => glob.test(file));
  const matched = files.filter(isMatched);
  const of = `of ${files.length === 1 ? '1 file' : `${files.length} files`}${all > files.length ? `, the first of ${all}` : ''}`;
  if (functionName === 'all_files') {
    const others = files.filter(file => !isMatched(file));
    return others.length === 0 ? `all ${of}` : `${others.length} ${of} do not match: ${listFiles(others)}`;
  }
  return matched.length === 0 ? `none ${of}` : `${matched.length} ${of}: ${listFiles(matched)}`;
}

/** Why a number is absent or infinite where its operands are not. */
function noteOfNumber(value: Value | null, operands: readonly (Value | null)[], divides: boolean): string {
  const isUsual = (operand: Value | null) => typeof operand !== 'number' || Number.isFinite(operand);
  if (operands.some(operand => operand === null)) return '';
  if (value !== null && (isUsual(value) || !operands.every(isUsual))) return '';
  if (divides && operands.at(-1) === 0) return 'a division by zero';
  return value === null ? 'it has no result' : 'it is too large';
}

/** @param source the text that the tree was parsed from */
export function explainExpression(source: string, tree: TypedExpression, facts: Facts): ExplainedPart {
  const part = (tree: TypedExpression, value: Value | null, parts: ExplainedPart[], note = ''): ExplainedPart => ({
    source: source.slice(tree.start, tree.end),
    kind: 'operation',
    value: Number.isNaN(value) ? null : value,
    note,
    chosen: true,
    parts: parts.filter(({ kind }) => kind !== 'constant'),
  });
  const number = (tree: TypedExpression, value: number | null, parts: ExplainedPart[], divides = false) => {
    const made = part(tree, value, parts);
    const operands = parts.map(({ value }) => value);
    return { ...made, note: noteOfNumber(made.value, operands, divides) };
  };

  function walkLogical(tree: TypedExpression & { kind: 'logical' }): ExplainedPart {
    const operands = [walk(tree.left), walk(tree.right)];
    const isTrue = operands.map(({ value }) => value === true);
    const value = tree.operator === '&&' ? isTrue.every(Boolean) : isTrue.some(Boolean);
    const { left } = tree;
    const isChain = left.kind === 'logical' && left.operator === tree.operator;
    const first = isChain ? (operands[0]?.parts ?? []) : operands.slice(0, 1);
    return part(tree, value, [...first, ...operands.slice(1)]);
  }

  function walkCall(tree: TypedExpression & { kind: 'call' }): ExplainedPart {
    const { definition, prepared } = tree;
    const parts = tree.values.map(walk);
    const values = parts.map(({ value }) => value);
    if (values.some(value => value === null)) return part(tree, tree.type === 'boolean' ? false : null, parts);
    const given = definition.prepare === undefined ? values : [...values, prepared];
    const value = (definition.implementation as (...values: unknown[]) => Value)(...given);
    if (definition.fact === 'files') {
      // The note tells more of the files than a long list of them would.
      return part(tree, value, [], noteOfFiles(definition.name, prepared as readonly Pattern[], facts));
    }
    return typeof value === 'number' ? number(tree, value, parts, definition.name === 'per') : part(tree, value, parts);
  }

  function walk(tree: TypedExpression): ExplainedPart {
    switch (tree.kind) {
      case 'constant':
        return { ...part(tree, tree.value, []), kind: 'constant' };
      case 'fact':
        return { ...part(tree, facts[tree.name], [], noteOfFact(tree.name, facts)), kind: 'fact', source: tree.name };
      case 'not': {
        const operand = walk(tree.operand);
        return part(tree, operand.value !== true, [operand]);
      }
      case 'negation': {
        const operand = walk(tree.operand);
        return number(tree, operand.value === null ? null : -Number(operand.value), [operand]);
      }
      case 'arithmetic': {
        const [left, right] = [walk(tree.left), walk(tree.right)];
        const isAbsent = left.value === null || right.value === null;
        const value = isAbsent ? null : arithmetic[tree.operator](Number(left.value), Number(right.value));
        return number(tree, value, [left, right], tree.operator === '/' || tree.operator === '%');
      }
      case 'comparison': {
        const [left, right] = [walk(tree.left), walk(tree.right)];
        const isAbsent = left.value === null || right.value === null;
        const value = !isAbsent && comparisons[tree.operator](order(left.value ?? '', right.value ?? ''));
        return part(tree, value, [left, right]);
      }
      case 'logical':
        return walkLogical(tree);
      case 'choice': {
        const condition = walk(tree.condition);
        const [consequent, alternate] = [walk(tree.consequent), walk(tree.alternate)];
        const [taken, other] = condition.value === true ? [consequent, alternate] : [alternate, consequent];
        other.chosen = false;
        return part(tree, taken.value, [condition, consequent, alternate]);
      }
      case 'oneOf': {
        const left = walk(tree.left);
        return part(
          tree,
          tree.options.some(option => option === left.value),
          [left],
        );
      }
      case 'itemOf': {
        const [left, list] = [walk(tree.left), walk(tree.list)];
        const isItem = Array.isArray(list.value) && list.value.some(item => item === left.value);
        return part(tree, isItem, [left, list]);
      }
      case 'call':
        return walkCall(tree);
    }
  }

  return walk(tree);
}
