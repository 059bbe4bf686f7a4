import type { Organisation } from '../database/organisations.ts';
import { requestFailedSyncs } from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { GithubError, isTransientFailure } from '../github/errors.ts';
import type { PageChoice } from '../github/pages.ts';
import type { ListedPullRequest } from '../github/pull-request.ts';
import { askGithub } from './exchange.ts';
import { pageSizesOf, withPageSize } from './page-sizes.ts';
import { type SyncOutcome, syncPullRequests } from './pull-requests.ts';

export interface PagesOptions {
  /**
   * Unix seconds: only pull requests that changed then or later, latest change first. Undefined means all, oldest
   * first.
   */
  since: number | undefined;
  /** Pull requests in a row that are skipped before GitHub itself is blamed. */
  maxSkipped: number;
  /** What was deleted here comes back. */
  restoresDeleted?: boolean | undefined;
  /** Called for each request. */
  onRequest?: () => void;
}

/** The result of one page. */
export interface SyncedPage {
  outcomes: Map<number, SyncOutcome>;
  /** Pull requests on which GitHub failed. */
  failed: number;
  /** How many of these may succeed later but have no sync request, because GitHub did not name them. */
  unnamed: number;
  endCursor: string | null;
  /** No later page has pull requests that are wanted. */
  ended: boolean;
}

/** Reads from a stored cursor, or from the start if GitHub no longer knows the cursor. */
export async function fromCursor<Page>(
  cursor: string | null,
  read: (after: string | null) => Promise<Page>,
  onRestart?: () => void,
): Promise<Page> {
  try {
    return await read(cursor);
  } catch (error) {
    if (cursor === null || !(error instanceof GithubError && error.unknownCursor)) throw error;
    onRestart?.();
    return read(null);
  }
}

function requireVisible<Page>(page: Page | undefined): Page {
  if (page !== undefined) return page;
  throw new ServiceError('not_found', 'GitHub does not show this repository to the configured credentials.', {
    action: 'Check that it still exists and that the credentials may read it.',
  });
}

/** How long until the sync loop tries what GitHub has just failed on. */
const firstTrySeconds = 60;

/**
 * Syncs a repository's pull requests page by page. A pull request that GitHub can't serve holds up nothing: pages get
 * smaller around it, in the end it is skipped, and a sync request has it tried again later.
 *
 * @returns syncs the page after a cursor, durably. It throws if GitHub is in trouble or limits its rate; the same page
 * can then be asked for again.
 */
export function createPageSync(
  deps: Deps,
  organisation: Organisation,
  repository: { nodeId: string; name: string },
  { since, maxSkipped, restoresDeleted = false, onRequest }: PagesOptions,
): (after: string | null) => Promise<SyncedPage> {
  const { database, github, log } = deps;
  const order = since === undefined ? 'created' : 'updated';
  const pageSize = pageSizesOf(organisation).pullRequests;
  let skipped = 0;

  const isWanted = ({ sourceUpdatedAt }: { sourceUpdatedAt: number }) =>
    since === undefined || sourceUpdatedAt >= since;

  const list = async (after: string | null, size: number) => {
    const choice: PageChoice = { order, after, pageSize: size };
    const call = async () => {
      onRequest?.();
      return requireVisible(await github.listPullRequests(organisation, repository.nodeId, choice));
    };
    return (await askGithub(deps, organisation, call, { urgency: 'background' })).reply;
  };

  const record = async (failed: number, named: readonly { githubId: number; nodeId: string }[], reason: string) => {
    if (failed === 0) return;
    const nodeIds = named.map(({ nodeId }) => nodeId);
    log.warn({ repository: repository.name, failed, nodeIds, reason }, 'GitHub failed on pull requests');
    await requestFailedSyncs(database.executor, organisation.id, named, reason, firstTrySeconds);
  };

  async function syncPage(after: string | null): Promise<SyncedPage> {
    let size = 0;
    const { reply, outcomes } = await withPageSize(pageSize, asked => {
      size = asked;
      const fetch = async () => {
        onRequest?.();
        const choice: PageChoice = { order, after, pageSize: asked };
        const page = requireVisible(await github.pagePullRequests(organisation, repository.nodeId, choice));
        return { page, pullRequests: page.items.filter(isWanted) };
      };
      return syncPullRequests(deps, organisation, fetch, { urgency: 'background', restoresDeleted });
    });
    const { page, pullRequests } = reply;
    const errors = page.failed.map(({ error }) => error);
    const failed = errors.length;
    const [first] = errors;
    // The credentials lack a right on the repository, unless it is one pull request alone.
    const areRefused = failed > 1 && errors.every(({ code }) => code === 'github_credentials');
    if (areRefused && page.items.length === 0) throw first;
    const isTooMuch = errors.some(error => error instanceof GithubError && error.tooMuch);
    if (isTooMuch && pageSize.shrink(size)) return syncPage(after);
    let unserved: ListedPullRequest[] = [];
    if (failed > 0) {
      const served = new Set(page.items.map(({ nodeId }) => nodeId));
      // If this fails, the page is read again: otherwise the unnamed pull requests would be lost.
      const listed = await list(after, size);
      unserved = listed.items.filter(({ nodeId }) => !served.has(nodeId));
    }
    const missing = unserved.filter(isWanted);
    await record(failed, missing, first?.text ?? '');
    if (isTooMuch || skipped > 0) pageSize.restore();
    skipped = 0;
    return {
      outcomes,
      failed,
      // Reading the page again does not help with what the credentials may not read.
      unnamed: Math.max(0, errors.filter(isTransientFailure).length - unserved.length),
      endCursor: page.endCursor,
      ended: !page.hasNextPage || pullRequests.length < page.items.length || missing.length < unserved.length,
    };
  }

  async function skip(next: Awaited<ReturnType<typeof list>>, reason: GithubError): Promise<SyncedPage> {
    skipped += 1;
    const wanted = next.items.filter(isWanted);
    const isPast = next.items.length > wanted.length;
    const failed = isPast || next.endCursor === null ? 0 : 1;
    await record(failed, wanted, reason.text);
    const ended = isPast || !next.hasNextPage;
    if (ended) pageSize.restore();
    return {
      outcomes: new Map(),
      failed,
      unnamed: failed - wanted.length,
      endCursor: next.endCursor,
      ended,
    };
  }

  return async after => {
    // A failure may be transient: the first size and the last one are tried twice.
    let again = true;
    for (;;) {
      try {
        return await syncPage(after);
      } catch (error) {
        if (!isTransientFailure(error)) throw error;
        const isSmallest = pageSize.current === 1;
        if (!again && !isSmallest) {
          pageSize.shrink(pageSize.current);
          again = pageSize.current === 1;
          continue;
        }
        // If GitHub does not even say which one comes next, it is in trouble itself.
        const next = await list(after, 1).catch((failure: unknown) => {
          throw isTransientFailure(failure) ? error : failure;
        });
        if (!again) {
          if (skipped === maxSkipped) throw error;
          return await skip(next, error);
        }
        again = false;
      }
    }
  };
}
