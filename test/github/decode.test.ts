import { type TSchema, Type } from '@sinclair/typebox';
import { describe, expect, test } from 'vitest';
import {
  decode,
  linkOrNone,
  optionalUnixSeconds,
  parseReply,
  present,
  Reply,
  UnexpectedReply,
  unixSeconds,
} from '../../src/github/decode.ts';

const { Count, Entries, Flag, Id, Link, List, Nullable, OneOf, Text, Time } = Reply;

/** What is wrong with the value, in the property `a`. */
function problemOf(schema: TSchema, a: unknown): string {
  try {
    decode(Type.Object({ a: schema }), { a });
  } catch (error) {
    if (error instanceof UnexpectedReply) return error.message;
    throw error;
  }
  return 'accepted';
}

describe('a property', () => {
  const reply = { one: { two: { three: 'found' } }, empty: '', nothing: null };
  /** One object in another, with text at the end. */
  const schemaAt = (path: string) =>
    path.split('.').reduceRight<TSchema>((schema, name) => Type.Object({ [name]: schema }), Text);

  test.each([
    ['two', 'two is undefined, not text'],
    ['one.three', 'one.three is undefined, not text'],
    ['one.two.three.four', 'one.two.three is "found", not an object'],
    ['nothing.one', 'nothing is null, not an object'],
    ['nothing', 'nothing is null, not text'],
    ['empty.length', 'empty is "", not an object'],
    ['one.toString.name', 'one.toString is undefined, not an object'],
    ['one.two', 'one.two is object, not text'],
    ['__proto__', '__proto__ is undefined, not text'],
  ])('a missing property is reported: %s', (path, problem) => {
    expect(() => decode(schemaAt(path), reply)).toThrow(new UnexpectedReply(problem));
  });

  test.each([undefined, null, 5, 'text', true, [], ['text']])('is not read from %j (case %#)', value => {
    expect(() => decode(Type.Object({ length: Count }), value)).toThrow(/^it is .*, not an object$/);
  });

  test('named __proto__ changes nothing', () => {
    const hostile = parseReply('{"__proto__": {"a": "text"}, "constructor": {"prototype": {"a": "text"}}}');
    expect(() => decode(Type.Object({ a: Text }), hostile)).toThrow('a is undefined, not text');
    expect(({} as { a?: unknown }).a).toBeUndefined();
  });
});

describe('the message', () => {
  test('about an unexpected value names the path, what was found, and what was expected', () => {
    expect(problemOf(Text, 5)).toBe('a is 5, not text');
    expect(problemOf(Count, 'many')).toBe('a is "many", not a count');
    expect(problemOf(Flag, {})).toBe('a is object, not true or false');
    expect(problemOf(Id, [])).toBe('a is list, not an id');
    expect(problemOf(Time, {})).toBe('a is object, not a time');
    expect(problemOf(Time, null)).toBe('a is null, not a time');
    expect(problemOf(Link, 'ftp://a')).toBe('a is "ftp://a", not a web address');
    expect(problemOf(Entries(Text), 'none')).toBe('a is "none", not a list');
    expect(problemOf(OneOf('OPEN', 'CLOSED'), 'AJAR')).toBe('a is "AJAR", not one of OPEN, CLOSED');
  });

  test('about a nullable value names the path of the wrong part', () => {
    const author = Nullable(Type.Object({ login: Text, databaseId: Nullable(Id) }));
    expect(problemOf(author, 'alice')).toBe('a is "alice", not an object');
    expect(problemOf(author, { login: 5 })).toBe('a.login is 5, not text');
    expect(problemOf(author, { login: 'alice', databaseId: 'many' })).toBe('a.databaseId is "many", not an id');
    expect(problemOf(Entries(author), [null, { login: 'alice' }, {}])).toBe('a.2.login is undefined, not text');
  });

  test('about an unexpected value shows sixty characters of it at most', () => {
    expect(problemOf(Count, 'x'.repeat(100))).toBe(`a is "${'x'.repeat(59)}, not a count`);
  });
});

test.each([
  ['text', Text, ['', ' blanks '], [undefined, null, 5, true, ['a'], {}]],
  ['a flag', Flag, [true, false], [undefined, null, 0, 1, 'true']],
  ['a count', Count, [0, 1, 2 ** 31 - 1], [undefined, null, -1, 0.5, 2 ** 31, '5', true, Number.NaN]],
  ['an id', Id, [1, 2 ** 53 - 1], [undefined, null, 0, -1, 0.5, 2 ** 53, true]],
  [
    'a link',
    Link,
    ['http://a', 'https://a/b?c=d#e', 'https://a/\uD83D'],
    [undefined, null, 5, '', 'a', '//a', 'http://'],
  ],
])('%s is accepted without conversion', (_, schema: TSchema, accepted: unknown[], refused: unknown[]) => {
  for (const a of accepted) expect(decode(Type.Object({ a: schema }), { a })).toEqual({ a });
  for (const a of refused) expect(problemOf(schema, a)).not.toBe('accepted');
});

