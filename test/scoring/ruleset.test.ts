import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createExplainer, type ExplainedRule } from '../../src/scoring/explain/explain.ts';
import type { Facts } from '../../src/scoring/facts.ts';
import { compileExpression, compileParts } from '../../src/scoring/language/compile.ts';
import { allParts } from '../../src/scoring/language/tree.ts';
import type { RuleAction, RuleDefinition } from '../../src/scoring/rule.ts';
import { compileRuleset } from '../../src/scoring/ruleset.ts';
import { runToEnd } from '../../src/scoring/steps.ts';
import { anyExpression, anyFacts, anyReviewedFacts, anyRules, runs } from './generate.ts';
import { interpret } from './interpreter.ts';
import { entry, factsWith, parsed, rule, rulesetOf } from './support.ts';

function scored(rules: RuleDefinition[], facts: Facts = factsWith()) {
  const { score, problems } = compileRuleset(rulesetOf(rules));
  expect(problems).toEqual([]);
  const result = score(facts);
  return { score: result.score, breakdown: JSON.parse(result.breakdown) as unknown };
}

const valued = (value: string, facts: Facts = factsWith()) => scored([rule('R', entry('true', value))], facts);

describe('a score', () => {
  test('sums the entries, in the order of the rules and of their entries', () => {
    const rules = [
      rule('B', entry('size > 5', 'size'), entry('size > 50', '1'), entry('merged', '3', 'SUBTRACT')),
      rule('A', entry('draft == false', '2')),
    ];
    expect(scored(rules, factsWith({ size: 20, merged: true }))).toEqual({
      score: 19,
      breakdown: [
        { name: 'B', action: 'ADD', effect: 20, expression: 'size > 5' },
        { name: 'B', action: 'SUBTRACT', effect: 3, expression: 'merged' },
        { name: 'A', action: 'ADD', effect: 2, expression: 'draft == false' },
      ],
    });
  });

  test('is 0 with an empty breakdown if no entry counts', () => {
    expect(scored([])).toEqual({ score: 0, breakdown: [] });
    expect(scored([rule('R', entry('merged', '5'))])).toEqual({ score: 0, breakdown: [] });
  });

  test('ignores disabled rules, even invalid ones', () => {
    const disabled = [
      { ...rule('R', entry('true', '5')), is_enabled: false },
      { ...rule('Old', entry('no_such_fact', '5')), is_enabled: false },
    ];
    expect(scored(disabled)).toEqual({ score: 0, breakdown: [] });
  });

  test.each([
    ['0.5', 1],
    ['-0.5', -1],
    ['1.5', 2],
    ['2.5', 3],
    ['-2.5', -3],
    ['2.4999', 2],
    ['0.49999999999999994', undefined],
    ['size + 0.5', 1],
    ['size - 0.5', -1],
    ['size - 2.5', -3],
    ['size + 2.4999', 2],
  ])('rounds halves away from zero: %s gives %s', (value, effect) => {
    const breakdown = effect === undefined ? [] : [{ name: 'R', action: 'ADD', effect, expression: 'true' }];
    expect(valued(value)).toEqual({ score: effect ?? 0, breakdown });
  });

  test.each([
    ...'0|-0|0.4|-0.4|size|-size|0 * -1|size / 0|0 / 0|1 / 0|-1 / 0|5 % 0|1e308 * 10'.split('|'),
    ...'2147483648|-2147483649|2147483647.5|1e300|2147483647 + 1 + size|per(5, size)'.split('|'),
    ...'hours_to_merge|hours_to_merge * 0|1 - hours_to_merge|max(1, hours_to_merge)|round(hours_to_merge)'.split('|'),
    'length(milestone)',
  ])('ignores a value of %s', value => {
    expect(valued(value, factsWith({ hours_to_merge: null, milestone: null }))).toEqual({ score: 0, breakdown: [] });
  });

  test('is limited to 32 bits, while the effects are not changed', () => {
    const max = '2147483647';
    const min = '-2147483648';
    expect(scored([rule('R', entry('true', max), entry('true', max))]).score).toBe(2147483647);
    expect(scored([rule('R', entry('true', min), entry('true', max, 'SUBTRACT'))]).score).toBe(-2147483648);
    // Limited only at the end: nothing is lost on the way.
    const up = [entry('true', max), entry('true', max), entry('true', max, 'SUBTRACT'), entry('true', max, 'SUBTRACT')];
    expect(scored([rule('R', ...up, entry('true', '7'))]).score).toBe(7);
    expect(valued(min).breakdown).toEqual([{ name: 'R', action: 'ADD', effect: -2147483648, expression: 'true' }]);
  });

  test('is exact for a thousand entries with effects at the limits', () => {
    const logic = Array.from({ length: 50 }, (_, index) =>
      entry('true', '-2147483648', index % 2 === 0 ? 'ADD' : 'SUBTRACT'),
    );
    const rules = Array.from({ length: 19 }, (_, index) => rule(`R${index}`, ...logic));
    rules.push(rule('Last', ...logic.slice(2), entry('true', '1')));
    const { score, breakdown } = scored(rules);
    expect(score).toBe(1);
    expect(breakdown).toHaveLength(999);
  });

  test('has a breakdown that keeps every name and expression', () => {
    const name = 'a "b" \\ \u2028 </script> $1 🙂 \u0007';
    const expression = 'title != "\\"\\\\ \u2028 $& 🙂"';
    expect(scored([rule(name, entry(expression, '1'), entry(expression, 'size + 2'))]).breakdown).toEqual([
      { name, action: 'ADD', effect: 1, expression },
      { name, action: 'ADD', effect: 2, expression },
    ]);
  });
});

