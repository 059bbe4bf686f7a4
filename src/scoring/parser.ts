/**
 * The rule language's grammar: jsep with this language's operators and nothing else, reading one expression. What jsep
 * would let pass in silence is refused while it reads, and every node gets its place in the source.
 */
import jsep from 'jsep';
import { ExpressionError, expressionLimits, type Operand, type Span, type SyntaxNode, tooDeep } from './syntax.ts';
import { characterCount, excerpt } from './text.ts';

/** What is used here of jsep's class, which its type declarations leave out. */
interface JsepReader {
  /** The source text. */
  readonly expr: string;
  /** How far it is read. */
  index: number;
  parse(): SyntaxNode;
  gobbleSpaces(): void;
  gobbleExpression(): SyntaxNode | false;
  gobbleToken(): SyntaxNode | false;
  gobbleBinaryOp(): string | false;
}
const { Jsep } = jsep as unknown as { Jsep: { new (source: string): JsepReader; this_str: string } };

// jsep has one set of tables for all. `true`, `false`, `null` and `this` are read as names.
const binaryOperators = [['||'], ['&&'], ['==', '!='], ['<', '<=', '>', '>=', 'in'], ['+', '-'], ['*', '/', '%']];
jsep.removeAllUnaryOps();
jsep.removeAllBinaryOps();
jsep.removeAllLiterals();
Jsep.this_str = '';
for (const operator of ['-', '!']) jsep.addUnaryOp(operator);
for (const [index, operators] of binaryOperators.entries()) {
  for (const operator of operators) jsep.addBinaryOp(operator, index + 1);
}

