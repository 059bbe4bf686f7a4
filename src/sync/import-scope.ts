import type { IdentifiedOrganisation } from '../database/organisations.ts';
import { drawTicket } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import type { GithubRepository } from '../github/organisation.ts';
import type { RateLimit } from '../github/transport.ts';
import { callGithub } from './github-limits.ts';
import { followOrganisation, pageRepositories } from './organisation.ts';

/** Which pull requests an import is about. */
export interface ImportScope {
  /** Names of repositories, `owner/name` or only the name; undefined is all of the organisation's. */
  repositories?: readonly string[] | undefined;
  /** Only pull requests that changed at this moment or later, in Unix seconds. */
  since?: number | undefined;
}

export interface ChosenRepositories {
  /** Those that have pull requests in question. */
  repositories: GithubRepository[];
  /** That it took to find them. */
  requests: number;
  /** What GitHub said last of the points; undefined on a GitHub Enterprise Server without rate limits. */
  budget: Omit<RateLimit, 'cost'> | undefined;
}

/** `owner/name` */
export const fullName = ({ owner, name }: Pick<GithubRepository, 'owner' | 'name'>) => `${owner}/${name}`;

type Retrying = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** @param retrying runs each request */
export async function chooseRepositories(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  scope: ImportScope,
  retrying: Retrying,
): Promise<ChosenRepositories> {
  const wanted = parseNames(organisation.login, scope.repositories);
  const { since } = scope;
  let budget: ChosenRepositories['budget'];
  let requests = 0;
  const end = deps.github.onRequest(({ organisation: login, rateLimit }) => {
    if (login !== organisation.login) return;
    requests += 1;
    budget = rateLimit;
  });
  try {
    const all = await (wanted === undefined
      ? listRepositories(deps, organisation, retrying)
      : findRepositories(deps, organisation, wanted, retrying));
    const repositories = all.filter(
      ({ pullRequests, pullRequestsUpdatedAt }) =>
        pullRequests > 0 && (since === undefined || (pullRequestsUpdatedAt ?? 0) >= since),
    );
    return { repositories, requests, budget };
  } finally {
    end();
  }
}

async function listRepositories(deps: Deps, organisation: IdentifiedOrganisation, retrying: Retrying) {
  const all: GithubRepository[] = [];
  const readPage = (after: string | null) => retrying(() => pageRepositories(deps, organisation, after));
  for (let after: string | null = null; ; ) {
    const page = await readPage(after);
    all.push(...page.items);
    if (!page.hasNextPage) return all;
    after = page.endCursor;
  }
}

/**
 * Those that were asked for by name, without the owner; undefined for all.
 * @throws ServiceError `bad_request`
 */
export function parseNames(login: string, names: readonly string[] | undefined): Set<string> | undefined {
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

async function findRepositories(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  names: Set<string>,
  retrying: Retrying,
) {
  const chosen = new Map<number, GithubRepository>();
  for (const name of names) {
    const ticket = await drawTicket(deps.database.executor);
    const { organisation: present, repository } = await retrying(() =>
      callGithub(deps, organisation, () => deps.github.findRepository(organisation, name), 'background'),
    );
    const { login } = await followOrganisation(deps, organisation, ticket, present);
    if (repository === undefined) {
      throw new ServiceError('not_found', `GitHub shows no repository ${login}/${name} to the configured credentials.`);
    }
    if (repository.owner !== login) {
      throw new ServiceError('bad_request', `The repository ${login}/${name} belongs to ${repository.owner} now.`);
    }
    chosen.set(repository.githubId, repository);
  }
  return [...chosen.values()];
}
