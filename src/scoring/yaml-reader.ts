/** Reads YAML as a plain tree: every scalar is the text as written, and every node has its line. */
import { Composer, isAlias, isScalar, isSeq, Lexer, LineCounter, type ParsedNode, Parser } from 'yaml';

export interface FileProblem {
  /** Counted from 1. */
  line: number;
  /** A sentence, without the line. */
  message: string;
  /** The rule's name; null if the problem concerns no rule, or its name can't be read. */
  rule: string | null;
  /** The rule's entry, from 1; null if the problem concerns none, or all. */
  entry: number | null;
  /** The key whose value is wrong; null if it is the whole entry, rule, test or file. */
  part: string | null;
}

export type YamlNode = { line: number } & (
  | { kind: 'text'; text: string; isQuoted: boolean }
  | { kind: 'list'; items: readonly YamlNode[] }
  | { kind: 'map'; entries: ReadonlyMap<string, YamlNode> }
);

export const fileLimits = { characters: 1_000_000, lexemes: 400_000, depth: 32 } as const;

const quoteHint = 'put it in quotes if it is an expression with `:`, `#`, `!` or quotes in it';

class YamlProblem extends Error {
  readonly line: number;
  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** @throws YamlProblem if the file is too large, nested too deep or not YAML */
function compose(text: string, lines: LineCounter): ParsedNode | null {
  if (text.length > fileLimits.characters) {
    throw new YamlProblem(`The file is longer than ${fileLimits.characters} characters; shorten it`, 1);
  }
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  const tokens = [];
  let lexemes = 0;
  for (const lexeme of new Lexer().lex(text)) {
    tokens.push(...parser.next(lexeme));
    // The composer is recursive, and a stack overflow in it can end the process.
    if (parser.stack.length > fileLimits.depth) {
      throw new YamlProblem(
        'The file is nested too deep for a rules file; see `rules:` and `tests:` in the example',
        lines.linePos(parser.offset).line,
      );
    }
    if (++lexemes > fileLimits.lexemes) throw new YamlProblem('The file has too many parts; shorten it', 1);
  }
  tokens.push(...parser.end());
  // Failsafe keeps `value: 5` and `expression: true` as text. The composer would take quadratic time to find doubled
  // keys, so they are found below.
  const composer = new Composer({ schema: 'failsafe', uniqueKeys: false, prettyErrors: false, lineCounter: lines });
  const [document, another] = composer.compose(tokens, true, text.length);
  if (document === undefined) return null;
  const [error] = document.errors;
  if (error !== undefined) {
    const { line } = lines.linePos(error.pos[0]);
    throw new YamlProblem(`The file is not YAML: ${error.message}; ${quoteHint}`, Math.max(1, line));
  }
  if (another !== undefined) {
    throw new YamlProblem('The file holds more than one YAML document; keep one', lines.linePos(another.range[0]).line);
  }
  return document.contents;
}

function convert(node: ParsedNode | null, lines: LineCounter, lineAbove: number): YamlNode {
  if (node === null) return { kind: 'text', text: '', isQuoted: false, line: lineAbove };
  const line = Math.max(1, lines.linePos(node.range[0]).line);
  if (isAlias(node)) throw new YamlProblem(`\`*${node.source}\`: aliases are not supported; write the value out`, line);
  if (node.tag !== undefined && node.tag !== null) {
    throw new YamlProblem(`\`${node.tag}\` is a tag in YAML, which is not supported; ${quoteHint}`, line);
  }
  if (isScalar(node)) {
    const text = typeof node.value === 'string' ? node.value : '';
    if (/[\0\p{Surrogate}]/u.test(text)) {
      throw new YamlProblem('A text holds NUL or half a character, which cannot be stored; remove it', line);
    }
    return { kind: 'text', text, isQuoted: node.type !== 'PLAIN', line };
  }
  if (isSeq(node)) {
    const items = node.items.map(item => convert(item as ParsedNode | null, lines, line));
    return { kind: 'list', items, line };
  }
  const entries = new Map<string, YamlNode>();
  for (const { key, value } of node.items) {
    const name = convert(key as ParsedNode | null, lines, line);
    if (name.kind !== 'text') throw new YamlProblem('A key must be a plain word', name.line);
    if (entries.has(name.text)) {
      throw new YamlProblem(`\`${name.text.slice(0, 60)}\` is given twice; keep one`, name.line);
    }
    entries.set(name.text, convert(value as ParsedNode | null, lines, name.line));
  }
  return { kind: 'map', entries, line };
}

/** The tree, or the first problem. */
export function readYaml(text: string): YamlNode | FileProblem {
  const lines = new LineCounter();
  try {
    return convert(compose(text, lines), lines, 1);
  } catch (error) {
    if (!(error instanceof YamlProblem)) throw error;
    return { line: error.line, message: error.message, rule: null, entry: null, part: null };
  }
}
