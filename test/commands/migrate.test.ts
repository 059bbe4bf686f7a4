import { beforeAll, expect, test } from 'vitest';
import { query } from '../support/database-server.ts';
import { createEarlierDatabase, readJournal } from '../support/migrations.ts';
import { createEmptyDatabase } from '../support/service.ts';
import { requireBuild, run, runHere, startForTest } from './support.ts';

beforeAll(requireBuild);

const lastOfEarlierRelease = 5;

async function countApplied(url: string): Promise<number | undefined> {
  const text = 'select count(*)::int as count from drizzle.__drizzle_migrations';
  return (await query<{ count: number }>(url, text))[0]?.count;
}

test('commands leave the schema of an earlier release to those that migrate, and say so', async () => {
  const url = await createEarlierDatabase(lastOfEarlierRelease);
  for (const operands of [
    ['organisation', 'list'],
    ['organisation', 'add', 'acme'],
    ['audit-log'],
    ['rules', 'export', '--organisation', 'acme'],
    ['explain', 'pr_01jz8k3v5xe2ksn5q0w4g7h9ab'],
  ]) {
    const { code, stderr } = await runHere({ DATABASE_URL: url }, ...operands);
    expect([code, stderr]).toEqual([
      1,
      'pullscore: The database schema is older than this release of pullscore. Run pullscore migrate, or start the service.\n',
    ]);
  }
  await runHere({ DATABASE_URL: url }, 'doctor');
  expect(await countApplied(url)).toBe(lastOfEarlierRelease + 1);
  expect((await runHere({ DATABASE_URL: url }, 'migrate')).code).toBe(0);
  expect(await countApplied(url)).toBe((await readJournal()).length);
  expect((await runHere({ DATABASE_URL: url }, 'organisation', 'list')).code).toBe(0);
});

test.each(['serve', 'worker'])('%s brings the schema up to date', async command => {
  const url = await createEarlierDatabase(lastOfEarlierRelease);
  const running = startForTest({ DATABASE_URL: url, PORT: '0' }, command);
  await running.shows(/ready/);
  expect(await countApplied(url)).toBe((await readJournal()).length);
});

test('the first command sets up an empty database', async () => {
  const url = await createEmptyDatabase();
  expect((await run({ DATABASE_URL: url }, 'organisation', 'add', 'acme')).code).toBe(0);
  expect(await countApplied(url)).toBe((await readJournal()).length);
});
