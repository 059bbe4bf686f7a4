/** What was done, for the report at the end. */
export interface Tally {
  histories: number;
  /** Number of comparisons with the model, and of stored pull requests in them. */
  comparisons: number;
  pullRequests: number;
  readonly counts: Map<string, number>;
  /** The most of anything that was seen. */
  readonly peaks: Map<string, number>;
}

export const createTally = (): Tally => ({
  histories: 0,
  comparisons: 0,
  pullRequests: 0,
  counts: new Map(),
  peaks: new Map(),
});

export function peak(tally: Tally, what: string, value: number): void {
  tally.peaks.set(what, Math.max(tally.peaks.get(what) ?? 0, value));
}

export function count(tally: Tally, what: string, by = 1): void {
  tally.counts.set(what, (tally.counts.get(what) ?? 0) + by);
}
