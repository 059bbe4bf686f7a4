import { describe, expect, test } from 'vitest';
import { parseSyntax } from '../../src/scoring/language/parser.ts';
import { ExpressionError, type SyntaxNode, spanOf } from '../../src/scoring/language/syntax.ts';

/** What is wrong. */
function problemOf(source: string): string {
  try {
    parseSyntax(source);
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
  throw new Error('accepted');
}

/** Every node, outermost first, as it stands in the source. */
function nodesOf(source: string): string[] {
  const found: string[] = [];
  const visit = (node: SyntaxNode): void => {
    const { start, end } = spanOf(node);
    found.push(`${node.type} ${source.slice(start, end)}`);
    for (const child of Object.values(node).flat()) if (typeof child === 'object') visit(child as SyntaxNode);
  };
  visit(parseSyntax(source));
  return found;
}

test.each('+ - * / % == != < <= > >= && || in'.split(' '))('%s is a binary operator', operator => {
  expect(parseSyntax(`1 ${operator} 2`)).toMatchObject({ type: 'BinaryExpression', operator });
  if (operator !== 'in') expect(parseSyntax(`a${operator}b`)).toMatchObject({ type: 'BinaryExpression', operator });
});

test.each(['true', 'false', 'null', 'this', 'inside', 'hasOwnProperty', '__proto__', '$a_1'])('%s is a name', name => {
  expect(parseSyntax(name)).toEqual({ type: 'Identifier', name, start: 0, end: name.length });
});

test.each([
  ['0', 0],
  ['7', 7],
  ['10', 10],
  ['0.50', 0.5],
  ['1e3', 1000],
  ['1E3', 1000],
  ['1.5e-3', 0.0015],
  ['0e5', 0],
  ['0.0', 0],
])('%s is a number', (source, value) => {
  expect(parseSyntax(source)).toEqual({ type: 'Literal', value, start: 0, end: source.length });
});

test.each([
  ['"\\n\\r\\t\\\\\\"\\\'"', '\n\r\t\\"\''],
  ["'\\''", "'"],
  ['"\'"', "'"],
  ['"\\u00e9\\u00E9x"', 'ééx'],
  ['"\\ud83d\\ude42"', '🙂'],
  ['""', ''],
  ['"é🙂 \u00a0"', 'é🙂 \u00a0'],
])('%s is a text', (source, value) => {
  expect(parseSyntax(source)).toEqual({ type: 'Literal', value, start: 0, end: source.length });
});

describe('the parser', () => {
  const outside = 'is not part of the rule language outside quotes';
  const language = 'is not part of the rule language';

  test.each([
    ['  ', 'it is empty; write a value'],
    ['1 + ï', `the character U+00EF (ï) ${outside}`],
    ['1 + ½', `the character U+00BD (½) ${outside}`],
    ['1 + €', `the character U+20AC (€) ${outside}`],
    ['1 + ¿', `the character U+00BF (¿) ${outside}`],
    ['a in\u00e9', `the character U+00E9 (é) ${outside}`],
    ['1 +\u00a02', `the character U+00A0 ${outside}`],
    ['1 + 🙂', `the character U+1F642 (🙂) ${outside}`],
    ['1 + \uffff', `the character U+FFFF ${outside}`],
    ['1 + \u0007', `the character U+0007 ${outside}`],
    ['a =1', `\`=\` ${language}; write \`==\` to compare`],
    ['a === 1', `\`===\` ${language}; write \`==\``],
    ['a !== 1', `\`!==\` ${language}; write \`!=\``],
    ['a & b', `\`&\` ${language}; write \`&&\``],
    ['a | b', `\`|\` ${language}; write \`||\``],
    ['a; b', `\`;\` ${language}; write one expression for each entry`],
    ['a.length', `\`.\` ${language}; write \`length(a)\``],
    ['1 + .5', `\`.\` ${language}; write a digit before the decimal point`],
    ['--a', `\`--\` ${language}; write \`- -\` or use parentheses`],
    ['a ?? 1', `\`??\` ${language}`],
    ['a ??= 1', `\`??=\` ${language}`],
    ['a >>>= 1', `\`>>>=\` ${language}`],
    ['a >> 1', `\`>>\` ${language}`],
    ['a <<= 1', `\`<<=\` ${language}`],
    ['a **= 1', `\`**=\` ${language}`],
    ['a &&= 1', `\`&&=\` ${language}`],
    ['a ||= 1', `\`||=\` ${language}`],
    ['a ++ 1', `\`++\` ${language}`],
    ['a => 1', `\`=>\` ${language}; write \`>=\``],
    ['a?.b', `\`?.\` ${language}`],
    ['[...a]', `\`...\` ${language}`],
    ['a ^= 1', `\`^=\` ${language}`],
    ['@a', `\`@\` ${language}`],
    ['a #', `\`#\` ${language}`],
    ['1.00.1', '`1.00.1` is not a valid number: write numbers like 10 or 0.5'],
    ['1e', '`1e` is not a valid number: write numbers like 10 or 0.5'],
    ['1.e5', '`1.e5` is not a valid number: write numbers like 10 or 0.5'],
    ['12ab', '`12ab` is not a valid number: write numbers like 10 or 0.5'],
    ['1e5e5', '`1e5e5` is not a valid number: write numbers like 10 or 0.5'],
    ['1e999', '`1e999` is too large or too small'],
    ['0.1e-999', '`0.1e-999` is too large or too small'],
    ['1E-999', '`1E-999` is too large or too small'],
    ['1 + "a', '`"a` has no closing quote'],
    ['"a\'', '`"a\'` has no closing quote'],
    ['"a\nb"', "a quoted text can't contain the character U+000A itself; write \\n, \\r, \\t or \\u000a"],
    ['"\x7f"', "a quoted text can't contain the character U+007F itself; write \\n, \\r, \\t or \\u007f"],
    ['"\\u12x4"', '`\\u` is not a valid escape; write `\\\\u` for a backslash'],
    ['"\\xu0041"', '`\\x` is not a valid escape; write `\\\\x` for a backslash'],
    ['"\\', '`"\\` has no closing quote'],
    ['a)', '`)` has no opening bracket'],
    ['(a]', '`]` has no opening bracket'],
    ['a in [1)', '`)` has no opening bracket'],
    ['(a ? b)', '`)` comes before the `:` of a `?`'],
    ['a in [1', '`[` has no closing bracket'],
    ['f(1', '`(` has no closing bracket'],
    ['a ? b', '`?` has no `:`'],
    ['in a', 'a value is missing before `in`'],
    ['a + in b', 'a value is missing between `+` and `in`'],
    ['()', 'a value is missing between `(` and `)`'],
    ['f(,1)', 'a value is missing between `(` and `,`'],
    ['a in [1,]', 'a value is missing between `,` and `]`'],
    ['f([)', 'a value is missing between `[` and `)`'],
    ['* 2', 'a value is missing before `*`'],
    [', a', 'a value is missing before `,`'],
    ['+2', 'a value is missing before `+`; write a number without `+`'],
    ['1 + + 2', 'a value is missing between `+` and `+`; write a number without `+`'],
    ['a <= < b', 'a value is missing between `<=` and `<`'],
    ['a[0]', '`[` after `a` is member access, which is not part of the rule language'],
    ['(f)(1)', "`(` can't follow `(f)`: only functions can be called"],
    ['a, b', '`,` is only allowed in a call or a list; write one expression for each entry'],
    ['f(a ? b, c)', '`,` is only allowed in a call or a list; write one expression for each entry'],
    ['a : b', '`:` has no `?`'],
    ['a ? (b : c)', '`:` has no `?`'],
    ['a b', 'an operator or a comma is missing between `a` and `b`'],
    ['a !b', 'an operator or a comma is missing between `a` and `!`'],
    ['a AND b', 'an operator or a comma is missing between `a` and `AND`; and, or, not are written `&&`, `||`, `!`'],
    ['not b', 'an operator or a comma is missing between `not` and `b`; and, or, not are written `&&`, `||`, `!`'],
    ['a or b', 'an operator or a comma is missing between `a` and `or`; and, or, not are written `&&`, `||`, `!`'],
    ['f(1 2)', 'an operator or a comma is missing between `1` and `2`'],
    ['1 "b c"', 'an operator or a comma is missing between `1` and `"b c"`'],
    ['a &&', 'a value is missing after `&&`'],
    ['f(1,', 'a value is missing after `,`'],
    ['(a) in', 'a value is missing after `in`'],
    ['(a) in\n', 'a value is missing after `in`'],
  ])('refuses %j and says why', (source, message) => {
    expect(problemOf(source)).toBe(message);
  });

  test('refuses too many characters or parts', () => {
    expect(problemOf('a'.repeat(2_001))).toBe('it is longer than 2000 characters; split it into several entries');
    expect(problemOf('🙂'.repeat(2_001))).toBe('it is longer than 2000 characters; split it into several entries');
    expect(nodesOf(`"${'🙂'.repeat(1_998)}"`)).toHaveLength(1);
    const many = (count: number) => `1${'+1'.repeat(count)}`;
    expect(nodesOf(`-${many(99)}`)).toHaveLength(200);
    expect(problemOf(`-${many(100)}`)).toBe('it has more than 200 parts; split it into several entries');
    // Names, operators, lists and functions count as one part each, a choice as one besides its values. Brackets don't.
    for (const source of [
      `((${many(99)}) * 2)`,
      `a in [${many(98)}] == b`,
      `a ? b : ${many(98)} + 1`,
      `f(${many(99)}) ? a : b`,
    ]) {
      expect(problemOf(source)).toBe('it has more than 200 parts; split it into several entries');
    }
    for (const source of [`(((${many(99)})))`, `a in [${many(98)}]`, `a ? b : ${many(98)}`, `f(${many(99)})`]) {
      expect(() => parseSyntax(source)).not.toThrow();
    }
  });

  test('refuses brackets and choices that are nested too deeply', () => {
    const nested: ((count: number) => string)[] = [
      count => `${'('.repeat(count)}a${')'.repeat(count)}`,
      count => `${'['.repeat(count)}a${']'.repeat(count)}`,
      count => `${'f(1, '.repeat(count)}a${')'.repeat(count)}`,
      count => `${'a ? '.repeat(count)}a${' : a'.repeat(count)}`,
    ];
    for (const source of nested) {
      expect(() => parseSyntax(source(32))).not.toThrow();
      expect(problemOf(source(33))).toContain('nested deeper than 32 levels');
    }
    expect(() => parseSyntax(`${'(a) + f([a]) + '.repeat(30)}a`)).not.toThrow();
    expect(() => parseSyntax(`${'a ? a : '.repeat(60)}a`)).not.toThrow();
    expect(nodesOf(`${'('.repeat(32)}a${')'.repeat(32)}`)).toHaveLength(33);
    expect(problemOf(`${'('.repeat(33)}a${')'.repeat(33)}`)).toBe(
      'it is nested deeper than 32 levels, counting each operator of a chain; split it into several entries',
    );
  });
});
