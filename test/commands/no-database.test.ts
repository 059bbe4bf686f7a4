import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { startGithub } from '../support/github/server.ts';
import { closing } from '../support/service.ts';
import { complaintOf, newHome, runHere, runJson, startForTest } from './support.ts';

test.each([
  'organisation list',
  'audit-log',
  'explain acme/web#1',
  'standings --organisation acme',
  'rules plan rules.example.yaml --organisation acme',
  'webhooks status --organisation acme',
  'organisation remove acme --yes',
  'user add --organisation acme --name Ada --email ada@acme.example',
  'token create --user ada@acme.example',
  'rules apply rules.example.yaml --organisation acme',
])('%s makes no database, and says that there is none', async line => {
  const folder = newHome('none');
  const home = join(folder, '.pullscore');
  expect(await complaintOf(runHere({ PULLSCORE_HOME: home }, line))).toBe(
    `pullscore: There is no database in this folder (${home}). Change to the folder of the service, or set PULLSCORE_HOME or DATABASE_URL. To make a database, start the service or add an organisation.`,
  );
  expect(existsSync(home)).toBe(false);
});

test('doctor does not create a database, and reports that there is none', async () => {
  const home = newHome('none');
  const environment = { PULLSCORE_HOME: home, GITHUB_API_URL: 'http://127.0.0.1:1' };
  const { code, stdout } = await runHere(environment, 'doctor --json');
  expect(code).toBe(1);
  expect(JSON.parse(stdout).checks.find(({ area }: { area: string }) => area === 'database')).toEqual({
    area: 'database',
    name: 'server',
    status: 'problem',
    message: `There is no database in this folder (${home}).`,
    action: expect.stringContaining('start the service or add an organisation'),
  });
  expect(readdirSync(home)).toEqual([]);
});

test('a command that adds something makes the database, and then others find it', async () => {
  const environment = { PULLSCORE_HOME: newHome('none') };
  await runJson(environment, 'organisation add acme');
  expect(await runJson(environment, 'organisation list')).toMatchObject([{ login: 'acme' }]);
});

test.each([
  ['SIGINT', 'organisation add acme'],
  ['SIGTERM', 'organisation add acme'],
  ['SIGINT', 'doctor'],
] as const)('%s ends %s, and leaves no database server behind', async (signal, line) => {
  const home = newHome('none');
  const github = closing(await startGithub());
  const { begun } = github.hold('hold', () => true);
  await runJson({ PULLSCORE_HOME: home }, 'organisation add first');
  const environment = { PULLSCORE_HOME: home, GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN: github.token };
  const { child, ended } = startForTest(environment, line);
  await begun;
  const pidFile = join(home, 'postgresql', 'data', 'postmaster.pid');
  expect(existsSync(pidFile)).toBe(true);
  child.kill(signal);
  const { code, stdout, stderr } = await ended;
  expect([code, child.signalCode, stdout]).toEqual([null, signal, '']);
  expect(stderr).not.toContain('pullscore: ');
  expect(existsSync(pidFile)).toBe(false);
});

/** Node listens to a signal while a listener for it is left. This sends one as the last listener goes. */
const signalUnheard = `data:text/javascript,process.on('removeListener', name => {
  if (/^SIG(INT|TERM|HUP)$/.test(name) && process.listenerCount(name) === 0) process.kill(process.pid, name);
})`;

test.each([
  ['serve', 'is ready'],
  ['worker', 'is ready'],
  ['serve', 'starts its database'],
  ['migrate', 'starts its database'],
])('further signals to %s once it %s leave no server behind', async (line, moment) => {
  const home = newHome('none');
  await runJson({ PULLSCORE_HOME: home }, 'organisation add acme');
  const environment = { PULLSCORE_HOME: home, PORT: '0', NODE_OPTIONS: `--import "${signalUnheard}"` };
  const { child, ended, shows } = startForTest(environment, line);
  const pidFile = join(home, 'postgresql', 'data', 'postmaster.pid');
  if (moment === 'is ready') await shows(/ready/);
  else await vi.waitFor(() => expect(existsSync(pidFile)).toBe(true), { timeout: 50_000, interval: 5 });
  // As somebody in a hurry types, who then closes the terminal.
  for (const signal of ['SIGINT', 'SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    child.kill(signal);
    await delay(10);
  }
  const { stderr } = await ended;
  expect(existsSync(pidFile), stderr).toBe(false);
});

test('a signal while a command opens the database leaves no server behind', async () => {
  const home = newHome('none');
  const { child, ended } = startForTest({ PULLSCORE_HOME: home }, 'migrate');
  const pidFile = join(home, 'postgresql', 'data', 'postmaster.pid');
  await vi.waitFor(() => expect(existsSync(pidFile)).toBe(true), { timeout: 50_000, interval: 5 });
  child.kill('SIGTERM');
  await ended;
  expect(child.signalCode).toBe('SIGTERM');
  expect(existsSync(pidFile)).toBe(false);
});
