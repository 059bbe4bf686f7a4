import { recordAuditEvent } from '../database/audit-log.ts';
import {
  addOrganisation,
  findGithubOrganisation,
  listOrganisations,
  type Organisation,
  releaseLogin,
} from '../database/organisations.ts';
import { countPullRequests } from '../database/pull-requests.ts';
import { removeOrganisation } from '../database/removal.ts';
import type { Deps } from '../deps.ts';
import { formatId, newId } from '../ids.ts';
import { askGithub, followIdentity } from '../sync/exchange.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import {
  CommandError,
  type Context,
  confirm,
  operator,
  requirePhotoUrl,
  seconds,
  UsageError,
  withDeps,
  withOrganisation,
} from './context.ts';
import { counted } from './numbers.ts';
import { table } from './terminal.ts';

const nameOf = ({ name, login }: Organisation) => name || login;

const represent = (organisation: Organisation) => ({
  id: formatId('org', organisation.id),
  login: organisation.login,
  // False if there were no credentials to ask GitHub yet.
  verified: organisation.githubId !== null,
  name: nameOf(organisation),
  photo_url: organisation.photoUrl,
  webhooks_enabled: organisation.webhooksEnabled,
  ruleset_version: organisation.rulesetVersion,
  created_at: seconds(organisation.createdAt),
});

interface AddOptions {
  name?: string;
  photoUrl?: string;
}

/** Without credentials for GitHub, the login is all that is known. */
async function addFromGithub(context: Context, deps: Deps, login: string, options: AddOptions): Promise<Answer> {
  const { database, github } = deps;
  const id = newId();
  const ask = async () => (github.configured ? github.findOrganisation({ login }) : undefined);
  const { reply: profile, ticket } = await askGithub(deps, { id, login }, ask);
  if (github.configured && profile === undefined) {
    const message = `GitHub shows no organisation ${login} to the configured credentials.`;
    throw new CommandError(message, 'Check the login and the permissions of the credentials.', 'not_found');
  }
  const known = profile && (await findGithubOrganisation(database.executor, profile));
  if (profile !== undefined && known !== undefined) {
    await followIdentity(deps, known, ticket, profile);
    const renamed =
      known.login.toLowerCase() === login.toLowerCase() ? '' : `; until now it was called ${known.login} here`;
    throw new CommandError(`The organisation ${login} already exists${renamed}.`);
  }
  const added = await database.transaction(async executor => {
    if (profile !== undefined) await releaseLogin(executor, ticket, profile);
    const organisation = await addOrganisation(executor, {
      id,
      login: profile?.login ?? login,
      githubId: profile?.githubId ?? null,
      nodeId: profile?.nodeId ?? null,
      name: options.name ?? profile?.name ?? '',
      photoUrl: options.photoUrl || profile?.photoUrl || `https://github.com/${login}.png`,
      fetchTicket: ticket,
    });
    // Rolls back the released login, too.
    if (organisation === undefined) throw new CommandError(`The organisation ${login} already exists.`);
    await recordAuditEvent(executor, id, operator(), 'organisation.add', organisation.login);
    return organisation;
  });
  const unverified = added.githubId === null ? ', not verified on GitHub yet: there are no credentials' : '';
  return {
    json: represent(added),
    text: `Added ${added.login}${unverified}. Next, add a user: ${context.program} user add --organisation ${added.login} --name NAME --email EMAIL`,
  };
}

export function organisationCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('organisation').description('the organisations whose pull requests are tracked');

  group
    .command('add')
    .description('track an organisation')
    .argument('<login>', "the organisation's login on GitHub")
    .option('--name <name>', 'display name (default: the name on GitHub, or the login)')
    .option('--photo-url <url>', "the photo's address (default: the one on GitHub)")
    .examples('organisation add acme --name "Acme Corporation"')
    .answer<AddOptions>(async (options, login) => {
      if (!/^[A-Za-z0-9](-?[A-Za-z0-9])*$/.test(login) || login.length > 39) {
        throw new UsageError(
          `"${login}" can't be a login on GitHub.`,
          'Use at most 39 letters, digits and single hyphens.',
        );
      }
      requirePhotoUrl(options.photoUrl);
      return withDeps(context, deps => addFromGithub(context, deps, login, options), true);
    });

  group
    .command('list')
    .description('list the organisations')
    .examples('organisation list')
    .answer(() =>
      withDeps(context, async ({ database }) => {
        const organisations = await listOrganisations(database.executor);
        return {
          json: organisations.map(represent),
          text: table(
            ['LOGIN', 'NAME', 'GITHUB', 'WEBHOOKS', 'RULESET'],
            organisations.map(organisation => [
              organisation.login,
              nameOf(organisation),
              organisation.githubId === null ? 'not verified on GitHub yet' : 'verified',
              organisation.webhooksEnabled ? 'enabled' : 'disabled',
              organisation.rulesetVersion === 0 ? 'none' : `version ${organisation.rulesetVersion}`,
            ]),
            `There are no organisations yet. Add one: ${context.program} organisation add LOGIN`,
          ),
        };
      }),
    );

  group
    .command('remove')
    .description('stop tracking an organisation, and delete all that is stored for it but the audit log')
    .argument('<login>')
    .option('--yes', 'do not ask')
    .examples('organisation remove acme --yes')
    .answer<{ yes?: boolean }>(({ yes }, text) =>
      withOrganisation(context, text, async ({ database }, { id, login }) => {
        const pullRequests = await countPullRequests(database.executor, id);
        await confirm(context, `Remove ${login} with ${counted(pullRequests, 'pull request')}?`, login, yes);
        const removed = await removeOrganisation(database, id, executor =>
          recordAuditEvent(executor, id, operator(), 'organisation.remove', login),
        );
        const parts = [
          counted(removed.pullRequests, 'pull request'),
          counted(removed.members, 'member'),
          counted(removed.users, 'user'),
        ];
        return {
          json: {
            organisation: login,
            removed: true,
            pull_requests: removed.pullRequests,
            members: removed.members,
            users: removed.users,
          },
          text: `Removed ${login}: ${parts.join(', ')}. Remove its webhook on GitHub, too.`,
        };
      }),
    );
}
