import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bucketsOf, createDistribution } from '../../src/scoring/distribution.ts';

function distributionOf(scores: readonly number[]) {
  const distribution = createDistribution();
  for (const score of scores) distribution.add(score);
  return distribution;
}

const largest = 2 ** 31 - 1;
const anyScore = fc.oneof(
  fc.integer({ min: -50, max: 50 }),
  fc.integer({ min: -5_000, max: 5_000 }),
  fc.integer({ min: -largest - 1, max: largest }),
  fc.constantFrom(4_095, 4_096, -4_096, 8_191, 8_192, largest, -largest - 1),
);
const anyScores = fc.array(anyScore, { minLength: 1, maxLength: 60 });

describe('a distribution', () => {
  test('knows count, sum, lowest and highest, and the median to 1 in 2,048', () => {
    fc.assert(
      fc.property(anyScores, scores => {
        const distribution = distributionOf(scores);
        const sorted = [...scores].sort((one, two) => one - two);
        expect(distribution.count).toBe(scores.length);
        expect(distribution.sum).toBe(scores.reduce((sum, score) => sum + score, 0));
        expect([distribution.minimum, distribution.maximum]).toEqual([sorted[0], sorted.at(-1)]);
        const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
        const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
        const tolerance = [lower, upper].some(value => Math.abs(value) >= 4_096)
          ? Math.max(Math.abs(lower), Math.abs(upper)) / 2_048
          : 0;
        expect(Math.abs((distribution.median() ?? 0) - (lower + upper) / 2)).toBeLessThanOrEqual(tolerance);
      }),
    );
  });
});

describe('buckets', () => {
  test('hold every score once on either side, on round boundaries of one width, and are never many', () => {
    fc.assert(
      fc.property(anyScores, anyScores, (before, after) => {
        const buckets = bucketsOf(distributionOf(before), distributionOf(after));
        expect(buckets.length).toBeLessThanOrEqual(24);
        expect(buckets.reduce((sum, bucket) => sum + bucket.before, 0)).toBe(before.length);
        expect(buckets.reduce((sum, bucket) => sum + bucket.after, 0)).toBe(after.length);
        const inner = buckets.filter(({ from, to }) => from !== null && to !== null);
        const widths = new Set(inner.map(({ from, to }) => (to ?? 0) - (from ?? 0)));
        expect(widths.size).toBe(1);
        for (const [index, bucket] of buckets.entries()) {
          expect(bucket.from ?? null).toBe(index === 0 ? bucket.from : (buckets[index - 1]?.to ?? null));
        }
        const [width = 1] = widths;
        expect(String(width)).toMatch(/^[125]0*$/);
        for (const { from } of inner) expect((from ?? 0) % width === 0).toBe(true);
      }),
    );
  });

  test('count small scores exactly', () => {
    const scores = Array.from({ length: 100 }, (_, index) => index - 20);
    const buckets = bucketsOf(distributionOf(scores), distributionOf([0]));
    for (const { from, to, before } of buckets) {
      expect(before).toBe(scores.filter(score => score >= (from ?? -Infinity) && score < (to ?? Infinity)).length);
    }
  });

  test('stay narrow where one score lies far out, and put it into an open one', () => {
    const usual = Array.from({ length: 1_000 }, (_, index) => index % 30);
    const buckets = bucketsOf(distributionOf([...usual, 1_000_000]), distributionOf([...usual, -7_000]));
    expect(buckets[0]).toEqual({ from: null, to: 0, before: 0, after: 1 });
    expect(buckets.at(-1)).toEqual({ from: 30, to: null, before: 1, after: 0 });
    expect(buckets).toHaveLength(17);
  });

  test('of one score are one', () => {
    expect(bucketsOf(distributionOf([7, 7]), distributionOf([7]))).toEqual([{ from: 7, to: 8, before: 2, after: 1 }]);
  });
});
