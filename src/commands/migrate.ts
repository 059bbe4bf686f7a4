import { createDeps } from '../deps.ts';
import { counted } from '../text/numbers.ts';
import type { PullscoreCommand } from './command.ts';
import type { Context } from './context.ts';

export function migrateCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('migrate')
    .description('bring the database schema up to date (`serve` and `worker` do this, too)')
    .examples('migrate')
    .answer(async () => {
      const deps = await createDeps(context.config, context.log, { create: true, upgrade: true });
      await deps.close();
      const { migrationsApplied: applied } = deps;
      return {
        json: { applied },
        text:
          applied === 0
            ? 'The schema is up to date.'
            : `Applied ${counted(applied, 'migration')}; the schema is up to date.`,
      };
    });
}
