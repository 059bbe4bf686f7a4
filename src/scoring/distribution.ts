/**
 * The distribution of scores, in memory that does not grow with their number. Each score up to 4,095 on either side of
 * zero has its own cell; a cell beyond spans at most 1/2,048 of its value.
 */

const exactLimit = 4_096;
const exactBits = 12;
/** Cells for each doubling beyond the limit. */
const cellsPerDoubling = exactLimit / 2;
/** The magnitude of a 32-bit score is at most 2 ** 31. */
const cellCount = exactLimit + (32 - exactBits) * cellsPerDoubling;

function cellOf(magnitude: number): number {
  if (magnitude < exactLimit) return magnitude;
  const exponent = 31 - Math.clz32(magnitude);
  return (exponent - exactBits) * cellsPerDoubling + (magnitude >>> (exponent - exactBits + 1)) + cellsPerDoubling;
}

/** The smallest magnitude in a cell. */
function magnitudeOf(cell: number): number {
  if (cell < exactLimit) return cell;
  const doubling = Math.floor((cell - exactLimit) / cellsPerDoubling);
  return (((cell - exactLimit) % cellsPerDoubling) + cellsPerDoubling) * 2 ** (doubling + 1);
}

export type Distribution = ReturnType<typeof createDistribution>;

export function createDistribution() {
  const negative = new Uint32Array(cellCount);
  const positive = new Uint32Array(cellCount);
  let [count, sum, minimum, maximum] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];

  /** Calls `each` with each value that occurs (the one nearest to zero in its cell), lowest first. */
  function visit(each: (value: number, count: number) => void): void {
    for (let cell = cellCount - 1; cell >= 0; cell -= 1) {
      const cellSize = negative[cell] ?? 0;
      if (cellSize > 0) each(-magnitudeOf(cell), cellSize);
    }
    positive.forEach((cellSize, cell) => {
      if (cellSize > 0) each(magnitudeOf(cell), cellSize);
    });
  }

  /** The score at a place in ascending order, from 0. */
  function at(place: number): number {
    let passed = 0;
    let found = 0;
    visit((value, cellSize) => {
      if (passed <= place) found = value;
      passed += cellSize;
    });
    return Math.min(Math.max(found, minimum), maximum);
  }

  return {
    /** @param score 32-bit */
    add(score: number): void {
      count += 1;
      sum += score;
      if (score < minimum) minimum = score;
      if (score > maximum) maximum = score;
      const cells = score < 0 ? negative : positive;
      const cell = cellOf(Math.abs(score));
      cells[cell] = (cells[cell] ?? 0) + 1;
    },
    get count() {
      return count;
    },
    get sum() {
      return sum;
    },
    /** Null if there are no scores, like the three below. */
    get minimum() {
      return count === 0 ? null : minimum;
    },
    get maximum() {
      return count === 0 ? null : maximum;
    },
    /** @param share 0 to 1: 0.25 is the score above the lowest quarter */
    quantile: (share: number) => (count === 0 ? null : at(Math.min(count - 1, Math.floor(share * count)))),
    /** The mean of the two in the middle if the count is even. */
    median: () => (count === 0 ? null : (at(Math.floor((count - 1) / 2)) + at(Math.floor(count / 2))) / 2),
    visit,
  };
}

export interface Bucket {
  /** The lowest score in it; null if it takes everything below `to`. */
  from: number | null;
  /** The lowest score above it; null if it takes everything from `from` on. */
  to: number | null;
  before: number;
  after: number;
}

const targetBuckets = 16;

/** The next 1, 2 or 5 times a power of ten. */
function roundStep(minimum: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, minimum)));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= minimum) ?? 10 * power;
}

/**
 * Counts both in the same buckets, about sixteen with round boundaries. If a few scores are far from all others, the
 * first or the last bucket is open, so that the others stay narrow.
 */
export function bucketsOf(before: Distribution, after: Distribution): Bucket[] {
  const both = [before, after].filter(({ count }) => count > 0);
  if (both.length === 0) return [];
  const lowest = Math.min(...both.map(({ minimum }) => minimum ?? 0));
  const highest = Math.max(...both.map(({ maximum }) => maximum ?? 0));
  const low = Math.min(...both.map(one => one.quantile(0.005) ?? 0));
  const high = Math.max(...both.map(one => one.quantile(0.995) ?? 0));
  const step = roundStep((high - low + 1) / targetBuckets);
  const down = (score: number) => Math.floor(score / step) * step;
  // Scores just outside get up to two more buckets instead of an open one.
  const start = lowest >= down(low) - 2 * step ? down(lowest) : down(low);
  const end = highest < down(high) + 3 * step ? down(highest) + step : down(high) + step;
  const buckets: Bucket[] = [];
  for (let from = start; from < end; from += step) buckets.push({ from, to: from + step, before: 0, after: 0 });
  if (lowest < start) buckets.unshift({ from: null, to: start, before: 0, after: 0 });
  if (highest >= end) buckets.push({ from: end, to: null, before: 0, after: 0 });
  const first = lowest < start ? 1 : 0;
  for (const [side, distribution] of [['before', before] as const, ['after', after] as const]) {
    distribution.visit((value, count) => {
      const place = Math.floor((value - start) / step) + first;
      const bucket = buckets[Math.min(Math.max(place, 0), buckets.length - 1)];
      if (bucket !== undefined) bucket[side] += count;
    });
  }
  return buckets;
}
