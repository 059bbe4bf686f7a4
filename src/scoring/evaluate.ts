/**
 * Evaluates an expression part by part, for explanations. The compiled code must give the same values; a test compares
 * them.
 */
import { absenceReasons, type Facts, fileKinds, isOptionalFact, type SourceName, unknown } from './facts.ts';
import type { FunctionDefinition, Value } from './functions.ts';
import type { Pattern } from './pattern.ts';
import type { ArithmeticOperator, ComparisonOperator } from './syntax.ts';
import { compareText } from './text.ts';
import type { TypedExpression } from './tree.ts';

/** A part of an expression and its value for one pull request. */
export interface ExplainedPart {
  /** As written, without brackets around it. If a call reads a fact without naming it, the fact's name. */
  source: string;
  kind: 'operation' | 'fact' | 'definition' | 'constant';
  /** Null if it is absent. A number may be infinite. */
  value: Value | null;
  /** What explains the value, such as why it is absent; often empty. Lower case, without a full stop. */
  note: string;
  /** False for the side of a `?` that was not chosen. */
  chosen: boolean;
  /** Its parts, without constants. A chain of one logical operator is one list. */
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

/** Negative, zero or positive. Both have the same type; infinities of the same sign are equal. */
function order(left: Value, right: Value): number {
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  return left === right ? 0 : left < right ? -1 : 1;
}

const timeOf = (seconds: number) => {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString().replace('.000', '');
};

/** Whether what a time is about has happened. A test can still lack the time, as can reviews that GitHub does not list. */
function hasHappened(name: SourceName, { state, merged, reviews }: Facts): boolean {
  if (name === 'merged_at' || name === 'hours_to_merge') return merged;
  if (name === 'closed_at' || name === 'hours_to_close') return merged || state === 'closed';
  return name === 'hours_to_first_review' && reviews > 0;
}

/** Why a fact is absent, or how it is calculated. */
function noteOfFact(name: SourceName, facts: Facts): string {
  const value = facts[name];
  if (name === 'merged_by' && value === null && facts.merged) return unknown;
  if (value === null && hasHappened(name, facts)) return 'no time is given';
  if (value === null) return isOptionalFact(name) ? absenceReasons[name] : '';
  if (name === 'size' && value === facts.additions + facts.deletions)
    return `additions ${facts.additions} + deletions ${facts.deletions}`;
  return typeof value === 'number' && name.endsWith('_at') ? timeOf(value) : '';
}

const shownFiles = 3;

function listFiles(files: readonly string[]): string {
  const more = files.length - shownFiles;
  return `${files.slice(0, shownFiles).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Each file with its lines, and with what happened to it if it was not just modified. */
function withLines(files: readonly string[], changes: readonly number[]): string[] {
  return files.map((file, index) => {
    const [added, removed, kind = 0] = changes.slice(3 * index, 3 * index + 3);
    return `${kind === 0 ? '' : `${fileKinds[kind]} `}${file} +${added} −${removed}`;
  });
}

/** Which files match. */
function noteOfFiles({ name, facts: read = [] }: FunctionDefinition, globs: readonly Pattern[], facts: Facts): string {
  const { files, changed_files: all, file_changes: changes } = facts;
  if (files.length === 0) return 'there are no files';
  const shown = read.includes('file_changes') ? withLines(files, changes ?? []) : files;
  const isMatched = (_: string, index: number) => globs.some(glob => glob.test(files[index] ?? ''));
  const matched = shown.filter(isMatched);
  const others = shown.filter((file, index) => !isMatched(file, index));
  const of = `of ${files.length === 1 ? '1 file' : `${files.length} files`}${all > files.length ? `, the first of ${all}` : ''}`;
  if (name === 'all_files') {
    return others.length === 0 ? `all ${of}` : `${others.length} ${of} do not match: ${listFiles(others)}`;
  }
  const counted = name === 'lines_except' ? others : matched;
  return counted.length === 0 ? `none ${of}` : `${counted.length} ${of}: ${listFiles(counted)}`;
}

/** Why a number is absent or infinite although its operands are not. */
function noteOfNumber(value: Value | null, operands: readonly (Value | null)[], divides: boolean): string {
  const isInfinite = (operand: Value | null) => typeof operand === 'number' && !Number.isFinite(operand);
  if (operands.some(operand => operand === null)) return '';
  if (value !== null && (!isInfinite(value) || operands.some(isInfinite))) return '';
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
  const numericPart = (tree: TypedExpression, value: number | null, parts: ExplainedPart[], divides = false) => {
    const explained = part(tree, value, parts);
    const operands = parts.map(({ value }) => value);
    return { ...explained, note: noteOfNumber(explained.value, operands, divides) };
  };

  function walkCall(tree: TypedExpression & { kind: 'call' }, parts: ExplainedPart[]): ExplainedPart {
    const { definition, prepared } = tree;
    const readsFiles = definition.facts?.includes('files') ?? false;
    const values = parts.map(({ value }) => value);
    if (values.some(value => value === null)) {
      if (readsFiles) return part(tree, null, [], unknown);
      return part(tree, tree.type === 'boolean' ? false : null, parts);
    }
    const given = definition.prepare === undefined ? values : [...values, prepared];
    const value = (definition.implementation as (...values: unknown[]) => Value)(...given);
    if (readsFiles) {
      // The note says more than a long list of files.
      if (Number.isNaN(value)) return part(tree, null, [], unknown);
      return part(tree, value, [], noteOfFiles(definition, prepared as readonly Pattern[], facts));
    }
    return typeof value === 'number'
      ? numericPart(tree, value, parts, definition.name === 'per')
      : part(tree, value, parts);
  }

  function walk(tree: TypedExpression): ExplainedPart {
    if (tree.kind === 'defined') {
      const { expression, tree: body } = tree.definition;
      const explained = explainExpression(expression, body, facts);
      return { ...part(tree, explained.value, [explained]), kind: 'definition' };
    }
    const parts = tree.parts.map(walk);
    const [left = null, right = null] = parts.map(({ value }) => value);
    const isAbsent = left === null || right === null;
    switch (tree.kind) {
      case 'constant':
        return { ...part(tree, tree.value, []), kind: 'constant' };
      case 'fact': {
        const value = facts[tree.name] as Value | null;
        return { ...part(tree, value, [], noteOfFact(tree.name, facts)), kind: 'fact', source: tree.name };
      }
      case 'not':
        return part(tree, left !== true, parts);
      case 'negation':
        return numericPart(tree, left === null ? null : -Number(left), parts);
      case 'arithmetic': {
        const value = isAbsent ? null : arithmetic[tree.operator](Number(left), Number(right));
        return numericPart(tree, value, parts, tree.operator === '/' || tree.operator === '%');
      }
      case 'comparison':
        return part(tree, !isAbsent && comparisons[tree.operator](order(left, right)), parts);
      case 'logical': {
        const isTrue = tree.operator === '&&' ? left === true && right === true : left === true || right === true;
        const [first, ...others] = parts;
        const [leftTree] = tree.parts;
        const isChain = leftTree.kind === 'logical' && leftTree.operator === tree.operator;
        return part(tree, isTrue, isChain ? [...(first?.parts ?? []), ...others] : parts);
      }
      case 'choice': {
        const [condition, consequent, alternate] = parts as [ExplainedPart, ExplainedPart, ExplainedPart];
        const [taken, other] = condition.value === true ? [consequent, alternate] : [alternate, consequent];
        other.chosen = false;
        return part(tree, taken.value, parts);
      }
      case 'oneOf':
        return part(
          tree,
          tree.options.some(option => option === left),
          parts,
        );
      case 'itemOf':
        return part(tree, Array.isArray(right) && right.some(item => item === left), parts);
      case 'call':
        return walkCall(tree, parts);
    }
  }

  return walk(tree);
}
