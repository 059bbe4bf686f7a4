import { recordAuditEvent } from '../database/audit-log.ts';
import { findMembersByLogin, listMembers } from '../database/members.ts';
import { eraseMembers } from '../database/removal.ts';
import { noCredentials } from '../github/credentials.ts';
import { formatId } from '../ids.ts';
import { syncMembers } from '../sync/members.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, confirm, operator, seconds, showTime } from './context.ts';
import { counted, formatInteger } from './numbers.ts';
import { table } from './terminal.ts';

export function memberCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('members').description("the organisation's members");

  group
    .command('list')
    .description('list the members, and with --left also those who have left')
    .option('--left', 'also list those who have left: their pull requests are kept')
    .examples('members list --organisation acme')
    .answerFor<{ left?: boolean }>(({ left = false }) => async ({ database }, { id, login }) => {
      const members = await listMembers(database.executor, id, left);
      return {
        json: members.map(member => ({
          id: formatId('mem', member.id),
          external_id: String(member.githubId),
          login: member.login,
          name: member.name,
          created_at: seconds(member.createdAt),
          left_at: seconds(member.leftAt),
        })),
        text: table(
          ['LOGIN', 'NAME', ...(left ? ['LEFT'] : [])],
          members.map(member => [member.login, member.name, ...(left ? [showTime(member.leftAt)] : [])]),
          `No members of ${login} are known. Fetch the list: ${context.program} members sync --organisation ${login}`,
        ),
      };
    });

  group
    .command('sync')
    .description("read GitHub's list of members now")
    .examples('members sync --organisation acme')
    .answerFor(() => async (deps, organisation) => {
      if (!deps.github.configured) throw noCredentials();
      const { members, left } = await syncMembers(deps, organisation, executor =>
        recordAuditEvent(executor, organisation.id, operator(), 'members.sync', organisation.login),
      );
      return { json: { members, left }, text: describeMembers(organisation.login, members, left) };
    });

  program
    .command('member')
    .description('one member of the organisation')
    .command('erase')
    .description('delete what is stored about a person: profile, pull requests, scores and assignments')
    .argument('<login>', "the person's login on GitHub")
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nTitles, descriptions and comments of others are left as they are.')
    .examples('member erase ada --organisation acme --yes')
    .answerFor<{ yes?: boolean }>(({ yes }, login) => async ({ database }, organisation) => {
      const people = await findMembersByLogin(database.executor, organisation.id, login);
      if (people.length === 0) {
        const message = `No member of ${organisation.login} has the login ${login}.`;
        throw new CommandError(message, 'Check its spelling.', 'not_found');
      }
      await confirm(context, `Erase ${login} from ${organisation.login}?`, login, yes);
      const { pullRequests, assignments, hadLeft } = await eraseMembers(database, organisation.id, people, executor =>
        recordAuditEvent(executor, organisation.id, operator(), 'member.erase', login),
      );
      const note = hadLeft
        ? ''
        : ` GitHub last listed them as a member: remove them from ${organisation.login} there, or the next comparison adds them again.`;
      return {
        json: {
          organisation: organisation.login,
          login,
          pull_requests: pullRequests,
          assignments,
          had_left: hadLeft,
        },
        text: `Erased ${login}: the profile, ${counted(pullRequests, 'pull request')} and ${counted(assignments, 'assignment')}.${note}`,
      };
    });
}

function describeMembers(login: string, members: number, left: number | null): string {
  if (left === null) {
    return `GitHub shows only the public members of ${login} to these credentials (${formatInteger(members)}), so nobody was marked as having left. Use the token of a member that may read Members (a classic one: the scope read:org), or an App that may.`;
  }
  return `${login} has ${counted(members, 'member')}${left === 0 ? '' : `; ${counted(left, 'has', 'have')} left`}.`;
}
