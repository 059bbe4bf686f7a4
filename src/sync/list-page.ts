import type { ListedPullRequest } from '../database/background-requests.ts';
import type { Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { notFound, type ServiceError } from '../errors.ts';
import { askGithub } from './share-github-points.ts';
import { shrinkPage } from './shrink-page.ts';

/** A page of a repository's list. */
export interface ListedPage {
  /** Those that are wanted. */
  items: ListedPullRequest[];
  /** Why entries are missing: GitHub failed on them. */
  failed: readonly ServiceError[];
  endCursor: string | null;
  /** No later page has pull requests that are wanted. */
  ended: boolean;
}

/**
 * Lists a page of a repository's pull requests, ids and times only, as large as GitHub lately managed.
 *
 * @param options `since`: in Unix seconds, only pull requests that changed then or later, latest change first; undefined
 * means all, oldest first
 * @throws ServiceError `not_found` if GitHub does not show the repository
 */
export async function listPage(
  deps: Deps,
  organisation: Organisation,
  repository: { nodeId: string; name: string },
  { since, after }: { since: number | undefined; after: string | null },
): Promise<ListedPage> {
  const order = since === undefined ? 'created' : 'updated';
  const page = await shrinkPage(`pull requests ${organisation.id}`, async pageSize => {
    const list = (github: Deps['github']) =>
      github.listPullRequests(organisation, repository.nodeId, { order, after, pageSize });
    const { reply } = await askGithub(deps, organisation, list, { urgency: 'background' });
    const tooMuch = reply?.failed.find(error => error.tooMuch);
    if (tooMuch !== undefined && pageSize > 1) throw tooMuch;
    return reply;
  });
  if (page === undefined) {
    throw notFound(
      'GitHub does not show this repository to the configured credentials.',
      'Check that it still exists and that the credentials may read it.',
    );
  }
  for (const { text: reason } of page.failed) {
    deps.log.warn({ repository: repository.name, reason }, 'GitHub did not list a pull request');
  }
  const items = page.items.filter(({ sourceUpdatedAt }) => since === undefined || sourceUpdatedAt >= since);
  const { failed, endCursor, hasNextPage } = page;
  return { items, failed, endCursor, ended: !hasNextPage || items.length < page.items.length };
}
