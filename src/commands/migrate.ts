import type { Command } from 'commander';
import { createDeps } from '../deps.ts';
import { answering, type Context } from './context.ts';
import { counted } from './numbers.ts';

export function migrateCommand(program: Command, context: Context): void {
  program
    .command('migrate')
    .description('bring the database schema up to date (`serve` and `worker` do this, too)')
    .addHelpText('after', `\nExample:\n  ${context.program} migrate`)
    .action(
      answering(context, async () => {
        const deps = await createDeps(context.config, context.log, { upgrade: true });
        await deps.close();
        const { migrationsApplied: applied } = deps;
        return {
          json: { applied },
          text:
            applied === 0
              ? 'The schema is up to date.'
              : `Applied ${counted(applied, 'migration')}; the schema is up to date.`,
        };
      }),
    );
}
