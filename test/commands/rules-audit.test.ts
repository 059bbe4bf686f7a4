import { beforeAll, expect, test } from 'vitest';
import { ways } from '../../src/scoring/plan/audit-ways.ts';
import { insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { commandsWith, complaintOf, createFolder, runHere } from './support.ts';

const { service, newTenant } = await startWorld();
const environment = { DATABASE_URL: service.database.url };
const { run, runJson } = commandsWith(environment);
let login: string;

beforeAll(async () => {
  const tenant = await newTenant();
  login = tenant.organisation.login;
  // Each has one line added and one removed.
  await insertPullRequests(service, tenant, [1, 2, 3, 4]);
});

const { writeRules } = createFolder();
const rulesFile = (expression: string, value: string, name = 'Pays') =>
  writeRules('rules.yaml', [name, expression, value]);

const audit = (file: string, ...options: string[]) => run('rules audit', file, '--organisation', login, ...options);

test('rules audit reports that splitting gains from a flat reward for each pull request', async () => {
  const file = rulesFile('true', '10');
  const document = await runJson<{ ways: { way: string }[] }>('rules audit', file, '--organisation', login);
  expect(document).toMatchObject({ organisation: login, pull_requests: 4, stored_pull_requests: 4 });
  expect(document.ways[0]).toEqual({
    way: 'split',
    share: 1,
    median_gain: 10,
    largest_gain: 10,
    rules: [{ name: 'Pays', share: 1 }],
    example: { id: /^pr_/, url: /^https:\/\/github\.com\/acme\/web\/pull\/\d$/, before: 10, after: 20 },
  });
  expect(document.ways[1]).toMatchObject({ share: 0, median_gain: 0, largest_gain: 0, rules: [], example: null });
  expect(document.ways.map(({ way }) => way).toSorted()).toEqual(ways.toSorted());
});

test('rules audit reports in words that padding gains from a reward for size', async () => {
  const { code, stdout } = await audit(rulesFile('size > 0', 'per(size, 10)'));
  expect(code).toBe(0);
  expect(stdout).toMatch(/^How these rules can be gamed: all 4 pull requests of /);
  expect(stdout).toMatch(/padded with lock, .* 100\.0% +\+30\.00 +\+30\n {2}paid by Pays 100%\n/);
  expect(stdout).toMatch(/EXAMPLE +SCORE +ADDRESS\n.* 0 → 30 +https:\/\/github\.com\/acme\/web\/pull\/\d\n/);
  expect(stdout).toMatch(/No gain from: .*split into two/);
});

test('rules audit of an organisation without pull requests does not say that no way gains', async () => {
  const { organisation } = await newTenant();
  const stdout = `No pull requests of ${organisation.login} are stored yet: there is nothing to search.\n`;
  const audited = await run('rules audit', rulesFile('true', '10'), '--organisation', organisation.login);
  expect(audited).toMatchObject({ code: 0, stdout });
});

test('rules audit shows all of a long name of a rule that pays', async () => {
  const name = 'A reward for pull requests of any size, also for large ones';
  const { stdout } = await audit(rulesFile('size > 0', 'per(size, 10)', name));
  expect(stdout.replace(/\s+/g, ' ')).toContain(`paid by ${name} 100%`);
});

test.each([60, 70, 80])('with %i columns no line of rules audit is a command for a CI service', async columns => {
  const name = `${'word '.repeat(8)}::error::x ${'::warning::y '.repeat(9)}`;
  const file = rulesFile('size > 0', 'per(size, 10)', name);
  const narrow = { ...environment, COLUMNS: String(columns) };
  const { code, stdout } = await runHere(narrow, 'rules audit', file, '--organisation', login);
  expect(code).toBe(0);
  expect(stdout).toContain('error::x');
  expect(stdout).not.toMatch(/^\s*::/m);
});

test('rules audit --max-share fails if a way gains on a larger share', async () => {
  const file = rulesFile('number <= 2', 'per(size, 10)');
  const stderr =
    'pullscore: These gain on more than 49.9% of the pull requests: padded with lock, generated or docs files (50%).\n';
  expect(await audit(file, '--max-share', '49.9%')).toMatchObject({ code: 1, stderr });
  expect((await audit(file, '--max-share', '50%')).code).toBe(0);
});

test('rules audit --max-share allows exactly that share, in spite of binary fractions', async () => {
  const tenant = await newTenant();
  await insertPullRequests(service, tenant, Array(1_000).fill(1));
  const file = rulesFile('number <= 7', 'per(size, 10)');
  const codes = ['0.6%', '0.7%'].map(async share => {
    const options = ['--organisation', tenant.organisation.login, '--max-share', share];
    return (await run('rules audit', file, ...options)).code;
  });
  expect(await Promise.all(codes)).toEqual([1, 0]);
});

test('rules audit refuses a share or a file that is not valid', async () => {
  const file = rulesFile('true', '1');
  for (const share of ['5', '101%', '-1%', 'few']) {
    expect(await complaintOf(audit(file, `--max-share=${share}`), 2)).toContain(
      `"${share}" is not a valid share. Give a percentage such as 5%.`,
    );
  }
  expect((await audit(rulesFile('siez > 0', '1'))).stderr).toContain('did you mean `size`?');
});

test('rules audit samples many pull requests, the same ones each time', async () => {
  const tenant = await newTenant();
  await insertPullRequests(service, tenant, Array(14_000).fill(1));
  const file = rulesFile('true', '1');
  type Audit = { pull_requests: number; stored_pull_requests: number };
  const read = () => runJson<Audit>('rules audit', file, '--organisation', tenant.organisation.login);
  const first = await read();
  expect(first.stored_pull_requests).toBe(14_000);
  expect(Math.abs(first.pull_requests - 10_000)).toBeLessThan(400);
  expect(await read()).toEqual(first);
});
