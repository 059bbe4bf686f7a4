/** Random facts, well-typed expressions and rules for property tests. */

import fc from 'fast-check';
import {
  type Facts,
  type FactType,
  factNames,
  factTable,
  type ReviewFacts,
  reviewFactNames,
} from '../../src/scoring/facts.ts';
import type { Value } from '../../src/scoring/language/functions.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { anyCharacter } from '../support/any-character.ts';

/** Options of a property: as many runs as usual, or `PROPERTY_RUNS` times as many. */
export const runs = (count: number) => ({ numRuns: count * Number(process.env.PROPERTY_RUNS ?? 1) });

const number = fc.oneof(
  fc.integer({ min: -3, max: 60 }),
  fc.integer(),
  fc.constantFrom(0, -0, 0.5, 2.5, 1e9, 2147483647, -2147483648, 1e300),
);
const text = fc.oneof(
  fc.constantFrom(...'|fix|feat: x|main|src/a.ts|docs/b/c.md|Bug|bug|\u{1F642}|\uFF5E|\uD800'.split('|')),
  fc.string({ unit: anyCharacter, maxLength: 6 }),
);
const values: Record<FactType, fc.Arbitrary<Value>> = {
  number,
  text,
  boolean: fc.boolean(),
  list: fc.array(text, { maxLength: 4 }),
};

const namesOf = (type: FactType) => factNames.filter(name => factTable[name].type === type);

/** Facts that may be absent are so now and then. */
const anyRecord = fc.record({
  ...Object.fromEntries(
    factNames.map(name => {
      const { type, absence } = factTable[name];
      return [name, absence === undefined ? values[type] : fc.option(values[type], { freq: 3 })];
    }),
  ),
  file_changes: fc.option(fc.array(fc.nat(), { minLength: 8, maxLength: 8 }), { freq: 3 }),
}) as unknown as fc.Arbitrary<Facts>;
export const anyFacts = anyRecord.map(
  ({ file_changes: changes, ...facts }): Facts => ({
    ...facts,
    // Sometimes they are those of other files.
    file_changes: changes?.slice(0, changes[0] === 0 ? 8 : 2 * facts.files.length) ?? null,
  }),
);

/** A pull request with reviews, some by the same people or by bots. */
export const anyReviewedFacts: fc.Arbitrary<Facts> = fc
  .tuple(
    anyFacts,
    fc.option(fc.array(fc.tuple(anyFacts, fc.option(fc.constantFrom('mem_a', 'mem_b', 'mem_c'))), { maxLength: 5 }), {
      freq: 9,
    }),
  )
  .map(([facts, reviews]) => {
    const given = reviews?.map(([review, member]) => {
      const own = reviewFactNames.map(name => [name, review[name]]);
      return { ...Object.fromEntries(own), member } as ReviewFacts;
    });
    return { ...omitReview(facts), given_reviews: given ?? null };
  });

const omitReview = (facts: Facts) =>
  Object.fromEntries(Object.entries(facts).filter(([name]) => !reviewFactNames.some(own => own === name))) as Facts;

const quoted = text.map(value => {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replace(/\\[bf]|\x7f/g, found => escaped(JSON.parse(`"${found}"`)));
});
const literal = fc.oneof(fc.nat(60).map(String), fc.constantFrom('0', '0.5', '2.5', '1e9', '2147483648', '1e300'));
const globs = fc.constantFrom('"src/**"', '"**/*.ts"', '"*"', '"**/{a,b}*/?.m[a-z]"', '"docs/**/c.md"');
const patterns = fc.constantFrom('"^f"', '"(?i)bug"', '"[a-z]+:"', '"\\\\b"', '"x$"');

