/**
 * The grammar of the rule language: jsep, with this language's operators only. What jsep would silently accept is
 * refused while it reads, and every node gets its place in the source.
 */
import jsep from 'jsep';
import {
  hintOfComma,
  hintOfForeignCall,
  hintOfNotIn,
  hintOfNumberForm,
  hintOfWordOperator,
  messageOfDay,
} from './hints.ts';
import {
  ExpressionError,
  expressionLimits,
  type Operand,
  type Span,
  type SyntaxNode,
  tooDeep,
  tooLarge,
  tooLong,
} from './syntax.ts';
import { characterCount, excerpt } from './text-operations.ts';

/** The members of jsep's class that are used here; its type declarations leave them out. */
interface JsepReader {
  /** The source text. */
  readonly expr: string;
  /** Where it reads next. */
  index: number;
  parse(): SyntaxNode;
  gobbleSpaces(): void;
  gobbleExpression(): SyntaxNode | false;
  gobbleToken(): SyntaxNode | false;
  gobbleBinaryOp(): string | false;
}
const { Jsep } = jsep as unknown as { Jsep: { new (source: string): JsepReader; this_str: string } };

// jsep's tables are global. `true`, `false`, `null` and `this` are read as names.
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
// Takes all that follows a digit, so that 0x10, 1_000, 12ab and 1.2.3 are refused as a whole.
const numberPattern = /\d(?:[eE][+-]|[\w.$])*/y;
/** A day whose quotes are missing. Without a zero in front it is a valid subtraction. */
const dayPattern = /\d{4}-(?:0\d-\d\d|\d\d-0\d)(?![\w.])/y;
const numberForm = /^(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const textPattern = /(["'])(?:\\.|(?!\1)[^\\])*\1/sy;
const escapePattern = /\\(u[\da-fA-F]{4}|.)|[^ -~\u{80}-\u{10ffff}]/gsu;
const openingBracket = /[ \t\r\n]*\(/y;
const closingBracket = /[ \t\r\n]*\)/y;
const closingSquareBracket = /[ \t\r\n]*\]/y;
const unsupportedPattern =
  /===|!==|>>>=?|\/\*\*?|\*\*[/=]?|=[<>~]|<>|\?\?=?|\?\.|\.\.\.|<<=?|>>=?|&&=|\|\|=|[-+*/%&|^]=|\+\+|--|=(?!=)|&(?!&)|\|(?!\|)|[^\w$"'<>!?:()[\],=&|+*/%-]/uy;
/** What error messages show of a place in the source. */
const symbolPattern = /[\w$.]+|"[^"]*"?|'[^']*'?|[=!<>]=|&&|\|\||./suy;

const hints = new Map([
  ['=', 'write `==` to compare'],
  ['=>', 'write `>=`'],
  ['=<', 'write `<=`'],
  ['<>', 'write `!=`'],
  ['===', 'write `==`'],
  ['!==', 'write `!=`'],
  ['&', 'write `&&`'],
  ['|', 'write `||`'],
  [';', 'write one expression for each entry'],
  ['=~', 'call `matches(text, "pattern")`'],
  ['.', 'values have no members; call functions as in `length(title)`'],
  ['--', 'write `- -` or use parentheses'],
  // Between two symbols, a value is missing.
  ['+', 'write a number without `+`'],
  ...['/*', '/**', '**/', '(*', ',*'].map(
    symbol => [symbol, 'put a glob in quotes, as in `any_file("src/**")`'] as const,
  ),
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

/** jsep calls its own methods `gobble…` and `throwError`; those that are not overridden here stay jsep's. */
class Parser extends Jsep {
  /** The brackets and `?` that are still open, and the symbols that may follow an expression in them. */
  private readonly opened: { symbol: string; followers: readonly string[] }[] = [];
  private nodes = 0;
  private lastOperand: Span = { start: 0, end: 0 };

  private nextSymbol(): string {
    return matchAt(symbolPattern, this.expr, this.index) ?? '';
  }

  private take(pattern: RegExp): string | undefined {
    const found = matchAt(pattern, this.expr, this.index);
    this.index += found?.length ?? 0;
    return found;
  }

  /** Counts while jsep reads, which also limits its recursion. */
  private countNode(): void {
    if (++this.nodes > expressionLimits.nodes) throw new ExpressionError(tooLarge);
  }

  /** The symbol just read opens a part that ends with one of the followers. */
  private open(followers: readonly string[]): void {
    this.opened.push({ symbol: this.expr[this.index - 1] ?? '', followers });
    if (this.opened.length > expressionLimits.depth) throw new ExpressionError(tooDeep);
  }

  /** Reads values separated by commas, after the opening bracket. */
  private gobbleValues(...followers: string[]): SyntaxNode[] {
    const values: SyntaxNode[] = [];
    this.open(followers);
    do values.push(this.gobbleExpression());
    while (this.expr[this.index++] === ',');
    this.opened.pop();
    return values;
  }

  /** jsep calls this between symbols. */
  override gobbleSpaces(): void {
    super.gobbleSpaces();
    const unsupported = matchAt(unsupportedPattern, this.expr, this.index);
    if (unsupported === undefined) return;
    const isDecimal = unsupported === '.' && /\d/.test(this.expr[this.index + 1] ?? '');
    const hint = isDecimal ? 'write a digit before the decimal point' : hints.get(unsupported);
    const isCall = unsupported === '=~' || (unsupported === '.' && !isDecimal);
    const call = isCall ? hintOfForeignCall(this.expr, this.lastOperand) : '';
    throw new ExpressionError(
      /^[!-~]/.test(unsupported)
        ? `\`${unsupported}\` is not part of the rule language${call || (hint === undefined ? '' : `; ${hint}`)}`
        : `${describeCharacter(unsupported)} is not part of the rule language outside quotes`,
    );
  }

  /** jsep would read several. */
  gobbleExpressions(): SyntaxNode[] {
    return [this.gobbleExpression()];
  }

  override gobbleExpression(): SyntaxNode {
    // jsep calls this right after it has read a `?`.
    const isConsequent = this.expr[this.index - 1] === '?';
    if (isConsequent) {
      this.countNode();
      this.open([':']);
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
    if (this.expr[start] !== '(') this.countNode();
    const node = super.gobbleToken();
    if (node === false) return false;
    this.lastOperand = { start, end: this.index };
    return Object.assign(node, this.lastOperand);
  }

  override gobbleBinaryOp(): string | false {
    this.gobbleSpaces();
    const operator = super.gobbleBinaryOp();
    if (operator !== false) this.countNode();
    return operator;
  }

  gobbleGroup(): Operand {
    this.index++;
    const [expression] = this.gobbleValues(')') as [SyntaxNode];
    return { type: 'Group', expression };
  }

  gobbleArray(): Operand {
    this.index++;
    // An empty list is refused later: what to write instead depends on types.
    const isEmpty = this.take(closingSquareBracket) !== undefined;
    return { type: 'ArrayExpression', elements: isEmpty ? [] : this.gobbleValues(',', ']') };
  }

  /** jsep also reads members, and calls of any value; here only a name can be called. */
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
    const day = matchAt(dayPattern, this.expr, this.index);
    if (day !== undefined) throw new ExpressionError(messageOfDay(day));
    const raw = this.take(numberPattern) ?? '';
    const value = Number(raw);
    const isRoundedToZero = value === 0 && /^[^eE]*[1-9]/.test(raw);
    const why = /^0\d/.test(raw) ? 'numbers have no leading zeros' : 'write numbers like 10 or 0.5';
    let problem: string | undefined;
    if (!numberForm.test(raw)) problem = `not a valid number${hintOfNumberForm(raw) || `: ${why}`}`;
    else if (isRoundedToZero || !Number.isFinite(value)) problem = 'too large or too small';
    if (problem !== undefined) throw new ExpressionError(`${excerpt(raw)} is ${problem}`);
    return { type: 'Literal', value };
  }

  /** jsep would drop the backslash of unknown escapes. */
  gobbleStringLiteral(): Operand {
    const raw = this.take(textPattern);
    if (raw === undefined) throw new ExpressionError(`${excerpt(this.expr, this.index)} has no closing quote`);
    const value = raw.slice(1, -1).replace(escapePattern, (found, escaped: string | undefined) => {
      if (escaped === undefined) {
        const code = found.charCodeAt(0).toString(16).padStart(4, '0');
        throw new ExpressionError(
          `a quoted text can't contain ${describeCharacter(found)} itself; write \\n, \\r, \\t or \\u${code}`,
        );
      }
      if (escaped.length === 5) return String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
      const text = escapes[escaped];
      if (text !== undefined) return text;
      const shown = excerpt(escaped).slice(1, -1);
      throw new ExpressionError(`\`\\${shown}\` is not a valid escape; write \`\\\\${shown}\` for a backslash`);
    });
    return { type: 'Literal', value };
  }

  /** jsep calls this if it finds no value. */
  throwError(): never {
    const read = this.expr.slice(0, this.index).trimEnd();
    const before = /(?:in|&&|\|\||[=!<>]=|\S)$/.exec(read)?.[0] ?? '';
    const after = this.nextSymbol();
    if (before + after === '') throw new ExpressionError('it is empty; write a value');
    if (after === '') throw new ExpressionError(`a value is missing after ${excerpt(before)}`);
    const hint = hints.get(before + after) ?? hints.get(after);
    const place = before === '' ? 'before' : `between ${excerpt(before)} and`;
    throw new ExpressionError(`a value is missing ${place} ${excerpt(after)}${hint === undefined ? '' : `; ${hint}`}`);
  }

  /** Says why the next symbol can't follow the expression before it. */
  private refuseFollower(): never {
    const symbol = this.nextSymbol();
    if (symbol === 'in') {
      // jsep takes it for an operator only if something follows it.
      this.index += symbol.length;
      this.gobbleSpaces();
      this.throwError();
    }
    const opening = this.opened.at(-1);
    const isQuestion = opening?.followers[0] === ':';
    if (symbol === '' && opening !== undefined) {
      throw new ExpressionError(`\`${opening.symbol}\` has no ${isQuestion ? '`:`' : 'closing bracket'}`);
    }
    const before = excerpt(this.expr, this.lastOperand.start, this.lastOperand.end);
    const shown = excerpt(symbol);
    const isWord = [before, shown].some(text => /^`(?:and|or|not)`$/i.test(text));
    const hint = isWord
      ? hintOfNotIn(this.expr, this.lastOperand, this.index) || '; and, or, not are written `&&`, `||`, `!`'
      : hintOfWordOperator(this.expr, this.lastOperand, this.index);
    const problem = isQuestion ? 'comes before the `:` of a `?`' : 'has no opening bracket';
    const messages = new Map([
      [')', `\`)\` ${problem}`],
      [']', `\`]\` ${problem}`],
      ['[', `\`[\` after ${before} is member access, which is not part of the rule language`],
      ['(', `\`(\` can't follow ${before}: only functions can be called`],
      [',', `\`,\` is only allowed in a call or a list${hintOfComma(this.expr, this.lastOperand.start)}`],
      [':', '`:` has no `?`'],
    ]);
    const other = `an operator or a comma is missing between ${before} and ${shown}${hint}`;
    throw new ExpressionError(messages.get(symbol) ?? other);
  }
}

/** Parses one expression. @throws ExpressionError also if it is too long, too large or nested too deeply */
export function parseSyntax(source: string): SyntaxNode {
  const limit = expressionLimits.characters;
  if (source.length > 2 * limit || characterCount(source) > limit) {
    throw new ExpressionError(tooLong);
  }
  return new Parser(source).parse();
}
