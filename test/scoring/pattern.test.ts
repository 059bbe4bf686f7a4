import fc from 'fast-check';
import { RE2JS } from 're2js';
import { describe, expect, test } from 'vitest';
import { compileGlob } from '../../src/scoring/language/glob.ts';
import { compilePattern, patternLimits } from '../../src/scoring/language/pattern.ts';
import { runs } from './generate.ts';
import { within } from './processor-time.ts';

const atoms = fc.constantFrom(
  ...'a b é 🙂 . [ab] [^a] \\d \\w \\s \\S \\pL (?i:aÉk) \\n ^ $ \\b \\B'.split(' '),
  ...'\\A \\z (?m:^) (?m:$) (?s:.) [[:alpha:]] \\Q.*\\E (a) (?:ab|b)'.split(' '),
  '',
);
const pattern = fc.letrec<{ pattern: string }>(tie => ({
  pattern: fc.oneof(
    { maxDepth: 4 },
    atoms,
    fc.tuple(tie('pattern'), tie('pattern')).map(([one, two]) => one + two),
    fc.tuple(tie('pattern'), tie('pattern')).map(([one, two]) => `(?:${one}|${two})`),
    fc
      .tuple(tie('pattern'), fc.constantFrom('*', '+', '?', '*?', '{2}', '{1,3}', '{2,}', '{0}'))
      .map(([one, times]) => `(?:${one})${times}`),
  ),
})).pattern;
const text = fc.array(
  fc.constantFrom('a', 'b', 'A', 'é', 'É', 'k', '\u212A', '🙂', '\uD83D', ' ', '\n', '1', '_', '.*'),
  {
    maxLength: 12,
  },
);

test('patterns match what re2js matches', () => {
  fc.assert(
    fc.property(pattern, fc.array(text, { minLength: 1, maxLength: 8 }), (source, texts) => {
      const expected = RE2JS.compile(source);
      fc.pre(expected.programSize() < patternLimits.size);
      const compiled = compilePattern(source);
      for (const parts of texts) {
        const value = parts.join('');
        expect(`${value} ${compiled.test(value)}`).toBe(`${value} ${expected.test(value)}`);
      }
    }),
    runs(500),
  );
});

test('patterns with assertions match what re2js matches in every text of three characters', () => {
  const alphabet = ['', 'a', 'Z', ' ', '\n', 'é', '🙂'];
  const texts = alphabet.flatMap(one => alphabet.flatMap(two => alphabet.map(three => one + two + three)));
  const sources =
    '^|$|^$|\\A|\\z|\\b|\\B|(?m)^a|(?m)a$|(?m)^$|(?m)^é|(?m)🙂$|(?m)$a|\\ba|a\\b|\\Ba|a\\B|\\b \\b|^a|a$|é|🙂|[^a]|[é-🙂]a|🙂a|a🙂|a.|.\\z';
  for (const source of [...sources.split('|'), 'Z|é🙂']) {
    const expected = RE2JS.compile(source);
    const compiled = compilePattern(source);
    expect(texts.filter(value => compiled.test(value))).toEqual(texts.filter(value => expected.test(value)));
  }
});

test('words in patterns consist of ASCII letters, digits and the underscore', () => {
  const edge = compilePattern('\\b');
  const characters = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code));
  expect(characters.filter(character => edge.test(character))).toEqual(
    characters.filter(character => /\w/.test(character)),
  );
});

test('the size of a pattern is bounded before its repeats are written out', () => {
  const reasonOf = (source: string) => {
    try {
      compilePattern(source);
    } catch (error) {
      return String(error instanceof Error && error.message);
    }
    return 'accepted';
  };
  for (const [source, length] of [
    ['a{999}', 20],
    ['a{1,999}', 20],
    ['a{999,}', 20],
    ['(((a{9}){9}){9})', 27],
    ['a{400,}c{50}', 20],
    ['a{1000}{0}', 20],
  ] as const) {
    expect(reasonOf(source.padEnd(length, 'b'))).toMatch(/^(reads|is not a pattern)/);
    expect(reasonOf(source.padEnd(length + 1, 'b'))).toMatch(/^is too large with its repeats written out/);
  }
  expect(reasonOf('a'.repeat(1_000))).toMatch(/^reads 1000 characters/);
  expect(reasonOf('a'.repeat(1_001))).toMatch(/^has a pattern of 1001 characters; the limit is 1000/);
});

