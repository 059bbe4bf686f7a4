/**
 * The ends of messages about expressions that are refused: what was probably meant, also by what is written in other
 * languages. Empty if that is not clear.
 */
import { startOfDay } from '../../text/times.ts';
import { factNames, factOf, isFactName, type SourceName } from '../facts.ts';
import { functions } from './functions.ts';
import { nearestName } from './nearest-name.ts';
import { type Span, type SyntaxNode, spanOf } from './syntax.ts';
import type { TypedExpression } from './tree.ts';

/** Longer code is not written out. */
const maxCodeCharacters = 100;

export function write(code: string): string {
  const line = code.replace(/\s+/g, ' ');
  return line.length > maxCodeCharacters || /[\p{Cc}\p{Cf}]/u.test(line) ? '' : `; write \`${line}\``;
}

/** Functions by the names that they have there. */
const otherFunctions = new Map([
  ['includes', 'contains'],
  ['label', 'has_label'],
  ['match', 'matches'],
  ['test', 'matches'],
  ['regex', 'matches'],
  ['regexp', 'matches'],
  ['like', 'matches'],
  ['len', 'length'],
  ['toLowerCase', 'lower'],
]);

const nearestFunction = (name: string) => otherFunctions.get(name) ?? nearestName(name, functions.keys());

/** Facts and constants by the names that they have there. */
const otherFacts = new Map([
  ['approved', 'approvals > 0'],
  ['reviewed', 'reviews > 0'],
  ['yes', 'true'],
  ['no', 'false'],
]);

/** What to write for the unknown name of a fact. */
export function hintOfOtherFact(name: string): string {
  const other = otherFacts.get(name.toLowerCase());
  if (other !== undefined) return write(other);
  const [, before, after] = /^(?:(?:num|number_of|count_of)_(\w+)|(\w+?)s?_(?:count|total|number))$/i.exec(name) ?? [];
  const stem = (before ?? after ?? '').toLowerCase();
  const fact = factNames.find(each => [stem, `${stem}s`, `changed_${stem}`, `changed_${stem}s`].includes(each));
  return fact === undefined || stem === '' ? '' : write(fact);
}

const typeOfFact = (code: string) => (isFactName(code) ? factOf(code)?.type : undefined);

/** What to write for a question whether something is absent, or is not. */
export function hintOfAbsence(code: string, isAbsent: boolean, type = typeOfFact(code)): string {
  if (type !== 'number' && type !== 'text') return '';
  return write(`${isAbsent ? '!' : ''}known(${code})`);
}

/** What to write for a quoted text where a number is needed. */
export function hintOfNumber(part: TypedExpression): string {
  if (part.kind !== 'constant' || typeof part.value !== 'string') return '';
  const day = part.value.slice(0, 10);
  if (startOfDay(day) !== undefined) return write(`date("${day}")`);
  return /^\d{1,15}(?:\.\d{1,15})?$/.test(part.value) ? `${write(part.value)} without quotes` : '';
}

/** What to write for a day without quotes. */
export const messageOfDay = (day: string): string => `\`${day}\` is a subtraction; write \`date("${day}")\``;