test('a rule that is not valid is reported and contributes nothing, while the others score', () => {
  const { score, problems } = compileRuleset(
    rulesetOf([
      rule('Action', entry('true', '1', 'MULTIPLY' as RuleAction)),
      rule('Old', entry('true', '7'), entry('weather == 5', '1')),
      rule('Empty'),
      rule('Long', ...Array.from({ length: 51 }, () => entry('true', '1'))),
      rule('Full', ...Array.from({ length: 50 }, () => entry('true', '1'))),
    ]),
  );
  expect(score(factsWith()).score).toBe(50);
  expect(problems.map(({ message }) => message)).toEqual([
    'Rule "Action", entry 1, action: "MULTIPLY" is neither ADD nor SUBTRACT',
    'Rule "Old", entry 2, expression: `weather` is not a known fact; docs/rules.md lists all facts',
    'Rule "Empty", logic: it has no entries; write at least one',
    'Rule "Long", logic: it has 51 entries, more than 50; split the rule',
  ]);
});

test('a required fact that is null or missing does not make a score throw', () => {
  const rules = [
    rule('R', entry('size + additions > 0 || draft == false', '1')),
    rule('S', entry('contains(title, "a") || title in labels || any_file("a*") || lower(title) < body', '1')),
    rule('T', entry('length(files) != length(labels)', 'commits')),
  ];
  const { score } = compileRuleset(rulesetOf(rules));
  const nothing = Object.fromEntries(Object.keys(factsWith()).map(name => [name, null]));
  for (const facts of [nothing, {}]) expect(() => JSON.parse(score(facts as unknown as Facts).breakdown)).not.toThrow();
  fc.assert(
    fc.property(anyExpression.boolean, fc.constantFrom(nothing, {}), (source, facts) => {
      const tree = parsed(source, 'boolean');
      if (tree !== undefined) expect(() => compileExpression(tree)(facts as unknown as Facts)).not.toThrow();
    }),
    runs(100),
  );
});

