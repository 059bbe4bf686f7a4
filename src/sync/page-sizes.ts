import { LRUCache } from 'lru-cache';
import type { Organisation } from '../database/organisations.ts';
import { maxPullRequests, maxRepositories } from '../github/client.ts';
import { createPageSize } from '../github/page-size.ts';

const create = () => ({
  pullRequests: createPageSize(maxPullRequests),
  repositories: createPageSize(maxRepositories),
});

const known = new LRUCache<string, ReturnType<typeof create>>({ max: 1_000, memoMethod: create });

/** How many entries GitHub lately managed in one page, for each organisation: what is too much differs. */
export const pageSizesOf = ({ id }: Pick<Organisation, 'id'>) => known.memo(id);
