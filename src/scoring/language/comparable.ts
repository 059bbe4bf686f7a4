/** What can be compared with what. */
import { factOf } from '../facts.ts';
import { hintOfMismatch, messageOfDay } from './hints.ts';
import { nearestName } from './nearest-name.ts';
import { type ComparisonOperator, ExpressionError } from './syntax.ts';
import { excerpt } from './text-operations.ts';
import { type TypedExpression, typeOf } from './tree.ts';

const operators: ReadonlySet<string> = new Set<ComparisonOperator>(['==', '!=', '<', '<=', '>', '>=']);
export const isComparison = (operator: string): operator is ComparisonOperator => operators.has(operator);

/** The quoted texts that an expression can have as its value, or in it. Texts from facts are left out. */
export function textsOf(tree: TypedExpression): string[] {
  if (tree.kind === 'constant') return [tree.value].flat().filter(value => typeof value === 'string');
  return tree.kind === 'defined' || tree.kind === 'choice' ? tree.parts.flatMap(textsOf) : [];
}

/**
 * Refuses to compare a fact with a text that it never has.
 *
 * @param tree checked only if it is a fact with a closed list of values
 */
export function checkTexts(tree: TypedExpression, texts: readonly (number | string)[]): void {
  if (tree.kind === 'defined') checkTexts(tree.definition.tree, texts);
  if (tree.kind !== 'fact') return;
  const list = factOf(tree.name)?.values;
  const wrong = texts.map(String).find(text => list?.includes(text) === false);
  if (list === undefined || wrong === undefined) return;
  const nearest = nearestName(wrong, list);
  const known = list.map(text => `\`"${text}"\``).join(', ');
  const hint = nearest === undefined ? `its values are ${known}` : `did you mean \`"${nearest}"\`?`;
  throw new ExpressionError(`${excerpt(JSON.stringify(wrong))} is not a value of \`${tree.name}\`; ${hint}`);
}

/** @throws ExpressionError if two values can't be compared */
export function checkComparison(
  operator: ComparisonOperator,
  [left, right]: readonly [TypedExpression, TypedExpression],
  source: string,
): void {
  const isA = (part: TypedExpression) => typeOf(part, source);
  const day = [left, right]
    .map(({ start, end }) => source.slice(start, end))
    .find(code => /^\d{4}-\d\d-\d\d$/.test(code));
  if (day !== undefined) throw new ExpressionError(messageOfDay(day));
  if (left.type !== right.type) {
    const hint = hintOfMismatch(operator, left, right, source);
    const message = `${isA(left)} and ${isA(right)}, but \`${operator}\` compares values of the same type${hint}`;
    throw new ExpressionError(message);
  }
  if (left.type === 'list') {
    throw new ExpressionError(`${isA(left)}, which \`${operator}\` can't compare; use \`in\` or \`contains\``);
  }
  if (operator === '==' || operator === '!=') {
    checkTexts(left, textsOf(right));
    checkTexts(right, textsOf(left));
  } else if (left.type === 'boolean') {
    throw new ExpressionError(`${isA(left)}, which \`${operator}\` can't compare; it needs numbers or texts`);
  }
}
