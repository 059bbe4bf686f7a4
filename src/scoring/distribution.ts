/**
 * How scores are spread, in memory that does not grow with their number. Whole numbers up to 4,095 on either side of
 * zero are counted each by itself; beyond, each cell spans at most 1/2,048 of its value.
 */

const exactLimit = 4_096;
const exactBits = 12;
/** Cells for each doubling beyond the limit. */
const cellsEach = exactLimit / 2;
/** The magnitude of a 32-bit score is at most 2 ** 31. */
const cellCount = exactLimit + (32 - exactBits) * cellsEach;

function cellOf(magnitude: number): number {
  if (magnitude < exactLimit) return magnitude;
  const exponent = 31 - Math.clz32(magnitude);
  return (exponent - exactBits) * cellsEach + (magnitude >>> (exponent - exactBits + 1)) + cellsEach;
}

/** The smallest magnitude that falls into a cell. */
function magnitudeOf(cell: number): number {
  if (cell < exactLimit) return cell;
  const doubling = Math.floor((cell - exactLimit) / cellsEach);
  return (((cell - exactLimit) % cellsEach) + cellsEach) * 2 ** (doubling + 1);
}

export interface Distribution {
  /** @param score 32-bit */
  add(score: number): void;
  readonly count: number;
  readonly sum: number;
  /** Null of nothing, like the two below. */
  readonly minimum: number | null;
  readonly maximum: number | null;
  /** The value that this share, 0 to 1, of the scores does not exceed; of the median the middle of two where there are two. */
  quantile(share: number): number | null;
  median(): number | null;
  /** Calls `visit` with each value that occurs (the nearest to zero of its cell), lowest first. */
  visit(visit: (value: number, count: number) => void): void;
}

export function createDistribution(): Distribution {
  const negative = new Uint32Array(cellCount);
  const positive = new Uint32Array(cellCount);
  let [count, sum, minimum, maximum] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];

  function visit(each: (value: number, count: number) => void): void {
    for (let cell = cellCount - 1; cell >= 0; cell -= 1) {
      const cases = negative[cell] ?? 0;
      if (cases > 0) each(-magnitudeOf(cell), cases);
    }
    positive.forEach((cases, cell) => {
      if (cases > 0) each(magnitudeOf(cell), cases);
    });
  }

  /** The score at a place in ascending order, from 0. */
  function at(place: number): number {
    let passed = 0;
    let found = 0;
    visit((value, cases) => {
      if (passed <= place) found = value;
      passed += cases;
    });
    return Math.min(Math.max(found, minimum), maximum);
  }

  return {
    add(score) {
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
    get minimum() {
      return count === 0 ? null : minimum;
    },
    get maximum() {
      return count === 0 ? null : maximum;
    },
    quantile: share => (count === 0 ? null : at(Math.min(count - 1, Math.floor(share * count)))),
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

const wantedBuckets = 16;

/** 1, 2 or 5 times a power of ten, whole. */
function roundStep(atLeast: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, atLeast)));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= atLeast) ?? 10 * power;
}

/**
 * Both on the same round boundaries, about sixteen of them. Where a few scores lie far from all others, the first or
 * the last bucket is open, so that the others keep their width.
 */
export function bucketsOf(before: Distribution, after: Distribution): Bucket[] {
  const both = [before, after].filter(({ count }) => count > 0);
  if (both.length === 0) return [];
  const lowest = Math.min(...both.map(({ minimum }) => minimum ?? 0));
  const highest = Math.max(...both.map(({ maximum }) => maximum ?? 0));
  const low = Math.min(...both.map(one => one.quantile(0.005) ?? 0));
  const high = Math.max(...both.map(one => one.quantile(0.995) ?? 0));
  const step = roundStep((high - low + 1) / wantedBuckets);
  const down = (score: number) => Math.floor(score / step) * step;
  // What lies but a little outside is worth two buckets more, not an open one.
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
