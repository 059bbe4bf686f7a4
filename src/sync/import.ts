import { setTimeout as delay } from 'node:timers/promises';
import type { Organisation } from '../database/organisations.ts';
import { findImportCursor, saveImportCursor, saveRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { mostPullRequests } from '../github/client.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { createPageSize, withPageSize } from '../github/page-size.ts';
import { callGithub } from './github-limits.ts';
import { syncPullRequests } from './pull-requests.ts';

export interface ImportOptions {
  /** Names of repositories, `owner/name` or only the name; undefined is all of the organisation's. */
  repositories?: readonly string[] | undefined;
  /** Only pull requests that changed at this moment or later, in Unix seconds. */
  since?: number | undefined;
  /** Stops after the page under way; running again goes on there. */
  signal?: AbortSignal | undefined;
  onProgress?: (progress: ImportProgress) => void;
}

export interface ImportProgress {
  /** `owner/name` of the repository under way. */
  repository: string;
  /** Pull requests looked at, of how many in all, as far as is known. */
  seen: number;
  total: number;
  /** Set while GitHub has asked for patience. */
  waitingSeconds?: number;
}

export interface ImportResult {
  repositories: number;
  /** Pull requests looked at. */
  seen: number;
  /** Of these, saved: new, or as fresh as what was stored. */
  saved: number;
  /** Not kept: the author is no member. */
  untracked: number;
  /** Came incompletely from GitHub. */
  failed: number;
  /** Requests to GitHub for pull requests. */
  requests: number;
}

/** Short disturbances of GitHub's are waited out this often for one page. */
const mostTries = 5;

/** Brings in pull requests of the organisation's repositories, page by page, each durable before the next is asked for. */
export async function importPullRequests(
  deps: Deps,
  organisation: Organisation,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const { database, github, log } = deps;
  const { since, signal, onProgress } = options;
  const pageSize = createPageSize(mostPullRequests);
  const repositories = (await listRepositories(deps, organisation, options.repositories)).filter(
    ({ pullRequests, pullRequestsUpdatedAt }) =>
      pullRequests > 0 && (since === undefined || (pullRequestsUpdatedAt ?? 0) >= since),
  );
  const result: ImportResult = {
    repositories: repositories.length,
    seen: 0,
    saved: 0,
    untracked: 0,
    failed: 0,
    requests: 0,
  };
  const progress: ImportProgress = {
    repository: '',
    seen: 0,
    total: since === undefined ? repositories.reduce((sum, { pullRequests }) => sum + pullRequests, 0) : 0,
  };

  /** One page, waiting where GitHub wants it. */
  const syncPage = async (repository: GithubRepository, after: string | null) => {
    for (let tried = 1; ; tried += 1) {
      try {
        return await withPageSize(pageSize, mostPullRequests, size =>
          syncPullRequests(deps, organisation, async () => {
            result.requests += 1;
            const order = since === undefined ? 'created' : 'updated';
            const page = await github.pagePullRequests(organisation.login, repository.nodeId, {
              order,
              after,
              pageSize: size,
            });
            const wanted = (page?.items ?? []).filter(item => since === undefined || item.sourceUpdatedAt >= since);
            return { page, pullRequests: wanted };
          }),
        );
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        const limited = error.code === 'github_rate_limited';
        const passing = error.code === 'github_failed' || error.code === 'github_timeout';
        if (!limited && (!passing || tried === mostTries)) throw error;
        const waitingSeconds = limited ? (error.retryAfter ?? 60) : 2 ** tried;
        log.info({ waitingSeconds, reason: error.message }, 'the import waits for GitHub');
        onProgress?.({ ...progress, waitingSeconds });
        await delay(waitingSeconds * 1000, undefined, { signal });
        if (limited) tried -= 1;
      }
    }
  };

  for (const repository of repositories) {
    const name = `${repository.owner}/${repository.name}`;
    const ids = await database.transaction(executor =>
      saveRepositories(executor, organisation.id, [{ ...repository, name }]),
    );
    const id = ids.get(repository.githubId) ?? '';
    // Pages by latest change move while they are read: such an import is short, and starts anew.
    let after = since === undefined ? await findImportCursor(database.executor, organisation.id, id) : null;
    progress.repository = name;

    for (;;) {
      signal?.throwIfAborted();
      onProgress?.({ ...progress });
      const { reply, outcomes } = await syncPage(repository, after);
      const { page, pullRequests } = reply;
      if (page === undefined) break;
      const { failed } = page;
      for (const { nodeId, error } of failed) log.warn({ nodeId, reason: error.message }, 'not imported');
      const count = (outcome: string) => [...outcomes.values()].filter(one => one === outcome).length;
      result.seen += pullRequests.length + failed.length;
      result.saved += count('saved') + count('outdated');
      result.untracked += count('untracked');
      result.failed += failed.length;
      progress.seen = result.seen;

      const ended = !page.hasNextPage || pullRequests.length < page.items.length;
      if (since === undefined) {
        await saveImportCursor(database.executor, organisation.id, id, ended ? null : page.endCursor);
      }
      if (ended) break;
      after = page.endCursor;
    }
  }
  onProgress?.({ ...progress });
  return result;
}

async function listRepositories(
  deps: Deps,
  organisation: Organisation,
  names: readonly string[] | undefined,
): Promise<GithubRepository[]> {
  const { github } = deps;
  const { login } = organisation;
  if (names === undefined) {
    const all: GithubRepository[] = [];
    for (let after: string | null = null; ; ) {
      const page = await callGithub(deps, organisation, () => github.pageRepositories(login, after));
      all.push(...page.items);
      if (!page.hasNextPage) return all;
      after = page.endCursor;
    }
  }
  const chosen: GithubRepository[] = [];
  for (const text of new Set(names)) {
    const [owner = '', name = ''] = text.includes('/') ? text.split('/') : [login, text];
    if (owner.toLowerCase() !== login.toLowerCase()) {
      throw new ServiceError('bad_request', `${text} does not belong to ${login}: name one of its repositories.`);
    }
    const repository = await callGithub(deps, organisation, () => github.findRepository(login, owner, name));
    if (repository === undefined) {
      throw new ServiceError('not_found', `GitHub shows no repository ${owner}/${name} to the configured credentials.`);
    }
    chosen.push(repository);
  }
  return chosen;
}
