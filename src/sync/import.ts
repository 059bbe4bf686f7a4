import type { Organisation } from '../database/organisations.ts';
import { drawTicket } from '../database/pull-requests.ts';
import { beginImport, saveImportCursor, saveRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { callGithub } from './github-limits.ts';
import { identifyOrganisation } from './organisation.ts';
import { createPages } from './pages.ts';
import { withPatience } from './patience.ts';
import type { SyncOutcome } from './pull-requests.ts';

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
  /** Pull requests looked at, by an import that was interrupted too, of how many in all, as far as is known. */
  seen: number;
  total: number;
  /** Set while GitHub has asked for patience. */
  waitingSeconds?: number;
}

export interface ImportResult {
  repositories: number;
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
const mostPassedOver = 10;

/** Brings in pull requests of the organisation's repositories, page by page, each durable before the next is asked for. */
export async function importPullRequests(
  deps: Deps,
  unidentified: Organisation,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const { database, log } = deps;
  const { since, signal, onProgress } = options;
  const wanted = parseNames(unidentified.login, options.repositories);
  const progress: ImportProgress = { repository: '', seen: 0, total: 0 };
  const patiently = <Result>(work: () => Promise<Result>) =>
    withPatience(
      work,
      (waitingSeconds, reason) => {
        log.info({ waitingSeconds, reason }, 'the import waits for GitHub');
        onProgress?.({ ...progress, waitingSeconds });
      },
      signal,
    );

  const organisation = await patiently(() => identifyOrganisation(deps, unidentified));
  const ticket = await drawTicket(database.executor);
  const repositories = (
    wanted === undefined
      ? await listRepositories(deps, organisation, patiently)
      : await findRepositories(deps, organisation, wanted, patiently)
  ).filter(
    ({ pullRequests, pullRequestsUpdatedAt }) =>
      pullRequests > 0 && (since === undefined || (pullRequestsUpdatedAt ?? 0) >= since),
  );
  const places = await database.transaction(async executor => {
    const values = repositories.map(repository => ({ ...repository, name: fullName(repository) }));
    if (since === undefined) return beginImport(executor, organisation.id, ticket, values);
    // Pages by latest change move while they are read: such an import is short, and always starts anew.
    await saveRepositories(executor, organisation.id, ticket, values);
    return undefined;
  });
  const result: ImportResult = { repositories: 0, seen: 0, saved: 0, untracked: 0, failed: 0, requests: 0 };
  let done = 0;
  if (since === undefined) progress.total = repositories.reduce((sum, { pullRequests }) => sum + pullRequests, 0);

  for (const repository of repositories) {
    const place = places?.get(repository.githubId);
    let after = place?.after ?? null;
    const syncPage = createPages(deps, organisation, repository, {
      since,
      mostPassedOver,
      onRequest: () => {
        result.requests += 1;
      },
    });
    for (let ended = place?.finished ?? false; !ended; ) {
      progress.repository = fullName(repository);
      signal?.throwIfAborted();
      onProgress?.({ ...progress });
      const page = await patiently(() => syncPage(after));
      const count = (outcome: SyncOutcome) => [...page.outcomes.values()].filter(one => one === outcome).length;
      result.seen += page.outcomes.size + page.failed;
      result.saved += count('saved') + count('outdated');
      result.untracked += count('untracked');
      result.failed += page.failed;
      progress.seen += page.outcomes.size + page.failed;

      after = page.endCursor;
      ended = page.ended;
      if (place !== undefined) {
        await saveImportCursor(database.executor, organisation.id, place.id, ended ? null : after);
      }
    }
    if (place?.finished !== true) result.repositories += 1;
    done += repository.pullRequests;
    if (since === undefined) progress.seen = done;
  }
  onProgress?.({ ...progress });
  return result;
}

const fullName = ({ owner, name }: GithubRepository) => `${owner}/${name}`;

type Patience = <Result>(work: () => Promise<Result>) => Promise<Result>;

async function listRepositories(deps: Deps, organisation: Organisation, patiently: Patience) {
  const { login } = organisation;
  const all: GithubRepository[] = [];
  const readPage = (after: string | null) =>
    patiently(() => callGithub(deps, organisation, () => deps.github.pageRepositories(login, after)));
  for (let after: string | null = null; ; ) {
    const page = await readPage(after);
    all.push(...page.items);
    if (!page.hasNextPage) return all;
    after = page.endCursor;
  }
}

/** Those that were asked for by name, without the owner; undefined for all. */
function parseNames(login: string, names: readonly string[] | undefined): Set<string> | undefined {
  if (names === undefined) return undefined;
  return new Set(
    names.map(text => {
      const [, owner = login, name] = /^(?:([\w.-]+)\/)?([\w.-]+)$/.exec(text) ?? [];
      if (name === undefined) {
        throw new ServiceError('bad_request', `"${text}" is no repository: write it as ${login}/website.`);
      }
      if (owner.toLowerCase() !== login.toLowerCase()) {
        throw new ServiceError('bad_request', `${text} does not belong to ${login}: name one of its repositories.`);
      }
      return name.toLowerCase();
    }),
  );
}

async function findRepositories(deps: Deps, organisation: Organisation, names: Set<string>, patiently: Patience) {
  const { login } = organisation;
  const chosen = new Map<number, GithubRepository>();
  for (const name of names) {
    const repository = await patiently(() =>
      callGithub(deps, organisation, () => deps.github.findRepository(login, login, name)),
    );
    if (repository === undefined) {
      throw new ServiceError('not_found', `GitHub shows no repository ${login}/${name} to the configured credentials.`);
    }
    if (repository.owner.toLowerCase() !== login.toLowerCase()) {
      throw new ServiceError('bad_request', `The repository ${login}/${name} belongs to ${repository.owner} now.`);
    }
    chosen.set(repository.githubId, repository);
  }
  return [...chosen.values()];
}
