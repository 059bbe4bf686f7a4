import type { Organisation } from '../database/organisations.ts';
import { findImportPlaces, type ImportPlace } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { maxPageSize, maxPullRequests } from '../github/github.ts';
import { pointsOfFetch } from '../github/pull-request-queries.ts';
import { identifyOrganisation } from './identify-organisation.ts';
import {
  type ChosenRepositories,
  type FailedRepository,
  fullName,
  type ImportScope,
  isContinuable,
  maxImportAgeMs,
  parseNames,
  scopeImport,
} from './scope-import.ts';
import { pointsLeft } from './share-github-points.ts';

/**
 * Seconds that GitHub takes for fifty pull requests with every fact, as an estimate: GitHub times out after ten, this
 * service after eight.
 */
const secondsPerFetch = 3;
const secondsPerList = 1;

export interface Effort {
  pullRequests: number;
  requests: number;
  /** Of GitHub's hourly points. */
  points: number;
  seconds: number;
  /** An upper bound: GitHub says how many pull requests there are, not how many changed or are still missing. */
  atMost: boolean;
}

export interface ImportEstimate {
  /** `repository` is `owner/name`. */
  repositories: (Effort & { repository: string })[];
  /** Its seconds include the waits for GitHub's points. */
  total: Effort;
  /** They are not in the estimate. */
  failedRepositories: FailedRepository[];
  ignored: ChosenRepositories['ignored'];
  /** Repositories that the interrupted import, which this one continues, has finished. */
  finished: number;
  /** Requests that the estimate took. */
  asked: number;
  budget: ChosenRepositories['budget'];
}

/** Estimates an import from GitHub's list of repositories, a hundred in a request. Imports nothing. */
export async function estimateImport(
  deps: Deps,
  unidentified: Organisation,
  scope: ImportScope = {},
): Promise<ImportEstimate> {
  parseNames(unidentified.login, scope.repositories);
  const organisation = await identifyOrganisation(deps, unidentified);
  const chosen = await scopeImport(deps, organisation, scope, work => work());
  const places = isContinuable(scope)
    ? await findImportPlaces(deps.database.executor, organisation.id, chosen.repositories, maxImportAgeMs)
    : undefined;
  return estimateOf(chosen, places, scope.since);
}

/** @param places where the import of each repository starts or continues, by GitHub id; undefined: all start */
export function estimateOf(
  { repositories, failedRepositories, ignored, requests: asked, budget }: Omit<ChosenRepositories, 'ticket'>,
  places: ReadonlyMap<number, ImportPlace> | undefined,
  since: number | undefined,
): ImportEstimate {
  const waiting = repositories.filter(({ githubId }) => places?.get(githubId)?.finished !== true);
  const estimates = waiting.map(repository => {
    const fetches = Math.ceil(repository.pullRequests / maxPullRequests);
    const lists = Math.ceil(repository.pullRequests / maxPageSize);
    return {
      repository: fullName(repository),
      pullRequests: repository.pullRequests,
      requests: fetches + lists,
      points: fetches * pointsOfFetch + lists,
      seconds: fetches * secondsPerFetch + lists * secondsPerList,
      atMost: since !== undefined || (places?.get(repository.githubId)?.after ?? null) !== null,
    };
  });
  const total = totalOf(estimates);
  return {
    repositories: estimates,
    total: { ...total, seconds: withWaits(total, budget) },
    failedRepositories,
    ignored,
    finished: repositories.length - waiting.length,
    asked,
    budget,
  };
}

export function totalOf(efforts: readonly Effort[]): Effort {
  const sum = (key: Exclude<keyof Effort, 'atMost'>) => efforts.reduce((total, effort) => total + effort[key], 0);
  return {
    pullRequests: sum('pullRequests'),
    requests: sum('requests'),
    points: sum('points'),
    seconds: sum('seconds'),
    atMost: efforts.some(({ atMost }) => atMost),
  };
}

/** Points that an import may spend now, without the reserve for more urgent work. */
export const usablePoints = (points: { limit: number; remaining: number }): number => pointsLeft('background', points);

/** Work that takes more points than are left waits for the next hour's, as often as it must. */
function withWaits({ seconds, points }: Effort, budget: ChosenRepositories['budget']): number {
  if (budget === undefined || points <= usablePoints(budget)) return seconds;
  const missing = points - usablePoints(budget);
  const hourly = Math.max(1, usablePoints({ ...budget, remaining: budget.limit }));
  const hours = Math.ceil(missing / hourly) - 1;
  const rest = missing - hours * hourly;
  const untilReset = Math.max(0, budget.resetAt - Date.now() / 1000);
  return Math.max(seconds, untilReset + hours * 3600 + (seconds * rest) / points);
}
