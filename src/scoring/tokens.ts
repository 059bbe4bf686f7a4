/**
 * The guard in front of jsep, which reads far more than the rule language and lets some mistakes pass in silence:
 * text is split into a closed set of tokens and held to the grammar and the limits before jsep sees it.
 */

import { characterCount } from './text.ts';

/** A reason to refuse an expression. `message` begins with the offending part. */
export class ExpressionError extends Error {
  readonly start: number;
  readonly end: number;

  /** @param start,end the offending part of the source text, in UTF-16 units */
  constructor(message: string, start: number, end: number) {
    super(message);
    this.name = 'ExpressionError';
    this.start = start;
    this.end = end;
  }
}

export const expressionLimits = { characters: 2000, nodes: 200, depth: 32 } as const;

export interface Token {
  kind: 'name' | 'number' | 'text' | 'symbol';
  text: string;
  start: number;
  end: number;
  /** Of a literal. */
  value: number | string | undefined;
  /** Of a bracket: the index of its partner. */
  partner: number;
  /** Of an opening round bracket: whether it opens a function's arguments. */
  opensCall: boolean;
}

const spaces = /[ \t\r\n]+/y;
const nameStart = /[A-Za-z_$][\w$]*/y;
// Takes what follows a digit as one piece, so that 0x10, 1_000, 12ab and 1.2.3 are refused whole.
const numberStart = /\d(?:[eE][+-]|[\w.$])*/y;
const numberForm = /^(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const symbolStart = /[<>=!]=(?!=)|&&|\|\||[-+*/%<>!?:()[\],]/y;
const foreignStart =
  /===|!==|>>>=?|\*\*=?|=>|\?\?=?|\?\.|\.\.\.|<<=?|>>=?|&&=|\|\|=|[-+*/%&|^]=|\+\+|--|[=&|^~;.{}`@#\\]/y;

const replacements = new Map([
  ['=', 'write `==` to compare'],
  ['===', 'write `==`'],
  ['!==', 'write `!=`'],
  ['&', 'write `&&`'],
  ['|', 'write `||`'],
  [';', 'write one expression for each entry'],
  ['.', 'values have no members; functions are written as in `length(title)`'],
  ['--', 'write `- -` or use brackets'],
]);

const wordOperators = new Set(['and', 'or', 'not']);

const binarySymbols = new Set(['+', '-', '*', '/', '%', '==', '!=', '<', '<=', '>', '>=', '&&', '||']);

/** A part of the source as error texts show it: one line, short. */
export function excerpt(source: string, start: number, end: number): string {
  const part = source
    .slice(start, Math.min(end, start + 60))
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Surrogate}]/gu, '\uFFFD');
  const shown = [...part];
  return shown.length > 40 || end > start + 60 ? `\`${shown.slice(0, 39).join('')}…\`` : `\`${part}\``;
}

function describeCharacter(code: number): string {
  const character = String.fromCodePoint(code);
  const shown = /[\p{L}\p{N}\p{P}\p{S}]/u.test(character) ? ` (${character})` : '';
  return `the character U+${code.toString(16).toUpperCase().padStart(4, '0')}${shown}`;
}

/** Reads a quoted text from its opening quote. jsep drops the backslash of escapes it does not know; we refuse them. */
function readText(source: string, start: number): { value: string; end: number } {
  const quote = source[start];
  let value = '';
  let index = start + 1;
  while (index < source.length) {
    const character = source[index] ?? '';
    if (character === quote) return { value, end: index + 1 };
    const code = source.charCodeAt(index);
    if (code < 0x20 || code === 0x7f) {
      throw new ExpressionError(
        `a quoted text can't hold ${describeCharacter(code)} as it is; write \\n, \\r, \\t or \\u${code.toString(16).padStart(4, '0')}`,
        start,
        index + 1,
      );
    }
    if (character !== '\\') {
      value += character;
      index++;
      continue;
    }
    const escaped = source[index + 1] ?? '';
    const plain = new Map([
      ['n', '\n'],
      ['r', '\r'],
      ['t', '\t'],
      ['\\', '\\'],
      ['"', '"'],
      ["'", "'"],
    ]).get(escaped);
    const unicode = /^u[0-9a-fA-F]{4}/.exec(source.slice(index + 1, index + 6));
    if (plain !== undefined) {
      value += plain;
      index += 2;
    } else if (unicode !== null) {
      value += String.fromCharCode(Number.parseInt(source.slice(index + 2, index + 6), 16));
      index += 6;
    } else {
      const end = Math.min(index + 2, source.length);
      const shown = excerpt(source, index + 1, end).slice(1, -1);
      throw new ExpressionError(
        `\`\\${shown}\` is not an escape of a quoted text; write \`\\\\${shown}\` for a backslash itself`,
        index,
        end,
      );
    }
  }
  throw new ExpressionError(`${excerpt(source, start, source.length)} has no closing quote`, start, source.length);
}

function readNumber(source: string, text: string, start: number): number {
  const end = start + text.length;
  const value = Number(text);
  if (!numberForm.test(text)) {
    const why = /^0\d/.test(text) ? 'numbers have no leading zeros' : 'write numbers like 10 or 0.5';
    throw new ExpressionError(`${excerpt(source, start, end)} is not a number of the language: ${why}`, start, end);
  }
  if (!Number.isFinite(value) || (value === 0 && /[1-9]/.test(text.split(/e/i)[0] ?? ''))) {
    throw new ExpressionError(`${excerpt(source, start, end)} is too large or too small a number`, start, end);
  }
  return value;
}

function matchAt(pattern: RegExp, source: string, index: number): string | undefined {
  pattern.lastIndex = index;
  return pattern.exec(source)?.[0];
}

function readToken(source: string, start: number): Token {
  const token = (kind: Token['kind'], text: string, value?: number | string): Token => {
    return { kind, text, start, end: start + text.length, value, partner: -1, opensCall: false };
  };
  const name = matchAt(nameStart, source, start);
  if (name !== undefined) return token('name', name);
  const number = matchAt(numberStart, source, start);
  if (number !== undefined) return token('number', number, readNumber(source, number, start));
  if (source[start] === '"' || source[start] === "'") {
    const { value, end } = readText(source, start);
    return token('text', source.slice(start, end), value);
  }
  const symbol = matchAt(symbolStart, source, start);
  const foreign = matchAt(foreignStart, source, start);
  if (symbol !== undefined && (foreign === undefined || symbol.length >= foreign.length)) {
    return token('symbol', symbol);
  }
  if (foreign !== undefined) {
    const decimal = foreign === '.' && /\d/.test(source[start + 1] ?? '');
    const hint = decimal ? 'write a digit before the decimal point' : replacements.get(foreign);
    throw new ExpressionError(
      `\`${foreign}\` is not part of the rule language${hint === undefined ? '' : `; ${hint}`}`,
      start,
      start + foreign.length,
    );
  }
  const code = source.codePointAt(start) ?? 0;
  const end = start + (code > 0xffff ? 2 : 1);
  throw new ExpressionError(`${describeCharacter(code)} is not part of the rule language outside quotes`, start, end);
}

/** Reads the tokens of an expression. @throws ExpressionError also where the expression is too long */
function splitTokens(source: string): Token[] {
  const limit = expressionLimits.characters;
  if (source.length > 2 * limit || characterCount(source) > limit) {
    throw new ExpressionError(`it is longer than ${limit} characters; split it over several entries`, 0, 0);
  }
  const tokens: Token[] = [];
  let index = 0;
  while (index < source.length) {
    index += matchAt(spaces, source, index)?.length ?? 0;
    if (index === source.length) break;
    const token = readToken(source, index);
    tokens.push(token);
    index = token.end;
  }
  return tokens;
}

interface Opening {
  index: number;
  /** Questions wait for their colon. */
  kind: 'call' | 'group' | 'list' | 'question';
}

export const tooDeep = `it is nested deeper than ${expressionLimits.depth} levels, counting each operator of a chain; split it over several entries`;

/**
 * Holds tokens to the grammar and the limits, and pairs the brackets. What passes, jsep reads as one expression
 * with at most `nodes` nodes.
 */
function checkGrammar(source: string, tokens: readonly Token[]): void {
  const open: Opening[] = [];
  let nodes = 0;
  const show = (token: Token | undefined) => (token === undefined ? '' : excerpt(source, token.start, token.end));
  const error = (token: Token, message: string) => new ExpressionError(message, token.start, token.end);

  function close(token: Token, index: number): void {
    const opening = open.at(-1);
    const partner = tokens[opening?.index ?? -1];
    const fits = opening !== undefined && (opening.kind === 'list') === (token.text === ']');
    if (opening === undefined || partner === undefined || opening.kind === 'question' || !fits) {
      const missing = opening?.kind === 'question' ? 'the `:` of a `?`' : 'its opening bracket';
      throw error(token, `${show(token)} stands without ${missing}`);
    }
    open.pop();
    token.partner = opening.index;
    partner.partner = index;
  }

  /** Reads a token where a value must begin; tells whether the next must begin one too. */
  function readValue(token: Token, index: number): boolean {
    const { kind, text } = token;
    if (kind !== 'symbol') {
      if (text === 'in') throw error(token, '`in` needs a value before it');
      nodes++;
      return false;
    }
    if (text === '-' || text === '!') {
      nodes++;
      return true;
    }
    if (text === '(' || text === '[') {
      if (text === '[') nodes++;
      open.push({ index, kind: text === '[' ? 'list' : 'group' });
      return true;
    }
    const opening = open.at(-1);
    if (opening?.index === index - 1 && text === ')' && opening.kind === 'call') {
      close(token, index);
      return false;
    }
    if (opening?.index === index - 1 && text === ']' && opening.kind === 'list') {
      throw error(token, '`[]` is an empty list, in which nothing is');
    }
    const place = index === 0 ? 'begins the expression' : `follows ${show(tokens[index - 1])}`;
    const hint = text === '+' ? '; write a number without `+`' : '';
    throw error(token, `${show(token)} ${place} where a value must stand${hint}`);
  }

  function unexpected(token: Token, before: Token | undefined): string {
    if (token.text === '[')
      return `\`[\` after ${show(before)} is member access, which is not part of the rule language`;
    if (token.text === '(') return `\`(\` can't follow ${show(before)}: only a function's name is called`;
    if (token.text === ',') return '`,` stands outside a call and a list; write one expression for each entry';
    if (token.text === ':') return '`:` stands without its `?`';
    const isWord = [token.text, before?.text ?? ''].some(text => wordOperators.has(text.toLowerCase()));
    const hint = isWord ? '; and, or, not are written `&&`, `||`, `!`' : '';
    return `an operator or a comma is missing between ${show(before)} and ${show(token)}${hint}`;
  }

  /** Reads a token that follows a whole value; tells whether a value must follow it. */
  function readAfterValue(token: Token, index: number): boolean {
    const { kind, text } = token;
    const before = tokens[index - 1];
    const opening = open.at(-1);
    if (text === 'in' || (kind === 'symbol' && binarySymbols.has(text))) {
      nodes++;
    } else if (text === '(' && before?.kind === 'name') {
      token.opensCall = true;
      open.push({ index, kind: 'call' });
    } else if (text === '?') {
      nodes++;
      open.push({ index, kind: 'question' });
    } else if (text === ':' && opening?.kind === 'question') {
      open.pop();
    } else if (text === ')' || text === ']') {
      close(token, index);
      return false;
    } else if (text !== ',' || (opening?.kind !== 'call' && opening?.kind !== 'list')) {
      throw error(token, unexpected(token, before));
    }
    return true;
  }

  let wantsValue = true;
  for (const [index, token] of tokens.entries()) {
    wantsValue = wantsValue ? readValue(token, index) : readAfterValue(token, index);
    if (nodes > expressionLimits.nodes) {
      throw error(token, `it has more than ${expressionLimits.nodes} parts; split it over several entries`);
    }
    if (open.length > expressionLimits.depth) throw error(token, tooDeep);
  }
  const last = tokens.at(-1);
  if (last === undefined) throw new ExpressionError('it is empty; write a value', 0, source.length);
  if (wantsValue) throw error(last, `it ends after ${show(last)} where a value must follow`);
  const opening = open.at(-1);
  const unclosed = tokens[opening?.index ?? -1];
  if (opening !== undefined && unclosed !== undefined) {
    throw error(unclosed, `${show(unclosed)} has no ${opening.kind === 'question' ? '`:`' : 'closing bracket'}`);
  }
}

/** @throws ExpressionError */
export function tokenize(source: string): Token[] {
  const tokens = splitTokens(source);
  checkGrammar(source, tokens);
  return tokens;
}
