import { Client } from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { isAccessToken } from '../../src/access-token.ts';
import { query } from '../support/database-server.ts';
import { refusedNode } from '../support/github/faults.ts';
import { createMigratedDatabase } from '../support/service.ts';
import { addTrigger } from '../support/trigger.ts';
import { startWorld } from '../support/world.ts';
import { commandsWith, complaintOf, createFolder, runHere } from './support.ts';

const { executor, github, shell: environment } = await startWorld();
const { run, runJson } = commandsWith(environment);
const { write, writeRules } = createFolder();
let organisations = 0;
/** On GitHub; what is typed is in lower case. */
let login: string;
let acme: string[];
let email: string;

beforeEach(() => {
  organisations += 1;
  login = `Acme-${organisations}`;
  acme = ['--organisation', login.toLowerCase()];
  email = `ada@${login.toLowerCase()}.example`;
  const organisation = github.organisation(login, { name: 'Acme Corporation' });
  organisation.member('ada', { name: 'Ada' });
  organisation.member('bert');
  for (let index = 0; index < 60; index += 1)
    organisation.repository('web').addPullRequest({ additions: index, createdAt: 1_700_000_000 });
  organisation.repository('api').addPullRequest({ author: github.account('stranger') });
});

const seconds = expect.any(Number);
const addAcme = () => runJson('organisation add', login.toLowerCase());
const addAda = () => runJson('user add', ...acme, '--name', 'Ada Lovelace', '--email', email);
const createToken = (...options: string[]) => runJson('token create --user', email, ...options);
/** The organisations that match. */
async function listed(pattern: RegExp) {
  const all = await runJson<{ login: string }[]>('organisation list');
  return all.filter(each => pattern.test(each.login));
}
const own = () => listed(new RegExp(`^${login}$`, 'i'));

test('lists of an empty database are empty, and say what to do', async () => {
  const empty = { DATABASE_URL: await createMigratedDatabase() };
  for (const [list, advice] of [
    ['organisation', 'organisation add LOGIN'],
    ['user', 'user add --organisation LOGIN'],
    ['token', 'token create --user EMAIL'],
  ] as const) {
    const stdout = expect.stringContaining(`pullscore ${advice}`);
    expect(await runHere(empty, list, 'list')).toEqual({ code: 0, stdout, stderr: '' });
    expect(await commandsWith(empty).runJson(list, 'list')).toEqual([]);
  }
});

test('an organisation is added once, with its login and name on GitHub', async () => {
  expect(await addAcme()).toEqual({
    id: /^org_[0-9a-z]{26}$/,
    login,
    verified: true,
    name: 'Acme Corporation',
    photo_url: github.organisation(login).avatarUrl,
    webhooks_enabled: true,
    ignore: { globs: [], archived: false, forks: false },
    ruleset_version: 0,
    created_at: seconds,
    removal_began_at: null,
  });
  const upper = login.toUpperCase();
  expect(await complaintOf(run('organisation add', upper))).toBe(
    `pullscore: The organisation ${upper} already exists.`,
  );
  expect(await own()).toHaveLength(1);
});

test('an organisation that is added without credentials is marked, and gets its name from GitHub later', async () => {
  const without = { ...environment, GITHUB_TOKEN: '' };
  const typed = login.toLowerCase();
  const added = await runHere(without, 'organisation add', typed);
  expect(added.stdout).toContain(`Added ${typed}, not verified on GitHub yet: there are no credentials. Next, `);
  github.organisation('named', { name: 'On GitHub' });
  await commandsWith(without).runJson('organisation add named --name named');
  const both = () => listed(new RegExp(`^(${login}|named)$`, 'i'));
  expect(await both()).toMatchObject([
    { login: typed, name: typed, verified: false },
    { login: 'named', name: 'named', verified: false },
  ]);
  const { stdout: before } = await run('organisation list');
  expect(before).toMatch(new RegExp(`^${typed} +${typed} +not verified on GitHub yet +enabled +none$`, 'm'));
  await runJson('members sync', ...acme);
  await runJson('members sync --organisation named');
  expect(await both()).toMatchObject([
    { login, name: 'Acme Corporation', verified: true },
    { login: 'named', name: 'named', verified: true },
  ]);
  const { stdout: after } = await run('organisation list');
  expect(after).toMatch(new RegExp(`^${login} +Acme Corporation +verified `, 'm'));
});

