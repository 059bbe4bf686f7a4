/** Pages of GitHub's lists, as large as GitHub lately managed. */
import { LRUCache } from 'lru-cache';
import type { ListedPullRequest } from '../database/background-requests.ts';
import type { GithubIdentity, IdentifiedOrganisation, Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { notFound, type ServiceError } from '../errors.ts';
import { type Github, maxPageSize } from '../github/github.ts';
import { GithubError, githubFailed } from '../github/github-error.ts';
import { askGithub } from './share-github-points.ts';

/** How many entries GitHub can list at once. After ten minutes it is asked for a whole page again. */
const sizes = new LRUCache<string, number>({ max: 3_000, ttl: 600_000 });

/**
 * Asks for a page. If that many entries are too much for GitHub, asks for half at once, down to one.
 *
 * @param list what of the organisation is listed: each list has a size of its own
 * @param ask called with how many to ask for
 * @returns the page, and the ticket of the request for it
 */
export async function askPage<Page extends object | undefined>(
  deps: Deps,
  organisation: Organisation,
  list: string,
  ask: (github: Github, pageSize: number) => Promise<Page>,
  identityIn?: (page: Page) => GithubIdentity | undefined,
): Promise<{ reply: Page; ticket: number }> {
  const key = `${list} ${organisation.id}`;
  const options = { urgency: 'background', ...(identityIn && { identityIn }) } as const;
  for (;;) {
    const size = sizes.get(key) ?? maxPageSize;
    try {
      const answer = await askGithub(deps, organisation, github => ask(github, size), options);
      const page = answer.reply as { failed?: readonly GithubError[] } | undefined;
      const tooMuch = page?.failed?.find(error => error.tooMuch);
      if (tooMuch === undefined || size === 1) return answer;
      throw tooMuch;
    } catch (error) {
      if (!(error instanceof GithubError && error.tooMuch)) throw error;
      if (size === 1) {
        // One entry alone is too much; those after it need not be.
        sizes.delete(key);
        throw error;
      }
      sizes.set(key, Math.floor(size / 2));
    }
  }
}

/**
 * Reads a list from the cursor on, page by page.
 *
 * @throws GithubError if it would never end
 */
export async function* readPages<Page extends { endCursor: string | null; hasNextPage: boolean }>(
  readPage: (after: string | null) => Promise<Page>,
  start: string | null = null,
) {
  const seen = new Set<string | null>();
  for (let after = start; ; ) {
    const page = await readPage(after);
    yield page;
    if (!page.hasNextPage) return;
    after = page.endCursor;
    if (seen.has(after)) throw githubFailed("GitHub's list would never end: a cursor came twice.", 'Try again later.');
    seen.add(after);
  }
}

/**
 * A page of the organisation's repositories, and its ticket. Repositories on which GitHub fails are logged and left out.
 */
export async function pageRepositories(deps: Deps, organisation: IdentifiedOrganisation, after: string | null) {
  const ask =
    (facts = true) =>
    (github: Github, pageSize: number) =>
      github.pageRepositories(organisation, { after, pageSize, facts });
  const { reply: page, ticket } = await askPage(
    deps,
    organisation,
    'repositories',
    ask(),
    each => each.organisation,
  ).catch(async (error: unknown) => {
    if (!(error instanceof GithubError && error.tooMuch)) throw error;
    // One repository alone is too much: read what comes after it.
    const next = await askGithub(deps, organisation, github => ask(false)(github, 1), { urgency: 'background' });
    return { ...next, reply: { ...next.reply, failed: [error] } };
  });
  for (const { text: reason } of page.failed) {
    deps.log.warn({ organisation: organisation.login, reason }, 'a repository is skipped');
  }
  return { ...page, ticket };
}

/** A page of a repository's list. */
interface ListedPage {
  /** Those that are wanted. */
  items: ListedPullRequest[];
  /** Why entries are missing: GitHub failed on them. */
  failed: readonly ServiceError[];
  endCursor: string | null;
  /** Later pages may have pull requests that are wanted. */
  hasNextPage: boolean;
}

/**
 * Lists a page of a repository's pull requests, ids and times only.
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
  const { reply: page } = await askPage(deps, organisation, 'pull requests', (github, pageSize) =>
    github.listPullRequests(organisation, repository.nodeId, { order, after, pageSize }),
  );
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
  const { failed, endCursor } = page;
  return { items, failed, endCursor, hasNextPage: page.hasNextPage && items.length === page.items.length };
}
