/** What each part of an expression gives, and why: for explanations. */

import { type Facts, factOf, type SourceName, unknownReason } from '../facts.ts';
import { compileParts } from '../language/compile.ts';
import type { FunctionDefinition, Value } from '../language/functions.ts';
import type { Pattern } from '../language/pattern.ts';
import type { LogicalOperator } from '../language/syntax.ts';
import { characterCount } from '../language/text-operations.ts';
import { allParts, type TypedExpression } from '../language/tree.ts';

/** A part of an expression and its value for one pull request. */
export interface ExplainedPart {
  /** As written, without brackets around it, or its beginning. If a call reads a fact without naming it, the fact's name. */
  source: string;
  kind: 'operation' | 'fact' | 'definition' | 'constant';
  /** Null if it is absent. */
  value: Value | null;
  /** JSON has no infinite number: then the value is null. */
  infinite?: boolean;
  /** Of the whole text of which the value is the beginning. */
  characters?: number;
  /** What explains the value, such as why it is absent; often empty. Lower case, without a full stop. */
  note: string;
  /** Of a chain of `&&` or of `||`. Not in JSON. */
  operator?: LogicalOperator;
  /** False for the side of a `?` that was not chosen. */
  chosen: boolean;
  /** Its parts, without constants. A chain of one logical operator is one list. */
  parts: ExplainedPart[];
}

const timeOf = (seconds: number) => {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString().replace('.000', '');
};

/**
 * Whether what a time is about has happened. A test can still lack the time, as can reviews that GitHub does not list.
 */
function hasHappened(name: SourceName, { state, merged, reviews }: Facts): boolean {
  if (name === 'merged_at' || name === 'hours_to_merge') return merged;
  if (name === 'closed_at' || name === 'hours_to_close') return merged || state === 'closed';
  return name === 'hours_to_first_review' && reviews > 0;
}

/** Why a fact is absent, or how it is calculated. */
function noteOfFact(name: SourceName, facts: Facts): string {
  const value = facts[name];
  if (name === 'merged_by' && value === null && facts.merged) return unknownReason;
  if (value === null && hasHappened(name, facts)) return 'no time is given';
  if (value === null) return factOf(name)?.absence ?? '';
  if (name === 'size' && value === facts.additions + facts.deletions)
    return `additions ${facts.additions} + deletions ${facts.deletions}`;
  return typeof value === 'number' && name.endsWith('_at') ? timeOf(value) : '';
}

const shownFiles = 3;

