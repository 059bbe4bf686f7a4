import { expect, test } from 'vitest';
import { decimal, duration } from '../../src/text/numbers.ts';

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

test.each([
  [1_204.256, '1,204.26'],
  [-7.14, '−7.14'],
  [-0.004, '0'],
  [-0, '0'],
  [null, '–'],
])('the number %s is shown as %s', (value, text) => {
  expect(decimal(value)).toBe(text);
});
