/** What YAML misreads without quotes, and which quotes fix it. */

import { factTable, isFactName } from '../facts.ts';
import { parseSyntax } from '../language/parser.ts';
import { ExpressionError } from '../language/syntax.ts';
import { excerpt } from '../language/text-operations.ts';
import type { YamlNode } from './yaml-node.ts';

const maxShownCharacters = 200;
/** Longer lines are not searched for what lacks quotes: an expression has at most 2,000 characters. */
const maxLineCharacters = 5000;

/** Single quotes leave backslashes and double quotes as they are. */
const inQuotes = (text: string): string => (/["\\]/.test(text) ? `'${text.replaceAll("'", "''")}'` : `"${text}"`);

/** Advice to put something in the right quotes, with the text in them unless it is long. */
export function adviseQuotes(what: string, text: string): string {
  const quoted = inQuotes(
    text
      .split('\n')
      .map(part => part.trim())
      .join(' '),
  );
  const shown = quoted.length > maxShownCharacters ? '' : `: ${quoted}`;
  return `put ${what} in ${quoted.startsWith("'") ? 'single quotes' : 'quotes'}${shown}`;
}

function isExpression(text: string): boolean {
  try {
    parseSyntax(text);
    return true;
  } catch (error) {
    if (error instanceof ExpressionError) return false;
    throw error;
  }
}

/** Doubles the backslashes that begin no escape of the rule language. */
const withEscapes = (text: string): string =>
  text.replace(/\\(.)/gs, (found, next: string) => (/[nrtu"'\\]/.test(next) ? found : `\\${found}`));

/** The expression that a value was meant to be, perhaps in quotes that fail; undefined if it would not be valid. */
function meantExpression(text: string): string | undefined {
  const unquoted = /^(["'])(.*)\1$/s.exec(text)?.[2]?.replaceAll('\\"', '"') ?? text;
  return [unquoted, text].map(withEscapes).find(isExpression);
}

/** Whether YAML takes a value as it is. */
function isFine(value: string, isInBraces: boolean): boolean {
  if (/^'(?:[^']|'')*'$/.test(value)) return true;
  if (/^"(?:[^"\\]|\\[0abtnvfre "/\\N_LPxuU])*"$/.test(value)) return true;
  if (/^(?:[[\]{}&*!|>'"%@`#,]|[-?:](?:\s|$))|: | #|:$/.test(value)) return false;
  return !(isInBraces && /[[\]{},]/.test(value));
}

/**
 * Where a value ends within `{ }`: at a comma or bracket that is neither in quotes nor in brackets of its own. An
 * apostrophe after a letter opens no quotes.
 */
function endInBraces(line: string, start: number): number {
  let depth = 0;
  let quote = '';
  for (let index = start; index < line.length; index++) {
    const character = line[index] ?? '';
    if (quote !== '') {
      if (character === '\\') index++;
      else if (character === quote) quote = '';
    } else if (/["']/.test(character) && !/\w/.test(line[index - 1] ?? '')) quote = character;
    else if ('([{'.includes(character)) depth++;
    else if (depth === 0 && ',)]}'.includes(character)) return index;
    else if (')]}'.includes(character)) depth--;
  }
  return line.length;
}

const keyPattern = /(^\s*(?:- +)*|[{,]\s*)([A-Za-z]\w*):[ \t]+/g;
const isProse = (key: string) =>
  key === 'name' || key === 'description' || (isFactName(key) && factTable[key].type === 'text');

/** The first value on a line that is not YAML without quotes, or with those that it has, and the advice to quote it. */
export function adviseQuotesIn(line: string): { part: string; advice: string } | undefined {
  if (line.length > maxLineCharacters) return undefined;
  for (const { 0: before, 1: opening = '', 2: key = '', index } of line.matchAll(keyPattern)) {
    const start = index + before.length;
    const isInBraces = /[{,]/.test(opening);
    const value = line.slice(start, isInBraces ? endInBraces(line, start) : line.length).trim();
    if (isFine(value, isInBraces)) continue;
    // A quote without another one lacks its end, and needs no more quotes.
    const meant = isProse(key) && !/^["'][^"']*$/.test(value) ? value : meantExpression(value);
    if (meant !== undefined) return { part: key, advice: adviseQuotes(`the value of \`${key}\``, meant) };
  }
  return undefined;
}

/** What to do about the value of a key that a comma truncated; undefined if none did. */
export function problemOfTruncation(key: string, node: YamlNode): string | undefined {
  if (node.kind !== 'text' || node.truncated?.by !== 'comma') return undefined;
  const { whole } = node.truncated;
  const isMeant = isProse(key) || isExpression(withEscapes(whole));
  const advice = isMeant ? adviseQuotes('it', whole) : 'remove what follows, or put all of it in quotes';
  return `inside { } a comma ends a value, so this one is only ${excerpt(node.text)}; ${advice}`;
}

/** The end of a message about an expression that YAML truncated or changed. */
export function adviseOn(node: YamlNode | undefined, message: string): string {
  if (node?.kind !== 'text') return '';
  const meant = (text: string) => adviseQuotes('the expression', withEscapes(text));
  if (node.style === 'QUOTE_DOUBLE' && message.includes('is not a valid escape')) {
    return `; YAML's double quotes halve backslashes: ${meant(node.text)}`;
  }
  if (node.truncated?.by !== 'comment') return '';
  const { whole } = node.truncated;
  const rest = whole.slice(whole.indexOf('#', node.text.length));
  const quotes = isExpression(withEscapes(whole)) ? `; ${meant(whole)}` : '';
  const beginning = message.endsWith('?') ? ' In' : '; in';
  return `${beginning} YAML, \`#\` after a space starts a comment, which cut off ${excerpt(rest)}${quotes}`;
}
