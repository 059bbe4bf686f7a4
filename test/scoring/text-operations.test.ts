import { expect, test } from 'vitest';
import { characterCount, compareText, containsText, excerpt } from '../../src/scoring/language/text-operations.ts';
import { storable } from '../../src/text/storable.ts';
import { readTime, startOfDay } from '../../src/text/times.ts';

const codePoints = (text: string) => Array.from(text, character => character.codePointAt(0) ?? 0);

function compareCodePoints(left: number[], right: number[]): number {
  for (const [index, one] of left.entries()) {
    const two = right[index];
    if (two === undefined) return 1;
    if (one !== two) return one - two;
  }
  return left.length - right.length;
}

test('all pairs of short texts compare by code points', () => {
  const units = ['\0', 'a', 'b', '\u{1F642}', '\u{1F643}', '\uFF5E', '\uD83D', '\uDE42'];
  const texts = ['', ...units, ...units.flatMap(one => units.map(two => one + two))];
  for (const left of texts) {
    for (const right of texts) {
      const expected = Math.sign(compareCodePoints(codePoints(left), codePoints(right)));
      if (Math.sign(compareText(left, right)) !== expected) expect([left, right]).toEqual(expected);
    }
  }
});

test('a long search finds what JavaScript finds', () => {
  for (const part of [
    'ab'.repeat(30),
    `${'aab'.repeat(20)}a`,
    `${'a'.repeat(59)}b`,
    `b${'a'.repeat(59)}`,
    `${'abaab'.repeat(6)}${'abab'.repeat(8)}`,
  ]) {
    // All beginnings of the part in a row, so that the search fails after each of them.
    const beginnings = Array.from({ length: part.length }, (_, length) => part.slice(0, length)).join('');
    const text = beginnings.repeat(12);
    for (const longer of [text, `${text}${part}`, `${part}${text}`, `${text}${part}c`, `x${text.slice(1)}`]) {
      expect(longer.length * part.length).toBeGreaterThan(2 ** 20);
      expect(containsText(longer, part)).toBe(longer.includes(part));
    }
    expect(containsText(`${'c'.repeat(20_000)}${part}`, part)).toBe(true);
    expect(containsText('c'.repeat(20_000), part)).toBe(false);
  }
  const half = 'a'.repeat(1_100);
  expect(containsText(half, half)).toBe(true);
  expect(containsText(half, `${half}a`)).toBe(false);
  expect(containsText(`${half}b`, `${half}a`)).toBe(false);
  // Only the first character differs.
  expect(containsText(`x${half}`, `b${half}`)).toBe(false);
});

test('a character is a code point or a lone surrogate', () => {
  expect(['', 'ab', '🙂', 'a🙂b🙂', '\uD83D', '\uDE42\uD83D', '\uD83D🙂'].map(characterCount)).toEqual([
    0, 2, 1, 4, 1, 2, 2,
  ]);
});

test('a day has one form and starts at midnight UTC', () => {
  expect(['1970-01-01', '1970-01-02', '2024-02-29', '1969-12-31'].map(startOfDay)).toEqual([
    0, 86_400, 1_709_164_800, -86_400,
  ]);
  const others = '2026-02-29|2026-13-01|2026-00-10|2026-1-1| 2026-01-01|2026-01-01 |12026-01-01|+002026-01-01|today|';
  for (const text of [...others.split('|'), '2026-01-01T00:00:00Z', '+012026-01-01']) {
    expect(startOfDay(text)).toBeUndefined();
  }
});

test('a time has one form, in UTC', () => {
  expect(readTime('2024-02-29T12:30:45Z')).toBe(1_709_209_845);
  for (const time of ['2026-02-29T12:30:45Z', '2026-01-01T24:00:00Z', '2026-01-01T12:30Z', '2026-01-01T12:30:45']) {
    expect(readTime(time)).toBeUndefined();
  }
});

test('characters that PostgreSQL cannot store are replaced', () => {
  expect(storable('a\0b\0🙂\uD83Dc\uDE42\n')).toBe('a\uFFFDb\uFFFD🙂\uFFFDc\uFFFD\n');
});

test.each([
  ['a'.repeat(40), 'a'.repeat(40)],
  ['a'.repeat(41), `${'a'.repeat(39)}…`],
  ['🙂'.repeat(30), '🙂'.repeat(30)],
  ['🙂'.repeat(31), `${'🙂'.repeat(30)}…`],
  [`a${'🙂'.repeat(31)}`, `a${'🙂'.repeat(29)}…`],
  [' '.repeat(60), ' '],
  [' '.repeat(61), ' …'],
  ['a \n\t b', 'a b'],
  ['a\u0007\u200b\ud83db', 'a\uFFFD\uFFFD\uFFFDb'],
])('an excerpt shows %j as one short line', (source, shown) => {
  expect(excerpt(`<${source}>`, 1, source.length + 1)).toBe(`\`${shown}\``);
});
