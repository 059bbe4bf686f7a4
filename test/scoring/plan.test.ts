import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Definition } from '../../src/scoring/language/definitions.ts';
import { compareRules, differ, hasChanges } from '../../src/scoring/plan/rule-changes.ts';
import type { RuleDefinition, RuleLogic } from '../../src/scoring/rule.ts';
import { compileRuleset, type Ruleset } from '../../src/scoring/ruleset.ts';
import { anyFacts, anyRules, runs } from './generate.ts';
import { within } from './processor-time.ts';
import {
  type BreakdownEntry,
  definitionsOf,
  entry,
  factsWith,
  newPlan,
  rule,
  rulesetOf,
  slowToRead,
} from './support.ts';

const off = (given: RuleDefinition): RuleDefinition => ({ ...given, is_enabled: false });

/** The rule's entry as a plan lists it. */
const listed = ({ expression, effect }: RuleLogic) => ({ expression, ...effect });

const pointsOf = (entries: readonly BreakdownEntry[]) =>
  entries.reduce((sum, { action, effect }) => sum + (action === 'ADD' ? effect : -effect), 0);

const planOf = (before: RuleDefinition[], after: RuleDefinition[]) => newPlan(rulesetOf(before), rulesetOf(after));

describe('a plan', () => {
  test('agrees with scoring each pull request under both rulesets', () => {
    fc.assert(
      fc.property(
        anyRules,
        anyRules,
        fc.array(fc.tuple(fc.constantFrom('ada', 'bob', 'cleo'), anyFacts), { maxLength: 6 }),
        (before, after, pullRequests) => {
          const plan = planOf(before, after);
          for (const [index, [member, facts]] of pullRequests.entries()) plan.add(`pr ${index}`, member, facts);
          const result = plan.result();

          const sides = { before: compileRuleset(rulesetOf(before)), after: compileRuleset(rulesetOf(after)) };
          const scored = pullRequests.map(([member, facts], index) => {
            const scores = { from: sides.before.score(facts), to: sides.after.score(facts) };
            return { id: `pr ${index}`, member, from: scores.from.score, to: scores.to.score, scores };
          });
          expect(plan.facts).toEqual(new Set([...sides.before.facts, ...sides.after.facts]));
          expect(result.pull_requests.total).toBe(scored.length);
          expect(result.pull_requests.raised).toBe(scored.filter(({ from, to }) => to > from).length);
          expect(result.pull_requests.lowered).toBe(scored.filter(({ from, to }) => to < from).length);
          expect(result.scores.before.sum).toBe(scored.reduce((sum, { from }) => sum + from, 0));
          expect(result.scores.after.sum).toBe(scored.reduce((sum, { to }) => sum + to, 0));

          for (const { name, before: former, after: latter } of result.rules) {
            for (const [side, counted] of [['from', former] as const, ['to', latter] as const]) {
              const own = scored.map(({ scores }) =>
                (JSON.parse(scores[side].breakdown) as BreakdownEntry[]).filter(entry => entry.name === name),
              );
              expect(counted?.pull_requests ?? 0).toBe(own.filter(entries => entries.length > 0).length);
              expect(counted?.points ?? 0).toBe(pointsOf(own.flat()));
            }
          }
          for (const { id, pull_requests: count, changed, before: from, after: to } of result.members) {
            const own = scored.filter(one => one.member === id);
            expect([count, changed]).toEqual([own.length, own.filter(one => one.from !== one.to).length]);
            expect([from, to]).toEqual([
              own.reduce((sum, one) => sum + one.from, 0),
              own.reduce((sum, one) => sum + one.to, 0),
            ]);
          }
          const moves = [...result.movers.raised, ...result.movers.lowered];
          expect(moves.map(({ id }) => id).sort()).toEqual(
            scored.filter(({ from, to }) => from !== to).map(({ id }) => id),
          );
          for (const { id, from, to } of moves) expect(scored.find(one => one.id === id)).toMatchObject({ from, to });
        },
      ),
      runs(100),
    );
  });

  test('counts an entry on each side apart if a definition or the `when` of its rule changed', () => {
    const rules = [rule('R', entry('many', 'points')), rule('S', entry('merged', '1'))];
    const before = { ...rulesetOf(rules), definitions: definitionsOf({ many: 'size > 10', points: '5' }) };
    const after = {
      ...rulesetOf(rules),
      definitions: definitionsOf({ many: 'limit < size', limit: '20', points: '5' }),
    };
    const plan = newPlan(before, after);
    plan.add('1', 'ada', factsWith({ size: 15, merged: true }));
    plan.add('2', 'ada', factsWith({ size: 25, merged: true }));
    const { rules: results, pull_requests: counts } = plan.result();
    expect(counts.lowered).toBe(1);
    expect(results[0]?.entries).toEqual([
      { ...listed(entry('many', 'points')), before: null, after: { pull_requests: 1, points: 5 } },
      { ...listed(entry('many', 'points')), before: { pull_requests: 2, points: 10 }, after: null },
    ]);
    expect(results[1]?.entries).toHaveLength(1);
    const merged = rule('S', entry('merged', '1'));
    const conditional = planOf([merged], [{ ...merged, when: 'size > 20' }]);
    expect(conditional.result().rules[0]?.entries.map(({ expression }) => expression)).toEqual([
      '(size > 20) && (merged)',
      'merged',
    ]);
  });

  test('counts what changes, and says what the scores are and what each entry pays on each side, the removed rules last', () => {
    const either = rule('Both', entry('merged', '2'), entry('merged', 'size', 'SUBTRACT'));
    const plan = planOf(
      [either, rule('Gone', entry('true', '10'), entry('size > 1', '1'))],
      [rule('New', entry('draft', '4')), either],
    );
    plan.add('1', 'ada', factsWith({ merged: true, size: 3 }));
    plan.add('2', 'bob', factsWith({ draft: true }));
    plan.add('3', 'ada', factsWith({ merged: true, draft: true, size: 1 }));
    const { pull_requests: counts, scores, histogram, rules } = plan.result();
    expect(counts).toEqual({ total: 3, changed: 3, raised: 0, lowered: 3, breakdown_only: 0 });
    expect(scores).toEqual({
      before: { sum: 31, mean: 31 / 3, median: 10, minimum: 10, maximum: 11 },
      after: { sum: 8, mean: 8 / 3, median: 4, minimum: -1, maximum: 5 },
    });
    expect(histogram.find(({ from }) => from === 10)).toEqual({ from: 10, to: 11, before: 2, after: 0 });
    expect(rules.flatMap(({ name, entries }) => entries.map(each => [name, each]))).toMatchObject([
      ['New', { ...listed(entry('draft', '4')), before: null, after: { points: 8 } }],
      ['Both', { ...listed(entry('merged', '2')), before: { points: 4 }, after: { points: 4 } }],
      ['Both', { ...listed(entry('merged', 'size', 'SUBTRACT')), before: { points: -4 }, after: { points: -4 } }],
      ['Gone', { ...listed(entry('true', '10')), before: { points: 30 }, after: null }],
      ['Gone', { ...listed(entry('size > 1', '1')), before: { points: 1 }, after: null }],
    ]);
  });

  test('counts pull requests that keep their score from other entries', () => {
    const same = rule('Same', entry('true', 'size'));
    const plan = planOf(
      [same, rule('Old', entry('merged', '5'))],
      [same, rule('New', entry('merged && size > 10', '5'), entry('merged && size <= 10', '4'))],
    );
    plan.add('large', 'ada', factsWith({ size: 50, merged: true }));
    plan.add('small', 'ada', factsWith({ size: 5, merged: true }));
    plan.add('open', 'ada', factsWith({ size: 3 }));
    expect(plan.result().pull_requests).toMatchObject({ total: 3, raised: 0, lowered: 1, breakdown_only: 1 });
  });

  test('lists a disabled rule without entries, and an invalid rule with no points', () => {
    const invalid = rule('Old', entry('title.length > 3', '5'));
    const plan = planOf([invalid], [rule('Old', entry('true', '5')), off(rule('Off', entry('true', '9')))]);
    plan.add('one', 'ada', factsWith());
    const { rules, scores } = plan.result();
    expect([scores.before.sum, scores.after.sum]).toEqual([0, 5]);
    expect(rules[0]?.before).toEqual({ enabled: true, valid: false, pull_requests: 0, points: 0 });
    expect(rules[1]).toEqual({
      name: 'Off',
      before: null,
      after: { enabled: false, valid: true, pull_requests: 0, points: 0 },
      entries: [],
    });
  });

  test('lists members by total after, then by total before, then by id', () => {
    const plan = planOf([rule('Before', entry('true', 'additions'))], [rule('After', entry('true', 'deletions'))]);
    const totals = [
      ['ada', 1, 5],
      ['cleo', 3, 5],
      ['bob', 3, 5],
      ['dan', 9, 4],
      ['eve', 0, 6],
    ] as const;
    for (const [member, additions, deletions] of totals) plan.add(member, member, factsWith({ additions, deletions }));
    // Those with the same total share a rank.
    expect(plan.result().members.map(({ id, rank_before, rank_after }) => [id, rank_before, rank_after])).toEqual([
      ['eve', 5, 1],
      ['bob', 2, 2],
      ['cleo', 2, 2],
      ['ada', 4, 2],
      ['dan', 1, 5],
    ]);
  });

  test('keeps the twenty-five largest changes each way, of equal ones the later first', () => {
    const plan = planOf([], [rule('Number', entry('true', 'number'))]);
    const changes = Array.from({ length: 200 }, (_, index) => ((index * 37) % 60) - 30);
    // These sort in order of creation, as our ids do.
    const id = (index: number) => String(index).padStart(3, '0');
    for (const [index, number] of changes.entries()) plan.add(id(index), 'ada', factsWith({ number }));
    const { raised, lowered } = plan.result().movers;
    const expected = changes
      .map((to, index) => ({ id: id(index), member: 'ada', from: 0, to }))
      .sort((one, two) => two.to - one.to || Number(two.id) - Number(one.id));
    expect(raised).toEqual(expected.slice(0, 25));
    expect(lowered).toEqual(
      expected.sort((one, two) => one.to - two.to || Number(two.id) - Number(one.id)).slice(0, 25),
    );
  });

  test('has no mean, median or buckets without pull requests', () => {
    const { scores, histogram, members } = planOf([], []).result();
    expect(scores.before).toEqual({ sum: 0, mean: null, median: null, minimum: null, maximum: null });
    expect([histogram, members]).toEqual([[], []]);
  });
});