test('an organisation can be added under the former login of another one', async () => {
  const renamed = github.organisation('former');
  await runJson('organisation add former');
  renamed.rename('latter');
  github.organisation('former', { name: 'Newcomer' });
  expect(await runJson('organisation add former')).toMatchObject({ name: 'Newcomer' });
  expect(await complaintOf(run('organisation add latter'))).toContain(
    `The organisation latter already exists; until now it was called renamed_${renamed.id} here.`,
  );
  expect(await listed(/former|latter/)).toMatchObject([{ login: 'former' }, { login: 'latter' }]);
});

test('a user is added once, by an e-mail address in any case, and listed', async () => {
  await addAcme();
  expect(await addAda()).toEqual({
    id: /^usr_[0-9a-z]{26}$/,
    organisation: login,
    name: 'Ada Lovelace',
    email,
    photo_url: github.organisation(login).avatarUrl,
    created_at: seconds,
  });
  const upper = email.toUpperCase();
  expect(await complaintOf(run('user add', ...acme, '--name', 'Ada', '--email', upper))).toBe(
    `pullscore: ${login} already has a user ${upper}.`,
  );
  expect(await runJson('user list')).toContainEqual(
    expect.objectContaining({ email, photo_url: github.organisation(login).avatarUrl }),
  );
  const { stdout } = await run('user list');
  expect(stdout).toMatch(/^EMAIL +NAME +ORGANISATION\n/);
  expect(stdout).toMatch(new RegExp(`^${email} +Ada Lovelace +${login}$`, 'm'));
});

test('a user of two organisations is told to choose one', async () => {
  await addAcme();
  await addAda();
  github.organisation('apex');
  await runJson('organisation add apex');
  await runJson('user add --organisation apex --name Ada --email', email);
  expect(await complaintOf(run('token create --user', email))).toBe(
    `pullscore: ${email} is a user of ${login} and apex. Choose one, as in --organisation ${login}.`,
  );
});

describe('a token', () => {
  beforeEach(async () => {
    await addAcme();
    await addAda();
  });

  test('is shown once, with its id, scopes and expiry', async () => {
    const created = await runJson<{ id: string; token: string }>(
      ...['token', 'create', '--user', email.toUpperCase(), '--name', 'ci'],
      ...['--scopes', 'delete,read,sync', '--expires', '90d'],
    );
    expect(created).toEqual({
      id: /^tok_[0-9a-z]{26}$/,
      token: /^ps_[0-9A-Za-z]{38}$/,
      scopes: ['read', 'sync', 'delete'],
      expires_at: seconds,
    });
    expect(isAccessToken(created.token)).toBe(true);
    const list = await run('token list', ...acme, '--json');
    expect(list.stdout).not.toContain(created.token);
    expect(JSON.parse(list.stdout)).toEqual([
      {
        id: created.id,
        name: 'ci',
        user: email,
        organisation: login,
        scopes: ['read', 'sync', 'delete'],
        state: 'valid',
        created_at: seconds,
        expires_at: seconds,
        revoked_at: null,
        last_used_at: null,
      },
    ]);
  });

  test('can only read and does not expire by default, and is the whole output without --json', async () => {
    expect(await createToken()).toMatchObject({ scopes: ['read'], expires_at: null });
    const text = await run('token create --user', email);
    expect(text.stdout).toMatch(/^ps_[0-9A-Za-z]{38}\n$/);
  });

  test('can expire after a time or at the end of a day, also of today', async () => {
    const today = new Date().toISOString().slice(0, 10);
    const [weeks, day] = await Promise.all([createToken('--expires', '4w'), createToken('--expires', '2099-01-31')]);
    expect(Number((await createToken('--expires', today)).expires_at) * 1000).toBeGreaterThan(Date.now());
    expect(Math.abs(Number(weeks.expires_at) - (Date.now() / 1000 + 28 * 86_400))).toBeLessThan(60);
    expect(day.expires_at).toBe(Date.parse('2099-02-01T00:00:00Z') / 1000);
  });

  test('is revoked by its id, and stays in the list with the time of its first revocation', async () => {
    const { id } = await createToken();
    expect(await runJson('token revoke', String(id))).toEqual({ id, revoked: true });
    await query(environment.DATABASE_URL, 'update access_tokens set revoked_at = to_timestamp(1)');
    await runJson('token revoke', String(id));
    expect(await runJson('token list', ...acme)).toMatchObject([{ id, state: 'revoked', revoked_at: 1 }]);
    const again = await run('token revoke', String(id));
    expect(again).toMatchObject({ code: 0, stdout: `Nothing to do: ${id} was revoked before.\n` });
    const unknown = complaintOf(run('token revoke tok_00000000000000000000000000'));
    expect(await unknown).toMatch(/^pullscore: There is no token tok_0+\. List them: pullscore token list$/);
  });
});

