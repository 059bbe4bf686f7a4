import { setTimeout as delay } from 'node:timers/promises';
import { countOutdated } from '../database/backlog.ts';
import type { Executor } from '../database/client.ts';
import { countPullRequests } from '../database/pull-requests.ts';
import { counted, formatInteger } from '../text/number-formats.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context } from './context.ts';
import { countWorkers } from './doctor/inspection.ts';
import { withProgress } from './progress.ts';

/**
 * Which process recalculates outdated scores, and how an operator does it or watches it.
 *
 * @param executor undefined if a service was asked
 */
export async function describeRescoring(
  { program }: Context,
  executor: Executor | undefined,
  login: string,
): Promise<string> {
  if (executor === undefined) return 'The service updates the scores.';
  const command = `${program} rescore --organisation ${login}`;
  return (await countWorkers(executor)) > 0
    ? `The service updates the scores. To watch: ${command}`
    : `No service is running. To update the scores: ${command}`;
}

export function rescoreCommands(program: PullscoreCommand, context: Context): void {
  program
    .command('rescore')
    .description('bring every score up to date with the rules in force, and wait for it')
    .addHelpText('after', '\nThe service does this in the background. This command helps it and shows the progress.')
    .examples('rescore --organisation acme')
    .answerFor(() => async ({ database: { executor }, scorer }, { id }) => {
      const outdated = await countOutdated(executor, id);
      const total = await countPullRequests(executor, id);
      await withProgress(
        context,
        'scores',
        async ({ signal, onProgress }) => {
          let left = outdated;
          while (left > 0) {
            onProgress(Math.max(0, outdated - left), outdated);
            signal.throwIfAborted();
            const scored = await scorer.run('rescore', { organisationId: id });
            // The service may be working on the last ones.
            if (scored === 0) await delay(200, undefined, { signal });
            left = scored === 0 || scored >= left ? await countOutdated(executor, id) : left - scored;
          }
        },
        new CommandError('Interrupted.', 'A running service continues. Run the command again to watch or to go on.'),
      );
      return {
        json: { rescored: outdated, total },
        text:
          outdated === 0
            ? `Nothing to do: ${counted(total, 'score is', 'scores are')} up to date.`
            : `Brought up to date: ${formatInteger(outdated)} of ${counted(total, 'score')}.`,
      };
    });
}
