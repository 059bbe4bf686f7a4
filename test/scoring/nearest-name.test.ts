import { describe, expect, test } from 'vitest';
import { nearestName } from '../../src/scoring/language/nearest-name.ts';

describe('the nearest name', () => {
  test.each([
    ['merged', 'merged'],
    ['MERGED', 'merged'],
    ['Merged', 'merged'],
    ['megred', 'merged'],
    ['mergd', 'merged'],
    ['mmerged', 'merged'],
    ['merxed', 'merged'],
    ['changedFiles', 'changed_files'],
    ['changed-files', 'changed_files'],
    ['changedfiles', 'changed_files'],
    ['X', 'x'],
    ['ab', 'a'],
    ['ba', 'ab'],
  ])('to %s is %s', (name, nearest) => {
    expect(nearestName(name, ['changed_files', 'merged', nearest])).toBe(nearest);
  });

  test.each([
    ['abcdef', 'abcdef', 0],
    ['abcdef', 'abcdeX', 1],
    ['abcdef', 'abcdXX', 2],
    ['abcdef', 'abcXXX', undefined],
    ['abcdef', 'badcfe', undefined],
    ['abcdef', 'badcef', 2],
    ['abcdef', 'abcd', 2],
    ['abcdef', 'abc', undefined],
    ['abcdef', 'XXabcdef', 2],
    ['abcdef', 'XXXabcdef', undefined],
    ['ab', 'ac', 1],
    ['ab', 'cd', undefined],
    ['', 'a', 1],
    ['', 'ab', undefined],
  ])('may differ in a third of its characters, or in one: %j and %j differ by %s', (name, candidate, distance) => {
    expect(nearestName(name, [candidate])).toBe(distance === undefined ? undefined : candidate);
    // A candidate with one more difference loses, even if it comes first.
    const farther = `_${candidate}`;
    expect(nearestName(name, [farther, candidate])).toBe(distance === undefined ? undefined : candidate);
  });

  test.each([
    ['is_bot', 'author_is_bot'],
    ['author', 'author_is_bot'],
    ['len', 'length'],
    ['bot', undefined],
    ['review', undefined],
    ['ho', undefined],
    ['s_bot', undefined],
  ])('to %s is the only one with words that begin so: %s', (name, nearest) => {
    const candidates = ['author_is_bot', 'length', 'bot_reviews', 'hours_to_first_review'];
    expect(nearestName(name, candidates.values())).toBe(nearest);
  });

  test('is the first of equally near ones', () => {
    expect(nearestName('abcdef', ['abcdeX', 'abcdeY'])).toBe('abcdeX');
  });

  test('differs in six characters at most, however long a name is', () => {
    const name = 'abcdefghijklmnopqrstuvwxyz0123';
    const changed = (count: number) => '#'.repeat(count) + name.slice(count);
    expect(nearestName(name, [changed(6)])).toBe(changed(6));
    expect(nearestName(name, [changed(7)])).toBeUndefined();
  });

  test('is not looked for if a name has more than sixty characters', () => {
    expect(nearestName('a'.repeat(60), ['a'.repeat(60)])).toBe('a'.repeat(60));
    expect(nearestName('a'.repeat(61), ['a'.repeat(61)])).toBeUndefined();
  });
});