test('an import can be estimated with --dry-run', async () => {
  await addAcme();
  expect(await runJson('import', ...acme, '--dry-run', '--repository', 'web')).toEqual({
    repositories: [{ repository: `${login}/web`, pull_requests: 60, requests: 3, points: 7, minutes: 0.2 }],
    total: { pull_requests: 60, requests: 3, points: 7, minutes: 0.2 },
    finished_repositories: 0,
    failed_repositories: [],
    ignored_repositories: [],
  });
  const { code, stdout, stderr } = await run('import', ...acme, '--dry-run', '--since', '2024-01-01');
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout.split('\n')).toEqual([
    /^REPOSITORY +PULL REQUESTS$/,
    expect.stringMatching(new RegExp(`^${login}/api +1$`)),
    /^total +1$/,
    '',
    'GitHub does not say how many of them changed since 2024-01-01; only those are imported.',
    "Nothing was imported. An import of all takes about 2 requests, 4 points of GitHub's hourly limit and 4 s; if the points run out, it waits for the next hour's.",
    '',
  ]);
});

test('members and pull requests are imported from GitHub', async () => {
  await addAcme();
  expect(await runJson('members sync', ...acme)).toEqual({ members: 2, left: 0 });
  expect(await runJson('import', ...acme)).toEqual({
    repositories: 2,
    seen: 61,
    saved: 60,
    untracked: 1,
    deleted: 0,
    failed: 0,
    requests: 4,
    failed_repositories: [],
    ignored_repositories: [],
  });
  const members = await run('members sync', ...acme);
  // Not at once: imports of an organisation share its requests.
  const imported = await run('import', ...acme, '--repository', 'web');
  const since = await runJson('import', ...acme, '--since', '2024-01-01');
  expect(members.stdout).toBe(`${login} has 2 members.\n`);
  expect(imported.stdout).toBe(
    'Checked 60 pull requests in 1 repository with 3 requests: 60 saved, 0 skipped because the author is not a member.\n',
  );
  expect(since).toMatchObject({ seen: 1 });
});

test('an import in which a repository fails names it, ends with 1, and can be continued', async () => {
  await addAcme();
  await runJson('members sync', ...acme);
  const { nodeId } = github.organisation(login).repository('api');
  github.fault(refusedNode('FORBIDDEN', 'SAML.\u001b[2J\n::error::'), {
    times: 2,
    when: ({ variables }) => variables.repository === nodeId,
  });
  const reason = /^GitHub does not let GITHUB_TOKEN read .* "SAML\./;
  const { code, stdout, stderr } = await run('import', ...acme, '--json');
  expect(JSON.parse(stdout)).toMatchObject({
    repositories: 1,
    saved: 60,
    failed_repositories: [{ repository: `${login}/api`, reason }],
    ignored_repositories: [],
  });
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /pullscore: 1 repository failed\. Run the same command again for each, with --repository OWNER\/NAME\.\n$/,
  );
  const api = ['--repository', 'api'];
  const again = await run('import', ...acme, ...api);
  expect(again.stdout.split('\n')).toEqual([
    /^Checked 0 pull requests in 0 repositories /,
    expect.stringMatching(`${login}/api: GitHub does not let GITHUB_TOKEN read .* "SAML. .2J ::error::"$`),
    '',
  ]);
  expect(await runJson('import', ...acme, ...api)).toMatchObject({ repositories: 1, seen: 1 });
});

test('an import says that GitHub failed to list a repository, and ends with 1; an estimate says it, too', async () => {
  await addAcme();
  const error = { type: 'FORBIDDEN', path: ['node', 'repositories', 'edges', 0, 'node'], message: 'SA\nML.' };
  github.fault({ kind: 'alter', change: reply => ({ ...reply, errors: [error] }) }, { times: 2, when: 'Repositories' });
  const reason = `GitHub does not let GITHUB_TOKEN read a repository of ${login}: "SA\nML."`;
  const estimated = await run('import', ...acme, '--dry-run');
  expect(estimated.stdout).toContain(`\nNot counted: a repository of ${login}. ${reason.replace('\n', ' ')}\n`);
  const { code, stdout } = await run('import', ...acme, '--json');
  expect(JSON.parse(stdout)).toMatchObject({
    repositories: 1,
    failed_repositories: [{ repository: `a repository of ${login}`, reason }],
    ignored_repositories: [],
  });
  expect(code).toBe(1);
});

