import type { Command } from 'commander';
import { syncMembers } from '../sync/members.ts';
import { answeringFor, type Context, requireGithub } from './context.ts';
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
}

function describeMembers(login: string, members: number, left: number | null): string {
  if (left === null) {
    return `GitHub shows only the public members of ${login} to this token (${number(members)}), so nobody was marked as having left. Use the token of a member, or an App.`;
  }
  return `${login} has ${counted(members, 'member')}${left === 0 ? '' : `; ${counted(left, 'has', 'have')} left`}.`;
}
