import { expect, test } from 'vitest';
import { duration } from '../../src/commands/numbers.ts';

test.each([
  [0.2, '1 s'],
  [119.4, '119 s'],
  [120, '2 min'],
  [7_199, '120 min'],
  [7_200, '2 h'],
  [45_296, '13 h'],
  [172_800, '2 days'],
])('%f seconds are shown as %s', (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});
