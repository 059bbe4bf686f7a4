import { setTimeout as delay } from 'node:timers/promises';
import { requestListed } from '../database/background-requests.ts';
import { type FetchOutcome, findOutcomes } from '../database/backlog.ts';
import type { Executor } from '../database/client.ts';
import { removeTombstones } from '../database/fetched-pull-requests.ts';
import { getOrganisation, getUsableVersion, type Organisation } from '../database/organisations.ts';
import {
  beginImport,
  endImport,
  saveProgress,
  saveRepositories,
  saveUntrackedRepositories,
} from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { GithubError, isTransientFailure } from '../github/github-error.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { identifyOrganisation, reasonOfRepository } from './identify-organisation.ts';
import { listPage, readPages } from './list-page.ts';
import {
  type ChosenRepositories,
  type FailedRepository,
  type ImportScope,
  isContinuable,
  maxImportAgeMs,
  parseNames,
  scopeImport,
} from './scope-import.ts';
import { createRequestWorker } from './serve-requests.ts';
import { requireLimits } from './share-github-points.ts';

export interface ImportOptions extends ImportScope {
  /** Stops after the page under way; the next import continues there. */
  signal?: AbortSignal | undefined;
  /** Runs in the transaction that begins the import: an interrupted one is recorded, too. */
  record?: (executor: Executor) => Promise<void>;
  onProgress?: (progress: ImportProgress) => void;
}

export interface ImportProgress {
  /** `owner/name` of the repository under way. */
  repository: string;
  /** Pull requests checked so far, including those of an interrupted import. */
  seen: number;
  /** How many there are, as far as is known. */
  total: number;
  /** Pull requests checked by this run. */
  looked: number;
  /** Set while the import waits for GitHub. */
  waitingSeconds?: number;
  waitingReason?: string;
}

export interface ImportResult {
  /** Listed completely. */
  repositories: number;
  /** Not listed completely; the next import continues with them. */
  failedRepositories: FailedRepository[];
  /** Left out: the organisation ignores them. */
  ignored: ChosenRepositories['ignored'];
  /** Pull requests checked by this run. */
  seen: number;
  /** How many of these are now stored as new as GitHub has them. */
  saved: number;
  /** Not kept: they were deleted here and have not changed since. */
  deleted: number;
  /** Not kept: the author is not a member. */
  untracked: number;
  /** GitHub failed on them. The sync loop retries those that GitHub listed. */
  failed: number;
  /** Requests of this process to GitHub for pull requests. */
  requests: number;
}

/** How many tries a failing request gets. */
const maxTries = 5;

/** How many pull requests wait before the next page is listed: webhooks, which come first, do not wait for an import. */
const maxWaiting = 100;

/** How often the import checks whether the service has fetched what is listed. */
const pollMs = 500;

/**
 * Imports pull requests: lists them repository by repository, and requests what it lists, so that it is fetched even if
 * the import is interrupted. Fetches with the request worker, in turns with those of the service.
 */
