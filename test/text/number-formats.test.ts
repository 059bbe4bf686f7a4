import { expect, test } from 'vitest';
import {
  asInRules,
  decimal,
  duration,
  fixedPercent,
  percent,
  signed,
  twoDecimals,
} from '../../src/text/number-formats.ts';

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
])('the number %s is shown as %s', (value, text) => {
  expect(decimal(value)).toBe(text);
});

test.each([
  [24.002_777, '24.0028'],
  [-1_204.5, '-1204.5'],
  [0.000_04, '0.00004'],
  [-0, '0'],
])('the value %s of an expression is shown as %s', (value, text) => {
  expect(asInRules(value)).toBe(text);
});

test.each([
  [0, '0%', '0.0%'],
  [0.0004, '<0.1%', '<0.1%'],
  [0.255, '25.5%', '25.5%'],
  [0.5, '50%', '50.0%'],
  [-0.5, '−50%', '−50.0%'],
  [-0.231, '−23.1%', '−23.1%'],
  [-0.0004, '−<0.1%', '−<0.1%'],
  [-0.9999, '−>99.9%', '−>99.9%'],
  [-1, '−100%', '−100.0%'],
  [0.9999, '>99.9%', '>99.9%'],
  [1, '100%', '100.0%'],
])('the share %d is shown as %s, and in a column as %s', (share, prose, cell) => {
  expect([percent(share, 1), fixedPercent(share, 1)]).toEqual([prose, cell]);
});

test('a change of nothing has as many decimals as its column', () => {
  expect([signed(0), signed(0, twoDecimals), signed(-2.5, twoDecimals)]).toEqual(['±0', '±0.00', '−2.50']);
});
