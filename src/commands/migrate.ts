import { copyDatabase } from '../database/copy.ts';
import { joinEmbeddedDatabase } from '../database/embedded-server.ts';
import { migrateDatabase } from '../database/migrations.ts';
import { counted } from '../text/number-formats.ts';
import type { PullscoreCommand } from './command.ts';
import { type Context, UsageError, whileOpen, withDeps } from './context.ts';

export function migrateCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('migrate')
    .description('bring the database schema up to date (`serve` and `worker` do this, too)')
    .option('--from-embedded', 'then copy all of the embedded database to the empty one in DATABASE_URL')
    .examples('migrate')
    .answer<{ fromEmbedded?: boolean }>(async ({ fromEmbedded }) => {
      const { config } = context;
      if (fromEmbedded && config.databaseUrl === undefined) {
        throw new UsageError('There is no database to copy to.', 'Set DATABASE_URL to it.');
      }
      const applied = await withDeps(context, async deps => deps.migrationsApplied, { create: true, upgrade: true });
      const text =
        applied === 0
          ? 'The schema is up to date.'
          : `Applied ${counted(applied, 'migration')}; the schema is up to date.`;
      if (!fromEmbedded) return { json: { applied }, text };
      const copied = await copyEmbedded(config.home, config.databaseUrl ?? '');
      const next = 'Keep DATABASE_URL set from now on: the embedded database stays as it was.';
      return { json: { applied, copied }, text: `${text} Copied ${counted(copied, 'row')}. ${next}` };
    });
}

const copyEmbedded = (home: string, url: string): Promise<number> =>
  whileOpen(
    true,
    signal => joinEmbeddedDatabase({ home, create: false, signal }),
    embedded => embedded.leave(),
    async embedded => {
      await migrateDatabase(embedded.url, { create: false });
      return copyDatabase(embedded.url, url);
    },
  );
