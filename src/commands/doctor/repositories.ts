/** Whether GitHub still shows the repositories that pull requests are stored of. */
import { findUnconfirmedRepositories, type UnconfirmedRepository } from '../../database/inspection.ts';
import type { IdentifiedOrganisation } from '../../database/organisations.ts';
import { counted } from '../numbers.ts';
import { check, type Finding, list, ok, warning } from './findings.ts';
import { ask, type GithubAccess } from './github.ts';

const maxNamed = 3;

/**
 * Asks GitHub for those that a comparison saw longest ago, until it shows one: those that comparisons still list come
 * after all that they no longer do.
 *
 * @param organisation with its present login
 */
export async function lookAtRepositories(
  access: GithubAccess,
  organisation: IdentifiedOrganisation,
): Promise<Finding[]> {
  const { config, database, github, inspection } = access;
  // Without comparisons the order says nothing.
  if (database === undefined || config.reconcileInterval === 0) return [];
  return check(
    { area: 'github', name: 'repositories', organisation: organisation.login },
    async () => {
      const isShown = async ({ githubId, name }: UnconfirmedRepository) => {
        const { repository } = await ask(access, organisation, () =>
          github.findRepository(organisation, name.slice(name.indexOf('/') + 1)),
        );
        return repository?.githubId === githubId && repository.owner === organisation.login;
      };
      const lost: UnconfirmedRepository[] = [];
      for (const stored of await findUnconfirmedRepositories(database.executor, organisation.id, maxNamed)) {
        if (await isShown(stored)) break;
        lost.push(stored);
      }
      if (lost.length === 0) return ok('GitHub shows the repositories of the stored pull requests.');
      const names = list([...lost.map(({ name }) => name), ...(lost.length === maxNamed ? ['perhaps more'] : [])]);
      const stored = lost.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
      return warning(
        `GitHub no longer shows ${names} here: ${counted(stored, 'stored pull request stays', 'stored pull requests stay')} as last fetched.`,
        `On GitHub, see the repository access of ${inspection.usesApp ? "the App's installation" : inspection.credentialNames}. If the repository was deleted or transferred, there is nothing to do.`,
      );
    },
    'Check the rights of the credentials.',
  );
}
