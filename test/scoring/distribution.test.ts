import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bucketsOf, createDistribution } from '../../src/scoring/plan/distribution.ts';

function distributionOf(scores: readonly number[]) {
  const distribution = createDistribution();
  for (const score of scores) distribution.add(score);
  return distribution;
}

const maxScore = 2 ** 31 - 1;
const anyScore = fc.oneof(
  fc.integer({ min: -50, max: 50 }),
  fc.integer({ min: -5_000, max: 5_000 }),
  fc.integer({ min: -maxScore - 1, max: maxScore }),
  fc.constantFrom(maxScore, -maxScore - 1),
);
const anyScores = fc.array(anyScore, { minLength: 1, maxLength: 60 });

test('the lowest, the median and the highest score are those that sorting gives', () => {
  fc.assert(
    fc.property(anyScores, scores => {
      const distribution = distributionOf(scores);
      const sorted = [...scores].sort((one, two) => one - two);
      expect([distribution.quantile(0), distribution.quantile(1)]).toEqual([sorted[0], sorted.at(-1)]);
      const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
      const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
      expect(distribution.median()).toBe((lower + upper) / 2);
    }),
  );
});

test('a quantile is the score at its share of the distribution, and null without scores', () => {
  const distribution = distributionOf([30, 10, 20, 40]);
  expect([0, 0.24, 0.25, 0.5, 0.74, 0.75, 0.99, 1].map(distribution.quantile)).toEqual([
    10, 10, 20, 30, 30, 40, 40, 40,
  ]);
  expect([distribution.median(), distributionOf([1, 2, 9]).median(), distributionOf([1, 2]).median()]).toEqual([
    25, 2, 1.5,
  ]);
  const none = distributionOf([]);
  expect([none.quantile(0.5), none.quantile(1), none.median(), none.count, none.sum]).toEqual([null, null, null, 0, 0]);
});

const bounds = (...scores: number[]) =>
  bucketsOf(distributionOf(scores), distributionOf([])).map(({ from, to }) => [from, to]);

test.each([
  { lowest: 0, highest: 15, first: [0, 1], last: [15, 16], count: 16 },
  { lowest: 0, highest: 16, first: [0, 2], last: [16, 18], count: 9 },
  { lowest: 0, highest: 31, first: [0, 2], last: [30, 32], count: 16 },
  { lowest: 0, highest: 32, first: [0, 5], last: [30, 35], count: 7 },
  { lowest: 0, highest: 79, first: [0, 5], last: [75, 80], count: 16 },
  { lowest: 0, highest: 80, first: [0, 10], last: [80, 90], count: 9 },
  { lowest: -3, highest: 12, first: [-3, -2], last: [12, 13], count: 16 },
  { lowest: -4, highest: 12, first: [-4, -2], last: [12, 14], count: 9 },
  { lowest: 0, highest: 159, first: [0, 10], last: [150, 160], count: 16 },
  { lowest: 0, highest: 160, first: [0, 20], last: [160, 180], count: 9 },
  { lowest: -1_599, highest: 0, first: [-1_600, -1_500], last: [0, 100], count: 17 },
])('the scores $lowest to $highest have $count buckets, from $first to $last', row => {
  const all = bounds(row.lowest, row.highest);
  expect([all[0], all.at(-1), all.length]).toEqual([row.first, row.last, row.count]);
});

const usual = Array.from({ length: 1_000 }, (_, index) => index % 16);

test.each([
  [-3, [null, 0], [15, 16]],
  [-2, [-2, -1], [15, 16]],
  [-1, [-1, 0], [15, 16]],
  [0, [0, 1], [15, 16]],
  [15, [0, 1], [15, 16]],
  [16, [0, 1], [16, 17]],
  [17, [0, 1], [17, 18]],
  [18, [0, 1], [16, null]],
])('with %d added to the scores 0 to 15, the first bucket is %j and the last %j', (outside, first, last) => {
  const all = bounds(...usual, outside);
  expect([all[0], all.at(-1)]).toEqual([first, last]);
});

test('buckets reach from the lowest to the highest score of both sides', () => {
  const buckets = bucketsOf(distributionOf([0, 3]), distributionOf([1, 9]));
  expect(buckets).toHaveLength(10);
  expect(buckets.flatMap(({ from, before, after }) => (before + after > 0 ? [[from, before, after]] : []))).toEqual([
    [0, 1, 0],
    [1, 0, 1],
    [3, 1, 0],
    [9, 0, 1],
  ]);
  expect(bucketsOf(distributionOf([]), distributionOf([]))).toEqual([]);
  expect(bucketsOf(distributionOf([]), distributionOf([7]))).toEqual([{ from: 7, to: 8, before: 0, after: 1 }]);
});

test('buckets count every score once, have round boundaries and one width, and are at most 24', () => {
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
        const { from, to } = bucket;
        expect(bucket.after).toBe(
          after.filter(score => score >= (from ?? -Infinity) && score < (to ?? Infinity)).length,
        );
        expect(bucket.from ?? null).toBe(index === 0 ? bucket.from : (buckets[index - 1]?.to ?? null));
      }
      const [width = 1] = widths;
      expect(String(width)).toMatch(/^[125]0*$/);
      for (const { from } of inner) expect((from ?? 0) % width === 0).toBe(true);
    }),
  );
});

test('buckets stay narrow if one score is far out, which an open bucket counts', () => {
  const usual = Array.from({ length: 1_000 }, (_, index) => index % 30);
  const buckets = bucketsOf(distributionOf([...usual, 1_000_000]), distributionOf([...usual, -7_000]));
  expect(buckets[0]).toEqual({ from: null, to: 0, before: 0, after: 1 });
  expect(buckets.at(-1)).toEqual({ from: 30, to: null, before: 1, after: 0 });
  expect(buckets).toHaveLength(17);
});
