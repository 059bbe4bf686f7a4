import fc from 'fast-check';
import { expect, test } from 'vitest';
import { factNames } from '../../src/scoring/facts.ts';
import { compileExpression } from '../../src/scoring/language/compile.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import { functions } from '../../src/scoring/language/functions.ts';
import { ExpressionError } from '../../src/scoring/language/syntax.ts';
import { anyCharacter } from '../support/any-character.ts';
import { anyExpression, runs } from './generate.ts';
import { within } from './processor-time.ts';
import { factsWith } from './support.ts';

const words = fc.constantFrom(
  ...factNames,
  ...functions.keys(),
  ...'constructor __proto__ toString this new null true in k0 facts Function process'.split(' '),
  ...`0 1 010 1e999 .5 0x1 "a" 'b' "\\u0041" "\\x" "(a+)+$" "**/*" "[a" "2026-01-31"`.split(' '),
  ...'"(x{1,60}y?){2}$" "(x{1,500}y?){2}$" "[ab]*a[ab]{100}" "((a*)*)*b" "{a,b}{c,d}*" "\\\\pL+\\\\b"'.split(' '),
);
const symbols = fc.constantFrom(
  ...'+ - * / % == != < <= > >= && || ! ? : ( ) [ ] ,'.split(' '),
  ...`. ; = => === ** ?? ?. >>> & | ~ \` { } # @ \\ " ' //`.split(' '),
  ...'\n|\0|\u00a0|\u2028|\uD800|🙂|ï|\ufeff'.split('|'),
);
const soup = fc.array(fc.oneof(words, symbols, fc.constant(' ')), { maxLength: 60 }).map(parts => parts.join(' '));
const repeated = fc
  .tuple(soup, fc.nat(3000), fc.constantFrom('+', '(', '!', '[', 'min(', ' ', '?', ',', '"'))
  .map(([text, count, glue]) => `${glue.repeat(count)}${text}`);
/** A valid expression with some characters removed, inserted or replaced. */
const mutated = fc
  .tuple(anyExpression.boolean, fc.array(fc.tuple(fc.nat(), fc.nat(2), fc.oneof(symbols, words)), { maxLength: 4 }))
  .map(([text, changes]) =>
    changes.reduce((changed, [position, kind, insert]) => {
      const at = position % (changed.length + 1);
      return changed.slice(0, at) + (kind === 0 ? '' : insert) + changed.slice(kind === 1 ? at : at + 1);
    }, text),
  );
/** Expressions that are as slow as the limits allow. */
const heavy = fc
  .array(
    fc
      .tuple(
        fc.constantFrom('matches(body, "', 'glob(body, "', 'any_file("', 'contains(body, "', 'has_label("'),
        fc.constantFrom(
          '(a|b)*a.{20}',
          '[ab]*a[ab]{60}',
          '*a*b*a',
          '**/a*',
          '(a?){40}',
          'a'.repeat(60),
          '\\\\pL{30}\\\\b',
          '(x{1,20}y?){2}$',
        ),
      )
      .map(parts => `${parts.join('')}")`),
    { minLength: 1, maxLength: 30 },
  )
  .map(parts => parts.join(' || '));

const anySource = fc.oneof(
  soup,
  repeated,
  mutated,
  heavy,
  fc.string({ unit: anyCharacter, maxLength: 200 }),
  anyExpression.boolean,
);

const half = Array.from({ length: 65_536 }, (_, index) => ((index * 2_654_435_761) >>> 16) & 1);
const bodies = [half.map(bit => (bit === 1 ? 'a' : 'b')).join(''), 'a'.repeat(65_536), `${'x'.repeat(65_535)}y`];
const facts = bodies.map(body => {
  const files = Array.from({ length: 100 }, (_, index) => body.slice(index * 655, (index + 1) * 655));
  return factsWith({ body, files, labels: files, title: 'fix: a' });
});

test('no hostile expression throws, hangs, or reaches anything but facts and functions', { timeout: 3_600_000 }, () => {
  const options = runs(1_000);
  let accepted = 0;
  const kinds = new Set<string>();
  const inspect = (part: unknown): void => {
    if (part === null || typeof part !== 'object') return;
    const { kind, name, definition } = part as { kind?: string; name?: string; definition?: { name: string } };
    if (kind !== undefined) kinds.add(kind);
    if (kind === 'fact') expect([...factNames, 'file_changes']).toContain(name);
    if (definition !== undefined) expect(functions.get(definition.name)).toContain(definition);
    for (const [key, child] of Object.entries(part)) if (key !== 'definition' && key !== 'prepared') inspect(child);
  };
  fc.assert(
    fc.property(anySource, fc.constantFrom<'boolean' | 'number'>('boolean', 'number'), (source, type) => {
      const parse = () => {
        try {
          return parseExpression(source, type);
        } catch (error) {
          // Anything else is a defect.
          expect(error).toBeInstanceOf(ExpressionError);
          expect((error as Error).message).not.toMatch(/[\0\n\u2028]/);
          return undefined;
        }
      };
      const tree = within(50, parse);
      if (tree === undefined) return;
      accepted++;
      inspect(tree);
      const run = compileExpression(tree);
      for (const given of facts) expect(typeof within(50, () => run(given))).toBe(type);
    }),
    options,
  );
  expect(accepted).toBeGreaterThan(options.numRuns / 20);
  const known = ['constant', 'fact', 'negation', 'not', 'arithmetic', 'comparison', 'logical'];
  expect([...kinds].filter(kind => ![...known, 'choice', 'oneOf', 'itemOf', 'call'].includes(kind))).toEqual([]);
});