test.each([
  ['{"a": "a\\u0000b\\uD83Dc🙂"}', 'a\uFFFDb\uFFFDc🙂'],
  ['{"a": "\\udc00\\uDBFF\\ud83d\\ude42"}', '\uFFFD\uFFFD🙂'],
  ['{"a": "https://a/\\uD83D"}', 'https://a/\uFFFD'],
  ['{"a": "\\u0041\\\\u0000"}', 'A\\u0000'],
  ['{"a": "text"}', 'text'],
])('characters that PostgreSQL cannot store are replaced in %s', (json, a) => {
  expect(parseReply(json)).toEqual({ a });
});

test('lists 100,000 deep are an error if a text must be replaced', () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  expect(() => parseReply(`["\\u0000", ${deep}]`)).toThrow(RangeError);
});

test.each(['javascript:alert(1)', ' https://a', 'https://a b', 'https://a\n', 'https://a\u0007', 'xhttps://a'])(
  '%j is not a link',
  a => {
    expect(problemOf(Link, a)).toContain('not a web address');
  },
);

test('an id may be a text of up to sixteen digits', () => {
  for (const digits of ['7', '0000000000000007', String(2 ** 53 - 1)]) expect(problemOf(Id, digits)).toBe('accepted');
  for (const digits of ['0', '', '-7', '7.5', '0x7', ' 7', '7 ', '7e3', '00000000000000007', String(2 ** 53)]) {
    expect(problemOf(Id, digits)).toContain('not an id');
  }
});

describe('a time', () => {
  test.each([
    ['1970-01-01T00:00:00Z', 0],
    ['1969-12-31T23:59:59Z', 0],
    ['0001-01-01T00:00:00Z', 0],
    ['2026-01-31T12:30:45Z', 1_769_862_645],
    ['2026-01-31T12:30:45.999Z', 1_769_862_645],
    ['2026-01-31T14:30:45+02:00', 1_769_862_645],
    ['2026-01-31T10:30:45-02:00', 1_769_862_645],
    ['9999-12-31T23:59:59Z', 253_402_300_799],
    ['9999-12-31T23:59:59.999Z', 253_402_300_799],
    ['9999-12-31T23:59:59-01:00', 253_402_300_799],
  ])('%s is %d in Unix seconds', (a, seconds) => {
    expect(problemOf(Time, a)).toBe('accepted');
    expect(unixSeconds(a)).toBe(seconds);
  });

  test.each([
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
  ])('cannot be %s', a => {
    expect(problemOf(Time, a)).toContain('not a time');
  });
});

test.each(['', '/avatars/u/7', 'javascript:1', null, undefined, 7])(
  'the address %j is none, and does not spoil the rest of a reply',
  address => {
    expect(linkOrNone(address)).toBe('');
    expect(problemOf(Reply.OptionalLink, address)).toBe('accepted');
  },
);

test('a nullable value may be null or absent, and is checked otherwise', () => {
  for (const schema of [Text, Id, Time]) {
    expect(problemOf(Nullable(schema), null)).toBe('accepted');
    expect(decode(Type.Object({ a: Nullable(schema) }), {})).toEqual({});
    expect(problemOf(Nullable(schema), true)).toContain('a is true, not');
  }
  expect(problemOf(Nullable(Text), '')).toBe('accepted');
  expect(problemOf(Nullable(Id), '7')).toBe('accepted');
  for (const nothing of [null, undefined]) expect(optionalUnixSeconds(nothing)).toBeNull();
  expect(optionalUnixSeconds('1970-01-01T00:00:07Z')).toBe(7);
  expect(optionalUnixSeconds('1970-01-01T00:00:00Z')).toBe(0);
});

test('one of several names is read only as it is written', () => {
  const names = OneOf('OPEN', 'CLOSED');
  expect(problemOf(names, 'CLOSED')).toBe('accepted');
  for (const a of ['open', '', null, undefined, ['OPEN']]) expect(problemOf(names, a)).toContain('not one of OPEN');
});

test('an absent list is empty, and absent entries are left out', () => {
  const entries = ['one', null, 'two', null, ''];
  expect(decode(Type.Object({ a: Entries(Text) }), { a: entries })).toEqual({ a: entries });
  expect(present(entries)).toEqual(['one', 'two', '']);
  expect(problemOf(Entries(Text), null)).toBe('accepted');
  expect(problemOf(List(Text), null)).toBe('a is null, not a list');
  for (const nothing of [null, undefined]) expect(present(nothing)).toEqual([]);
  expect(problemOf(Entries(Text), { length: 1 })).toBe('a is object, not a list');
  expect(problemOf(Entries(Text), ['one', 2])).toBe('a.1 is 2, not text');
});
