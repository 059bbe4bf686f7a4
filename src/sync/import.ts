import type { Organisation } from '../database/organisations.ts';
import { beginImport, saveImportCursor, saveRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { GithubError } from '../github/errors.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { estimateOf, type ImportEstimate } from './import-estimate.ts';
import { chooseRepositories, fullName, type ImportScope, parseNames } from './import-scope.ts';
import { identifyOrganisation, reasonOfRepository } from './organisation.ts';
import { createPages } from './pages.ts';
import type { SyncOutcome } from './pull-requests.ts';
import { withRetries } from './retries.ts';

export interface ImportOptions extends ImportScope {
  /** Stops after the page under way; running again goes on there. */
  signal?: AbortSignal | undefined;
  /** Told once, before the first pull request is asked for. */
  onEstimate?: (estimate: ImportEstimate) => void;
  onProgress?: (progress: ImportProgress) => void;
}

export interface ImportProgress {
  /** `owner/name` of the repository under way. */
  repository: string;
  /** Pull requests looked at, by an import that was interrupted too, of how many in all, as far as is known. */
  seen: number;
  total: number;
  /** Of these, looked at by this import. */
  looked: number;
  /** Set while GitHub must not be asked, or fails. */
  waitingSeconds?: number;
  waitingReason?: string;
}

export interface ImportResult {
  /** Read to their ends. */
  repositories: number;
  /** Not read to their ends; the next import continues with them. */
  failedRepositories: { repository: string; reason: string }[];
  /** Pull requests looked at this time. */
  seen: number;
  /** Of these, saved: new, or as fresh as what was stored. */
  saved: number;
  /** Not kept: the author is no member. */
  untracked: number;
  /** GitHub did not give them whole, however few were asked for; the sync loop tries them again. */
  failed: number;
  /** Requests to GitHub for pull requests. */
  requests: number;
}

/** Pull requests in a row; each costs two time limits of GitHub's at most. */
const maxPassedOver = 10;

/** Brings in pull requests of the organisation's repositories, page by page, each durable before the next is asked for. */
export async function importPullRequests(
  deps: Deps,
  unidentified: Organisation,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const { database, log } = deps;
  const { since, signal, onEstimate, onProgress } = options;
  parseNames(unidentified.login, options.repositories);
  const progress: ImportProgress = { repository: '', seen: 0, total: 0, looked: 0 };
  const retrying = <Result>(work: () => Promise<Result>) =>
    withRetries(
      work,
      (waitingSeconds, waitingReason) => {
        const until = new Date(Date.now() + waitingSeconds * 1000);
        log.info({ waitingSeconds, until, reason: waitingReason }, 'the import waits for GitHub');
        onProgress?.({ ...progress, waitingSeconds, waitingReason });
      },
      signal,
    );

  const organisation = await retrying(() => identifyOrganisation(deps, unidentified));
  const chosen = await chooseRepositories(deps, organisation, options, retrying);
  const { repositories, ticket } = chosen;
  const places = await database.transaction(async executor => {
    const values = repositories.map(repository => ({ ...repository, name: fullName(repository) }));
    if (since === undefined) return beginImport(executor, organisation.id, ticket, values);
    // Pages by latest change move while they are read: such an import is short, and always starts anew.
    await saveRepositories(executor, organisation.id, ticket, values);
    return undefined;
  });
  onEstimate?.(estimateOf(chosen, places, since));
  const result: ImportResult = {
    repositories: 0,
    failedRepositories: [],
    seen: 0,
    saved: 0,
    untracked: 0,
    failed: 0,
    requests: 0,
  };
  const isFinished = ({ githubId }: GithubRepository) => places?.get(githubId)?.finished ?? false;
  const sizeOf = (some: readonly GithubRepository[]) => some.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
  let done = sizeOf(repositories.filter(isFinished));
  if (since === undefined) Object.assign(progress, { seen: done, total: sizeOf(repositories) });

  const importRepository = async (repository: GithubRepository) => {
    const place = places?.get(repository.githubId);
    let after = place?.after ?? null;
    const named = { nodeId: repository.nodeId, name: progress.repository };
    const syncPage = createPages(deps, organisation, named, {
      since,
      maxPassedOver,
      onRequest: () => {
        result.requests += 1;
      },
    });
    let isStored = after !== null;
    for (let ended = false; !ended; ) {
      signal?.throwIfAborted();
      onProgress?.({ ...progress });
      const page = await retrying(() => syncPage(after)).catch((error: unknown) => {
        if (isStored && error instanceof GithubError && error.unknownCursor) return undefined;
        throw error;
      });
      isStored = false;
      if (page === undefined) {
        log.warn({ repository: progress.repository }, 'GitHub does not know where the import stopped: it begins anew');
        after = null;
        continue;
      }
      const count = (outcome: SyncOutcome) => [...page.outcomes.values()].filter(one => one === outcome).length;
      result.seen += page.outcomes.size + page.failed;
      result.saved += count('saved') + count('outdated');
      result.untracked += count('untracked');
      result.failed += page.failed;
      progress.seen += page.outcomes.size + page.failed;
      progress.looked = result.seen;

      after = page.endCursor;
      ended = page.ended;
      if (place !== undefined) {
        await saveImportCursor(database.executor, organisation.id, place.id, ended ? null : after);
      }
    }
  };

  for (const repository of repositories) {
    if (isFinished(repository)) continue;
    progress.repository = fullName(repository);
    try {
      await importRepository(repository);
      result.repositories += 1;
      done += repository.pullRequests;
      if (since === undefined) progress.seen = done;
    } catch (error) {
      signal?.throwIfAborted();
      const reason = await retrying(() => reasonOfRepository(deps, organisation, progress.repository, error));
      log.warn({ repository: progress.repository, reason }, 'the import of a repository failed');
      result.failedRepositories.push({ repository: progress.repository, reason });
      done = progress.seen;
    }
  }
  onProgress?.({ ...progress });
  return result;
}