function listFiles(files: readonly string[]): string {
  const more = files.length - shownFiles;
  return `${files.slice(0, shownFiles).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Each file with its lines. */
const withLines = (files: readonly string[], changes: readonly number[]): string[] =>
  files.map((file, index) => `${file} +${changes[2 * index]} −${changes[2 * index + 1]}`);

/** Which files match. */
function noteOfFiles({ name, facts: read = [] }: FunctionDefinition, globs: readonly Pattern[], facts: Facts): string {
  const { files, changed_files: all, file_changes: changes } = facts;
  if (files.length === 0) return 'there are no files';
  const shown = read.includes('file_changes') ? withLines(files, changes ?? []) : files;
  const isMatched = (_: string, index: number) => globs.some(glob => glob.test(files[index] ?? ''));
  const matched = shown.filter(isMatched);
  const others = shown.filter((file, index) => !isMatched(file, index));
  const ofFiles = `of ${files.length === 1 ? '1 file' : `${files.length} files`}${all > files.length ? `, the first of ${all}` : ''}`;
  if (name === 'all_files') {
    return others.length === 0 ? `all ${ofFiles}` : `${others.length} ${ofFiles} do not match: ${listFiles(others)}`;
  }
  const counted = name === 'lines_except' ? others : matched;
  return counted.length === 0 ? `none ${ofFiles}` : `${counted.length} ${ofFiles}: ${listFiles(counted)}`;
}

/** Why a number is absent or infinite although its operands are not. */
function noteOfNumber(value: Value | null, operands: readonly (Value | null)[], divides: boolean): string {
  const isInfinite = (operand: Value | null) => typeof operand === 'number' && !Number.isFinite(operand);
  if (operands.some(operand => operand === null)) return '';
  if (value !== null && (!isInfinite(value) || operands.some(isInfinite))) return '';
  if (divides && operands.at(-1) === 0) return 'a division by zero';
  return value === null ? 'it has no result' : 'it is too large';
}

const divides = (tree: TypedExpression): boolean =>
  (tree.kind === 'arithmetic' && ['/', '%'].includes(tree.operator)) ||
  (tree.kind === 'call' && tree.definition.name === 'per');

/** By expression: one is explained for each review of a pull request, and all of them have the same texts. */
const compiled = new WeakMap<TypedExpression, (facts: Facts) => Map<TypedExpression, Value | null>>();

function evaluateParts(tree: TypedExpression, facts: Facts): Map<TypedExpression, Value | null> {
  let evaluate = compiled.get(tree);
  if (evaluate === undefined) {
    const trees = [...allParts([tree])];
    const valuesOf = compileParts(trees);
    evaluate = facts => {
      const values = valuesOf(facts);
      return new Map(trees.map((part, index) => [part, values[index] ?? null]));
    };
    compiled.set(tree, evaluate);
  }
  return evaluate(facts);
}

/** @param source the text that the tree was parsed from */
export function explainExpression(source: string, tree: TypedExpression, facts: Facts): ExplainedPart {
  const valueByPart = evaluateParts(tree, facts);

  function walk(tree: TypedExpression, source: string): ExplainedPart {
    const found = valueByPart.get(tree) ?? null;
    const value = Number.isNaN(found) ? null : found;
    const code = source.slice(tree.start, tree.end);
    const explained: ExplainedPart = { source: code, kind: 'operation', value, note: '', chosen: true, parts: [] };
    if (tree.kind === 'constant') return { ...explained, kind: 'constant' };
    if (tree.kind === 'fact') {
      return { ...explained, kind: 'fact', source: tree.name, note: noteOfFact(tree.name, facts) };
    }
    if (tree.kind === 'call' && tree.definition.facts?.includes('files')) {
      // The note says more than a long list of files.
      const globs = tree.prepared as readonly Pattern[];
      return { ...explained, note: value === null ? unknownReason : noteOfFiles(tree.definition, globs, facts) };
    }
    const parts =
      tree.kind === 'defined'
        ? [walk(tree.definition.tree, tree.definition.expression)]
        : tree.parts.map(part => walk(part, source));
    if (tree.kind === 'choice') {
      const [condition, consequent, alternate] = parts as [ExplainedPart, ExplainedPart, ExplainedPart];
      (condition.value === true ? alternate : consequent).chosen = false;
    } else if (tree.kind !== 'defined' && typeof found === 'number') {
      const operands = parts.map(part => part.value);
      explained.note = noteOfNumber(value, operands, divides(tree));
    }
    const [left] = tree.parts;
    const isChain = tree.kind === 'logical' && left?.kind === 'logical' && left.operator === tree.operator;
    const [first, ...others] = parts;
    const shown = isChain ? [...(first?.parts ?? []), ...others] : parts;
    const kind = tree.kind === 'defined' ? 'definition' : 'operation';
    const operator = tree.kind === 'logical' ? { operator: tree.operator } : {};
    return { ...explained, ...operator, kind, parts: shown.filter(part => part.kind !== 'constant') };
  }

  return walk(tree, source);
}

/** A body can have 64 KiB, and thousands of entries can read it. */
const maxTextLength = 1_000;

/** Each of thirty levels repeats the text of those within it. */
const maxSourceLength = 300;

/** Never half a surrogate pair. */
const shorten = (text: string, maxLength: number) =>
  text.length <= maxLength ? text : `${text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, '')}…`;

/** The parts of a condition that are false, each as it is written: it becomes true once they all are. */
export function missingParts({ value, operator, kind, parts, source }: ExplainedPart): string[] {
  if (value === true) return [];
  const inner = operator === '&&' || kind === 'definition' ? parts.flatMap(missingParts) : [];
  // What is constantly false is not among the parts.
  return inner.length === 0 ? [shorten(source, maxSourceLength)] : [...new Set(inner)];
}

/** How many characters of JSON an explanation's parts may still have. */
export interface Room {
  characters: number;
}

/** The part as JSON can hold it. Its own parts are left out once the room is used up. */
export function representPart({ operator: _, parts, ...part }: ExplainedPart, room: Room): ExplainedPart {
  const represented = { ...part, source: shorten(part.source, maxSourceLength), ...representValue(part) };
  room.characters -= JSON.stringify(represented).length;
  return { ...represented, parts: room.characters > 0 ? parts.map(inner => representPart(inner, room)) : [] };
}

function representValue({ value, note }: Pick<ExplainedPart, 'value' | 'note'>): Partial<ExplainedPart> {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return { value: null, infinite: true, note: note || 'infinite' };
  }
  if (typeof value !== 'string' || value.length <= maxTextLength) return {};
  return { value: shorten(value, maxTextLength), note: 'shortened', characters: characterCount(value) };
}
