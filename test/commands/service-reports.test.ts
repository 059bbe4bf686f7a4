import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { query } from '../support/database-server.ts';
import { startGithub } from '../support/github/server.ts';
import { createHome, removeHome } from '../support/home.ts';
import { createDatabase } from '../support/service.ts';
import { type Environment, requireBuild, runHere, runJson, startForTest } from './support.ts';

/** A shell with nothing but the database. */
let shell: Environment;
/** The variables of a service, which is not here. */
let elsewhere: Environment;
const secret = 'a secret of more than sixteen';

beforeAll(requireBuild);

beforeEach(async () => {
  const database = await createDatabase();
  const folder = createHome('report');
  writeFileSync(join(folder, 'secret'), secret);
  shell = { DATABASE_URL: database.url, GITHUB_API_URL: 'http://127.0.0.1:1' };
  elsewhere = {
    ...shell,
    PORT: '0',
    GITHUB_TOKEN: 'ghp_of_the_service',
    GITHUB_WEBHOOK_SECRET_FILE: join(folder, 'secret'),
    PUBLIC_URL: 'https://scores.example',
  };
  await runJson(shell, 'organisation', 'add', 'acme');
  return async () => {
    await database.drop();
    removeHome(folder);
  };
});

/** Starts a process and stops it: what it reported stays. */
async function report(environment: Environment, command: 'serve' | 'worker' = 'serve'): Promise<void> {
  const { child, shows, ended } = startForTest(environment, command);
  await shows(/ready/);
  child.kill('SIGINT');
  expect((await ended).code).toBe(0);
}

interface Finding {
  area: string;
  name: string;
  status: string;
  message: string;
}

async function findings(environment: Environment): Promise<string[]> {
  const { stdout } = await runHere(environment, 'doctor', '--json');
  const checks: Finding[] = JSON.parse(stdout).checks;
  return checks
    .filter(({ area, name }) => area === 'configuration' || name === 'credentials' || name === 'rights')
    .map(({ status, message }) => `${status}: ${message}`);
}

const status = (environment: Environment) => runHere(environment, 'webhooks', 'status', '--organisation', 'acme');
const minute = '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d';

describe('doctor', () => {
  test('tells the variables of this shell from those that the service and the worker reported', async () => {
    await report(elsewhere);
    await report({ ...shell, GITHUB_TOKEN: 'ghp_of_the_worker' }, 'worker');
    expect(await findings(shell)).toEqual([
      'ok: Set in this shell: DATABASE_URL, PULLSCORE_HOME and GITHUB_API_URL.',
      expect.stringMatching(
        `^ok: Set for the service: DATABASE_URL, PULLSCORE_HOME, PORT, PUBLIC_URL, GITHUB_API_URL, GITHUB_TOKEN and GITHUB_WEBHOOK_SECRET_FILE \\(reported ${minute}\\)\\.$`,
      ),
      expect.stringMatching(
        `^ok: Set for the worker: DATABASE_URL, PULLSCORE_HOME, GITHUB_API_URL and GITHUB_TOKEN \\(reported ${minute}\\)\\.$`,
      ),
      'skipped: Permissions and webhooks on GitHub are not checked: the service has credentials for GitHub, this shell has none.',
    ]);
  });

  test('says what the service lacks, even if this shell has it', async () => {
    await report({ ...shell, PORT: '0' });
    const found = await findings(elsewhere);
    expect(found.filter(line => line.startsWith('warning'))).toEqual([
      'warning: GITHUB_WEBHOOK_SECRET is not set for the service: webhooks are refused.',
      'warning: GitHub credentials are not set for the service: it fetches nothing.',
    ]);
  });

  test('speaks of this shell before any service has started', async () => {
    expect((await findings(shell)).slice(0, 2)).toEqual([
      'ok: Set in this shell: DATABASE_URL, PULLSCORE_HOME and GITHUB_API_URL.',
      'warning: GITHUB_WEBHOOK_SECRET is not set: webhooks are refused.',
    ]);
  });
});

test('doctor names the variable that holds the file of the token', async () => {
  const github = await startGithub();
  onTestFinished(() => github.close());
  const file = elsewhere.GITHUB_WEBHOOK_SECRET_FILE ?? '';
  writeFileSync(file, github.token);
  const found = await findings({ ...shell, GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN_FILE: file });
  expect(found).toContain('ok: GitHub accepts GITHUB_TOKEN_FILE.');
  expect(found.join()).not.toMatch(/GITHUB_TOKEN\b/);
});

describe('webhooks status', () => {
  test('says whether the service has a secret, whatever this shell has', async () => {
    await report(elsewhere);
    expect((await status(shell)).stdout).not.toContain('SECRET');
    await report({ ...shell, PORT: '0' });
    expect((await status(elsewhere)).stdout).toContain(
      'GITHUB_WEBHOOK_SECRET is not set for the service: it refuses deliveries.',
    );
    expect(await runJson(elsewhere, 'webhooks', 'status', '--organisation', 'acme')).toMatchObject({
      secret_configured: false,
    });
  });

  test('speaks of this shell before any service has started', async () => {
    expect((await status(shell)).stdout).toContain('GITHUB_WEBHOOK_SECRET is not set in this shell.');
    expect((await status(elsewhere)).stdout).not.toContain('GITHUB_WEBHOOK_SECRET');
  });
});

test('a report has no values, and a later one replaces it', async () => {
  await report(elsewhere);
  await report(elsewhere);
  const rows = await query<{ report: string }>(
    shell.DATABASE_URL ?? '',
    'select service_reports::text as report from service_reports',
  );
  expect(rows).toHaveLength(1);
  for (const value of [secret, 'ghp_of_the_service', 'scores.example']) expect(rows[0]?.report).not.toContain(value);
});
