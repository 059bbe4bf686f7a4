import { isDatabaseUnavailable } from '../database/driver-errors.ts';
import type { IdentifiedOrganisation, Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { notFound, ServiceError } from '../errors.ts';
import { GithubError } from '../github/github-error.ts';
import { askGithub } from './share-github-points.ts';

/**
 * Asks GitHub for the ids of an organisation that are not known yet. From then on the ids identify it: a login can be
 * given up and taken by others.
 *
 * @throws ServiceError `not_found` if no organisation has the login, or another one
 */
export async function identifyOrganisation(deps: Deps, organisation: Organisation): Promise<IdentifiedOrganisation> {
  const { githubId, nodeId, login } = organisation;
  if (githubId !== null && nodeId !== null) return { ...organisation, githubId, nodeId };
  const { reply: profile } = await askGithub(deps, organisation, github => github.findOrganisation(organisation), {
    urgency: 'background',
    identityIn: found => (githubId === null || found?.githubId === githubId ? found : undefined),
  });
  const ifRenamed =
    'If it was renamed, edit one of its pull requests on GitHub: pullscore learns the new login when it fetches it.';
  if (profile === undefined) {
    const check = 'Check the login and the rights of the credentials.';
    throw notFound(
      `GitHub shows no organisation ${login} to the configured credentials.`,
      githubId === null ? check : `${check} ${ifRenamed}`,
    );
  }
  if (githubId !== null && profile.githubId !== githubId) {
    throw notFound(`On GitHub, the login ${login} now belongs to a different organisation.`, ifRenamed);
  }
  return { ...organisation, githubId: profile.githubId, nodeId: profile.nodeId, login: profile.login };
}

/**
 * Why one repository can't be read, if the trouble is its own: GitHub still answers about the organisation. Any other
 * error is thrown again.
 *
 * @throws GithubError also if GitHub fails on this request
 */
export async function reasonOfRepository(
  deps: Pick<Deps, 'config' | 'database' | 'github' | 'log'>,
  organisation: IdentifiedOrganisation,
  repository: string,
  error: unknown,
): Promise<string> {
  if (!(error instanceof ServiceError)) {
    if (isDatabaseUnavailable(error)) throw error;
    deps.log.error({ err: error, repository }, 'a repository was not read');
    return 'Internal error; see the log.';
  }
  if (error.code === 'github_rate_limited' || (error instanceof GithubError && error.isLasting)) throw error;
  const { reply: profile } = await askGithub(deps, organisation, github => github.findOrganisation(organisation), {
    urgency: 'background',
  });
  if (profile === undefined) throw error;
  return error.text;
}
