import { LRUCache } from 'lru-cache';
import { maxPageSize } from '../github/github.ts';
import { GithubError } from '../github/github-error.ts';

/** How many entries GitHub can list at once. After ten minutes it is asked for a whole page again. */
const sizes = new LRUCache<string, number>({ max: 3_000, ttl: 600_000 });

/**
 * Asks for a page. If that many entries are too much for GitHub, asks for half at once, down to one.
 *
 * @param list what is listed: each list has a size of its own
 * @param request called with how many to ask for
 * @throws all other errors
 */
export async function shrinkPage<Result>(list: string, request: (size: number) => Promise<Result>): Promise<Result> {
  const size = sizes.get(list) ?? maxPageSize;
  try {
    return await request(size);
  } catch (error) {
    if (!(error instanceof GithubError && error.tooMuch)) throw error;
    if (size > 1) {
      sizes.set(list, Math.floor(size / 2));
      return shrinkPage(list, request);
    }
    // One entry alone is too much; those after it need not be.
    sizes.delete(list);
    throw error;
  }
}
