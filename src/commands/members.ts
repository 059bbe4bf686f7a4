import type { Command } from 'commander';
import { syncMembers } from '../sync/members.ts';
import { answering, type Context, requireGithub, requireOrganisation, withDeps } from './context.ts';
import { counted } from './numbers.ts';

export function memberCommands(program: Command, context: Context): void {
  program
    .command('members')
    .description("the organisation's members")
    .command('sync')
    .description("take over GitHub's list of members")
    .requiredOption('--organisation <login>', 'the organisation')
    .addHelpText('after', `\nExample:\n  ${context.program} members sync --organisation acme`)
    .action(
      answering<{ organisation: string }>(context, ({ organisation: login }) =>
        withDeps(context, async deps => {
          const organisation = await requireOrganisation(context, deps, login);
          requireGithub(deps);
          const { members, left } = await syncMembers(deps, organisation);
          return {
            json: { members, left },
            text: `${organisation.login} has ${counted(members, 'member')}${left === 0 ? '' : `; ${counted(left, 'has', 'have')} left`}.`,
          };
        }),
      ),
    );
}
