import { type IdentifiedOrganisation, type Organisation, saveGithubIdentity } from '../database/organisations.ts';
import { drawTicket } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import type { OrganisationPage } from '../github/client.ts';
import type { GithubIdentity, GithubRepository } from '../github/organisation.ts';
import { callGithub } from './github-limits.ts';

/**
 * Learns GitHub's ids of an organisation that only its login, or only one of them, is known of. From then on it is asked
 * for by them: a login can be given up and taken by others.
 *
 * @throws ServiceError `not_found` where the login leads to none, or to another one
 */
export async function identifyOrganisation(deps: Deps, organisation: Organisation): Promise<IdentifiedOrganisation> {
  const { githubId, nodeId, login } = organisation;
  if (githubId !== null && nodeId !== null) return { ...organisation, githubId, nodeId };
  const ticket = await drawTicket(deps.database.executor);
  const profile = await callGithub(deps, organisation, () => deps.github.findOrganisation(organisation));
  const wayOut =
    githubId === null
      ? ''
      : ' Where it was renamed, the new login is learned from the next of its pull requests that is fetched: change one on GitHub.';
  if (profile === undefined) {
    throw new ServiceError(
      'not_found',
      `GitHub shows no organisation ${login} to the configured credentials: check the login and their rights.${wayOut}`,
    );
  }
  if (githubId !== null && profile.githubId !== githubId) {
    throw new ServiceError(
      'not_found',
      `The login ${login} belongs to another organisation on GitHub now, which is not the one tracked here.${wayOut}`,
    );
  }
  return followOrganisation(deps, organisation, ticket, profile);
}

/**
 * Takes over what GitHub has just said of the organisation's ids and login.
 *
 * @param ticket drawn before GitHub was asked
 */
export async function followOrganisation(
  { database, log }: Pick<Deps, 'database' | 'log'>,
  organisation: Organisation,
  ticket: number,
  { githubId, nodeId, login }: GithubIdentity,
): Promise<IdentifiedOrganisation> {
  const present = { ...organisation, githubId, nodeId, login };
  const isRenamed = await database.transaction(executor =>
    saveGithubIdentity(executor, organisation.id, ticket, present),
  );
  if (isRenamed) log.info({ organisation: login, before: organisation.login }, 'the organisation has another login');
  return present;
}

/** A hundred of the organisation's repositories, and the ticket that was drawn before GitHub was asked for them. */
export async function pageRepositories(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  after: string | null,
): Promise<OrganisationPage<GithubRepository> & { ticket: number }> {
  const ticket = await drawTicket(deps.database.executor);
  const page = await callGithub(deps, organisation, () => deps.github.pageRepositories(organisation, after));
  await followOrganisation(deps, organisation, ticket, page.organisation);
  return { ...page, ticket };
}
