/** In an expected value, a regular expression stands for any text that it matches: `toEqual([/^warning: /])`. */
import { expect } from 'vitest';

const matches = (text: unknown, pattern: unknown): boolean | undefined =>
  typeof text === 'string' && pattern instanceof RegExp ? pattern.test(text) : undefined;

// `expect.objectContaining` gives the expected value first.
expect.addEqualityTesters([(one, other) => matches(one, other) ?? matches(other, one)]);
