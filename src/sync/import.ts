import { setTimeout as delay } from 'node:timers/promises';
import type { Executor } from '../database/client.ts';
import type { Organisation } from '../database/organisations.ts';
import { beginImport, saveProgress, saveRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { isTransientFailure } from '../github/errors.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { estimateOf, type ImportEstimate } from './import-estimate.ts';
import {
  chooseRepositories,
  type FailedRepository,
  fullName,
  type ImportScope,
  isContinuable,
  parseNames,
} from './import-scope.ts';
import { identifyOrganisation, reasonOfRepository } from './organisation.ts';
import { createPageSync, fromCursor } from './pages.ts';
import type { SyncOutcome } from './pull-requests.ts';

export interface ImportOptions extends ImportScope {
  /** Stops after the page under way; the next import continues there. */
  signal?: AbortSignal | undefined;
  /** Runs in the transaction that begins the import: an interrupted one is recorded, too. */
  record?: (executor: Executor) => Promise<void>;
  /** Called once, before the first pull request is fetched. */
  onEstimate?: (estimate: ImportEstimate) => void;
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
  /** Read completely. */
  repositories: number;
  /** Not read completely; the next import continues with them. */
  failedRepositories: FailedRepository[];
  /** Pull requests checked by this run. */
  seen: number;
  /** How many of these are now stored as new as GitHub has them. */
  saved: number;
  /** Not kept: the author is not a member. */
  untracked: number;
  /** Not kept: they were deleted here, and have not changed on GitHub since. */
  deleted: number;
  /** GitHub failed on them, even one by one. The sync loop retries those that GitHub named. */
  failed: number;
  /** Requests to GitHub for pull requests. */
  requests: number;
}

/** How many pull requests in a row are skipped before a repository fails. Each costs up to two of GitHub's timeouts. */
const maxSkipped = 10;

/** Tries in all if GitHub fails for a short time. */
const maxTries = 5;

/** Imports pull requests repository by repository and page by page. Each page is durable before the next is fetched. */
export async function importPullRequests(
  deps: Deps,
  unidentified: Organisation,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const { database, log } = deps;
  const { since, restoresDeleted, signal, record, onEstimate, onProgress } = options;
  parseNames(unidentified.login, options.repositories);
  const progress: ImportProgress = { repository: '', seen: 0, total: 0, looked: 0 };
  const onWait = (waitingSeconds: number, waitingReason: string) => {
    const until = new Date(Date.now() + waitingSeconds * 1000);
    log.info({ waitingSeconds, until, reason: waitingReason }, 'the import waits for GitHub');
    onProgress?.({ ...progress, waitingSeconds, waitingReason });
  };
  const retry = <Result>(work: () => Promise<Result>) => withRetries(work, onWait, signal);

  const organisation = await retry(() => identifyOrganisation(deps, unidentified));
  const chosen = await chooseRepositories(deps, organisation, options, retry);
  const { repositories, ticket } = chosen;
  const places = await database.transaction(async executor => {
    await record?.(executor);
    const values = repositories.map(repository => ({ ...repository, name: fullName(repository) }));
    if (isContinuable(options)) return beginImport(executor, organisation.id, ticket, values);
    await saveRepositories(executor, organisation.id, ticket, values);
    return undefined;
  });
  onEstimate?.(estimateOf(chosen, places, since));
  const result: ImportResult = {
    repositories: 0,
    failedRepositories: [...chosen.failedRepositories],
    seen: 0,
    saved: 0,
    untracked: 0,
    deleted: 0,
    failed: 0,
    requests: 0,
  };
  const isFinished = ({ githubId }: GithubRepository) => places?.get(githubId)?.finished ?? false;
  const sizeOf = (some: readonly GithubRepository[]) => some.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
  let done = sizeOf(repositories.filter(isFinished));
  if (since === undefined) Object.assign(progress, { seen: done, total: sizeOf(repositories) });

  const importRepository = async (repository: GithubRepository) => {
    const place = places?.get(repository.githubId);
    const named = { nodeId: repository.nodeId, name: progress.repository };
    const syncPage = createPageSync(deps, organisation, named, {
      since,
      maxSkipped,
      restoresDeleted,
      onRequest: () => {
        result.requests += 1;
      },
    });
    const readPage = async (after: string | null) => {
      signal?.throwIfAborted();
      onProgress?.({ ...progress });
      return retry(() => syncPage(after));
    };
    let page = await fromCursor(place?.after ?? null, readPage, () =>
      log.warn({ repository: named.name }, 'GitHub no longer knows where the import stopped: it starts again'),
    );
    for (;;) {
      const { outcomes, failed, endCursor, ended } = page;
      const count = (outcome: SyncOutcome) => [...outcomes.values()].filter(one => one === outcome).length;
      result.seen += outcomes.size + failed;
      result.saved += count('saved') + count('outdated');
      result.untracked += count('untracked');
      result.deleted += count('deleted');
      result.failed += failed;
      progress.seen += outcomes.size + failed;
      progress.looked = result.seen;

      if (place !== undefined) {
        const importCursor = ended ? null : endCursor;
        await saveProgress(database.executor, organisation.id, repository.githubId, { importCursor });
      }
      if (ended) return;
      page = await readPage(endCursor);
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
      const reason = await retry(() => reasonOfRepository(deps, organisation, progress.repository, error));
      log.warn({ repository: progress.repository, reason }, 'the import of a repository failed');
      result.failedRepositories.push({ repository: progress.repository, reason });
      done = progress.seen;
    }
  }
  onProgress?.({ ...progress });
  return result;
}

/**
 * Tries again what GitHub does not answer: after a rate limit once it ends, and after transient failures with growing
 * waits.
 *
 * @param onWait called before each wait, with its seconds and the reason
 * @param signal ends a wait
 */
async function withRetries<Result>(
  work: () => Promise<Result>,
  onWait: (seconds: number, reason: string) => void,
  signal: AbortSignal | undefined,
): Promise<Result> {
  for (let failures = 0; ; ) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const limited = error.code === 'github_rate_limited';
      if (!limited) failures += 1;
      if (!limited && (!isTransientFailure(error) || failures === maxTries)) throw error;
      const seconds = limited ? (error.retryAfter ?? 60) : 2 ** failures;
      onWait(seconds, error.text);
      await delay(seconds * 1000, undefined, signal === undefined ? {} : { signal });
    }
  }
}
