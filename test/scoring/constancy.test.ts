import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pullRequestStates } from '../../src/pull-request.ts';
import { type Facts, factNames, factTable } from '../../src/scoring/facts.ts';
import { constantParts, rangeOf } from '../../src/scoring/file/constancy.ts';
import { anyExpression, anyFacts, runs } from './generate.ts';
import { interpret } from './interpreter.ts';
import { parsed } from './support.ts';

const counts = factNames.filter(name => factTable[name].type === 'number' && !name.startsWith('hours_'));

/** Facts that GitHub could have. */
const possibleFacts = fc.tuple(anyFacts, fc.constantFrom(...pullRequestStates)).map(
  ([facts, state]): Facts => ({
    ...facts,
    ...Object.fromEntries(
      counts.map(name => [name, facts[name] === null ? null : Math.abs(Math.round(Number(facts[name]))) % 2 ** 31]),
    ),
    ...Object.fromEntries(
      factNames.flatMap(name => {
        const { values } = factTable[name];
        return values === undefined
          ? []
          : [[name, facts[name] === null ? null : values[Math.abs(Math.round(facts.number)) % values.length]]];
      }),
    ),
    state,
    merged: state === 'merged',
    hours_to_review: Math.abs(facts.hours_to_review ?? 0),
    author_association: 'MEMBER',
  }),
);

/** Conditions on few facts, so that many contradict themselves. */
const contradictory = fc.letrec<{ condition: string; comparison: string }>(tie => ({
  comparison: fc.oneof(
    fc
      .tuple(
        fc.constantFrom('size', 'hours_to_merge', 'hours_to_review', 'times_changes_requested', '1 / 0'),
        fc.constantFrom('==', '!=', '<', '<=', '>', '>='),
        fc.constantFrom('-1', '0', '1', '1.5', '2', '4 / 2', 'size', '0 / 0', '1 / 0'),
      )
      .map(parts => parts.join(' ')),
    fc
      .tuple(
        fc.constantFrom('state', 'milestone'),
        fc.constantFrom('==', '!=', '<'),
        fc.constantFrom('"open"', '"merged"'),
      )
      .map(parts => parts.join(' ')),
    fc.constantFrom(
      'merged',
      'size in [1, 2]',
      'state in ["open", "draft"]',
      'milestone == milestone',
      'known(milestone)',
      'known(size)',
      'known(hours_to_merge)',
      'known(0 / 0)',
      'draft == true',
    ),
  ),
  condition: fc.oneof(
    { maxDepth: 3 },
    tie('comparison'),
    tie('condition').map(inner => `!(${inner})`),
    fc
      .tuple(tie('condition'), fc.constantFrom('&&', '||'), tie('condition'))
      .map(([one, operator, other]) => `(${one}) ${operator} (${other})`),
    fc
      .tuple(tie('condition'), tie('condition'), tie('condition'))
      .map(([test, one, other]) => `(${test}) ? (${one}) : (${other})`),
  ),
}));

test('a condition that is said to be constant has that value for all facts', () => {
  const smallFacts = fc
    .tuple(
      possibleFacts,
      fc.record({
        size: fc.nat(3),
        hours_to_merge: fc.constantFrom(null, -1, 0, 0.5, 1, 1.2, 1.5, 1.7, 2, 3),
        times_changes_requested: fc.constantFrom(0, 1, 2, 3),
        milestone: fc.constantFrom(null, 'open', 'merged', 'a', 'z', ''),
      }),
    )
    .map(([facts, small]): Facts => ({ ...facts, ...small }));
  let found = 0;
  fc.assert(
    fc.property(
      fc.oneof(contradictory.condition, anyExpression.boolean),
      fc.array(smallFacts, { minLength: 5, maxLength: 5 }),
      (source, all) => {
        const tree = parsed(source, 'boolean');
        fc.pre(tree !== undefined);
        for (const [part, { isTrue }] of constantParts(tree)) {
          found += part.parts.length > 0 ? 1 : 0;
          for (const facts of all) expect(interpret(part, facts)).toBe(isTrue);
        }
      },
    ),
    runs(400),
  );
  expect(found).toBeGreaterThan(40);
});

test.each(['-(0)', '0 * -1', 'ceil(-0.5)', 'per(-1, 5)', '-(0) % 3'])(
  '%s may divide a count into a number below 0',
  zero => {
    const tree = parsed(`size / (${zero})`, 'number');
    expect(tree && rangeOf(tree)[0]).toBe(Number.NEGATIVE_INFINITY);
  },
);

test('the value of an expression is within the range found for it, or absent', () => {
  let narrow = 0;
  fc.assert(
    fc.property(anyExpression.number, fc.array(possibleFacts, { minLength: 5, maxLength: 5 }), (source, all) => {
      const tree = parsed(source, 'number');
      fc.pre(tree !== undefined);
      const [min, max] = rangeOf(tree);
      if (Number.isNaN(min) || Number.isNaN(max)) return;
      if (max !== Number.POSITIVE_INFINITY || min > 0) narrow += 1;
      for (const facts of all) {
        const value = interpret(tree, facts);
        if (value !== null) expect([source, Number(value) >= min && Number(value) <= max]).toEqual([source, true]);
      }
    }),
    runs(400),
  );
  expect(narrow).toBeGreaterThan(40);
});
