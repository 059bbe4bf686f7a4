import { describe, expect, test } from 'vitest';
import { ExpressionError, excerpt, tokenize } from '../../src/scoring/tokens.ts';

/** What is wrong with it, and the part where. */
function problemOf(source: string): [message: string, part: string] {
  try {
    tokenize(source);
  } catch (error) {
    if (error instanceof ExpressionError) return [error.message, source.slice(error.start, error.end)];
    throw error;
  }
  throw new Error('accepted');
}

test('an expression is split into names, numbers, texts and symbols', () => {
  const tokens = tokenize(' min( size,1.5e+3 )>=-2 &&\ttitle in["a b",\n\'\\u0041"\'] ');
  expect(tokens.map(({ kind, text }) => `${kind} ${text}`)).toEqual([
    ...['name min', 'symbol (', 'name size', 'symbol ,', 'number 1.5e+3', 'symbol )', 'symbol >=', 'symbol -'],
    ...['number 2', 'symbol &&', 'name title', 'name in', 'symbol [', 'text "a b"', 'symbol ,', "text '\\u0041\"'"],
    'symbol ]',
  ]);
  expect(tokens.flatMap(({ value }) => value ?? [])).toEqual([1500, 2, 'a b', 'A"']);
  expect(tokens.filter(({ opensCall }) => opensCall).map(({ start, end }) => [start, end])).toEqual([[4, 5]]);
  expect(tokens.flatMap(({ partner }, index) => (partner === -1 ? [] : [[index, partner]]))).toEqual([
    [1, 5],
    [5, 1],
    [12, 16],
    [16, 12],
  ]);
});

test.each([
  ['+', '1 + 2'],
  ['-', '1 - 2'],
  ['*', '1 * 2'],
  ['/', '1 / 2'],
  ['%', '1 % 2'],
  ['==', '1 == 2'],
  ['!=', '1 != 2'],
  ['<', '1 < 2'],
  ['<=', '1<=2'],
  ['>', '1>2'],
  ['>=', '1 >=2'],
  ['&&', 'a&&b'],
  ['||', 'a||b'],
  ['?', 'a?b:c'],
])('%s stands between values', (symbol, source) => {
  expect(tokenize(source)[1]?.text).toBe(symbol);
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
  expect(tokenize(source)).toMatchObject([{ kind: 'number', value, start: 0, end: source.length }]);
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
  expect(tokenize(source)).toMatchObject([{ kind: 'text', value, start: 0, end: source.length }]);
});