describe('a comparison of rules', () => {
  const one = rule('One', entry('true', '1'));
  const two = rule('Two', entry('true', '2'));

  test('finds added, removed and changed rules by name', () => {
    const changes = compareRules(
      rulesetOf([one, two, rule('Gone', entry('true', '3'))]),
      rulesetOf([
        rule('New', entry('true', '4')),
        { ...off(one), description: 'Says why.', when: 'draft' },
        rule('Two', entry('merged', '2')),
      ]),
    );
    expect(changes.added.map(({ name }) => name)).toEqual(['New']);
    expect(changes.removed.map(({ name }) => name)).toEqual(['Gone']);
    expect(changes.changed.map(({ name, parts }) => [name, ...parts])).toEqual([
      ['One', 'description', 'enabled', 'when'],
      ['Two', 'logic'],
    ]);
    expect([changes.unchanged, changes.reordered, hasChanges(changes)]).toEqual([0, false, true]);
  });

  test('counts unchanged rules, and sees if one has moved', () => {
    const three = rule('Three', entry('true', '3'));
    const compared = (before: RuleDefinition[], after: RuleDefinition[]) => {
      const changes = compareRules(rulesetOf(before), rulesetOf(after));
      return [changes.unchanged, changes.reordered, hasChanges(changes)];
    };
    expect(compared([one, two, three], [one, three])).toEqual([2, false, true]);
    expect(compared([one, two, three], [two, one, three])).toEqual([3, true, true]);
    expect(compared([one], [two])).toEqual([0, false, true]);
  });

  test('includes definitions, the rules that use them, and conditions', () => {
    const rules = [
      rule('Direct', entry('small', '1')),
      rule('Indirect', entry('merged', 'points')),
      { ...rule('Conditional', entry('merged', '1')), when: 'small' },
      rule('None', entry('merged', '1')),
    ];
    const before = {
      ...rulesetOf(rules),
      definitions: definitionsOf({ small: 'size < 5', points: 'small ? 1 : 2', gone: '1' }),
    };
    const after = {
      ...rulesetOf(rules),
      definitions: definitionsOf({ added: '2', points: 'small ? 1 : 2', small: 'size < 6' }),
    };
    const changes = compareRules(before, after);
    expect(changes.changed.map(({ name, parts }) => [name, parts])).toEqual([
      ['Direct', ['definitions']],
      ['Indirect', ['definitions']],
      ['Conditional', ['definitions']],
    ]);
    expect(changes.unchanged).toBe(1);
    expect(changes.definitions).toEqual({
      added: [{ name: 'added', expression: '2' }],
      removed: [{ name: 'gone', expression: '1' }],
      changed: [{ name: 'small', before: 'size < 5', after: 'size < 6' }],
    });
    expect(hasChanges(changes)).toBe(true);
    expect(compareRules(after, before).definitions.added).toEqual([{ name: 'gone', expression: '1' }]);
  });

  test('leaves out the order of definitions, but not an unused definition', () => {
    const [one, two] = definitionsOf({ one: '1', two: '2' }) as [Definition, Definition];
    const defining = (...definitions: Definition[]) => ({ ...rulesetOf([]), definitions });
    expect(differ(defining(one, two), defining(two, one))).toBe(false);
    expect(differ(defining(one, two), defining(one))).toBe(true);
    expect(differ(defining(one), defining(one, two))).toBe(true);
  });

  test('is told without reading expressions, since a service reads none', () => {
    const rules = Array.from({ length: 100 }, (_, index) => rule(`R${index}`, entry(slowToRead(index), '1')));
    const [before, after, same] = ['1', '2', '1'].map(points => ({
      ...rulesetOf(rules),
      definitions: definitionsOf({ points }),
    })) as [Ruleset, Ruleset, Ruleset];
    expect(within(50, () => [differ(before, after), differ(before, same)])).toEqual([true, false]);
    expect(differ(before, { ...before, reviews: rules.slice(1) })).toBe(true);
  });
});
