import { type Organisation, saveGithubIdentity } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { callGithub } from './github-limits.ts';

/** Learns the id of an organisation that was added without credentials: a login can be given up and taken by others. */
export async function identifyOrganisation(deps: Deps, organisation: Organisation): Promise<Organisation> {
  if (organisation.githubId !== null) return organisation;
  const { login } = organisation;
  const profile = await callGithub(deps, organisation, () => deps.github.findOrganisation(login));
  if (profile === undefined) {
    throw new ServiceError(
      'not_found',
      `GitHub shows no organisation ${login} to the configured credentials: check the login and their rights.`,
    );
  }
  const identity = { githubId: profile.githubId, login: profile.login };
  await saveGithubIdentity(deps.database.executor, organisation.id, identity);
  return { ...organisation, ...identity };
}
