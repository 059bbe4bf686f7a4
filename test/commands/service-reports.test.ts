import { hostname } from 'node:os';
import { pino } from 'pino';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Finding } from '../../src/commands/doctor/findings.ts';
import { goneSeconds, startReporting } from '../../src/commands/report-process.ts';
import { loadConfig } from '../../src/config.ts';
import { connectDatabase } from '../../src/database/client.ts';
import { listServiceReports, reportService, withdrawReport } from '../../src/database/service-reports.ts';
import { connectDeps } from '../../src/deps.ts';
import { startLoops } from '../../src/sync/start-loops.ts';
import { query } from '../support/database-server.ts';
import { closing, startReplica } from '../support/service.ts';
import { startWorld } from '../support/world.ts';
import { createFolder, type Environment, runHere, runJson, startForTest } from './support.ts';

const { service, github } = await startWorld();
const { url: databaseUrl } = service.database;
const { write } = createFolder();
/** A shell with nothing but the database. */
const shell = { DATABASE_URL: databaseUrl, GITHUB_API_URL: 'http://127.0.0.1:1' };
const secret = 'a secret of more than sixteen';
/** The variables of a service, which is not here. */
const elsewhere = {
  ...shell,
  PORT: '0',
  GITHUB_TOKEN: 'ghp_of_the_service',
  GITHUB_WEBHOOK_SECRET_FILE: write('secret', secret),
  PUBLIC_URL: 'https://scores.example',
};

afterEach(() => run('delete from service_reports'));

/** Reports this process as one with these variables, until the test ends or the returned function withdraws it. */
async function report(environment: Environment, command: 'serve' | 'worker' = 'serve'): Promise<() => Promise<void>> {
  const config = loadConfig({ PULLSCORE_HOME: '/nonexistent/pullscore', ...environment });
  const deps = closing(connectDeps(config, pino({ level: 'silent' }), databaseUrl));
  const withdraw = await startReporting(deps, command);
  onTestFinished(withdraw);
  return withdraw;
}

const run = <Row extends object>(statement: string) => query<Row>(databaseUrl, statement);
const reports = <Row extends object>() => run<Row>('select *, service_reports::text as text from service_reports');

async function findings(environment: Environment): Promise<string[]> {
  const { stdout } = await runHere(environment, 'doctor --json');
  const checks: Finding[] = JSON.parse(stdout).checks;
  return checks
    .filter(({ area, name }) => area === 'configuration' || name === 'credentials' || name === 'rights')
    .map(({ status, message }) => `${status}: ${message}`);
}

const status = (environment: Environment) => runHere(environment, 'webhooks status --organisation acme');
const minute = '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d';

