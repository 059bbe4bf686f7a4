import { recordAuditEvent } from '../database/audit-log.ts';
import type { Database } from '../database/client.ts';
import { beginRemoval, countRemoved, finishRemoval } from '../database/erasure.ts';
import {
  addOrganisation,
  findGithubOrganisation,
  findOrganisation,
  listOrganisations,
  type Organisation,
  releaseLogin,
  saveGithubIdentity,
} from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { githubWebsite } from '../github/app-manifest.ts';
import { formatId, newId } from '../ids.ts';
import { askGithub } from '../sync/share-github-points.ts';
import { counted } from '../text/number-formats.ts';
import { shrinking, table } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import {
  beingRemoved,
  CommandError,
  type Context,
  confirm,
  operator,
  requireOrganisation,
  requirePhotoUrl,
  showTime,
  UsageError,
  withDeps,
} from './context.ts';
import { representIgnored, settingsCommand } from './organisation-settings.ts';
import { startProgress } from './progress.ts';

const nameOf = ({ name, login }: Organisation) => name || login;

const represent = (organisation: Organisation) => ({
  id: formatId('org', organisation.id),
  login: organisation.login,
  // False if there were no credentials to ask GitHub yet.
  verified: organisation.githubId !== null,
  name: nameOf(organisation),
  photo_url: organisation.photoUrl,
  webhooks_enabled: organisation.webhooksEnabled,
  ignore: representIgnored(organisation),
  ruleset_version: organisation.rulesetVersion,
  created_at: unixSeconds(organisation.createdAt),
  removal_began_at: unixSeconds(organisation.removedAt),
});

interface AddOptions {
  name?: string;
  photoUrl?: string;
}

/** Without credentials for GitHub, the login is all that is known. */
async function addFromGithub(context: Context, deps: Deps, login: string, options: AddOptions): Promise<Answer> {
  const { config, database, github } = deps;
  const id = newId();
  const ask = async (asked: Deps['github']) => (github.configured ? asked.findOrganisation({ login }) : undefined);
  const { reply: profile, ticket } = await askGithub(deps, { id, login }, ask);
  if (github.configured && profile === undefined) {
    const message = `GitHub shows no organisation ${login} to the configured credentials.`;
    throw new CommandError(message, 'Check the login and the permissions of the credentials.', 'not_found');
  }
  const known = profile && (await findGithubOrganisation(database.executor, profile));
  if (profile !== undefined && known !== undefined) {
    await database.transaction(executor => saveGithubIdentity(executor, known.id, ticket, profile));
    const renamed =
      known.login.toLowerCase() === login.toLowerCase() ? '' : `; until now it was called ${known.login} here`;
    if (known.removedAt !== null) throw beingRemoved(context, known);
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
      photoUrl: options.photoUrl || profile?.photoUrl || `${githubWebsite(config.github.apiUrl)}/${login}.png`,
      fetchTicket: ticket,
    });
    // Rolls back the released login, too.
    if (organisation === undefined) {
      const stored = await findOrganisation(executor, login);
      if (stored !== undefined && stored.removedAt !== null) throw beingRemoved(context, stored);
      throw new CommandError(`The organisation ${login} already exists.`);
    }
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
  const group = program
    .command('organisation')
    .alias('organization')
    .description('the organisations whose pull requests are tracked');

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
      return withDeps(context, deps => addFromGithub(context, deps, login, options), { create: true });
    });

  group
    .command('list')
    .description('list the organisations')
    .examples('organisation list')
    .answerWith(() => async ({ database }) => {
      const organisations = await listOrganisations(database.executor);
      return {
        json: organisations.map(represent),
        text: table(
          ['LOGIN', shrinking('NAME'), shrinking('GITHUB'), 'WEBHOOKS', 'RULESET'],
          organisations.map(organisation => [
            organisation.login,
            organisation.removedAt === null
              ? nameOf(organisation)
              : `being removed since ${showTime(organisation.removedAt)} UTC`,
            organisation.githubId === null ? 'not verified on GitHub yet' : 'verified',
            organisation.webhooksEnabled ? 'enabled' : 'disabled',
            organisation.rulesetVersion === 0 ? 'none' : `version ${organisation.rulesetVersion}`,
          ]),
          `There are no organisations yet. Add one: ${context.program} organisation add LOGIN`,
          { width: context.columns },
        ),
      };
    });

  settingsCommand(group, context);

  group
    .command('remove')
    .description('stop tracking an organisation, and delete all that is stored for it but the audit log')
    .argument('<login>')
    .option('--yes', 'do not ask')
    .examples('organisation remove acme --yes')
    .addHelpText(
      'after',
      `
The organisation disappears at once. If the command is interrupted, the service finishes the removal,
or run it again. The audit log stays for three years, with logins and e-mail addresses:
it is the evidence if somebody asks later about the removal, or why scores were what they were.`,
    )
    .answerWith<{ yes?: boolean }>(({ yes }, text) => async deps => {
      const { database } = deps;
      const { executor } = database;
      const { id, login, removedAt } = await requireOrganisation(context, deps, text, { removed: true });
      const { pullRequests, members, users } = await countRemoved(executor, id);
      if (removedAt === null) {
        await confirm(context, `Remove ${login} with ${counted(pullRequests, 'pull request')}?`, login, yes);
        await database.transaction(async transaction => {
          await recordAuditEvent(transaction, id, operator(), 'organisation.remove', login);
          await beginRemoval(transaction, id);
        });
      }
      await removeRows(context, database, id);
      const parts = [counted(pullRequests, 'pull request'), counted(members, 'member'), counted(users, 'user')];
      return {
        json: { organisation: login, removed: true, pull_requests: pullRequests, members, users },
        text: `Removed ${login}: ${parts.join(', ')}. Its audit log stays for three years. Remove its webhook on GitHub, too.`,
      };
    });
}

/** Deletes what is stored, with progress. A running service helps. */
async function removeRows(context: Context, database: Database, id: string): Promise<void> {
  const progress = startProgress(context, 'rows');
  let deleted = 0;
  try {
    await finishRemoval(database, id, rows => {
      deleted += rows;
      progress.update(deleted, 0);
    });
  } finally {
    progress.stop();
  }
}
