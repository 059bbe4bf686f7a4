/** What people write in other languages, and how it is written here. */
import { factNames, factOf, isFactName } from '../facts.ts';
import { functions } from './functions.ts';
import { nearestName } from './nearest-name.ts';
import type { Span } from './syntax.ts';

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

export const nearestFunction = (name: string) => otherFunctions.get(name) ?? nearestName(name, functions.keys());

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
  const fact = factNames.find(each => each === stem || each === `${stem}s` || each === `changed_${stem}s`);
  return fact === undefined || stem === '' ? '' : write(fact);
}

const typeOfFact = (code: string) => (isFactName(code) ? factOf(code)?.type : undefined);

/** What to write for a question whether something is absent, or is not. */
export function hintOfAbsence(code: string, isAbsent: boolean, type = typeOfFact(code)): string {
  if (type !== 'number' && type !== 'text') return '';
  return write(`${isAbsent ? '!' : ''}known(${code})`);
}

/** What to write for the call of a function that there is elsewhere. @param given the source texts of its arguments */
export function hintOfOtherCall(name: string, given: readonly string[]): string {
  const [first = '', second] = given;
  const plain = name.toLowerCase().replaceAll('_', '');
  if (/^(exists?|isset|ispresent|isdefined|isnotnull|notnull)$/.test(plain)) return hintOfAbsence(first, false);
  if (/^(isnull|isabsent|isempty|ismissing)$/.test(plain)) return hintOfAbsence(first, true);
  if (/^(coalesce|ifnull|nvl)$/.test(plain) && second !== undefined) return write(`default(${first}, ${second})`);
  return plain === 'isbot' ? write('author_is_bot') : hintOfOtherFact(name);
}

const wordOperator =
  /(is(?:\s+not)?)\s+(?:null|none|nil|undefined|empty)\b|(\w+)\s+("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')/iy;

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