describe('doctor', () => {
  test('tells the variables of this shell from those that the service and the worker reported', async () => {
    await report(elsewhere);
    await report({ ...shell, GITHUB_TOKEN: 'ghp_of_the_worker' }, 'worker');
    expect(await findings(shell)).toEqual([
      'ok: Set in this shell: DATABASE_URL, PULLSCORE_HOME and GITHUB_API_URL.',
      expect.stringMatching(
        `^ok: Set for the service: DATABASE_URL, PULLSCORE_HOME, PORT, PUBLIC_URL, GITHUB_API_URL, GITHUB_TOKEN and GITHUB_WEBHOOK_SECRET_FILE \\(reported ${minute} UTC\\)\\.$`,
      ),
      expect.stringMatching(
        `^ok: Set for the worker: DATABASE_URL, PULLSCORE_HOME, GITHUB_API_URL and GITHUB_TOKEN \\(reported ${minute} UTC\\)\\.$`,
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

  test('reports values that differ between processes, and between them and this shell', async () => {
    await report(elsewhere);
    await run("update service_reports set place = 'another machine'");
    const { GITHUB_WEBHOOK_SECRET_FILE: _, ...others } = elsewhere;
    const same = {
      ...others,
      GITHUB_WEBHOOK_SECRET: secret,
      GITHUB_API_URL: `${shell.GITHUB_API_URL}/`,
      LOG_LEVEL: 'error',
    };
    await report(same, 'worker');
    const warnings = async (environment: Environment) =>
      (await findings(environment)).filter(line => line.startsWith('warning'));
    expect(await warnings(same)).toEqual([]);
    await report({ ...elsewhere, GITHUB_TOKEN: 'ghp_another' });
    const [elder, younger] = ['the service (another machine)', `the service (${hostname()}, process ${process.pid})`];
    expect(await warnings(same)).toEqual([
      `warning: Values differ between ${elder} and ${younger}, which set the same variables.`,
      `warning: Values differ between this shell and ${younger}, which set the same variables: what is checked here may not hold there.`,
    ]);
  });
});

test('a service that cannot reach GitHub is a problem, and doctor and webhooks status say why', async () => {
  const service = closing(await startReplica(databaseUrl, { ...shell, GITHUB_TOKEN: 'ghp_of_the_service' }));
  onTestFinished(startLoops(service).stop);
  const reason = 'The connection to GitHub failed: ';
  await expect
    .poll(() => runJson(shell, 'webhooks status --organisation acme'))
    .toMatchObject({
      compared_at: null,
      comparison_failed_at: expect.any(Number),
      comparison_failure: expect.stringContaining(reason),
    });
  const { stdout } = await status(shell);
  expect(stdout).toContain('Not compared with GitHub yet.\nThe comparison with GitHub failed, ');
  expect(stdout).toContain(reason);
  const checks: Finding[] = JSON.parse((await runHere(shell, 'doctor --json')).stdout).checks;
  expect(checks).toContainEqual(
    expect.objectContaining({ name: 'comparison', status: 'problem', message: expect.stringContaining(reason) }),
  );
  expect(JSON.stringify(checks)).not.toContain('scores up to date');
});

test('doctor names the variable that holds the file of the token', async () => {
  const file = write('token', github.token);
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
    expect(await runJson(elsewhere, 'webhooks status --organisation acme')).toMatchObject({
      secret_configured: false,
    });
  });

  test('speaks of this shell before any service has started', async () => {
    expect((await status(shell)).stdout).toContain('GITHUB_WEBHOOK_SECRET is not set in this shell');
    expect((await status(elsewhere)).stdout).not.toContain('GITHUB_WEBHOOK_SECRET');
  });
});

describe('the report of a process', () => {
  test('has no values, only a fingerprint with a salt that all processes share', async () => {
    await report(elsewhere);
    await report(elsewhere, 'worker');
    await report({ ...elsewhere, GITHUB_TOKEN: 'ghp_another' });
    const rows = await reports<{ text: string; salt: string; fingerprint: string }>();
    for (const { text } of rows) expect(text).not.toMatch(new RegExp(`${secret}|ghp_|scores\\.example`));
    expect(new Set(rows.map(({ salt }) => salt))).toEqual(new Set([/^.{22}$/]));
    const [one, two, three] = rows.map(({ fingerprint }) => fingerprint);
    expect(two).toBe(one);
    expect(three).not.toBe(one);
    expect([one, three]).toEqual([/^.{22}$/, /^.{22}$/]);
  });

  test('ends with the process', async () => {
    const { child, shows, ended } = startForTest(elsewhere, 'serve');
    await shows(/ready/);
    expect(await reports()).toHaveLength(1);
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
    expect(await reports()).toEqual([]);
  });

  test('the report of a crashed process counts for a minute, and the next process removes it', async () => {
    const withdraw = await report(elsewhere);
    const age = (seconds: number) =>
      run(`update service_reports set process = 'crashed', seen_at = now() - interval '${seconds} seconds'`);
    const count = async () => (await findings(shell)).filter(line => line.includes('Set for the service')).length;
    await age(50);
    await withdraw();
    expect(await count()).toBe(1);
    await age(61);
    expect(await count()).toBe(0);
    await report(elsewhere, 'worker');
    expect(await reports()).toMatchObject([{ command: 'worker' }]);
  });

  test('is renewed, and comes back if it was removed during an outage', async () => {
    const database = closing(connectDatabase(databaseUrl, pino({ level: 'silent' })));
    const own = { id: 'one', command: 'serve' as const, place: 'here', variables: [], values: '' };
    await reportService(database, own, goneSeconds);
    await database.executor.execute(`update service_reports set seen_at = now() - interval '2 minutes'`);
    expect(await listServiceReports(database.executor, goneSeconds)).toEqual([]);
    await reportService(database, own, goneSeconds);
    expect(await listServiceReports(database.executor, goneSeconds)).toMatchObject([{ process: 'one' }]);
    await withdrawReport(database, 'one');
    await reportService(database, own, goneSeconds);
    expect(await listServiceReports(database.executor, goneSeconds)).toMatchObject([{ process: 'one' }]);
  });
});