test('members list shows the members, and with --left also those who have left', async () => {
  await addAcme();
  const empty = await run('members list', ...acme);
  expect(empty.stdout).toBe(
    `No members of ${login} are known. Fetch the list: pullscore members sync --organisation ${login}\n`,
  );
  await runJson('members sync', ...acme);
  github.organisation(login).leave(github.account('bert'));
  await runJson('members sync', ...acme);
  const ada = {
    id: /^mem_[0-9a-z]{26}$/,
    external_id: /^\d+$/,
    login: 'ada',
    name: 'Ada',
    created_at: seconds,
    left_at: null,
  };
  expect(await runJson('members list', ...acme)).toEqual([ada]);
  expect(await runJson('members list --left', ...acme)).toEqual([
    ada,
    expect.objectContaining({ login: 'bert', left_at: seconds }),
  ]);
  const [present, all] = await Promise.all([run('members list', ...acme), run('members list --left', ...acme)]);
  expect(present.stdout).toBe('LOGIN  NAME\nada    Ada\n');
  expect(all.stdout).toMatch(/^LOGIN {2}NAME +LEFT \(UTC\)\nada {4}Ada +-\nbert {3}\S+ +\d{4}-\d\d-\d\d \d\d:\d\d\n$/);
});

test('members do not leave if GitHub hides them from the token', async () => {
  await addAcme();
  await runJson('members sync', ...acme);
  github.grants.viewerIsMember = false;
  expect(await runJson('members sync', ...acme)).toEqual({ members: 0, left: null });
  const { code, stdout } = await run('members sync', ...acme);
  expect([code, stdout]).toEqual([
    0,
    `GitHub shows only the public members of ${login} to these credentials (0), so nobody was marked as having left. Use the token of a member that may read Members (a classic one: the scope read:org), or an App that may.\n`,
  ]);
});

test('what an import saved after a new version of the rules counts as up to date', async () => {
  await addAcme();
  await runJson('members sync', ...acme);
  await runJson('import', ...acme);
  const apply = (value: string) => run('rules apply', writeRules('rules.yaml', ['A', 'merged', value]), ...acme);
  const outdated = async () => (await runJson('standings', ...acme)).outdated;
  expect((await apply('1')).stdout).toBe(
    `Version 1 is in force: 1 rule. No service is running. To update the scores: pullscore rescore --organisation ${login}\n`,
  );
  expect(await outdated()).toBe(60);
  await runJson('import', ...acme);
  expect(await outdated()).toBe(0);
  const worker = new Client({ connectionString: environment.DATABASE_URL, application_name: 'pullscore listener' });
  await worker.connect();
  expect((await apply('1 * 1')).stdout).toBe(
    `Version 2 is in force: 1 rule. The service updates the scores. To watch: pullscore rescore --organisation ${login}\n`,
  );
  await worker.end();
  expect(await outdated()).toBe(60);
  const same = writeRules('rules.yaml', ['A', 'merged', '1 * 1']);
  expect(await runJson('rules apply', same, ...acme)).toMatchObject({ changed: false, outdated: 60 });
});

test('rules without any scores to update are just in force', async () => {
  await addAcme();
  const { stdout } = await run('rules apply rules.example.yaml', ...acme);
  expect(stdout).toMatch(/^Version 1 is in force: \d+ rules, 1 rule for reviews\.\n$/);
});

test('an empty list of rules is applied only if that is confirmed', async () => {
  await addAcme();
  const path = write('none.yaml', 'rules: []\n');
  const question = `pullscore: Apply no rules for pull requests to ${login}? Every score of a pull request becomes 0. Add --yes to go on.\n`;
  for (const options of [[], ['--json']]) {
    expect(await run('rules apply', path, ...acme, ...options)).toMatchObject({ code: 2, stderr: question });
  }
  expect(await runJson('rules apply', path, ...acme, '--yes')).toMatchObject({ version: 1, rules: 0 });
  const ofReviews = '{ name: Review, logic: [{ expression: "true", effect: { action: ADD, value: "1" } }] }';
  write('none.yaml', `rules: []\nreviews: [${ofReviews}]\n`);
  expect((await run('rules apply', path, ...acme)).stderr).toBe(question);
});

