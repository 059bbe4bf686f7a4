/** Reads YAML as a plain tree: every scalar is the text as written, and every node has its line. */

import {
  Composer,
  type Document,
  isAlias,
  isCollection,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type ParsedNode,
  Parser,
  type Scalar,
  visit,
  type YAMLError,
} from 'yaml';
import { excerpt } from '../language/text-operations.ts';
import type { Report } from './keys.ts';
import { adviseQuotesIn } from './quoting.ts';
import { blank, isBlank, type YamlNode, type YamlText } from './yaml-node.ts';

/** How far to look past a value for what was cut off. No expression is that long. */
const maxTruncatedCharacters = 4000;

/** YAML forbids them (1.2.2, section 5.1), and terminals act on them: `rules export` prints the file as it is. */
const controlCharacter = /[^\P{Cc}\t\n\r\u0085]/u;

export const fileLimits = { characters: 1_000_000, lexemes: 400_000, depth: 32 } as const;

const lexemesPerStep = 10_000;

class YamlProblem extends Error {
  readonly line: number;
  readonly part: string | null;
  constructor(message: string, line: number, part: string | null = null) {
    super(message);
    this.line = line;
    this.part = part;
  }
}

/** By YAML's error code: errors that quotes would not fix. */
const remedies: Partial<Record<string, string>> = {
  BLOCK_AS_IMPLICIT_KEY: 'indent the keys of one map alike',
  BLOCK_IN_FLOW: 'separate the keys inside { } by commas',
  MULTILINE_IMPLICIT_KEY: 'indent the keys of one map alike',
  TAB_AS_INDENT: 'indent with spaces, not tabs',
};

/** Where the innermost quotes or brackets begin that are still open at a place. */
function openingBefore(document: Document, place: number): number {
  let opening = place;
  visit(document, {
    Node: (_key, node) => {
      const isOpen = isCollection(node) ? node.flow : isScalar(node) && /^QUOTE/.test(node.type ?? '');
      if (isOpen && node.range && node.range[0] < place && node.range[2] >= place) [opening] = node.range;
    },
  });
  return opening;
}

/** A problem that quotes may fix; if not, `remedy` says what to do. */
function problemAt(place: number, message: string, remedy: string, text: string, lines: LineCounter): YamlProblem {
  const line = Math.max(1, lines.linePos(place).line);
  const { part = null, advice } = adviseQuotesIn(text.split('\n', line).at(-1)?.trimEnd() ?? '') ?? {};
  return new YamlProblem(`${message}; ${advice ?? remedy}`, line, part);
}

function problemOfError(
  { code, message, pos: [place] }: YAMLError,
  document: Document,
  ...source: [string, LineCounter]
) {
  const opening = /closing|end with/.test(message) ? openingBefore(document, place) : place;
  if (opening === place) {
    const remedy = remedies[code] ?? 'compare it with rules.example.yaml';
    return problemAt(place, `The file is not YAML: ${message}`, remedy, ...source);
  }
  const [text] = source;
  const isCommented = / #/.test(text.slice(opening).split('\n', 1)[0] ?? '');
  const remedy = isCommented ? 'close it; `#` after a space starts a comment' : 'close it';
  return problemAt(opening, `The file is not YAML: \`${text[opening]}\` is not closed`, remedy, ...source);
}

