import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { countOutdated } from '../database/rescoring.ts';
import { rescoreBatch } from '../sync/rescore.ts';
import { answering, CommandError, type Context, requireOrganisation, withDeps } from './context.ts';
import { counted, number } from './numbers.ts';
import { startProgress } from './progress.ts';

export function rescoreCommands(program: Command, context: Context): void {
  program
    .command('rescore')
    .description('bring every score up to date with the rules in force, and wait for it')
    .requiredOption('--organisation <login>', 'the organisation')
    .addHelpText(
      'after',
      `\nThe service does this by itself; the command helps and shows progress.\n\nExample:\n  ${context.program} rescore --organisation acme`,
    )
    .action(
      answering<{ organisation: string }>(context, ({ organisation: login }) =>
        withDeps(context, async deps => {
          const { interrupted } = context;
          const organisation = await requireOrganisation(context, deps, login);
          const count = () => countOutdated(deps.database.executor, organisation.id);
          const { outdated, total } = await count();
          const progress = startProgress(context, 'scores');
          try {
            let left = outdated;
            progress.update(0, outdated, '');
            while (left > 0) {
              if (interrupted.aborted) {
                throw new CommandError('Interrupted. The service continues; run the command again to watch.');
              }
              const scored = await rescoreBatch(deps, organisation.id);
              // The service may be working on the last ones.
              if (scored === 0) await delay(200, undefined, { signal: interrupted }).catch(() => undefined);
              left = scored === 0 ? (await count()).outdated : left - scored;
              if (left <= 0) left = (await count()).outdated;
              progress.update(Math.max(0, outdated - left), outdated, '');
            }
          } finally {
            progress.stop();
          }
          return {
            json: { rescored: outdated, total },
            text:
              outdated === 0
                ? `Nothing to do: ${counted(total, 'score is', 'scores are')} up to date.`
                : `Brought up to date: ${number(outdated)} of ${counted(total, 'score')}.`,
          };
        }),
      ),
    );
}