const namePattern = /[A-Za-z_$][\w$]*/y;
// Takes what follows a digit as one piece, so that 0x10, 1_000, 12ab and 1.2.3 are refused whole.
const numberPattern = /\d(?:[eE][+-]|[\w.$])*/y;
const numberForm = /^(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const textPattern = /(["'])(?:\\.|(?!\1)[^\\])*\1/sy;
const escapePattern = /\\(u[\da-fA-F]{4}|.)|[^ -~\u{80}-\u{10ffff}]/gsu;
const openingBracket = /[ \t\r\n]*\(/y;
const closingBracket = /[ \t\r\n]*\)/y;
const foreignPattern =
  /===|!==|>>>=?|\*\*=?|=>|\?\?=?|\?\.|\.\.\.|<<=?|>>=?|&&=|\|\|=|[-+*/%&|^]=|\+\+|--|=(?!=)|&(?!&)|\|(?!\|)|[^\w$"'<>!?:()[\],=&|+*/%-]/uy;
/** What error texts show of what stands at a place. */
const symbolPattern = /[\w$.]+|"[^"]*"?|'[^']*'?|[=!<>]=|&&|\|\||./suy;

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

const escapes: Record<string, string> = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', "'": "'" };

function matchAt(pattern: RegExp, source: string, index: number): string | undefined {
  pattern.lastIndex = index;
  return pattern.exec(source)?.[0];
}

function describeCharacter(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return `the character U+${code}${/[\p{L}\p{N}\p{P}\p{S}]/u.test(character) ? ` (${character})` : ''}`;
}

/** jsep calls its own methods by these names, `gobble…` and `throwError`; what is not replaced here stays jsep's. */
class Parser extends Jsep {
  /** The brackets and questions that are still open, and the symbols that may follow an expression within them. */
  private readonly opened: { start: number; followers: readonly string[] }[] = [];
  private nodes = 0;
  private lastOperand: Span = { start: 0, end: 0 };

  private fail(message: string, start: number, end: number): never {
    throw new ExpressionError(message, { start, end });
  }

  private symbolAt(index: number): string {
    return matchAt(symbolPattern, this.expr, index) ?? '';
  }

  private take(pattern: RegExp): string | undefined {
    const found = matchAt(pattern, this.expr, this.index);
    this.index += found?.length ?? 0;
    return found;
  }

  /** Counts while jsep reads, which bounds its recursion too. */
  private countNode(start: number): void {
    if (++this.nodes <= expressionLimits.nodes) return;
    const message = `it has more than ${expressionLimits.nodes} parts; split it over several entries`;
    this.fail(message, start, start + this.symbolAt(start).length);
  }

  private open(start: number, followers: readonly string[]): void {
    this.opened.push({ start, followers });
    if (this.opened.length > expressionLimits.depth) this.fail(tooDeep, start, start + 1);
  }

  /** Reads values separated by commas; the opening bracket is read. */
  private gobbleValues(...followers: string[]): SyntaxNode[] {
    const values: SyntaxNode[] = [];
    this.open(this.index - 1, followers);
    do values.push(this.gobbleExpression());
    while (this.expr[this.index++] === ',');
    this.opened.pop();
    return values;
  }

  /** jsep calls this between symbols. */
  override gobbleSpaces(): void {
    super.gobbleSpaces();
    const { index } = this;
    const foreign = matchAt(foreignPattern, this.expr, index);
    if (foreign === undefined) return;
    const isDecimal = foreign === '.' && /\d/.test(this.expr[index + 1] ?? '');
    const hint = isDecimal ? 'write a digit before the decimal point' : replacements.get(foreign);
    const message = /^[!-~]/.test(foreign)
      ? `\`${foreign}\` is not part of the rule language${hint === undefined ? '' : `; ${hint}`}`
      : `${describeCharacter(foreign)} is not part of the rule language outside quotes`;
    this.fail(message, index, index + foreign.length);
  }

  /** jsep would read any number of them. */
  gobbleExpressions(): SyntaxNode[] {
    return [this.gobbleExpression()];
  }

  override gobbleExpression(): SyntaxNode {
    // jsep comes here right after it has read a `?`.
    const isConsequent = this.expr[this.index - 1] === '?';
    if (isConsequent) {
      this.countNode(this.index - 1);
      this.open(this.index - 1, [':']);
    }
    const node = super.gobbleExpression();
    if (node === false) this.throwError();
    const followers = this.opened.at(-1)?.followers ?? [''];
    if (!followers.includes(this.expr[this.index] ?? '')) this.refuseFollower();
    if (isConsequent) this.opened.pop();
    return node;
  }

  override gobbleToken(): SyntaxNode | false {
    this.gobbleSpaces();
    const start = this.index;
    if (this.expr[start] !== '(') this.countNode(start);
    const node = super.gobbleToken();
    if (node === false) return false;
    this.lastOperand = { start, end: this.index };
    return Object.assign(node, this.lastOperand);
  }

  override gobbleBinaryOp(): string | false {
    this.gobbleSpaces();
    const start = this.index;
    const operator = super.gobbleBinaryOp();
    if (operator !== false) this.countNode(start);
    return operator;
  }

  gobbleGroup(): Operand {
    this.index++;
    const [expression] = this.gobbleValues(')') as [SyntaxNode];
    return { type: 'Group', expression };
  }

  gobbleArray(): Operand {
    this.index++;
    return { type: 'ArrayExpression', elements: this.gobbleValues(',', ']') };
  }

  /** Of what jsep lets follow a value, the language has only the arguments of a name. */
  gobbleTokenProperty(node: Operand): Operand {
    const end = this.index;
    if (node.type !== 'Identifier' || this.take(openingBracket) === undefined) return node;
    const callee = { ...node, start: end - node.name.length, end };
    const isEmpty = this.take(closingBracket) !== undefined;
    return { type: 'CallExpression', callee, arguments: isEmpty ? [] : this.gobbleValues(',', ')') };
  }

  gobbleIdentifier(): Operand {
    const name = matchAt(namePattern, this.expr, this.index) ?? '';
    if (name === 'in') this.throwError();
    this.index += name.length;
    return { type: 'Identifier', name };
  }

  gobbleNumericLiteral(): Operand {
    const start = this.index;
    const raw = this.take(numberPattern) ?? '';
    const value = Number(raw);
    const isRoundedToZero = value === 0 && /^[^eE]*[1-9]/.test(raw);
    const why = /^0\d/.test(raw) ? 'numbers have no leading zeros' : 'write numbers like 10 or 0.5';
    let problem: string | undefined;
    if (!numberForm.test(raw)) problem = `not a number of the language: ${why}`;
    else if (isRoundedToZero || !Number.isFinite(value)) problem = 'too large or too small a number';
    if (problem !== undefined) this.fail(`${excerpt(raw)} is ${problem}`, start, this.index);
    return { type: 'Literal', value };
  }

  /** jsep would drop the backslash of escapes that it does not know. */
  gobbleStringLiteral(): Operand {
    const { expr, index: start } = this;
    const raw = this.take(textPattern);
    if (raw === undefined) this.fail(`${excerpt(expr, start, expr.length)} has no closing quote`, start, expr.length);
    const value = raw.slice(1, -1).replace(escapePattern, (found, escaped: string | undefined, offset: number) => {
      const at = start + 1 + offset;
      if (escaped === undefined) {
        const code = found.charCodeAt(0).toString(16).padStart(4, '0');
        const message = `a quoted text can't hold ${describeCharacter(found)} as it is; write \\n, \\r, \\t or \\u${code}`;
        this.fail(message, start, at + 1);
      }
      if (escaped.length === 5) return String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
      const shown = excerpt(escaped).slice(1, -1);
      const message = `\`\\${shown}\` is not an escape of a quoted text; write \`\\\\${shown}\` for a backslash itself`;
      return escapes[escaped] ?? this.fail(message, at, at + found.length);
    });
    return { type: 'Literal', value };
  }

  /** jsep calls this if it finds no value. */
  throwError(): never {
    const { expr, index } = this;
    const read = expr.slice(0, index).trimEnd();
    const before = /(?:in|&&|\|\||[=!<>]=|\S)$/.exec(read)?.[0] ?? '';
    const after = this.symbolAt(index);
    if (before + after === '') this.fail('it is empty; write a value', 0, index);
    const hint = after === '+' ? '; write a number without `+`' : '';
    if (after === '') {
      this.fail(`a value is missing after ${excerpt(before)}`, read.length - before.length, read.length);
    }
    const place = before === '' ? 'before' : `between ${excerpt(before)} and`;
    this.fail(`a value is missing ${place} ${excerpt(after)}${hint}`, index, index + after.length);
  }

  /** Says why what stands here can't follow the expression that ends before it. */
  private refuseFollower(): never {
    const { expr, index } = this;
    const symbol = this.symbolAt(index);
    if (symbol === 'in') {
      // jsep takes it for an operator only if something follows.
      this.index += symbol.length;
      this.gobbleSpaces();
      this.throwError();
    }
    const opening = this.opened.at(-1);
    const isQuestion = opening?.followers[0] === ':';
    if (symbol === '' && opening !== undefined) {
      const { start } = opening;
      this.fail(`\`${expr[start]}\` has no ${isQuestion ? '`:`' : 'closing bracket'}`, start, start + 1);
    }
    const before = excerpt(expr, this.lastOperand.start, this.lastOperand.end);
    const shown = excerpt(symbol);
    const isWord = [before, shown].some(text => /^`(?:and|or|not)`$/i.test(text));
    const hint = isWord ? '; and, or, not are written `&&`, `||`, `!`' : '';
    const partner = isQuestion ? 'the `:` of a `?`' : 'its opening bracket';
    const messages = new Map([
      [')', `\`)\` stands without ${partner}`],
      [']', `\`]\` stands without ${partner}`],
      ['[', `\`[\` after ${before} is member access, which is not part of the rule language`],
      ['(', `\`(\` can't follow ${before}: only a function's name is called`],
      [',', '`,` stands outside a call and a list; write one expression for each entry'],
      [':', '`:` stands without its `?`'],
    ]);
    const message = messages.get(symbol) ?? `an operator or a comma is missing between ${before} and ${shown}${hint}`;
    this.fail(message, index, index + symbol.length);
  }
}

/** Parses one expression. @throws ExpressionError also if it is too long, too large or nested too deeply */
export function parseSyntax(source: string): SyntaxNode {
  const limit = expressionLimits.characters;
  if (source.length > 2 * limit || characterCount(source) > limit) {
    const message = `it is longer than ${limit} characters; split it over several entries`;
    throw new ExpressionError(message, { start: 0, end: 0 });
  }
  return new Parser(source).parse();
}
