import { describe, expect, test } from 'vitest';
import {
  count,
  entries,
  flag,
  id,
  link,
  list,
  Misfit,
  oneOf,
  optionalId,
  optionalText,
  optionalTime,
  present,
  text,
  time,
} from '../../src/github/reading.ts';

/** What is wrong with the value, read at the path `a`. */
function misfitOf(read: (value: unknown, path: string) => unknown, a: unknown): string {
  try {
    read({ a }, 'a');
  } catch (error) {
    if (error instanceof Misfit) return error.message;
    throw error;
  }
  return 'accepted';
}

describe('a path', () => {
  const reply = { one: { two: { three: 'found' } }, empty: '', nothing: null };

  test('leads through objects to what is there', () => {
    expect(text(reply, 'one.two.three')).toBe('found');
    expect(text(reply, 'empty')).toBe('');
    expect(text(['first', 'second'], '1')).toBe('second');
  });

  test.each([
    'two',
    'one.three',
    'one.two.three.four',
    'nothing.one',
    'empty.length',
    'one.toString.name',
    '__proto__',
  ])('that leads nowhere finds nothing: %s', path => {
    expect(present(reply, path)).toBe(false);
    expect(() => text(reply, path)).toThrow(`${path} is undefined, not text`);
  });

  test.each([undefined, null, 5, 'text', true])('finds nothing in %j', value => {
    expect(present(value, 'length')).toBe(false);
  });

  test('leads to what is there, but null', () => {
    expect(present(reply, 'nothing')).toBe(false);
    expect(present(reply, 'empty')).toBe(true);
    expect(() => text(reply, 'nothing')).toThrow('nothing is null, not text');
  });
});

describe('a misfit', () => {
  test('names the path, what was found, and what should be there', () => {
    expect(misfitOf(text, 5)).toBe('a is 5, not text');
    expect(misfitOf(count, 'many')).toBe('a is "many", not a count');
    expect(misfitOf(flag, {})).toBe('a is object, not true or false');
    expect(misfitOf(id, [])).toBe('a is object, not an id');
    expect(misfitOf(time, null)).toBe('a is null, not a time');
    expect(misfitOf(link, 'ftp://a')).toBe('a is "ftp://a", not a web address');
    expect(misfitOf(entries, 'none')).toBe('a is "none", not a list');
    expect(misfitOf((value, path) => oneOf(value, path, ['OPEN', 'CLOSED']), 'AJAR')).toBe(
      'a is "AJAR", not one of OPEN, CLOSED',
    );
  });

  test('shows no more than sixty characters of what was found', () => {
    expect(misfitOf(count, 'x'.repeat(100))).toBe(`a is "${'x'.repeat(59)}, not a count`);
  });
});

test.each([
  ['text', text, 'as it is', ['', ' blanks '], [undefined, null, 5, true, ['a'], {}]],
  ['a flag', flag, 'as it is', [true, false], [undefined, null, 0, 1, 'true']],
  ['a count', count, 'as it is', [0, 1, 2 ** 31 - 1], [undefined, null, -1, 0.5, 2 ** 31, '5', true, Number.NaN]],
  ['an id', id, 'as it is', [1, 2 ** 53 - 1], [undefined, null, 0, -1, 0.5, 2 ** 53, true]],
  ['a link', link, 'as it is', ['http://a', 'https://a/b?c=d#e'], [undefined, null, 5, '', 'a', '//a', 'http://']],
] as const)('%s is read %s', (_, read: (value: unknown, path: string) => unknown, _how, accepted, refused) => {
  for (const a of accepted) expect(read({ a }, 'a')).toBe(a);
  for (const a of refused) expect(misfitOf(read, a)).not.toBe('accepted');
});

test('text that PostgreSQL can not hold is replaced', () => {
  expect(text({ a: 'a\0b\uD83Dc🙂' }, 'a')).toBe('a\uFFFDb\uFFFDc🙂');
  expect(link({ a: 'https://a/\uD83D' }, 'a')).toBe('https://a/\uFFFD');
});

test.each(['javascript:alert(1)', ' https://a', 'https://a b', 'https://a\n', 'https://a\u0007', 'xhttps://a'])(
  '%j is not a link',
  a => {
    expect(misfitOf(link, a)).toContain('not a web address');
  },
);

test('an id may be given as digits, as many as sixteen', () => {
  expect(id({ a: '7' }, 'a')).toBe(7);
  expect(id({ a: String(2 ** 53 - 1) }, 'a')).toBe(2 ** 53 - 1);
  for (const digits of ['0', '', '-7', '7.5', '0x7', ' 7', '7 ', '7e3', '00000000000000007', String(2 ** 53)]) {
    expect(misfitOf(id, digits)).toContain('not an id');
  }
});

describe('a time', () => {
  test.each([
    ['1970-01-01T00:00:00Z', 0],
    ['2026-01-31T12:30:45Z', 1_769_862_645],
    ['2026-01-31T12:30:45.999Z', 1_769_862_645],
    ['2026-01-31T14:30:45+02:00', 1_769_862_645],
    ['2026-01-31T10:30:45-02:00', 1_769_862_645],
    ['9999-12-31T23:59:59Z', 253_402_300_799],
  ])('%s is %d seconds', (a, seconds) => {
    expect(time({ a }, 'a')).toBe(seconds);
  });

  test.each([
    '1969-12-31T23:59:59Z',
    '9999-12-31T23:59:59-01:00',
    '9999-12-31T23:00:00-01:00',
    '2026-01-31',
    '2026-01-31T12:30:45',
    '2026-01-31 12:30:45Z',
    '2026-01-31T12:30Z',
    '2026-13-31T12:30:45Z',
    'on 2026-01-31T12:30:45Z',
    '2026-01-31T12:30:45Z (UTC)',
    '+002026-01-31T12:30:45Z',
    'Sat, 31 Jan 2026 12:30:45 GMT',
    1_769_862_645,
    new Date(0),
  ])('%s is not one', a => {
    expect(misfitOf(time, a)).toContain('not a time');
  });
});

test('what may be absent is null then, and is read as strictly where it is there', () => {
  for (const read of [optionalText, optionalId, optionalTime]) {
    expect([read({ a: null }, 'a'), read({}, 'a')]).toEqual([null, null]);
    expect(misfitOf(read, true)).toContain('a is true');
  }
  expect(optionalText({ a: '' }, 'a')).toBe('');
  expect(optionalId({ a: '7' }, 'a')).toBe(7);
  expect(optionalTime({ a: '1970-01-01T00:00:07Z' }, 'a')).toBe(7);
});

test('one of some names is read as it is written', () => {
  const names = ['OPEN', 'CLOSED'] as const;
  expect(oneOf({ a: 'CLOSED' }, 'a', names)).toBe('CLOSED');
  for (const a of ['open', '', null, undefined, ['OPEN']]) expect(() => oneOf({ a }, 'a', names)).toThrow(Misfit);
});

test('an absent list is empty; absent entries are kept or left out', () => {
  const a = [1, null, 'two', undefined, 0];
  expect(entries({ a }, 'a')).toEqual(a);
  expect(list({ a }, 'a')).toEqual([1, 'two', 0]);
  for (const nothing of [{}, { a: null }]) expect([entries(nothing, 'a'), list(nothing, 'a')]).toEqual([[], []]);
  for (const read of [entries, list]) expect(misfitOf(read, { length: 1 })).toBe('a is object, not a list');
});
