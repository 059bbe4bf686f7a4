import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareText } from '../../src/scoring/text.ts';

const codePoints = (text: string) => Array.from(text, character => character.codePointAt(0) ?? 0);

function compareCodePoints(left: number[], right: number[]): number {
  for (const [index, one] of left.entries()) {
    const two = right[index];
    if (two === undefined) return 1;
    if (one !== two) return one - two;
  }
  return left.length - right.length;
}

test('texts compare by code points', () => {
  const unit = fc.constantFrom('a', 'b', 'é', '\u{1F642}', '\u{1F643}', '\uFF5E', '\uD83D', '\uDE42', '\uE000');
  const text = fc.oneof(fc.string({ unit, maxLength: 5 }), fc.string({ unit: 'binary', maxLength: 4 }));
  fc.assert(
    fc.property(text, text, (left, right) => {
      expect(Math.sign(compareText(left, right))).toBe(
        Math.sign(compareCodePoints(codePoints(left), codePoints(right))),
      );
    }),
    { numRuns: 2000 },
  );
});
