import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { migrateDatabase } from '../../src/database/migrations.ts';
import { createEmptyDatabase } from './service.ts';

/** Those of this checkout. */
export const migrationsFolder = fileURLToPath(new URL('../../migrations', import.meta.url));

interface JournalEntry {
  idx: number;
  when: number;
  /** The name of its file. */
  tag: string;
}

export async function readJournal(): Promise<JournalEntry[]> {
  return (
    JSON.parse(await readFile(join(migrationsFolder, 'meta/_journal.json'), 'utf8')) as { entries: JournalEntry[] }
  ).entries;
}

/**
 * A copy of the migrations, removed after the test.
 *
 * @param options `last`: the number, from 0, of the last one that it has. `added`: statements of one more.
 */
export async function createMigrationsFolder({
  last,
  added,
}: {
  last?: number;
  added?: readonly string[];
}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pullscore-migrations-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await cp(migrationsFolder, folder, { recursive: true });
  const entries = (await readJournal()).slice(0, last === undefined ? undefined : last + 1);
  if (added !== undefined) {
    const { idx = 0, when = 0 } = entries.at(-1) ?? {};
    entries.push({ idx: idx + 1, when: when + 1000, tag: 'added' });
    await writeFile(join(folder, 'added.sql'), added.join('\n--> statement-breakpoint\n'));
  }
  await writeFile(join(folder, 'meta/_journal.json'), JSON.stringify({ entries }));
  return folder;
}

/** A database with the schema of an earlier release: that of the migration with this number, from 0. */
export async function createEarlierDatabase(last: number): Promise<string> {
  const url = await createEmptyDatabase();
  await migrateDatabase(url, { folder: await createMigrationsFolder({ last }) });
  return url;
}