const thousands = /-?\d{1,3}(?:,\d{3})+(?![\w.,])/y;
const listInBrackets = /\bin\s*\(\s*(["']?[\w-]+["']?(?:\s*,\s*["']?[\w-]+["']?)+)\s*\)/;

/** What was meant by a comma that is neither in a call nor in a list. @param start of what stands before it */
export function hintOfComma(source: string, start: number): string {
  thousands.lastIndex = start;
  const [digits] = thousands.exec(source) ?? [];
  const [, items] = listInBrackets.exec(source) ?? [];
  let hint = '';
  if (digits !== undefined) hint = write(digits.replaceAll(',', ''));
  else if (items !== undefined) hint = write(`[${items.replace(/(?<!["'\w-])[A-Za-z][\w-]*/g, '"$&"')}]`);
  return hint || '; write one expression for each entry';
}

const foreignCall = /\s*(?:(=~)\s*|\.\s*([A-Za-z_]\w*)\s*\(?\s*)((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+)?)/sy;

/** What to write for `title =~ "x"` or `title.startsWith("x")`. @param before what stands before the operator */
export function hintOfForeignCall(source: string, before: Span): string {
  foreignCall.lastIndex = before.end;
  const [, operator, member = '', given] = foreignCall.exec(source) ?? [];
  const name = operator === undefined ? nearestFunction(member) : 'matches';
  const [found] = functions.get(name ?? '') ?? [];
  const value = source.slice(before.start, before.end).replace(/^[!\s-]+/, '');
  if (found === undefined || value === '') return '';
  if (/^math$/i.test(value)) return `${write(found.name)} without \`${value}.\``;
  const { parameters, signature, facts } = found;
  if (facts === undefined && parameters.length === 1) return write(`${name}(${value})`);
  const isWhole = facts === undefined && parameters.length === 2 && given !== '';
  return isWhole ? write(`${name}(${value}, ${given})`) : `; call \`${signature}\``;
}

const wordOperator =
  /(is(?:\s+not)?)\s+(?:null|none|nil|undefined|empty)\b|(\w+)\s+("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')/iy;

const notIn = /not\s+in\s+(\[[^\]]*\]|\w+)/iy;

/** What to write for `author not in ["ada"]`. @param operand what stands before it @param start of the word */
export function hintOfNotIn(source: string, operand: Span, start: number): string {
  notIn.lastIndex = start;
  const [, list] = notIn.exec(source) ?? [];
  return list === undefined ? '' : write(`!(${source.slice(operand.start, operand.end)} in ${list})`);
}

/** What to write for an operator that is a word. @param operand what stands before it @param start of the word */
export function hintOfWordOperator(source: string, operand: Span, start: number): string {
  const before = source.slice(operand.start, operand.end);
  wordOperator.lastIndex = start;
  const [, is, word = '', text] = wordOperator.exec(source) ?? [];
  if (is !== undefined) return hintOfAbsence(before, !/not/i.test(is));
  const name = text === undefined ? undefined : nearestFunction(word);
  const takesText = functions.get(name ?? '')?.some(({ parameters }) => parameters.length === 2);
  return takesText ? write(`${name}(${before}, ${text})`) : '';
}

/** What to write for a number with a unit or with marks in it. */
export function hintOfNumberForm(raw: string): string {
  const [, digits = '', unit = ''] = /^(\d[\d_]*(?:\.\d+)?)([a-z]*)$/i.exec(raw) ?? [];
  const number = Number(digits.replaceAll('_', ''));
  if (digits === '' || !Number.isSafeInteger(number) || /^0\d/.test(digits)) return '';
  if (unit === '') return write(String(number));
  if (/^k$/i.test(unit)) return write(String(1_000 * number));
  const hours = new Map([
    ['h', 1],
    ['d', 24],
    ['w', 168],
  ]).get(unit.toLowerCase().replace(/^(hour|day|week)s?$/, found => found[0] ?? ''));
  return hours === undefined ? '' : `${write(String(hours * number))}, as durations are in hours`;
}

const clockNames: ReadonlySet<string> = new Set(['now', 'today', 'day', 'week', 'month', 'year']);

/** The end of the message about a name that means the present or the calendar. */
export function hintOfClock(name: string): string {
  if (/^(is_?)?week_?end$/i.test(name)) return write('weekday(created_at) >= 6');
  if (/^day_?of_?(the_?)?week$/i.test(name)) return write('weekday(created_at)');
  return clockNames.has(name.toLowerCase())
    ? '; there is no clock and no calendar: rules read facts such as `created_at`, and `date("2026-01-31")`'
    : '';
}

/** What was meant by a call of an unknown function. @param given the source texts of its arguments */
export function hintOfUnknownFunction(name: string, given: readonly string[]): string {
  const [first = '', second, third] = given;
  const plain = name.toLowerCase().replaceAll('_', '');
  let hint: string;
  if (plain === 'if') {
    const isWhole = given.length === 3 && !first.includes('?');
    hint = write(isWhole ? `${first} ? ${second} : ${third}` : 'merged ? 10 : 0');
  } else if (/^(exists?|isset|ispresent|isdefined|isnotnull|notnull)$/.test(plain)) hint = hintOfAbsence(first, false);
  else if (/^(isnull|isabsent|isempty|ismissing)$/.test(plain)) hint = hintOfAbsence(first, true);
  else if (/^(coalesce|ifnull|nvl)$/.test(plain) && second !== undefined) hint = write(`default(${first}, ${second})`);
  else hint = plain === 'isbot' ? write('author_is_bot') : hintOfOtherFact(name);
  const nearest = nearestFunction(name);
  return hint || (nearest && `; did you mean \`${nearest}\`?`) || hintOfClock(name) || seeList('function');
}

/** The functions that look for globs in the items of a list. */
export const functionsOfItems: ReadonlyMap<SourceName, { name: string; glob: string }> = new Map([
  ['labels', { name: 'any_label', glob: '"area/*"' }],
  ['files', { name: 'any_file', glob: '"src/**"' }],
]);

/** What was meant by a function of a text that gets a list. @param others the source texts of its other arguments */
export function hintOfItems(name: string, list: TypedExpression, others: readonly string[]): string {
  const found = list.kind === 'fact' ? functionsOfItems.get(list.name) : undefined;
  if (found === undefined) return '';
  return write(`${found.name}(${name === 'glob' && others.length > 0 ? others.join(', ') : found.glob})`);
}

/** Asks whether a name is a text without its quotes. */
const hintOfText = (source: string): string =>
  /^[\w/-]{1,60}$/.test(source) ? `; did you mean the text \`"${source}"\`?` : '';

/** Asks the same about a fact that stands where a text is needed. */
export const hintOfFact = ({ kind, start, end }: TypedExpression, source: string): string =>
  kind === 'fact' ? hintOfText(source.slice(start, end)) : '';

/** The end of a message about an unknown name if no other one is near. */
export const seeList = (kind: 'fact' | 'function'): string => `; docs/rules.md lists all ${kind}s`;

/** Asks the same at the end of the message about an unknown name, which may already suggest another name. */
export function messageWithText(message: string, source: string): string {
  const hint = hintOfText(source);
  if (hint === '') return message;
  return message.endsWith('?')
    ? `${message.slice(0, -1)}, or the text \`"${source}"\`?`
    : message.replace(seeList('fact'), '') + hint;
}

/** What was meant by comparing two values of different types. */
export function hintOfMismatch(
  operator: string,
  left: TypedExpression,
  right: TypedExpression,
  source: string,
): string {
  const show = ({ start, end }: TypedExpression) => source.slice(start, end);
  if (left.kind === 'comparison' && [operator, left.operator].every(each => /[<>]/.test(each))) {
    const [, middle] = left.parts;
    // Brackets around a choice would be lost.
    const isChain = middle.type === right.type && middle.kind !== 'choice' && right.kind !== 'choice';
    if (isChain) return write(`${show(left)} && ${show(middle)} ${operator} ${show(right)}`);
  }
  for (const [one, other] of [
    [left, right],
    [right, left],
  ] as const) {
    if (one.type === 'number' && other.type === 'text') return hintOfNumber(other);
    if (one.type === 'text' && other.type === 'boolean') {
      return one.kind === 'constant' ? hintOfFlag(operator, String(one.value), show(other)) : hintOfFact(other, source);
    }
    if (one.type === 'list' && other.type === 'number') {
      return write(
        [left, right].map(side => (side === one ? `length(${show(one)})` : show(side))).join(` ${operator} `),
      );
    }
    if (one.type === 'list' && other.type === 'text') return hintOfList(operator, show(one), [show(other)]);
  }
  return '';
}

/** What to write for true or false in quotes. */
function hintOfFlag(operator: string, text: string, other: string): string {
  if (text !== 'true' && text !== 'false') return '';
  const not = (text === 'true') === (operator === '==') ? '' : '!';
  const hasShortForm = /^\w+$/.test(other) && /[!=]=/.test(operator);
  return `; write \`${text}\` without quotes${hasShortForm ? `, or just \`${not}${other}\`` : ''}`;
}

/** What to write for a list that is compared by `==` or `!=` with these items. */
function hintOfList(operator: string, list: string, items: readonly string[]): string {
  const isEqual = operator === '==';
  if (!isEqual && operator !== '!=') return '';
  if (items.length === 0 || (items.length === 1 && /^(""|'')$/.test(items[0] ?? ''))) {
    return write(`length(${list}) ${isEqual ? '==' : '>'} 0`);
  }
  const all = items.map(item => `${item} in ${list}`).join(' && ');
  return write(isEqual ? all : `!(${all})`);
}

/** What was meant by comparing something with a list in square brackets. */
export function hintOfArray(
  operator: string,
  array: SyntaxNode & { type: 'ArrayExpression' },
  other: TypedExpression,
  source: string,
): string {
  const show = ({ start, end }: { start: number; end: number }) => source.slice(start, end);
  const items = array.elements.map(element => show(spanOf(element)));
  if (other.type === 'list' || (other.type === 'text' && items.length === 0))
    return hintOfList(operator, show(other), items);
  if (items.length === 0) return '';
  const among = `${show(other)} in ${show(array)}`;
  return operator === '==' ? write(among) : operator === '!=' ? write(`!(${among})`) : '';
}