export async function importPullRequests(
  deps: Deps,
  unidentified: Organisation,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const { database, log } = deps;
  const { executor } = database;
  const { since, restoresDeleted, signal, record, onProgress } = options;
  parseNames(unidentified.login, options.repositories);
  const progress: ImportProgress = { repository: '', seen: 0, total: 0, looked: 0 };
  /**
   * Tries again what GitHub does not answer: after a rate limit once it ends, and after transient failures with growing
   * waits.
   */
  const retry = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    for (let failures = 0; ; ) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        const limited = error.code === 'github_rate_limited';
        if (!limited) failures += 1;
        if (!limited && (!isTransientFailure(error) || failures === maxTries)) throw error;
        const waitingSeconds = limited ? (error.retryAfter ?? 60) : 2 ** failures;
        const until = new Date(Date.now() + waitingSeconds * 1000);
        log.info({ waitingSeconds, until, reason: error.text }, 'the import waits for GitHub');
        onProgress?.({ ...progress, waitingSeconds, waitingReason: error.text });
        await delay(waitingSeconds * 1000, undefined, { signal });
      }
    }
  };

  // Without rules nothing can be saved.
  await getUsableVersion(executor, unidentified.id);
  const organisation = await retry(() => identifyOrganisation(deps, unidentified));
  const { repositories, failedRepositories, ignored, ticket } = await scopeImport(deps, organisation, options, retry);
  const places = await database.transaction(async transaction => {
    await record?.(transaction);
    await saveRepositories(transaction, organisation.id, ticket, repositories);
    await saveUntrackedRepositories(transaction, organisation.id, ticket, ignored);
    return isContinuable(options) ? beginImport(transaction, organisation.id, repositories, maxImportAgeMs) : undefined;
  });
  const result: ImportResult = {
    repositories: 0,
    failedRepositories,
    ignored,
    seen: 0,
    saved: 0,
    deleted: 0,
    untracked: 0,
    failed: 0,
    requests: 0,
  };
  const isFinished = ({ githubId }: GithubRepository) => places?.get(githubId)?.finished ?? false;
  const sizeOf = (some: readonly GithubRepository[]) => some.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
  if (since === undefined)
    Object.assign(progress, { seen: sizeOf(repositories.filter(isFinished)), total: sizeOf(repositories) });

  const github = deps.github.metered(() => {
    result.requests += 1;
  });
  const metered = { ...deps, github };
  const takeTurn = createRequestWorker(metered, organisation.id);
  /** GitHub ids of listed pull requests that wait to be fetched. */
  const waiting = new Set<number>();
  const failing: number[] = [];
  const count = (outcome: FetchOutcome, found: number) => {
    result[outcome] += found;
    result.seen += found;
    progress.seen += found;
    progress.looked = result.seen;
  };
  /** Fetches, or lets other processes fetch, until no more than `left` wait. */
  const fetchUntil = async (left: number) => {
    while (waiting.size > left) {
      signal?.throwIfAborted();
      const hadTurn = await takeTurn(signal);
      // Of one that has been removed, nothing waits any more.
      await getOrganisation(executor, organisation.id);
      for (const [githubId, outcome] of await findOutcomes(executor, organisation.id, [...waiting])) {
        waiting.delete(githubId);
        count(outcome, 1);
        if (outcome === 'failed') failing.push(githubId);
      }
      onProgress?.({ ...progress });
      if (hadTurn || waiting.size <= left) continue;
      await getUsableVersion(executor, organisation.id);
      await retry(() => requireLimits(deps, organisation, 'background'));
      await delay(pollMs, undefined, { signal });
    }
  };

  const importRepository = async (repository: GithubRepository) => {
    const place = places?.get(repository.githubId);
    const list = async (after: string | null) => {
      signal?.throwIfAborted();
      onProgress?.({ ...progress });
      return retry(() => listPage(metered, organisation, repository, { since, after }));
    };
    const start = place?.after ?? null;
    const listOrRestart = (after: string | null) =>
      list(after).catch(error => {
        const isStale = after !== null && after === start && error instanceof GithubError && error.unknownCursor;
        if (!isStale) throw error;
        log.warn({ repository: repository.name }, 'GitHub no longer knows where the import stopped: it starts again');
        return list(null);
      });
    for await (const { items, failed, endCursor, hasNextPage } of readPages(listOrRestart, start)) {
      if (restoresDeleted)
        await removeTombstones(
          executor,
          organisation.id,
          items.map(({ githubId }) => githubId),
        );
      await requestListed(executor, organisation.id, items);
      if (place !== undefined) {
        const importCursor = hasNextPage ? endCursor : null;
        await saveProgress(executor, organisation.id, repository.githubId, { importCursor });
      }
      for (const { githubId } of items) waiting.add(githubId);
      count('failed', failed.length);
      await fetchUntil(maxWaiting);
    }
  };

  for (const repository of repositories) {
    if (isFinished(repository)) continue;
    progress.repository = repository.name;
    try {
      await importRepository(repository);
      result.repositories += 1;
    } catch (error) {
      signal?.throwIfAborted();
      await getOrganisation(executor, organisation.id);
      const reason = await retry(() => reasonOfRepository(metered, organisation, progress.repository, error));
      log.warn({ repository: progress.repository, reason }, 'the import of a repository failed');
      result.failedRepositories.push({ repository: progress.repository, reason });
    }
  }
  await fetchUntil(0);
  if (places !== undefined) await endImport(executor, organisation.id, [...places.keys()]);
  // Some of those that failed have succeeded since.
  for (const outcome of (await findOutcomes(executor, organisation.id, failing)).values()) {
    result.failed -= 1;
    result[outcome] += 1;
  }
  return result;
}
