import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { systemUser } from '../../src/commands/context.ts';
import { createDatabase } from '../support/service.ts';
import { complaintOf, type Environment, requireBuild, run, runJson } from './support.ts';

let environment: Environment;
const acme = ['--organisation', 'acme'];

const rules = (value: number, ...names: string[]) =>
  `rules:\n${names.map(name => `  - name: ${name}\n    logic:\n      - { expression: merged, effect: { action: ADD, value: ${value} } }\n`).join('')}`;

beforeAll(requireBuild);

beforeEach(async () => {
  const database = await createDatabase();
  environment = { DATABASE_URL: database.url };
  const folder = mkdtempSync(join(tmpdir(), 'pullscore-rules-'));
  const file = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  await runJson(environment, 'organisation', 'add', 'acme');
  await runJson(environment, 'rules', 'apply', file('1.yaml', rules(5, 'Merged', 'Old')), ...acme, '--by', 'Ada');
  await runJson(environment, 'rules', 'apply', file('2.yaml', rules(6, 'Merged', 'New')), ...acme, '--by', 'Bert');
  return async () => {
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  };
});

test('the history shows when and by whom each version was applied, and what it changed', async () => {
  const history = await runJson<unknown[]>(environment, 'rules', 'history', ...acme);
  expect(history).toEqual([
    {
      version: 2,
      applied_at: expect.any(Number),
      applied_by: 'Bert',
      rules: 2,
      added: ['New'],
      changed: ['Merged'],
      removed: ['Old'],
    },
    {
      version: 1,
      applied_at: expect.any(Number),
      applied_by: 'Ada',
      rules: 2,
      added: ['Merged', 'Old'],
      changed: [],
      removed: [],
    },
  ]);
  const { stdout } = await run(environment, 'rules', 'history', ...acme);
  expect(stdout).toMatch(/^2 \(in force\) .* Bert/m);
});

test('a system user without a name is known by the number', () => {
  const nameless = () => {
    throw new Error('A system error occurred: uv_os_get_passwd returned ENOENT (no such file or directory)');
  };
  expect(systemUser(nameless)).toBe(`user ${process.getuid?.()}`);
  expect(systemUser(() => ({ username: 'ada' }))).toBe('ada');
});

test('a diff shows the lines in which two versions differ', async () => {
  const { code, stdout } = await run(environment, 'rules', 'diff', '1', '2', ...acme);
  expect(code).toBe(0);
  expect(stdout).toContain('-          value: "5"');
  expect(stdout).toContain('+          value: "6"');
  expect(stdout).toContain('+  - name: New');
  const diff = await runJson(environment, 'rules', 'diff', '0', '1', ...acme);
  expect(diff).toMatchObject({
    from: 0,
    to: 1,
    changed: [],
    removed: [],
    added: [{ name: 'Merged' }, { name: 'Old' }],
  });
});

test('an earlier version can be applied again, as a new version', async () => {
  const applied = await runJson(environment, 'rules', 'apply', '--version', '1', ...acme);
  expect(applied).toMatchObject({ version: 3, changed: true });
  const same = await run(environment, 'rules', 'diff', '1', '3', ...acme);
  expect(same.stdout).toBe('Versions 1 and 3 are the same.\n');
});

test('a version must be a number, and have been applied', async () => {
  const invalid = await run(environment, 'rules', 'diff', 'x', '1', ...acme);
  expect(invalid.code).toBe(2);
  const never = await run(environment, 'rules', 'apply', '--version', '9', ...acme);
  expect(never.code).toBe(1);
  expect(complaintOf(never)).toContain('has no version 9');
  const both = await run(environment, 'rules', 'apply', 'rules.yaml', '--version', '1', ...acme);
  expect(both.code).toBe(2);
});
