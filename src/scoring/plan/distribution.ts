import { formatInteger } from '../../text/number-formats.ts';

/** How many pull requests have each score. */
export type Distribution = ReturnType<typeof createDistribution>;

export function createDistribution() {
  const counts = new Map<number, number>();
  let [count, sum] = [0, 0];

  /** The different scores, lowest first, and how many there are up to each. Typed arrays: there may be a million. */
  let ordered: { scores: Float64Array; upTo: Float64Array } | undefined;

  function order() {
    const scores = Float64Array.from(counts.keys()).sort();
    let passed = 0;
    return { scores, upTo: scores.map(score => (passed += counts.get(score) ?? 0)) };
  }

  /** The score at a place in ascending order, from 0; null after the last one. */
  function at(place: number): number | null {
    ordered ??= order();
    return ordered.scores[ordered.upTo.findIndex(passed => passed > place)] ?? null;
  }

  return {
    add(score: number): void {
      ordered = undefined;
      count += 1;
      sum += score;
      counts.set(score, (counts.get(score) ?? 0) + 1);
    },
    get count() {
      return count;
    },
    get sum() {
      return sum;
    },
    /** Each score with how often it occurs. */
    entries: () => counts.entries(),
    /** @param share 0 to 1: 0.25 is the score above the lowest quarter. Null if there are no scores */
    quantile: (share: number) => at(Math.min(count - 1, Math.floor(share * count))),
    /** The mean of the two in the middle if the count is even. Null if there are no scores. */
    median(): number | null {
      const [lower, upper] = [at(Math.floor((count - 1) / 2)), at(Math.floor(count / 2))];
      return lower === null || upper === null ? null : (lower + upper) / 2;
    },
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
export function roundStep(minimum: number): number {
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
  const lowestOf = (share: number) => Math.min(...both.map(one => one.quantile(share) ?? 0));
  const highestOf = (share: number) => Math.max(...both.map(one => one.quantile(share) ?? 0));
  const [lowest, low, high, highest] = [lowestOf(0), lowestOf(0.005), highestOf(0.995), highestOf(1)];
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
    for (const [score, count] of distribution.entries()) {
      const place = Math.floor((score - start) / step) + first;
      const bucket = buckets[Math.min(Math.max(place, 0), buckets.length - 1)];
      if (bucket !== undefined) bucket[side] += count;
    }
  }
  return buckets;
}

/** `< 0`, `5`, `10 to 19`, `≥ 100`, in commands and on the page. */
export function bucketLabel({ from, to }: Pick<Bucket, 'from' | 'to'>, write = formatInteger): string {
  if (from === null) return `< ${write(to ?? 0)}`;
  if (to === null) return `≥ ${write(from)}`;
  return to - from === 1 ? write(from) : `${write(from)} to ${write(to - 1)}`;
}
