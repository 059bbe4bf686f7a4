import type { Command } from 'commander';
import { type ImportProgress, importPullRequests } from '../sync/import.ts';
import {
  answering,
  CommandError,
  type Context,
  requireGithub,
  requireOrganisation,
  UsageError,
  withDeps,
} from './context.ts';
import { startProgress } from './progress.ts';

function parseDay(text: string): number {
  const moment = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(moment)) throw new UsageError(`"${text}" is no day: write it as 2026-01-31.`);
  return moment / 1000;
}

export function importCommands(program: Command, context: Context): void {
  program
    .command('import')
    .description("bring in the organisation's pull requests from GitHub")
    .requiredOption('--organisation <login>', 'the organisation')
    .option(
      '--repository <owner/name>',
      'only this repository; may be given several times',
      (name: string, names: string[] = []) => [...names, name],
    )
    .option('--since <day>', 'only pull requests that changed on this day or later, such as 2026-01-31')
    .addHelpText(
      'after',
      `\nInterrupted, it goes on where it stopped when it is run again.\n\nExample:\n  ${context.program} import --organisation acme --repository acme/website`,
    )
    .action(
      answering<{ organisation: string; repository?: string[]; since?: string }>(context, options => {
        const since = options.since === undefined ? undefined : parseDay(options.since);
        const { interrupted } = context;
        return withDeps(context, async deps => {
          const organisation = await requireOrganisation(context, deps, options.organisation);
          requireGithub(deps);
          const progress = startProgress(context, 'pull requests');
          const show = ({ repository, seen, total, waitingSeconds }: ImportProgress) =>
            progress.update(
              seen,
              total,
              waitingSeconds === undefined ? repository : `${repository}: GitHub wants us to wait ${waitingSeconds} s`,
            );
          try {
            const result = await importPullRequests(deps, organisation, {
              repositories: options.repository,
              since,
              signal: interrupted,
              onProgress: show,
            });
            progress.stop();
            const { repositories, seen, saved, untracked, failed, requests } = result;
            return {
              json: result,
              text:
                `Looked at ${seen} pull requests of ${repositories} repositories with ${requests} requests: ` +
                `${saved} saved, ${untracked} by people who are no members` +
                `${failed === 0 ? '' : `, ${failed} that GitHub did not give whole (see the log)`}.`,
            };
          } catch (error) {
            progress.stop();
            if (!interrupted.aborted) throw error;
            throw new CommandError('Interrupted. What came in is kept; run the same command again to go on.');
          }
        });
      }),
    );
}
