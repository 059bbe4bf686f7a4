/** The functions that compute with numbers. An absent number is NaN. */
import type { ListedFunction } from './functions.ts';

/** Rounds to the nearest integer, halves away from zero; `Math.round` would turn −0.5 into −0. */
export function roundHalfAway(value: number): number {
  return value < 0 ? -Math.round(-value) : Math.round(value);
}

const listed: readonly Omit<ListedFunction, 'result'>[] = [
  {
    signature: 'min(a, b, …)',
    description: 'The smallest of two or more numbers.',
    example: { expression: 'min(50, additions)', facts: { additions: 70 }, result: 50 },
    parameters: ['number', 'number'],
    repeats: true,
    implementation: Math.min,
  },
  {
    signature: 'max(a, b, …)',
    description: 'The largest of two or more numbers.',
    example: { expression: 'max(0, 10 - comments)', facts: { comments: 12 }, result: 0 },
    parameters: ['number', 'number'],
    repeats: true,
    implementation: Math.max,
  },
  {
    signature: 'abs(x)',
    description: 'A number without its sign.',
    example: { expression: 'abs(additions - deletions)', facts: { additions: 3, deletions: 8 }, result: 5 },
    parameters: ['number'],
    implementation: Math.abs,
  },
  {
    signature: 'round(x)',
    description: 'A number rounded to the nearest integer, halves away from zero.',
    example: { expression: 'round(hours_to_merge)', facts: { hours_to_merge: 2.5 }, result: 3 },
    parameters: ['number'],
    implementation: roundHalfAway,
  },
  {
    signature: 'floor(x)',
    description: 'A number rounded down to an integer.',
    example: { expression: 'floor(size / 20)', facts: { size: 59 }, result: 2 },
    parameters: ['number'],
    implementation: Math.floor,
  },
  {
    signature: 'ceil(x)',
    description: 'A number rounded up to an integer.',
    example: { expression: 'ceil(size / 20)', facts: { size: 41 }, result: 3 },
    parameters: ['number'],
    implementation: Math.ceil,
  },
  {
    signature: 'clamp(x, low, high)',
    description: 'A number limited to a range; if `low` is above `high`, the result is `high`.',
    example: { expression: 'clamp(commits, 1, 5)', facts: { commits: 9 }, result: 5 },
    parameters: ['number', 'number', 'number'],
    implementation: (x: number, low: number, high: number) => Math.min(Math.max(x, low), high),
  },
  {
    signature: 'per(n, unit)',
    description: 'The number of whole units in a number.',
    example: { expression: 'per(additions, 20)', facts: { additions: 59 }, result: 2 },
    parameters: ['number', 'number'],
    implementation: (n: number, unit: number) => Math.trunc(n / unit),
  },
  {
    signature: 'sqrt(x)',
    description: 'The square root; absent for a number below 0.',
    example: { expression: 'sqrt(size)', facts: { size: 49 }, result: 7 },
    parameters: ['number'],
    implementation: Math.sqrt,
  },
  {
    signature: 'log(x)',
    description: 'The natural logarithm; absent for 0 and numbers below.',
    example: { expression: 'round(10 * log(size))', facts: { size: 100 }, result: 46 },
    parameters: ['number'],
    implementation: (x: number) => (x > 0 ? Math.log(x) : Number.NaN),
  },
  {
    signature: 'exp(x)',
    description: 'The exponential function, e to the power of a number; infinite from about 710 on.',
    example: { expression: 'round(100 * exp(-hours_to_merge / 24))', facts: { hours_to_merge: 24 }, result: 37 },
    parameters: ['number'],
    implementation: Math.exp,
  },
];

export const numberFunctions = listed.map((definition): ListedFunction => ({ ...definition, result: 'number' }));
