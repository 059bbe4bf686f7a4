import { recordAuditEvent } from '../database/audit-log.ts';
import { addUser, listUsers, removeUser, type User } from '../database/users.ts';
import type { Deps } from '../deps.ts';
import { formatId } from '../ids.ts';
import { plain, shellWord, shrinking, table } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';
import type { PullscoreCommand } from './command.ts';
import {
  CommandError,
  type Context,
  confirm,
  operator,
  requireOrganisation,
  requirePhotoUrl,
  UsageError,
} from './context.ts';

const represent = (user: User, organisation: string) => ({
  id: formatId('usr', user.id),
  organisation,
  name: user.name,
  email: user.email,
  photo_url: user.photoUrl,
  created_at: unixSeconds(user.createdAt),
});

/**
 * @throws CommandError if no user has this e-mail address, or users of several organisations have it
 */
export async function requireUser(
  context: Context,
  deps: Deps,
  email: string,
  organisationLogin: string | undefined,
): Promise<User & { organisation: string }> {
  const organisation =
    organisationLogin === undefined ? undefined : await requireOrganisation(context, deps, organisationLogin);
  const found = (await listUsers(deps.database.executor, email)).filter(
    user => organisation === undefined || user.organisationId === organisation.id,
  );
  const [user] = found;
  if (user === undefined) {
    throw new CommandError(`There is no user ${email}.`, `List them: ${context.program} user list`, 'not_found');
  }
  if (found.length > 1) {
    const logins = found.map(({ organisation: login }) => login);
    throw new CommandError(
      `${email} is a user of ${logins.join(' and ')}.`,
      `Choose one, as in --organisation ${logins[0]}.`,
    );
  }
  return user;
}

export function userCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('user').description('the people who hold access tokens');

  group
    .command('add')
    .description('add a user to an organisation')
    .requiredOption('--name <name>', 'display name')
    .requiredOption('--email <email>', 'identifies the user in commands')
    .option('--photo-url <url>', "the photo's address (default: the organisation's photo)")
    .examples('user add --organisation acme --name "Ada Lovelace" --email ada@acme.example')
    .answerFor<{ name: string; email: string; photoUrl?: string }>(({ name, email, photoUrl = '' }) => {
      if (!/^[^\s\p{Cc}\p{Cf}@]+@[^\s\p{Cc}\p{Cf}@]+$/u.test(email) || email.length > 254) {
        throw new UsageError(`"${email}" is not an e-mail address.`);
      }
      if (name.trim() === '' || name.length > 200) throw new UsageError('The name must have 1 to 200 characters.');
      requirePhotoUrl(photoUrl);
      return async ({ database }, { id: organisationId, login, photoUrl: photoOfOrganisation }) => {
        const user = await database.transaction(async executor => {
          const added = await addUser(executor, { organisationId, name, email, photoUrl });
          if (added) await recordAuditEvent(executor, organisationId, operator(), 'user.add', email);
          return added;
        });
        if (user === undefined) throw new CommandError(`${login} already has a user ${email}.`);
        return {
          json: represent({ ...user, photoUrl: user.photoUrl || photoOfOrganisation }, login),
          text: `Added ${plain(name)}. Next, create a token: ${context.program} token create --user ${shellWord(email)} --scopes read,sync --organisation ${login}`,
        };
      };
    });

  group
    .command('list')
    .description('list the users of all organisations')
    .examples('user list')
    .answerWith(() => async ({ database }) => {
      const users = await listUsers(database.executor);
      return {
        json: users.map(user => represent(user, user.organisation)),
        text: table(
          ['EMAIL', shrinking('NAME'), shrinking('ORGANISATION')],
          users.map(user => [user.email, user.name, user.organisation]),
          `There are no users yet. Add one: ${context.program} user add --organisation LOGIN --name NAME --email EMAIL`,
          { width: context.columns },
        ),
      };
    });

  group
    .command('remove')
    .description('remove a user and their tokens')
    .argument('<email>')
    .option('--organisation <login>', 'needed if several organisations have this user')
    .option('--yes', 'do not ask on a terminal')
    .examples('user remove ada@acme.example --yes')
    .answerWith<{ organisation?: string; yes?: boolean }>(({ organisation, yes }, email) => async deps => {
      const user = await requireUser(context, deps, email, organisation);
      const question = `Remove ${user.email} from ${user.organisation} with all tokens?`;
      // Scripts rely on it without --yes.
      await confirm(context, question, user.email, yes || !process.stdin.isTTY);
      await deps.database.transaction(async executor => {
        await removeUser(executor, user);
        await recordAuditEvent(executor, user.organisationId, operator(), 'user.remove', user.email);
      });
      return {
        json: { id: formatId('usr', user.id), removed: true },
        text: `Removed ${plain(user.name)}. Their tokens are no longer valid.`,
      };
    });
}
