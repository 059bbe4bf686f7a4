import type { Command } from 'commander';
import { recordAuditEvent } from '../database/audit.ts';
import { eraseMember } from '../database/removal.ts';
import { syncMembers } from '../sync/members.ts';
import { answeringFor, CommandError, type Context, confirm, operator, requireGithub } from './context.ts';
import { counted, number } from './numbers.ts';

export function memberCommands(program: Command, context: Context): void {
  program
    .command('members')
    .description("the organisation's members")
    .command('sync')
    .description("read GitHub's list of members now")
    .requiredOption('--organisation <login>', "the organisation's login (required)")
    .addHelpText('after', `\nExample:\n  ${context.program} members sync --organisation acme`)
    .action(
      answeringFor(context, async (deps, organisation) => {
        requireGithub(deps);
        const { members, left } = await syncMembers(deps, organisation);
        return { json: { members, left }, text: describeMembers(organisation.login, members, left) };
      }),
    );

  program
    .command('member')
    .description('one member of the organisation')
    .command('erase')
    .description('delete what is stored of a person: profile, pull requests, scores and assignments')
    .argument('<login>', "the person's login on GitHub")
    .requiredOption('--organisation <login>', "the organisation's login (required)")
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      `\nTitles, descriptions and comments of others are left as they are.\n\nExample:\n  ${context.program} member erase ada --organisation acme --yes`,
    )
    .action(
      answeringFor<{ yes?: boolean }>(context, async ({ database }, organisation, { yes }, login = '') => {
        await confirm(context, `Erase ${login} from ${organisation.login}?`, login, yes);
        const erased = await eraseMember(database, organisation.id, login, executor =>
          recordAuditEvent(executor, organisation.id, operator(), 'member.erase', login),
        );
        if (erased === undefined) {
          throw new CommandError(`${organisation.login} knows nobody with the login ${login}: check its spelling.`);
        }
        const { pullRequests, assignments, hadLeft } = erased;
        const note = hadLeft
          ? ''
          : ` GitHub listed them as a member last: remove them from ${organisation.login} there, or the next comparison adds them again.`;
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
      }),
    );
}

function describeMembers(login: string, members: number, left: number | null): string {
  if (left === null) {
    return `GitHub shows only the public members of ${login} to this token (${number(members)}), so nobody was marked as having left. Use the token of a member, or an App.`;
  }
  return `${login} has ${counted(members, 'member')}${left === 0 ? '' : `; ${counted(left, 'has', 'have')} left`}.`;
}
