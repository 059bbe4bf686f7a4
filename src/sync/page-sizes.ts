import { LRUCache } from 'lru-cache';
import type { Organisation } from '../database/organisations.ts';
import { maxPageSize, maxPullRequests } from '../github/client.ts';
import { GithubError } from '../github/errors.ts';

const successesBeforeGrowing = 8;

type PageSize = ReturnType<typeof createPageSize>;

/** How many entries to ask for at once: fewer after GitHub failed on more, then more again. */
export function createPageSize(maximum: number) {
  let current = maximum;
  let successes = 0;
  return {
    get current() {
      return current;
    },
    /** Halves the size after a request for `asked` entries failed. @returns false if it was for one */
    shrink(asked: number): boolean {
      successes = 0;
      if (asked <= 1) return false;
      current = Math.min(current, Math.floor(asked / 2));
      return true;
    },
    /** Doubles the size after some successes in a row. Requests for fewer entries do not count. */
    grow(asked: number): void {
      if (current === maximum || asked < current || ++successes < successesBeforeGrowing) return;
      successes = 0;
      current = Math.min(current * 2, maximum);
    },
    /** Returns to the maximum, for when the one pull request that was too much is found. */
    restore(): void {
      successes = 0;
      current = maximum;
    },
  };
}

/**
 * Asks for as many as GitHub managed lately. If that is too much, asks for half at once, down to one.
 * @throws all other errors
 * @param request called with how many to ask for
 */
export async function withPageSize<Result>(
  pageSize: PageSize,
  request: (size: number) => Promise<Result>,
): Promise<Result> {
  for (;;) {
    const size = pageSize.current;
    try {
      const result = await request(size);
      pageSize.grow(size);
      return result;
    } catch (error) {
      if (!(error instanceof GithubError && error.tooMuch && pageSize.shrink(size))) throw error;
    }
  }
}

const create = () => ({
  pullRequests: createPageSize(maxPullRequests),
  listed: createPageSize(maxPageSize),
  repositories: createPageSize(maxPageSize),
});

const known = new LRUCache<string, ReturnType<typeof create>>({ max: 1_000, memoMethod: create });

/** How many entries GitHub lately managed in one page, for each organisation: what is too much differs. */
export const pageSizesOf = ({ id }: Pick<Organisation, 'id'>) => known.memo(id);
