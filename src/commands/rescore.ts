import { setTimeout as delay } from 'node:timers/promises';
import { countOutdated } from '../database/rescoring.ts';
import { rescoreBatch } from '../sync/rescore.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context } from './context.ts';
import { counted, formatInteger } from './numbers.ts';
import { startProgress } from './progress.ts';

export function rescoreCommands(program: PullscoreCommand, context: Context): void {
  program
    .command('rescore')
    .description('bring every score up to date with the rules in force, and wait for it')
    .addHelpText('after', '\nThe service does this in the background. This command helps it and shows the progress.')
    .examples('rescore --organisation acme')
    .answerFor(() => async (deps, { id }) => {
      const { interrupted } = context;
      const count = () => countOutdated(deps.database.executor, id);
      const { outdated, total } = await count();
      const progress = startProgress(context, 'scores');
      try {
        let left = outdated;
        while (left > 0) {
          progress.update(Math.max(0, outdated - left), outdated);
          if (interrupted.aborted) {
            throw new CommandError('Interrupted. The service continues.', 'Run the command again to watch.');
          }
          const scored = await rescoreBatch(deps, id);
          // The service may be working on the last ones.
          if (scored === 0) await delay(200, undefined, { signal: interrupted }).catch(() => undefined);
          left = scored === 0 || scored >= left ? (await count()).outdated : left - scored;
        }
      } finally {
        progress.stop();
      }
      return {
        json: { rescored: outdated, total },
        text:
          outdated === 0
            ? `Nothing to do: ${counted(total, 'score is', 'scores are')} up to date.`
            : `Brought up to date: ${formatInteger(outdated)} of ${counted(total, 'score')}.`,
      };
    });
}
