import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { explainScore } from '../../src/scoring/explain/explain.ts';
import { explainExpression } from '../../src/scoring/explain/parts.ts';
import { compileExpression } from '../../src/scoring/language/compile.ts';
import { checkDefinitions } from '../../src/scoring/language/definitions.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import { ExpressionError } from '../../src/scoring/language/syntax.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { compileRuleset } from '../../src/scoring/ruleset.ts';
import { anyExpression, anyFacts, runs } from './generate.ts';
import { within } from './processor-time.ts';
import {
  type Defined,
  definitionsOf,
  entry,
  evaluate as evaluateWith,
  factsWith,
  problemOf as problemWith,
  rule,
} from './support.ts';

const problemsOf = (defined: Defined) => Object.fromEntries(checkDefinitions(definitionsOf(defined)).problems);
const evaluate = (source: string, defined: Defined, given?: Parameters<typeof evaluateWith>[1]) =>
  evaluateWith(source, given, defined);
const problemOf = (source: string, defined: Defined) => problemWith(source, 'boolean', defined);

describe('a definition', () => {
  test('can be a list of texts, which is used like a fact that is one', () => {
    const defined = {
      core: '["ada", "bob \\"B\\""]',
      none: '([])',
      alias: 'core',
      people: 'merged ? core : assignees',
    };
    const facts = { author: 'bob "B"', merged: true, labels: ['ada'] };
    expect(evaluate('author in core && author in alias && author in people', defined, facts)).toBe(true);
    expect(evaluate('author in none || "Ada" in core', defined, facts)).toBe(false);
    expect(evaluate('milestone in core', defined, { milestone: null })).toBe(false);
    expect(evaluate('contains(core, author) && known(core)', defined, facts)).toBe(true);
    expect(evaluate('length(core) + length(none)', defined)).toBe(2);
    expect(problemOf('number in core', defined)).toMatch(
      /^`number` is a number, but the left side of `in` must be a text/,
    );
    expect(problemOf('state in finished', { finished: '["Merged"]' })).toBe(
      '`"Merged"` is not a value of `state`; did you mean `"merged"`?',
    );
  });

  test('that is a list gives what the list itself gives', () => {
    const items = fc.array(fc.string({ unit: 'grapheme-ascii', maxLength: 3 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(anyExpression.text, items, anyFacts, (text, texts, facts) => {
        fc.pre(problemOf(`length(${text}) > 0`, {}) === 'accepted');
        const list = `[${texts.map(each => JSON.stringify(each)).join(', ')}]`;
        const { checked } = checkDefinitions(definitionsOf({ list }));
        const read = (source: string) => compileExpression(parseExpression(source, 'boolean', checked))(facts);
        expect(read(`lower(${text}) in list`)).toBe(read(`lower(${text}) in ${list}`));
      }),
    );
  });

  test('that is a list has at most 199 texts, and counts as its name where it is used', () => {
    const listOf = (count: number) => ({ core: `[${Array.from({ length: count }, () => '"ada"').join(', ')}]` });
    const uses = Array.from({ length: 30 }, () => 'author in core').join(' || ');
    expect(problemOf(uses, listOf(199))).toBe('accepted');
    expect(problemOf('author in core', listOf(200))).toContain('it has more than 200 parts');
  });

  test('may come before or after those that use it', () => {
    expect(evaluate('a == 6', { a: 'b * 2', b: 'c + 1', c: '2' })).toBe(true);
    expect(evaluate('a == 6', { c: '2', b: 'c + 1', a: 'b * 2' })).toBe(true);
  });

  test('may have a name that means something to JavaScript', () => {
    const defined = { constructor: '1', toString: '2', hasOwnProperty: '3', this: '4', arguments: '5' };
    expect(evaluate('constructor + toString + hasOwnProperty + this + arguments', defined)).toBe(15);
  });

  test('gives what its expression in brackets gives', () => {
    const { number, boolean, text } = anyExpression;
    fc.assert(
      fc.property(number, boolean, text, fc.array(anyFacts, { minLength: 1, maxLength: 4 }), (n, b, t, many) => {
        const source = '(yes ? count : 3) > 1 && word != "x" || !yes';
        const written = source.replaceAll('count', `(${n})`).replaceAll('yes', `(${b})`).replaceAll('word', `(${t})`);
        const { checked } = checkDefinitions(definitionsOf({ count: n, yes: b, word: t }));
        const read = (text: string) => {
          try {
            return parseExpression(text, 'boolean', checked);
          } catch (error) {
            if (error instanceof ExpressionError) return undefined;
            throw error;
          }
        };
        const [one, other] = [read(source), read(written)];
        fc.pre(one !== undefined && other !== undefined);
        const [runOne, runOther] = [compileExpression(one), compileExpression(other)];
        for (const facts of many) {
          const expected = runOther(facts);
          expect([runOne(facts), explainExpression(source, one, facts).value]).toEqual([expected, expected]);
        }
      }),
      runs(150),
    );
  });
});

describe('a mistake with definitions', () => {
  test.each<[string, Defined, Record<string, string>]>([
    ['itself', { a: 'a + 1' }, { a: 'it refers to itself: a → a' }],
    ['a cycle', { a: 'b', b: 'c', c: 'size > 1 ? a : 2' }, { c: 'it refers to itself: c → a → b → c' }],
    ['a cycle that others lead to', { x: 'a', a: 'b', b: '-a', y: 'x' }, { b: 'it refers to itself: b → a → b' }],
    [
      'an unknown definition',
      { small: 'size < 5', other: 'smal' },
      { other: '`smal` is not a known fact or definition; did you mean `small`?' },
    ],
    [
      'a type of another definition',
      { a: 'b && true', b: 'size' },
      { a: '`b` is a number, but both sides of `&&` must be true or false' },
    ],
    [
      'a list that is only a part',
      { a: 'length(["x"]) > 0' },
      { a: 'a list in square brackets is only allowed after `in`' },
    ],
    [
      'a list with a name',
      { a: '["x", ada]' },
      { a: '`ada` is not a quoted text, and a list in `define` has nothing else; write `"ada"`' },
    ],
    [
      'a list with a number',
      { a: '["x", 5 + 1]' },
      { a: '`5 + 1` is not a quoted text, and a list in `define` has nothing else' },
    ],
  ])('is told once, where it is: %s', (_, defined, expected) => {
    expect(problemsOf(defined)).toEqual(expected);
  });

  test('is told in one short line if it is a long cycle', () => {
    const names = Array.from({ length: 200 }, (_, index) => `name_${index}`);
    const defined = Object.fromEntries(names.map((name, index) => [name, names[(index + 1) % 200] ?? '']));
    expect(problemsOf(defined)).toEqual({
      name_199: 'it refers to itself: name_199 → name_0 → name_1 → name_2 → … → name_199',
    });
  });

  test('is also told where the definition is used, with its cause', () => {
    const defined = { a: 'b', b: 'siz', good: 'size' };
    const cause = 'definition `b`: `siz` is not a known fact or definition; did you mean `size`?';
    expect(problemOf('good > 1 && a > 1', defined)).toBe(cause);
    expect(problemOf('b > 1', defined)).toBe(cause);
    expect(problemOf('good > 1', defined)).toBe('accepted');
  });

  test.each<[string, string]>([
    ['amount', '`amount` is a number, but a condition must be true or false; compare it, as in `size > 0`'],
    ['amount()', '`amount` is not a known function; it is a definition, written without parentheses'],
    ['amout > 1', '`amout` is not a known fact or definition; did you mean `amount`?'],
    ['glob(title, pattern)', '`pattern` is not a quoted text, which `glob(text, "glob")` needs here'],
    ['title in [pattern]', '`pattern` is computed, but the list after `in` can only hold plain values'],
  ])('is told with its reason if it is a wrong use: %s', (source, message) => {
    expect(problemOf(source, { amount: 'size', pattern: '"*.md"' })).toBe(message);
  });
});

describe('limits', () => {
  const chain = (length: number, step: (before: string) => string): Defined =>
    Object.fromEntries(
      Array.from({ length }, (_, index) => [`d${index}`, index === 0 ? 'size' : step(`d${index - 1}`)]),
    );

  test('count all parts of the definitions that it uses', () => {
    // 99 parts: 50 facts and 49 operators, in a tree that is not deep.
    const balanced = (count: number): string =>
      count === 1 ? 'size' : `(${balanced(count >> 1)} + ${balanced(count - (count >> 1))})`;
    const defined = { a: balanced(50) };
    expect(problemOf('a > 1', defined)).toBe('accepted');
    // Two names with 99 parts each, and one operator, are 201 parts.
    expect(problemOf('a > a', defined)).toBe(
      'with its definitions written out, it has more than 200 parts; split it into several entries',
    );
    expect(problemOf('a > size', { a: balanced(99) })).toBe('accepted');
    expect(problemOf('a > size + 1', { a: balanced(99) })).toMatch(/more than 200 parts/);
  });

  test('count the levels of its definitions', () => {
    const defined = chain(20, before => `${before} + 1`);
    expect(problemsOf(defined).d16).toBe(
      'with its definitions written out, it is nested deeper than 32 levels, counting each operator of a chain; split it into several entries',
    );
    expect(problemOf('d14 > 0', defined)).toBe('accepted');
    expect(problemOf('d15 > 0', defined)).toMatch(/deeper than 32 levels/);
  });

  test('count the characters of its definitions', () => {
    const long = `title == "${'x'.repeat(1000)}"`;
    expect(problemOf('a && merged', { a: long })).toBe('accepted');
    expect(problemOf('a && a', { a: long })).toBe(
      'with its definitions written out, it is longer than 2000 characters; split it into several entries',
    );
  });

  test('count a list as its name, however long it is', () => {
    const team = `[${Array.from({ length: 150 }, (_, index) => `"member-${index}"`).join(', ')}]`;
    expect(problemOf('author in a || author in b', { a: team, b: team })).toBe('accepted');
    expect(problemsOf({ a: `["${'x'.repeat(1997)}"]` })).toEqual({
      a: 'it is longer than 2000 characters; split it into several entries',
    });
  });

  test('stop definitions that double each other, at once', () => {
    const defined = chain(200, before => `${before} + ${before}`);
    const message = 'with its definitions written out, it has more than 200 parts; split it into several entries';
    expect(within(200, () => problemsOf(defined))).toEqual({ d6: message });
  });

  test('stop chains of names', () => {
    const defined = chain(200, before => before);
    expect(within(200, () => problemsOf(defined).d32)).toMatch(/deeper than 32 levels/);
  });

  test('keep a ruleset fast, even if all its entries use the largest definitions allowed', () => {
    const definitions = definitionsOf(chain(6, before => `min(${Array.from({ length: 2 }, () => before).join()})`));
    const logic = Array.from({ length: 50 }, () => entry('d5 > 1 || merged', 'd5'));
    const rules = Array.from({ length: 20 }, (_, index) => rule(`R${index}`, ...logic));
    const { score, problems } = within(2_000, () => compileRuleset({ definitions, rules, reviews: [] }));
    expect(problems).toEqual([]);
    expect(score(factsWith({ size: 2 })).score).toBe(20 * 50 * 2);
  });
});

describe('a ruleset with definitions', () => {
  const definitions = definitionsOf({ reviewable: 'additions + deletions', points: 'per(reviewable, 20)', bonus: '5' });
  const rules: RuleDefinition[] = [
    rule('Size', entry('reviewable > 0', 'min(50, points)'), entry('reviewable > 100', 'bonus', 'SUBTRACT')),
  ];

  test('scores, and its breakdown shows expressions as they were written', () => {
    const { score, facts, problems } = compileRuleset({ definitions, rules, reviews: [] });
    expect(problems).toEqual([]);
    expect([...facts].sort()).toEqual(['additions', 'deletions']);
    const { score: total, breakdown } = score(factsWith({ additions: 90, deletions: 30 }));
    expect(total).toBe(1);
    expect(JSON.parse(breakdown)).toEqual([
      { name: 'Size', action: 'ADD', effect: 6, expression: 'reviewable > 0' },
      { name: 'Size', action: 'SUBTRACT', effect: 5, expression: 'reviewable > 100' },
    ]);
  });

  test('is explained with the texts of a list, and the parts of other definitions', () => {
    const { checked } = checkDefinitions(definitionsOf({ core: '["ada", "bob"]', changed: 'additions + deletions' }));
    const source = 'author in core ? changed : 5';
    const part = explainExpression(source, parseExpression(source, 'number', checked), factsWith({ deletions: 3 }));
    const value = ['ada', 'bob'];
    expect(part.parts).toMatchObject([
      { value: false, parts: [{ source: 'author' }, { source: 'core', kind: 'definition', value, parts: [] }] },
      { source: 'changed', kind: 'definition', value: 3, parts: [{ source: 'additions + deletions', value: 3 }] },
    ]);
  });

  test('is explained with what made a value absent within a definition', () => {
    const days = definitionsOf({ days: 'hours_to_merge / 24' });
    const { rules: explained } = explainScore(
      { definitions: days, reviews: [], rules: [rule('R', entry('true', '10 - days'))] },
      factsWith({ hours_to_merge: null }),
    );
    expect(explained[0]?.entries[0]?.reason).toBe(
      'its value is absent, as `hours_to_merge` is absent: it is not merged',
    );
  });

  test('scores by the rest if this release refuses a part', () => {
    const { score, problems } = compileRuleset({
      definitions: [...definitions, ...definitionsOf({ old: 'weather', older: 'old', lonely: 'nonsense(' })],
      reviews: [],
      rules: [...rules, rule('Old', entry('older > 1', '1'))],
    });
    expect(problems.map(({ message }) => message)).toEqual([
      'Rule "Old", entry 1, expression: definition `old`: `weather` is not a known fact or definition; docs/rules.md lists all facts',
    ]);
    expect(score(factsWith({ additions: 40 })).score).toBe(2);
  });

  test('keeps its meaning if a later release has a fact of the same name', () => {
    const { score } = compileRuleset({
      definitions: definitionsOf({ size: '1000', sqrt: '1' }),
      reviews: [],
      rules: [rule('R', entry('size == 1000 && sqrt(4) == 2', 'size + sqrt'))],
    });
    expect(score(factsWith({ size: 3 })).score).toBe(1001);
  });
});