describe("a rule's `when`", () => {
  const conditional = { ...rule('R', entry('size > 5 || draft', '3'), entry('true', '1')), when: 'merged || draft' };

  test('is a condition of all entries, and the breakdown shows all of it', () => {
    expect(scored([conditional], factsWith({ size: 6 }))).toEqual({ score: 0, breakdown: [] });
    expect(scored([conditional], factsWith({ size: 6, merged: true }))).toEqual({
      score: 4,
      breakdown: [
        { name: 'R', action: 'ADD', effect: 3, expression: '(merged || draft) && (size > 5 || draft)' },
        { name: 'R', action: 'ADD', effect: 1, expression: '(merged || draft) && (true)' },
      ],
    });
  });

  test.each([
    ['size', 'Rule "R", when: `size` is a number, but a condition must be true or false; compare it, as in `size > 0`'],
    ['merged) || (true', 'Rule "R", when: `)` has no opening bracket'],
    ['', 'Rule "R", when: it is empty; write a value'],
    ['mergd', 'Rule "R", when: `mergd` is not a known fact; did you mean `merged`?'],
  ])('is told once if it is not valid, and its rule counts for nothing: %j', (when, message) => {
    const { score, problems } = compileRuleset(rulesetOf([{ ...conditional, when }]));
    expect(problems).toEqual([{ rule: 'R', entry: null, part: 'when', message }]);
    expect(score(factsWith({ merged: true, size: 9 }))).toMatchObject({ score: 0, breakdown: '[]' });
  });

  test.each([
    ['draft) || (true', 'Rule "R", entry 1, expression: `)` has no opening bracket'],
    ['size', 'Rule "R", entry 1, expression: `size` is a number, but a condition must be true or false'],
  ])('does not change what an expression must be: %j', (expression, message) => {
    const { problems } = compileRuleset(rulesetOf([{ ...conditional, logic: [entry(expression, '1')] }]));
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toContain(message);
  });

  test('counts within the limits of each expression', () => {
    const chain = (count: number) => Array.from({ length: count }, () => 'merged').join(' && ');
    const long = (count: number) => `title == "${'x'.repeat(count)}"`;
    const problemsOf = (when: string, expression: string) =>
      compileRuleset(rulesetOf([{ ...rule('R', entry(expression, '1')), when }])).problems.map(
        ({ message }) => message,
      );
    expect(problemsOf(chain(31), chain(31))).toEqual([]);
    expect(problemsOf(chain(32), 'draft')).toEqual([
      /^Rule "R", entry 1, expression: together with the rule's `when`, it is nested deeper than 32/,
    ]);
    expect(problemsOf(long(950), long(950))).toEqual([]);
    expect(problemsOf(long(990), long(990))).toEqual([
      /entry 1, expression: together with the rule's `when`, it is longer than 2000 characters/,
    ]);
  });
});

describe('compiled code', () => {
  test.each(['number', 'boolean'] as const)(
    'agrees with an interpreter on all parts of an expression of type %s',
    type => {
      fc.assert(
        fc.property(anyExpression[type], fc.array(anyFacts, { minLength: 1, maxLength: 5 }), (source, many) => {
          const tree = parsed(source, type);
          fc.pre(tree !== undefined);
          const run = compileExpression(tree);
          const parts = [...allParts([tree])];
          const runParts = compileParts(parts);
          for (const facts of many) {
            const values = parts.map(part => interpret(part, facts) ?? (part.type === 'number' ? Number.NaN : null));
            expect([runParts(facts), run(facts)]).toStrictEqual([values, values[0]]);
          }
        }),
        runs(500),
      );
    },
  );

  test('agrees with the explanation of whole rulesets, for a pull request as for its reviews', () => {
    const counted = (rules: readonly ExplainedRule[]) =>
      rules.flatMap(({ name, entries }) =>
        entries.flatMap(({ action, effect, expression, outcome }) =>
          outcome === 'counted' ? [{ name, action, effect, expression }] : [],
        ),
      );
    const pullRequests = fc.array(anyReviewedFacts, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(anyRules, anyRules, pullRequests, (rules, reviews, many) => {
        const ruleset = { ...rulesetOf(rules), reviews };
        const { score } = compileRuleset(ruleset);
        const explain = createExplainer(ruleset);
        for (const facts of many) {
          const scored = score(facts);
          const explained = runToEnd(explain(facts));
          expect([scored.score, JSON.parse(scored.breakdown)]).toStrictEqual([
            explained.score,
            counted(explained.rules),
          ]);
          expect(JSON.parse(scored.reviewScores ?? '[]')).toStrictEqual(
            explained.reviews.map(({ reviewer, member, score, rules }) => ({
              ...{ reviewer, member, score },
              breakdown: counted(rules),
            })),
          );
        }
      }),
      runs(120),
    );
  });
});