test('rescore brings all scores up to date', async () => {
  await addAcme();
  await runJson('members sync', ...acme);
  await runJson('import', ...acme);
  const path = writeRules('double.yaml', ['Twice', 'additions > 0', 'additions * 2']);
  expect(await runJson('rules apply', path, ...acme)).toMatchObject({ version: 1, changed: true });
  expect(await runJson('rescore', ...acme)).toEqual({ rescored: 60, total: 60 });
  const again = await run('rescore', ...acme);
  expect(again).toMatchObject({ code: 0, stdout: 'Nothing to do: 60 scores are up to date.\n' });
});

test('webhooks can be disabled, enabled and inspected', async () => {
  await addAcme();
  expect(await runJson('webhooks disable', ...acme)).toEqual({ organisation: login, webhooks_enabled: false });
  expect(await runJson('webhooks status', ...acme)).toEqual({
    organisation: login,
    webhooks_enabled: false,
    secret_configured: false,
    rules_suspended_by: null,
    ...{ waiting: 0, behind: 0, failing: 0, parked: 0, gone: 0, failures: [] },
    checks: { enabled: false, waiting: 0, failing: 0, parked: 0, failures: [] },
    deliveries: [],
    ...{ compared_at: null, comparison_failed_at: null, comparison_failure: null },
  });
  expect(await runJson('webhooks retry', ...acme)).toEqual({ organisation: login, retried: 0, parked: 0 });
  await runJson('webhooks enable', ...acme);
  const withSecret = { ...environment, GITHUB_WEBHOOK_SECRET: 'x'.repeat(16) };
  const status = await runHere(withSecret, 'webhooks status', ...acme);
  expect(status.stdout).toContain(`Webhooks are enabled for ${login}.`);
  expect(status.stdout).toContain('No delivery has arrived yet, except perhaps a ping.');
});

test('webhooks retry retries however many pull requests have failed, in steps, and is one event of the audit log', async () => {
  await addAcme();
  await query(
    environment.DATABASE_URL,
    `insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at, last_error)
      select id, number, 'PR_' || number, 0, case when number > 3 then now() end, 'It failed.'
      from organisations, generate_series(1, 20001) as number where login = '${login}'`,
  );
  const when = 'after update on sync_requests referencing new table as changed for each statement';
  await addTrigger(executor, when, "if (select count(*) from changed) > 10000 then raise 'too many at once'; end if");
  expect(await runJson('webhooks retry', ...acme)).toMatchObject({ retried: 20_001, parked: 3 });
  expect(await runJson('webhooks status', ...acme)).toMatchObject({ waiting: 20_001, failing: 0 });
  const events = await runJson<{ action: string }[]>('audit-log', ...acme);
  expect(events.filter(({ action }) => action === 'webhooks.retry')).toHaveLength(1);
});

test('webhooks status and audit-log show the newest last, and as many deliveries as --limit says', async () => {
  await addAcme();
  await query(
    environment.DATABASE_URL,
    `insert into webhook_deliveries (organisation_id, guid, event, action, state, ticket, received_at)
      select id, 'guid ' || number, 'ping', '', 'applied', number, now() + number * interval '1 minute'
      from organisations, generate_series(1, 25) as number where login = '${login}'`,
  );
  const status = async (...options: string[]) =>
    (await run('webhooks status', ...acme, ...options)).stdout.match(/guid \d+/g);
  const last = (count: number) => Array.from({ length: count }, (_, index) => `guid ${26 - count + index}`);
  expect([await status(), await status('--limit', '3'), await status('--limit', '1000')]).toEqual(
    [20, 3, 25].map(last),
  );
  expect((await run('webhooks status', ...acme, '--limit', 'all')).code).toBe(2);
  for (const name of ['disable', 'enable']) await runJson('webhooks', name, ...acme);
  expect((await run('audit-log', ...acme)).stdout.match(/\w+\.(?:add|\w+able)/g)).toEqual([
    'organisation.add',
    'webhooks.disable',
    'webhooks.enable',
  ]);
});

test('a migrated database has nothing to migrate', async () => {
  expect(await runJson('migrate')).toEqual({ applied: 0 });
  expect((await run('migrate')).stdout).toBe('The schema is up to date.\n');
});

test('a user is removed with their tokens', async () => {
  await addAcme();
  await addAda();
  await createToken();
  expect(await runJson('user remove', email.toUpperCase())).toEqual({ id: /^usr_/, removed: true });
  expect(await runJson('token list', ...acme)).toEqual([]);
  const again = complaintOf(run('user remove', email));
  expect(await again).toContain(`There is no user ${email}. List them: pullscore user list`);
});