describe('what is refused, why, and where', () => {
  const outside = 'is not part of the rule language outside quotes';
  const language = 'is not part of the rule language';

  test.each([
    ['', 'it is empty; write a value', ''],
    ['  ', 'it is empty; write a value', '  '],
    ['1 + ï', `the character U+00EF (ï) ${outside}`, 'ï'],
    ['1 + ½', `the character U+00BD (½) ${outside}`, '½'],
    ['1 + €', `the character U+20AC (€) ${outside}`, '€'],
    ['1 + ¿', `the character U+00BF (¿) ${outside}`, '¿'],
    ['1 +\u00a02', `the character U+00A0 ${outside}`, '\u00a0'],
    ['1 + 🙂', `the character U+1F642 (🙂) ${outside}`, '🙂'],
    ['1 + \uffff', `the character U+FFFF ${outside}`, '\uffff'],
    ['1 + \u0007', `the character U+0007 ${outside}`, '\u0007'],
    ['a = 1', `\`=\` ${language}; write \`==\` to compare`, '='],
    ['a === 1', `\`===\` ${language}; write \`==\``, '==='],
    ['a !== 1', `\`!==\` ${language}; write \`!=\``, '!=='],
    ['a & b', `\`&\` ${language}; write \`&&\``, '&'],
    ['a | b', `\`|\` ${language}; write \`||\``, '|'],
    ['a; b', `\`;\` ${language}; write one expression for each entry`, ';'],
    ['a.length', `\`.\` ${language}; values have no members; functions are written as in \`length(title)\``, '.'],
    ['1 + .5', `\`.\` ${language}; write a digit before the decimal point`, '.'],
    ['--a', `\`--\` ${language}; write \`- -\` or use brackets`, '--'],
    ['a ?? 1', `\`??\` ${language}`, '??'],
    ['a ??= 1', `\`??=\` ${language}`, '??='],
    ['a >>>= 1', `\`>>>=\` ${language}`, '>>>='],
    ['a >> 1', `\`>>\` ${language}`, '>>'],
    ['a <<= 1', `\`<<=\` ${language}`, '<<='],
    ['a **= 1', `\`**=\` ${language}`, '**='],
    ['a &&= 1', `\`&&=\` ${language}`, '&&='],
    ['a ||= 1', `\`||=\` ${language}`, '||='],
    ['a ++ 1', `\`++\` ${language}`, '++'],
    ['a => 1', `\`=>\` ${language}`, '=>'],
    ['a?.b', `\`?.\` ${language}`, '?.'],
    ['[...a]', `\`...\` ${language}`, '...'],
    ['a ^= 1', `\`^=\` ${language}`, '^='],
    ['@a', `\`@\` ${language}`, '@'],
    ['a #', `\`#\` ${language}`, '#'],
    ['1 + 010', '`010` is not a number of the language: numbers have no leading zeros', '010'],
    ['1.00.1', '`1.00.1` is not a number of the language: write numbers like 10 or 0.5', '1.00.1'],
    ['1e', '`1e` is not a number of the language: write numbers like 10 or 0.5', '1e'],
    ['1.e5', '`1.e5` is not a number of the language: write numbers like 10 or 0.5', '1.e5'],
    ['12ab', '`12ab` is not a number of the language: write numbers like 10 or 0.5', '12ab'],
    ['1e5e5', '`1e5e5` is not a number of the language: write numbers like 10 or 0.5', '1e5e5'],
    ['1e999', '`1e999` is too large or too small a number', '1e999'],
    ['0.1e-999', '`0.1e-999` is too large or too small a number', '0.1e-999'],
    ['1E-999', '`1E-999` is too large or too small a number', '1E-999'],
    ['1 + "a', '`"a` has no closing quote', '"a'],
    ['"a\'', '`"a\'` has no closing quote', '"a\''],
    ['"a\nb"', "a quoted text can't hold the character U+000A as it is; write \\n, \\r, \\t or \\u000a", '"a\n'],
    ['"\x7f"', "a quoted text can't hold the character U+007F as it is; write \\n, \\r, \\t or \\u007f", '"\x7f'],
    ['"\\d"', '`\\d` is not an escape of a quoted text; write `\\\\d` for a backslash itself', '\\d'],
    ['"\\u12x4"', '`\\u` is not an escape of a quoted text; write `\\\\u` for a backslash itself', '\\u'],
    ['"\\xu0041"', '`\\x` is not an escape of a quoted text; write `\\\\x` for a backslash itself', '\\x'],
    ['"\\', '`\\` is not an escape of a quoted text; write `\\\\` for a backslash itself', '\\'],
    ['a)', '`)` stands without its opening bracket', ')'],
    ['(a]', '`]` stands without its opening bracket', ']'],
    ['a in [1)', '`)` stands without its opening bracket', ')'],
    ['(a ? b)', '`)` stands without the `:` of a `?`', ')'],
    ['(a', '`(` has no closing bracket', '('],
    ['a in [1', '`[` has no closing bracket', '['],
    ['f(1', '`(` has no closing bracket', '('],
    ['a ? b', '`?` has no `:`', '?'],
    ['in a', '`in` needs a value before it', 'in'],
    ['a in []', '`[]` is an empty list, in which nothing is', ']'],
    ['()', '`)` follows `(` where a value must stand', ')'],
    ['f(1,)', '`)` follows `,` where a value must stand', ')'],
    ['a in [1,]', '`]` follows `,` where a value must stand', ']'],
    ['f([)', '`)` follows `[` where a value must stand', ')'],
    ['* 2', '`*` begins the expression where a value must stand', '*'],
    ['+2', '`+` begins the expression where a value must stand; write a number without `+`', '+'],
    ['1 + + 2', '`+` follows `+` where a value must stand; write a number without `+`', '+'],
    ['a[0]', '`[` after `a` is member access, which is not part of the rule language', '['],
    ['(f)(1)', "`(` can't follow `)`: only a function's name is called", '('],
    ['a, b', '`,` stands outside a call and a list; write one expression for each entry', ','],
    ['f((a, b))', '`,` stands outside a call and a list; write one expression for each entry', ','],
    ['f(a ? b, c)', '`,` stands outside a call and a list; write one expression for each entry', ','],
    ['a : b', '`:` stands without its `?`', ':'],
    ['a ? (b : c)', '`:` stands without its `?`', ':'],
    ['a b', 'an operator or a comma is missing between `a` and `b`', 'b'],
    ['a !b', 'an operator or a comma is missing between `a` and `!`', '!'],
    [
      'a AND b',
      'an operator or a comma is missing between `a` and `AND`; and, or, not are written `&&`, `||`, `!`',
      'AND',
    ],
    ['not b', 'an operator or a comma is missing between `not` and `b`; and, or, not are written `&&`, `||`, `!`', 'b'],
    [
      'a or b',
      'an operator or a comma is missing between `a` and `or`; and, or, not are written `&&`, `||`, `!`',
      'or',
    ],
    ['a &&', 'it ends after `&&` where a value must follow', '&&'],
    ['(a) in', 'it ends after `in` where a value must follow', 'in'],
  ])('%j', (source, message, part) => {
    expect(problemOf(source)).toEqual([message, part]);
  });

  test('too many characters, parts or levels', () => {
    expect(problemOf('a'.repeat(2_001))[0]).toBe('it is longer than 2000 characters; split it over several entries');
    expect(problemOf('🙂'.repeat(2_001))[0]).toBe('it is longer than 2000 characters; split it over several entries');
    expect(tokenize(`"${'🙂'.repeat(1_998)}"`)).toHaveLength(1);
    const many = (count: number) => `1${'+1'.repeat(count)}`;
    expect(tokenize(`-${many(99)}`)).toHaveLength(200);
    expect(problemOf(`-${many(100)}`)).toEqual(['it has more than 200 parts; split it over several entries', '+']);
    expect(problemOf(`a in [1,${many(99)}]`)[0]).toContain('more than 200 parts');
    expect(problemOf(`a?b:${many(99)}`)[0]).toContain('more than 200 parts');
    expect(tokenize(`${'('.repeat(32)}a${')'.repeat(32)}`)).toHaveLength(65);
    expect(problemOf(`${'('.repeat(33)}a${')'.repeat(33)}`)[0]).toBe(
      'it is nested deeper than 32 levels, counting each operator of a chain; split it over several entries',
    );
  });
});

test.each([
  ['a'.repeat(40), 'a'.repeat(40)],
  ['a'.repeat(41), `${'a'.repeat(39)}…`],
  ['🙂'.repeat(30), '🙂'.repeat(30)],
  ['🙂'.repeat(31), `${'🙂'.repeat(30)}…`],
  [' '.repeat(60), ' '],
  [' '.repeat(61), ' …'],
  ['a \n\t b', 'a b'],
  ['a\u0007\u200b\ud83db', 'a\uFFFD\uFFFD\uFFFDb'],
])('%j is shown in one short line', (source, shown) => {
  expect(excerpt(`<${source}>`, 1, source.length + 1)).toBe(`\`${shown}\``);
});