/** @throws YamlProblem if the file is too large, nested too deeply or not YAML, or has control characters */
function compose(text: string, lines: LineCounter, onStep?: () => void): ParsedNode | null {
  const hidden = controlCharacter.exec(text);
  if (hidden !== null) {
    const code = `U+${hidden[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    const line = text.slice(0, hidden.index).split('\n').length;
    throw new YamlProblem(`The file has a control character (${code}); remove it`, line);
  }
  if (text.length > fileLimits.characters) {
    throw new YamlProblem(`The file is longer than ${fileLimits.characters} characters; shorten it`, 1);
  }
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  const tokens = [];
  let lexemes = 0;
  for (const lexeme of new Lexer().lex(text)) {
    tokens.push(...parser.next(lexeme));
    // Early: `parseDocument` takes 2 s for 100,000 nested lists, and 3.4 s and 335 MB for a megabyte of `- a`, before it
    // gives up or is done.
    if (parser.stack.length > fileLimits.depth) {
      throw new YamlProblem(
        'The file is nested too deeply for a rules file; compare it with rules.example.yaml',
        lines.linePos(parser.offset).line,
      );
    }
    if (lexemes % lexemesPerStep === 0) onStep?.();
    if (++lexemes > fileLimits.lexemes) throw new YamlProblem('The file has too many parts; shorten it', 1);
  }
  tokens.push(...parser.end());
  // Failsafe keeps `value: 5` and `expression: true` as text. The composer would take quadratic time to find doubled
  // keys, so they are found below.
  const composer = new Composer({ schema: 'failsafe', uniqueKeys: false, prettyErrors: false, lineCounter: lines });
  const [document, another] = composer.compose(tokens, true, text.length);
  if (document === undefined) return null;
  const [error] = document.errors;
  if (error !== undefined) throw problemOfError(error, document, text, lines);
  if (another !== undefined) {
    throw new YamlProblem('The file holds more than one YAML document; keep one', lines.linePos(another.range[0]).line);
  }
  return document.contents;
}

function convertText({ value, type: style = 'PLAIN', range: [start, end] }: Scalar.Parsed, source: string): YamlText {
  const text: YamlText = { kind: 'text', text: typeof value === 'string' ? value : '', style };
  const [rest] = /^[ \t]+#[^\r\n]*/.exec(source.slice(end, end + maxTruncatedCharacters)) ?? [];
  if (style !== 'PLAIN' || rest === undefined) return text;
  return { ...text, truncated: { by: 'comment', whole: source.slice(start, end) + rest } };
}

interface Pair {
  key: ParsedNode | null;
  value: ParsedNode | null;
}

const knownKeys: ReadonlySet<string> = new Set(
  'define rules reviews tests name description enabled when logic expression effect action value pull_request score'.split(
    ' ',
  ),
);

/**
 * To YAML, `{ value: min(5, size) }` has two keys: `value`, and `size)` without a value. Those that are not known belong to
 * the value before them.
 *
 * @returns the place of the last one that belongs to a value, or that of the value itself
 */
function findRest(items: readonly Pair[], place: number): number {
  let last = place;
  for (let next = place + 1; items[next]?.value === null; next++) {
    const key = items[next]?.key;
    if (!isScalar(key) || !knownKeys.has(String(key.value))) last = next;
  }
  return last;
}

function convert(node: ParsedNode | null, source: string, lines: LineCounter, lineAbove: number): YamlNode {
  if (node === null) return blank(lineAbove);
  const line = Math.max(1, lines.linePos(node.range[0]).line);
  if (isAlias(node)) throw new YamlProblem(`\`*${node.source}\`: aliases are not supported; write the value out`, line);
  if (node.tag !== undefined && node.tag !== null) {
    const message = `\`${node.tag}\` is a tag in YAML, which is not supported`;
    throw problemAt(node.range[0], message, 'leave it out', source, lines);
  }
  if (isScalar(node)) {
    // A text that begins with `&` would lose its first word.
    if (node.anchor !== undefined) {
      const message = `\`&${node.anchor}\` is an anchor in YAML, which is not supported`;
      throw problemAt(node.range[0], message, 'leave it out, or put the text in quotes', source, lines);
    }
    const text = convertText(node, source);
    if (/[\0\p{Surrogate}]/u.test(text.text)) {
      throw new YamlProblem("A text contains NUL or half of a surrogate pair, which can't be stored; remove it", line);
    }
    return { ...text, line };
  }
  if (isSeq(node)) {
    const items = node.items.map(item => convert(item as ParsedNode | null, source, lines, line));
    return { kind: 'list', items, line };
  }
  const entries = new Map<string, YamlNode>();
  const keyLines = new Map<string, number>();
  const items = node.items as Pair[];
  for (let index = 0; index < items.length; index++) {
    const { key = null, value = null } = items[index] ?? {};
    const name = convert(key, source, lines, line);
    if (name.kind !== 'text') throw new YamlProblem('A key must be a plain word', name.line);
    if (entries.has(name.text)) {
      throw new YamlProblem(`${excerpt(name.text)} is given twice; keep one`, name.line);
    }
    const converted = convert(value, source, lines, name.line);
    entries.set(name.text, converted);
    keyLines.set(name.text, name.line);
    if (!node.flow || value === null || converted.kind !== 'text' || converted.style !== 'PLAIN') continue;
    const rest = findRest(items, index);
    if (rest === index) continue;
    converted.truncated = { by: 'comma', whole: source.slice(value.range[0], items[rest]?.key?.range[1]) };
    index = rest;
  }
  return { kind: 'map', entries, keyLines, line };
}

/**
 * The tree; undefined if there was a problem, which is reported.
 *
 * @param onStep called again and again meanwhile
 */
export function readYaml(text: string, report: Report, onStep?: () => void): YamlNode | undefined {
  const lines = new LineCounter();
  try {
    const root = convert(compose(text, lines, onStep), text, lines, 1);
    if (isBlank(root)) throw new YamlProblem('The file is empty; write its `rules`, as rules.example.yaml does', 1);
    return root;
  } catch (error) {
    if (!(error instanceof YamlProblem)) throw error;
    return void report(error.line, error.message, { part: error.part });
  }
}
