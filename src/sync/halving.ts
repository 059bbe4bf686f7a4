/** The result of one request to GitHub for a batch. */
export interface Attempt<Item> {
  /** GitHub showed at least one item. */
  hasServed: boolean;
  /** GitHub must not be asked, or the database is gone: no item caused the failure. */
  isRefused: boolean;
  /** Those that failed: one of them may have caused it, or there were too many at once. */
  candidates: readonly Item[];
  error: unknown;
}

/** What a search ends with. */
export type SearchEnd<Item> =
  | { found: 'no failure' }
  /** The signal was aborted, or GitHub must not be asked: what is left stays due. */
  | { found: 'nothing' }
  /** No item fails in a smaller batch. `minFailed`: the size of the smallest batch that failed. */
  | { found: 'too many at once'; minFailed: number }
  /** GitHub serves nothing at all. */
  | { found: 'outage'; failed: readonly Item[]; error: unknown }
  /** `hasServed`: GitHub served others meanwhile, so the item itself causes the failure. */
  | { found: 'failing'; failing: Item; hasServed: boolean; error: unknown };

/**
 * Tries a batch, and halves it until the failing item is found. Items that don't fail are done by then.
 *
 * @param attempt tries some of the items, and settles those that are not candidates
 */
export async function findFailing<Item>(
  batch: readonly Item[],
  attempt: (some: readonly Item[]) => Promise<Attempt<Item>>,
  signal: AbortSignal | undefined,
): Promise<SearchEnd<Item>> {
  let { candidates, hasServed, isRefused, error } = await attempt(batch);
  if (isRefused) return { found: 'nothing' };
  if (candidates.length === 0) return { found: 'no failure' };
  // Entries that failed inside a reply may have failed only because of the others in it.
  let isTriedTogether = candidates.length === batch.length;
  let minFailed = batch.length;
  const setAside: Item[] = [];
  while (!(isTriedTogether && candidates.length === 1)) {
    if (signal?.aborted) return { found: 'nothing' };
    const part = isTriedTogether ? candidates.slice(0, Math.ceil(candidates.length / 2)) : candidates;
    const others = candidates.slice(part.length);
    const result = await attempt(part);
    if (result.isRefused) return { found: 'nothing' };
    hasServed ||= result.hasServed;
    if (result.candidates.length === 0) {
      // One of the others caused it; if there are none, it was too many at once.
      if (others.length === 0) return { found: 'too many at once', minFailed };
      candidates = others;
      isTriedTogether = others.length > 1;
    } else {
      setAside.push(...others);
      isTriedTogether = result.candidates.length === part.length;
      minFailed = Math.min(minFailed, part.length);
      candidates = result.candidates;
      error = result.error;
    }
  }
  if (!hasServed && setAside.length > 0) {
    const result = await attempt(setAside);
    if (result.isRefused) return { found: 'nothing' };
    hasServed = result.hasServed;
    if (!hasServed) return { found: 'outage', failed: [...candidates, ...result.candidates], error };
  }
  const [failing] = candidates;
  return failing === undefined ? { found: 'nothing' } : { found: 'failing', failing, hasServed, error };
}
