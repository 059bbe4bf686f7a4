/** What was done, for the report at the end. */
export interface Tally {
  histories: number;
  /** Stored at the ends of histories. */
  pullRequests: number;
  readonly counts: Map<string, number>;
}

export function count({ counts }: Tally, what: string, by = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + by);
}