/** Source texts by type. */
export const anyExpression = fc.letrec<{ number: string; boolean: string; text: string }>(tie => {
  const pair = (operators: readonly string[], side: 'number' | 'boolean' | 'text') =>
    fc
      .tuple(tie(side), fc.constantFrom(...operators), tie(side))
      .map(([left, operator, right]) => `(${left} ${operator} ${right})`);
  const call = (name: string, ...parameters: fc.Arbitrary<string>[]) =>
    fc.tuple(...parameters).map(given => `${name}(${given.join(', ')})`);
  const choice = (type: 'number' | 'boolean' | 'text') =>
    fc.tuple(tie('boolean'), tie(type), tie(type)).map(([test, one, two]) => `(${test} ? ${one} : ${two})`);
  const comparisons = ['==', '!=', '<', '<=', '>', '>='];
  const list = fc.constantFrom(...namesOf('list'));
  return {
    number: fc.oneof(
      { maxDepth: 4, depthIdentifier: 'tree' },
      fc.constantFrom(...namesOf('number')),
      literal,
      pair(['+', '-', '*', '/', '%'], 'number'),
      tie('number').map(operand => `-(${operand})`),
      call('min', tie('number'), tie('number'), tie('number')),
      call('max', tie('number'), tie('number')),
      call('clamp', tie('number'), tie('number'), tie('number')),
      call('per', tie('number'), tie('number')),
      fc
        .tuple(fc.constantFrom('abs', 'round', 'floor', 'ceil', 'sqrt', 'log', 'exp'), tie('number'))
        .map(([name, x]) => `${name}(${x})`),
      call('length', fc.oneof(tie('text'), list)),
      call('count_files', globs, globs),
      fc.tuple(fc.constantFrom('lines', 'lines_except', 'added', 'removed'), globs).map(([name, x]) => `${name}(${x})`),
      call('date', fc.constant('"2026-01-31"')),
      call('weekday', tie('number')),
      call('hour', tie('number'), fc.constantFrom('"+02:00"', '"-09:30"')),
      call('default', tie('number'), tie('number')),
      choice('number'),
    ),
    boolean: fc.oneof(
      { maxDepth: 4, depthIdentifier: 'tree' },
      fc.constantFrom(...namesOf('boolean'), 'true', 'false'),
      pair(comparisons, 'number'),
      pair(comparisons, 'text'),
      pair(['==', '!=', '&&', '||'], 'boolean'),
      tie('boolean').map(operand => `!${operand}`),
      fc.tuple(tie('text'), list).map(([left, name]) => `(${left} in ${name})`),
      fc.tuple(tie('text'), quoted, quoted).map(([left, ...options]) => `(${left} in [${options.join(', ')}])`),
      fc.tuple(tie('number'), literal, literal).map(([left, ...options]) => `(${left} in [${options.join(', -')}])`),
      call('contains', fc.oneof(tie('text'), list), tie('text')),
      call('starts_with', tie('text'), tie('text')),
      call('ends_with', tie('text'), tie('text')),
      call('matches', tie('text'), patterns),
      call('glob', tie('text'), globs),
      call('known', fc.oneof(tie('number'), tie('text'), list)),
      call('has_label', tie('text')),
      call('any_label', globs),
      call('any_file', globs),
      call('all_files', globs, globs),
      choice('boolean'),
    ),
    text: fc.oneof(
      { maxDepth: 4, depthIdentifier: 'tree' },
      fc.constantFrom(...namesOf('text')),
      quoted,
      call('lower', tie('text')),
      call('default', tie('text'), tie('text')),
      choice('text'),
    ),
  };
});

/** Rulesets, some of them with rules that are disabled or not valid. */
export const anyRules: fc.Arbitrary<RuleDefinition[]> = fc
  .uniqueArray(fc.oneof(fc.constantFrom('One', 'Two', 'Three', 'Four'), fc.string()), { maxLength: 5 })
  .chain(names =>
    fc.tuple(
      ...names.map(name =>
        fc.record({
          name: fc.constant(name),
          description: fc.constant(''),
          is_enabled: fc.boolean(),
          ...(name.length % 2 === 0
            ? {}
            : { when: fc.oneof(fc.constantFrom('merged', 'size >'), anyExpression.boolean) }),
          logic: fc.array(
            fc.record({
              expression: fc.oneof(fc.constantFrom('true', 'merged', 'nonsense('), anyExpression.boolean),
              effect: fc.record({
                action: fc.constantFrom('ADD' as const, 'SUBTRACT' as const),
                value: fc.oneof(fc.constantFrom('1', '2147483647', '-3'), anyExpression.number),
              }),
            }),
            { minLength: 1, maxLength: 3 },
          ),
        }),
      ),
    ),
  );
