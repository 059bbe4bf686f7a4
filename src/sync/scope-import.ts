/** Which pull requests an import brings in. */
import type { IdentifiedOrganisation, Organisation } from '../database/organisations.ts';
import { findImportPlaces } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { badRequest, notFound, type ServiceError } from '../errors.ts';
import { maxPageSize, maxPullRequests } from '../github/github.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { pointsOfFetch } from '../github/pull-request-queries.ts';
import { identifyOrganisation } from './identify-organisation.ts';
import { separateIgnored } from './ignore-repositories.ts';
import { pageRepositories, readPages } from './list-page.ts';
import { askGithub } from './share-github-points.ts';

/** Which pull requests an import brings in. */
export interface ImportScope {
  /** Names of repositories, `owner/name` or only the name; undefined means all of the organisation's. */
  repositories?: readonly string[] | undefined;
  /** Only pull requests that changed at this moment or later, in Unix seconds. */
  since?: number | undefined;
  /** Brings back those that were deleted here. */
  restoresDeleted?: boolean | undefined;
}

/** An older import is not continued: what it read has changed since. */
export const maxImportAgeMs = 7 * 86_400_000;

/** Whether the import continues an interrupted one. Pages by latest change move while they are read. */
export const isContinuable = ({ since, restoresDeleted = false }: ImportScope): boolean =>
  since === undefined && !restoresDeleted;

export interface FailedRepository {
  /** `owner/name`, or words for one without a known name. */
  repository: string;
  reason: string;
}

export interface ChosenRepositories {
  /** Those with pull requests in the scope. */
  repositories: GithubRepository[];
  /** Those that the organisation ignores, whatever the scope. */
  ignored: (GithubRepository & { ignoredBecause: string })[];
  /** Those that GitHub failed to list. It does not say their names. */
  failedRepositories: FailedRepository[];
  /** Drawn before the first request for them. */
  ticket: number;
}

type Found = { ticket: number; found: GithubRepository[]; failed: ServiceError[] };

type Retry = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** @param retry runs each request */
export async function scopeImport(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  scope: ImportScope,
  retry: Retry,
): Promise<ChosenRepositories> {
  const wanted = parseNames(organisation.login, scope.repositories);
  const { since } = scope;
  const { ticket, found, failed } = await (wanted === undefined
    ? listRepositories(deps, organisation, retry)
    : findNamedRepositories(deps, organisation, wanted, retry));
  const { tracked, ignored } = separateIgnored(organisation, found);
  if (wanted !== undefined) for (const each of ignored) throw refusal(each);
  const repositories = tracked.filter(
    ({ pullRequests, pullRequestsUpdatedAt }) =>
      pullRequests > 0 && (since === undefined || (pullRequestsUpdatedAt ?? 0) >= since),
  );
  const repository = `a repository of ${organisation.login}`;
  const failedRepositories = failed.map(({ text: reason }) => ({ repository, reason }));
  return { repositories, ignored, failedRepositories, ticket };
}

const refusal = ({ name, ignoredBecause }: ChosenRepositories['ignored'][number]) =>
  badRequest(
    `The organisation ignores ${name}: ${ignoredBecause}.`,
    'To track it, change the settings of the organisation.',
  );

async function listRepositories(deps: Deps, organisation: IdentifiedOrganisation, retry: Retry): Promise<Found> {
  const all: Found = { ticket: Number.POSITIVE_INFINITY, found: [], failed: [] };
  for await (const page of readPages(after => retry(() => pageRepositories(deps, organisation, after)))) {
    all.ticket = Math.min(all.ticket, page.ticket);
    all.found.push(...page.items);
    all.failed.push(...page.failed);
  }
  return all;
}

/**
 * Names without the owner, in lower case; undefined for all.
 *
 * @throws ServiceError `bad_request`
 */
export function parseNames(login: string, names: readonly string[] | undefined): Set<string> | undefined {
  if (names === undefined) return undefined;
  return new Set(
    names.map(text => {
      const [, owner = login, name] = /^(?:([\w.-]+)\/)?([\w.-]+)$/.exec(text) ?? [];
      if (name === undefined) {
        throw badRequest(`"${text}" is not a repository: write it as ${login}/website.`);
      }
      if (owner.toLowerCase() !== login.toLowerCase()) {
        throw badRequest(`${text} does not belong to ${login}: name one of its repositories.`);
      }
      return name.toLowerCase();
    }),
  );
}

async function findNamedRepositories(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  names: Set<string>,
  retry: Retry,
): Promise<Found> {
  const chosen = new Map<number, GithubRepository>();
  const tickets: number[] = [];
  for (const name of names) {
    const { reply, ticket } = await retry(() =>
      askGithub(deps, organisation, github => github.findRepository(organisation, name), {
        urgency: 'background',
        identityIn: found => found.organisation,
      }),
    );
    const { repository } = reply;
    const { login } = reply.organisation;
    if (repository === undefined) {
      throw notFound(
        `GitHub shows no repository ${login}/${name} to the configured credentials.`,
        'Check the name and the permissions of the credentials.',
      );
    }
    if (repository.owner !== login) {
      throw badRequest(
        `The repository ${login}/${name} now belongs to ${repository.owner}.`,
        `Leave it out, or import it for ${repository.owner}.`,
      );
    }
    tickets.push(ticket);
    chosen.set(repository.githubId, repository);
  }
  return { ticket: Math.min(...tickets), found: [...chosen.values()], failed: [] };
}

/** What an import would bring in. */
export interface ImportPreview extends Omit<ChosenRepositories, 'ticket'> {
  /** Repositories that the interrupted import, which this one continues, has finished. */
  finished: number;
}

/** Asks GitHub for the repositories only, a hundred in a request. Imports nothing. */
export async function previewImport(
  deps: Deps,
  unidentified: Organisation,
  scope: ImportScope = {},
): Promise<ImportPreview> {
  parseNames(unidentified.login, scope.repositories);
  const organisation = await identifyOrganisation(deps, unidentified);
  const { repositories: chosen, ...others } = await scopeImport(deps, organisation, scope, work => work());
  const places = isContinuable(scope)
    ? await findImportPlaces(deps.database.executor, organisation.id, chosen, maxImportAgeMs)
    : undefined;
  const repositories = chosen.filter(({ githubId }) => places?.get(githubId)?.finished !== true);
  return { ...others, repositories, finished: chosen.length - repositories.length };
}

/** Seconds that GitHub takes for a request, about: it times out after ten, this service after eight. */
const secondsPerFetch = 3;
const secondsPerList = 1;

/** About what it takes to import so many pull requests of one repository. `points` are of GitHub's hourly ones. */
export function estimateEffort(pullRequests: number) {
  const fetches = Math.ceil(pullRequests / maxPullRequests);
  const lists = Math.ceil(pullRequests / maxPageSize);
  return {
    requests: fetches + lists,
    points: fetches * pointsOfFetch + lists,
    seconds: fetches * secondsPerFetch + lists * secondsPerList,
  };
}
