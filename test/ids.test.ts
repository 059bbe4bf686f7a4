import fc from 'fast-check';
import { TypeID } from 'typeid-js';
import { expect, test } from 'vitest';
import { formatId, newId, parseId } from '../src/ids.ts';

test('an id is the TypeID of its UUID, in both directions', () => {
  fc.assert(
    fc.property(fc.uuid(), uuid => {
      const id = formatId('pr', uuid);
      expect(id).toBe(TypeID.fromUUID('pr', uuid).toString());
      expect(id).toMatch(/^pr_[0-7][0-9a-hjkmnp-tv-z]{25}$/);
      expect(parseId('pr', id)).toBe(uuid);
    }),
  );
});

test('later ids sort after earlier ones', () => {
  const first = newId();
  const begin = Date.now();
  while (Date.now() === begin);
  expect([newId(), first].sort()[0]).toBe(first);
});

test.each([
  ['another prefix', 'mem_01m7yyn3b5fqa9pkjnshnvyjzv'],
  ['upper case', 'PR_01M7YYN3B5FQA9PKJNSHNVYJZV'],
  ['upper-case digits', 'pr_01M7YYN3B5FQA9PKJNSHNVYJZV'],
  ['a UUID', '01a1fdea-8d65-7dd4-9b4e-55cc6bbf4bfb'],
  ['more than 128 bits', 'pr_8zzzzzzzzzzzzzzzzzzzzzzzzz'],
  ['a digit too many', 'pr_01m7yyn3b5fqa9pkjnshnvyjzv0'],
  ['NUL', 'pr_0000000000000000000000000\0'],
  ['nothing', ''],
])('%s is no id of a pull request', (_, text) => {
  expect(parseId('pr', text)).toBeUndefined();
});

test('no letter outside of the alphabet is taken for one of an id, wherever it stands', () => {
  const id = 'pr_01m7yyn3b5fqa9pkjnshnvyjzv';
  for (const letter of ['u', 'I', '=', '\u03b1', '\u0130']) {
    for (let at = 3; at < id.length; at += 1) {
      expect(parseId('pr', id.slice(0, at) + letter + id.slice(at + 1))).toBeUndefined();
    }
  }
});
