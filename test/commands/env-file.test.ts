import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { expect, test } from 'vitest';
import { readEnvFile, valueIn, withValues } from '../../src/commands/env-file.ts';
import { complaintOf, type Environment, newHome, runWith } from './support.ts';

const list = (cwd: string, environment: Environment = {}) =>
  complaintOf(runWith({ cwd }, environment, 'organisation', 'list'));

test('a variable in .env, also as editors on Windows write it, counts unless it is set already, if only to nothing', async () => {
  const cwd = newHome('env');
  writeFileSync(join(cwd, '.env'), "\uFEFFexport LOG_LEVEL='loud'\r\nRATE_LIMIT=x # ours\r\n");
  expect(await list(cwd)).toContain(
    'RATE_LIMIT must be a whole number from 0 to 1000000; LOG_LEVEL must be one of trace',
  );
  expect(await list(cwd, { RATE_LIMIT: '', LOG_LEVEL: 'info' })).toContain('There is no database');
});

test('a value on the first line of a .env from Windows is found, and replaced', () => {
  const path = join(newHome('env'), '.env');
  writeFileSync(path, '\uFEFFGITHUB_TOKEN=old\r\nB=2\r\n');
  const text = readEnvFile(path);
  expect(valueIn(text, 'GITHUB_TOKEN')).toBe('old');
  expect(parseEnv(withValues(text, { GITHUB_TOKEN: '' }))).toEqual({ GITHUB_TOKEN: '', B: '2' });
});

test.each(["a secret's value", `'"`, 'a "value" # of 1$'])(
  'a value with quotes is written so that it is read again: %s',
  value => {
    const text = withValues('', { GITHUB_WEBHOOK_SECRET: value });
    expect(valueIn(text, 'GITHUB_WEBHOOK_SECRET')).toBe(value);
    expect(valueIn(withValues(text, { GITHUB_WEBHOOK_SECRET: 'another' }), 'GITHUB_WEBHOOK_SECRET')).toBe('another');
  },
);

test('a variable that the file sets twice is replaced in both places: the last one counts', () => {
  const text = withValues('GITHUB_TOKEN=old\nB=2\nexport GITHUB_TOKEN="older"\n', { GITHUB_TOKEN: '' });
  expect(parseEnv(text)).toEqual({ GITHUB_TOKEN: '', B: '2' });
});

test('a service says in one line that it has read .env', async () => {
  const cwd = newHome('env');
  writeFileSync(join(cwd, '.env'), 'DATABASE_URL=postgres://nobody@127.0.0.1:1/none\n');
  const stderr = await complaintOf(runWith({ cwd }, {}, 'serve'));
  expect(stderr.split('\n').filter(line => line.includes('.env'))).toEqual([
    expect.stringContaining('"read .env; what is set elsewhere wins"'),
  ]);
  expect(stderr).toContain('ECONNREFUSED');
});

test("a .env that is a folder is not read, and one that can't be read is named", async () => {
  const cwd = newHome('env');
  const path = join(cwd, '.env');
  mkdirSync(path);
  expect(await list(cwd)).toContain('There is no database');
  rmSync(path, { recursive: true });
  writeFileSync(path, 'LOG_LEVEL=info\n', 'utf16le');
  expect(await list(cwd)).toContain('.env is not in UTF-8');
  rmSync(path);
  // Root may read every file, but follows no link to itself.
  symlinkSync('.env', path);
  expect(await list(cwd)).toContain(".env can't be read: ELOOP");
});

test.each(["KEY='old'\nB=2", 'export KEY="first\nsecond" # note\nB=2', 'B=2', ' KEY = old\nB=2', 'KEY=\nB=2'])(
  'a value takes the place of the former one, whole, in %j',
  text => {
    const changed = withValues(text, { KEY: 'a\\nb' });
    expect(parseEnv(changed)).toEqual({ KEY: 'a\\nb', B: '2' });
    expect(valueIn(changed, 'KEY')).toBe('a\\nb');
  },
);