test('the reason why a pattern is refused is one line of at most 200 characters', () => {
  expect(() => compilePattern('(a \n\t b')).toThrow('is not a pattern in RE2 syntax: missing closing ): `(a b`');
  const refused = () => compilePattern(`(${'a'.repeat(400)}`);
  expect(refused).toThrow(/^is not a pattern in RE2 syntax: missing closing \): `\(a{179}$/);
});

test('a pattern of more than one word of bits matches what re2js matches', () => {
  const source = '^(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\\([\\w-]+\\))?!?: .{3,40}$';
  const compiled = compilePattern(source);
  for (const title of [
    'feat(api)!: add cursors',
    'refactor: x',
    'fix:no',
    'chore(a b): abc',
    `test: ${'x'.repeat(41)}`,
  ]) {
    expect(compiled.test(title)).toBe(RE2JS.compile(source).test(title));
  }
});

describe('a hostile pattern', () => {
  const size = 65_536;
  let seed = 1;
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const mix = (share: number, one: string, two: string) =>
    Array.from({ length: size }, () => (random() < share ? one : two)).join('');
  const texts = ['a'.repeat(size), 'x'.repeat(size), mix(0.5, 'a', 'b'), mix(0.98, 'a', 'b'), mix(0.99, 'x', 'y')];

  test.each([
    '(a+)+$',
    '(a|a)*b$',
    '(a*)*c',
    '(x{1,60}y?){2}$',
    '[ab]*a[ab]{20}$',
    'a.{120}$',
    '(?:(?:a?){10}b?){11}$',
    '(?i)\\b(?:a|b|x|y)+\\b$',
    '\\pL*a\\pL{20}\\b',
  ])('%s takes less than 50 ms on 64 KB', source => {
    const { test: run } = compilePattern(source);
    for (const value of texts) {
      within(50, () => run(value));
    }
  });

  test.each([
    ['(x{1,500}y?){2}$', 'reads 1002 characters'],
    ['[ab]{129}', 'reads 129 characters'],
    [`(?:${'a?'.repeat(45)}){1000}`, 'too large with its repeats'],
    ['((x{100}){100}){100}', 'is not a pattern'],
    [`${'('.repeat(900)}${')'.repeat(900)}`, 'limit'],
    ['(?=a)', 'is not a pattern in RE2 syntax'],
    ['(?<!a)b', 'is not a pattern in RE2 syntax'],
    ['(a)\\1', 'is not a pattern in RE2 syntax'],
    ['(a\u2028\0b', 'is not a pattern in RE2 syntax: missing closing ): `(a \uFFFDb`'],
  ])('%s is refused within 50 ms', (source, message) => {
    within(50, () => expect(() => compilePattern(source)).toThrow(message));
  });
});

test('a pattern of letters of all alphabets is compiled so quickly that as many as a file may have take four seconds', () => {
  const allowed = Math.floor(patternLimits.totalSize / 120);
  expect(within(4_000 / allowed, () => compilePattern('\\pL{120}')).size).toBe(120);
});

test('a pattern may read 128 characters and have 512 instructions', () => {
  expect(compilePattern('[ab]{128}').test('ab'.repeat(64))).toBe(true);
  expect(() => compilePattern('[ab]{129}')).toThrow('the limit is 128');
  // A program of a start, a match, and two instructions for each pair of brackets.
  const brackets = (pairs: number, rest: string) => `${'('.repeat(pairs)}a${')'.repeat(pairs)}${rest}`;
  const size = (source: string) => RE2JS.compile(source).programSize();
  const [allowed, tooLarge] = [brackets(254, 'b'), brackets(254, 'bc')];
  expect([size(allowed), size(tooLarge)]).toEqual([512, 513]);
  expect(compilePattern(allowed).test('xaby')).toBe(true);
  expect(() => compilePattern(tooLarge)).toThrow('the limit is 128');
});

describe('a glob', () => {
  test.each([
    ['README.md', ['README.md'], ['readme.md', 'docs/README.md', 'README.mdx']],
    ['*', ['a', '.a', 'a.b'], ['a/b', '/']],
    ['*.md', ['a.md', '.md'], ['docs/a.md', 'a.mdx']],
    ['**', ['a', 'a/b', '.a/.b', ''], []],
    ['docs/**', ['docs/a', 'docs/a/b', 'docs/.a'], ['docs', 'xdocs/a', 'src/docs/a']],
    ['**/docs/**', ['docs/a', 'x/docs/a/b'], ['docs', 'xdocs/a']],
    ['**/*.ts', ['a.ts', 'a/b.ts', 'a/b/.ts'], ['a.tsx', 'a.ts/b']],
    ['**/a.ts', ['a.ts', 'x/a.ts', 'x/y/a.ts'], ['ba.ts', 'x/ba.ts']],
    ['src/**/*.ts', ['src/a.ts', 'src/a/b.ts', 'src/a/b/c.ts'], ['a.ts', 'src.ts', 'xsrc/a.ts']],
    ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['ab', 'a/xb', 'b']],
    ['a/*/b', ['a/x/b'], ['a/b', 'a/x/y/b']],
    ['src/**.ts', ['src/a.ts', 'src/a/b.ts'], ['a.ts']],
    ['a?c', ['abc', 'a🙂c'], ['ac', 'a/c', 'abbc']],
    ['[a-c]x', ['ax', 'cx'], ['dx', 'x', '/x']],
    ['[!a-c]x', ['dx', '-x'], ['ax', '/x']],
    ['[^a]x', ['bx'], ['ax', '/x']],
    ['[]a]x', [']x', 'ax'], ['bx']],
    ['[a-]x', ['ax', '-x'], ['bx']],
    ['[\\]a\\-z]x', [']x', '-x', 'zx'], ['bx']],
    ['[+-9]x', ['.x', '5x'], ['/x', ':x']],
    ['[/-9]x', ['0x', '9x'], ['/x', '.x', ':x']],
    ['[!/-/]x', ['ax'], ['/x']],
    ['[!a/-/]x', ['bx'], ['ax', '/x']],
    ['[a/-/]x', ['ax'], ['bx', '/x']],
    ['[.-/]x', ['.x'], ['/x', '-x', '0x']],
    ['[é-ü]', ['ê'], ['e']],
    ['[\uFF5E-🙂]x', ['\uFF5Ex', '🙂x'], ['ax', '🙃x']],
    ['[🙂-🙃]x', ['🙂x', '🙃x'], ['\uFF5Ex', '🙄x']],
    ['[🙂a]x', ['🙂x', 'ax'], ['\uDE42x', 'bx']],
    ['[\uFFFFa]x', ['\uFFFFx', 'ax'], ['bx']],
    ['[!a]x', ['!x', '[x'], ['ax']],
    ['[^a]x', ['^x', '[x'], ['ax']],
    ['[a-a]x', ['ax'], ['bx']],
    ['*.{ts,tsx}', ['a.ts', 'a.tsx'], ['a.t', 'a.ts,tsx', 'x/a.ts']],
    ['{src,test}/**/*.{m,c,}ts', ['src/a.ts', 'test/x/b.mts'], ['lib/a.ts', 'src/a.dts']],
    ['{a,{b,c}d}/x', ['a/x', 'bd/x', 'cd/x'], ['d/x', 'b/x']],
    ['{a/,}**/x', ['x', 'a/x', 'a/b/x', 'b/x'], ['ax']],
    ['{src/**,lib/**}/*.ts', ['src/a.ts', 'src/x/y/a.ts', 'lib/a.ts'], ['a.ts', 'test/a.ts']],
    ['{**,a}/x', ['x', 'a/x', 'b/c/x'], ['bx']],
    ['{a}', ['{a}'], ['a']],
    ['{a\\,b,c}', ['a,b', 'c'], ['a', 'b', 'a\\']],
    ['{a\\},b}', ['a}', 'b'], ['a']],
    ['{1..3,5}', ['1..3', '5'], ['2']],
    ['{.1..3}', ['{.1..3}'], ['.1..3']],
    ['{1..3.}', ['{1..3.}'], ['1..3.']],
    ['a**/x', ['a/x', 'ab/x', 'ab/c/x'], ['ax', 'abx']],
    ['[a]**/x', ['a/x', 'ab/x'], ['ax']],
    ['{a,b}**/x', ['a/x', 'bc/x'], ['ax', 'bx']],
    ['{a/,b}**/x', ['bc/x'], ['bx']],
    ['{a/}**/x', ['{a/}b/x'], ['{a/}x']],
    ['{a}**/x', ['{a}/x'], ['{a}x']],
    ['**/a**', ['a', 'ab', 'x/a/b'], ['ba', 'x/ba']],
    ['**/*a**', ['a', 'ba', 'x/ba/b'], ['b']],
    ['*a/b', ['a/b', 'xa/b'], ['x/a/b', 'ab']],
    ['docs**', ['docs', 'docsx', 'docs/a'], ['doc', 'xdocs']],
    ['a.b+c(d)', ['a.b+c(d)'], ['aXb+c(d)', 'abbc(d)']],
    ['a.b+c(d)*', ['a.b+c(d)', 'a.b+c(d)e'], ['aXb+c(d)']],
    ['\\*', ['*'], ['a']],
    ['a\\[b', ['a[b'], ['ab']],
    ['a\nb*', ['a\nbc'], ['ab']],
    ['**/node_modules/*', ['node_modules/x', 'a/node_modules/x'], ['a/node_modules/x/y']],
  ])('%s matches the paths %j, and not %j', (glob, matching, others) => {
    const compiled = compileGlob(glob);
    expect(matching.filter(path => !compiled.test(path))).toEqual([]);
    expect(others.filter(path => compiled.test(path))).toEqual([]);
  });

  test.each([
    ['', 'is empty'],
    ['!a', 'begins with `!`'],
    ['[a', 'without its `]`'],
    ['[]', 'without its `]`'],
    ['[z-a]', 'has the range `z-a` the wrong way round'],
    ['[\u2028-\0]', 'has the range ` -\uFFFD` the wrong way round'],
    ['[a/b]', 'has a `/`'],
    ['[/-/]', 'has a `/` between `[` and `]`, which stays within a folder'],
    ['{a,b', 'without its `}`'],
    ['{1..3}', 'write each choice'],
    ['{10..20}', 'write each choice'],
    ['a\\', 'ends with a backslash'],
    [`${'{a,'.repeat(20)}${'}'.repeat(20)}`, 'nested deeper'],
  ])('%j is refused', (glob, message) => {
    expect(() => compileGlob(glob)).toThrow(message);
  });

  test('may have braces eight levels deep', () => {
    const nested = (levels: number) => `${'{a,'.repeat(levels)}b${'}'.repeat(levels)}`;
    expect(compileGlob(nested(8)).test('b')).toBe(true);
    expect(() => compileGlob(nested(9))).toThrow('nested deeper than 8 levels');
  });

  test('of a common shape needs no automaton, and matches the same paths', () => {
    const names = fc.constantFrom('a', 'b', '.a', 'a.ts', 'b.ts', 'aa.ts', 'docs');
    const path = fc.array(names, { minLength: 1, maxLength: 4 }).map(parts => parts.join('/'));
    const glob = fc.oneof(
      path,
      names.map(name => `**/${name}`),
      names.map(name => `**/*${name}`),
      names.map(name => `*${name}`),
      names.map(name => `**/*${name}*`),
      names.map(name => `**/${name}*.ts`),
      path.map(folder => `${folder}/**`),
      path.map(folder => `${folder}/*`),
      path.map(folder => `${folder}/a*a*s`),
      path.map(folder => `**/${folder}`),
      path.map(folder => `**/${folder}/**`),
      fc.constantFrom('*', '**/*', '**/*.{ts,js}', '{a,b}/**', '**/{a,docs}/**', 'docs/{a.ts,b}', '*a*.ts'),
    );
    fc.assert(
      fc.property(glob, path, (source, value) => {
        // An empty choice changes nothing but the shape.
        const general = compileGlob(`${source}{,}`);
        expect(compileGlob(source).size).toBe(0);
        expect(general.size).toBeGreaterThan(0);
        expect(compileGlob(source).test(value)).toBe(general.test(value));
      }),
    );
  });

  test('takes less than 50 ms on 64 KB', () => {
    const path = 'a'.repeat(65_536);
    for (const source of ['*a'.repeat(50), '**a'.repeat(50), '{a,a*}'.repeat(30), `${'?'.repeat(100)}*b`]) {
      const { test: run } = compileGlob(source);
      within(50, () => run(path));
    }
  });
});
