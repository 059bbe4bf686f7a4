import { createServer } from 'node:net';
import { sql } from 'drizzle-orm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { areas, type Finding } from '../../src/commands/doctor/findings.ts';
import { countWorkers } from '../../src/commands/doctor/inspection.ts';
import { blockGithub } from '../../src/database/github-rate-limits.ts';
import { migrationLock } from '../../src/database/migrations.ts';
import { addOrganisation, setWebhooksEnabled } from '../../src/database/organisations.ts';
import { markRepositoriesLeft } from '../../src/database/repositories.ts';
import { drawTicket } from '../../src/database/tickets.ts';
import { takeAppliedDelivery } from '../../src/database/webhook-deliveries.ts';
import { credentialOf } from '../../src/sync/share-github-points.ts';
import { type Loops, startLoops } from '../../src/sync/start-loops.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { subscribedEvents } from '../../src/webhooks/events.ts';
import { newAppKeys } from '../support/app-keys.ts';
import { query } from '../support/database-server.ts';
import { htmlError, refusedNode, secondaryLimit } from '../support/github/faults.ts';
import type { HookSettings } from '../support/github/webhooks.ts';
import { listenOn } from '../support/raw-http.ts';
import { createEmptyDatabase, createMigratedDatabase, openClient, webhookSecret } from '../support/service.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';
import { type Environment, runHere, runJson } from './support.ts';

/*
 * A healthy service with its loops and its webhook. Each test breaks one thing and checks what the doctor reports.
 */

const { publicKey, privateKey } = newAppKeys('pkcs1');
const events = [...subscribedEvents.keys()];

const world = await startWorld({ RECONCILE_INTERVAL: '900' }, { app: { id: '4711', publicKey } });
const { github, service, executor, organisation, acme, web } = world;
let loops: Loops;
let environment: Environment;

beforeAll(async () => {
  github.uninstallApp(acme);
  acme.member('ada');
  web.addPullRequest();
  await syncMembers(service, organisation);
  await world.import();
  await world.applyRules([rule('1')]);
  environment = {
    ...world.shell,
    GITHUB_WEBHOOK_SECRET: webhookSecret,
    PUBLIC_URL: await service.app.listen({ host: '127.0.0.1', port: 0 }),
  };
  const delivery = { guid: 'the first', event: 'repository', action: 'created' };
  await takeAppliedDelivery(executor, delivery, organisation);
  await startWork();
});
afterAll(() => loops.stop());

const execute = async (statement: string) => void (await executor.execute(statement));

/** Starts the loops and waits until the database server shows their connection. */
async function startWork(): Promise<void> {
  loops = startLoops(service);
  await vi.waitFor(async () => expect(await countWorkers(executor)).toBe(1), { timeout: 20_000 });
}

beforeEach(() => github.stopWebhooks());
afterEach(() => github.uninstallApp(acme));

/** Sets up the webhook as README says, but for `settings`, and waits until its ping is answered. */
async function hook(settings: HookSettings & { url?: string; secret?: string } = {}): Promise<void> {
  const { url = `${environment.PUBLIC_URL}/webhooks/github`, secret = webhookSecret, ...rest } = settings;
  github.webhookTo(url, secret, rest.ofApp ? undefined : acme, { events, ...rest });
  await github.delivered();
}

/** Runs the command with some variables changed. */
async function doctor(change: Record<string, string | undefined>, ...operands: string[]) {
  const { code, stdout, stderr } = await runHere({ ...environment, ...change }, 'doctor', ...operands);
  expect(stderr).toBe(code === 0 ? '' : 'pullscore: Problems found; see above for fixes.\n');
  return { output: stdout, failed: code !== 0 };
}

const show = async (change: Record<string, string | undefined> = {}) => (await doctor(change)).output;

/** All findings but those that are ok: `status name: message → action`. */
async function complaints(change: Record<string, string | undefined> = {}, ...operands: string[]): Promise<string[]> {
  const { output, failed } = await doctor(change, ...operands, '--json');
  const { ok, checks } = JSON.parse(output) as { ok: boolean; checks: Finding[] };
  expect([ok, failed]).toEqual(checks.some(({ status }) => status === 'problem') ? [false, true] : [true, false]);
  for (const { area, status, message, action } of checks) {
    expect(Object.keys(areas)).toContain(area);
    expect(message).toMatch(/^\S.*\S$/);
    if (status === 'ok') expect(action).toBeNull();
    if (status === 'warning' || status === 'problem') expect(action).toMatch(/^\S.*\S$/);
  }
  return checks.flatMap(({ status, name, message, action }) =>
    status === 'ok' ? [] : [`${status} ${name}: ${message}${action === null ? '' : ` → ${action}`}`],
  );
}

test('doctor says why the service would refuse a database', async () => {
  const url = await createEmptyDatabase();
  await query(url, 'create table users ()');
  const found = await complaints({ DATABASE_URL: url });
  expect(found.filter(line => line.includes(' server: '))).toEqual([
    /^problem server: The database \w+ has tables that are not of pullscore: users\. → Create an empty/,
  ]);
});

test('doctor names a session that holds the migration lock', async () => {
  const url = await createEmptyDatabase();
  const holder = await openClient(url);
  await holder.query('select pg_advisory_lock($1)', [migrationLock.key]);
  expect(await complaints({ DATABASE_URL: url })).toContainEqual(
    /^warning server: The database process \d+ holds the lock of migrations.* → .*pg_terminate_backend/,
  );
});

test('doctor finds nothing wrong with a healthy service in any area', async () => {
  await hook();
  web.openPullRequest();
  await github.delivered();
  await expect.poll(() => complaints()).toEqual([]);
  const text = await show();
  expect(text.match(/^[A-Z]\w+( \w+)?$/gm)).toEqual(Object.values(areas));
  expect(text).toMatch(/✓ PostgreSQL \d+\.\d+ at [^✓]*, answers\s+in \d+ ms\./);
  expect(text).toContain('✓ GitHub accepts GITHUB_TOKEN.');
  expect(text).toMatch(/✓ [\d,]+ of 5,000 points of the rate limit are left/);
  expect(text).toContain(`✓ acme: GitHub delivers to ${environment.PUBLIC_URL}/webhooks/github.`);
  expect(text).toMatch(/^ {2}✓ Background work is done by 1 process on this database\.$/m);
  expect(text.match(/✓/g)?.length).toBeGreaterThanOrEqual(18);
  expect(text.trimEnd()).toMatch(/\nNo problems found\.$/);
});

test('doctor prints all findings, and ends with 0 for a warning or 1 and one line for a problem', async () => {
  const [warned, broken, json] = await Promise.all([
    runHere({ ...environment, RECONCILE_INTERVAL: '0', PUBLIC_URL: '' }, 'doctor --organisation acme'),
    runHere({ PORT: 'x', WORKER: 'perhaps' }, 'doctor'),
    runHere({ PORT: 'x' }, 'doctor --json'),
  ]);
  expect(warned.stdout).toContain('! RECONCILE_INTERVAL is 0: changes that a webhook misses are never found.');
  expect(broken).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('✗ PORT must be a whole number from 0 to 65535.'),
    stderr: 'pullscore: Problems found; see above for fixes.\n',
  });
  expect(broken.stdout).toContain('✗ WORKER must be true or false.');
  expect(json.code).toBe(1);
  expect(JSON.parse(json.stdout)).toMatchObject({
    ok: false,
    checks: [{ area: 'configuration', status: 'problem' }, { status: 'skipped' }],
  });
  // Without PUBLIC_URL any webhook to the path counts, and there is none.
  expect(warned.code).toBe(1);
  github.grants.scopes = [];
  expect(await runHere({ ...environment, RECONCILE_INTERVAL: '0' }, 'doctor')).toMatchObject({ code: 0 });
});

describe('the database', () => {
  const unchecked =
    "skipped organisations: Organisations, deliveries and background work are not checked: the database can't be used yet.";

  test('doctor still checks GitHub if the database is unreachable', async () => {
    const gone = { DATABASE_URL: 'postgres://me:hush@127.0.0.1:1/scores' };
    expect(await complaints(gone)).toEqual([
      "problem server: The database server at 127.0.0.1:1 can't be reached: ECONNREFUSED. → Check DATABASE_URL and that the server runs.",
      unchecked,
      "skipped rights: Permissions and webhooks on GitHub are not checked: the organisations can't be read from the database.",
    ]);
    expect(await show(gone)).toContain('✓ GitHub accepts GITHUB_TOKEN.');
  });

  test('doctor reports an old schema, but does not migrate it', async () => {
    const url = await createEmptyDatabase();
    for (let round = 0; round < 2; round += 1) {
      expect(await complaints({ DATABASE_URL: url })).toEqual([
        /^warning server: The schema lacks \d+ migrations? of this release\. → .*pullscore migrate$/,
        unchecked,
        /^skipped rights/,
      ]);
    }
  });

  test('doctor reports a database with an encoding other than UTF-8', async () => {
    const url = await createEmptyDatabase(`encoding 'SQL_ASCII' locale 'C' template template0`);
    expect((await complaints({ DATABASE_URL: url })).slice(0, 2)).toEqual([
      /^problem server: The database \w+ has the encoding SQL_ASCII, and pullscore needs UTF8\. → Create another one/,
      unchecked,
    ]);
  });

  test('doctor reports a database that does not let its user change the schema or write', async () => {
    await execute('create role doctor_guest');
    onTestFinished(() => execute('drop role doctor_guest'));
    const as = (options: string) => {
      const url = new URL(service.database.url);
      url.searchParams.set('options', options);
      return url.href;
    };
    expect((await complaints({ DATABASE_URL: as('-c role=doctor_guest') }))[0]).toMatch(
      /^problem server: The user doctor_guest may not change the schema of \w+, .*alter database "\w+" owner to "doctor_guest"/,
    );
    expect((await complaints({ DATABASE_URL: as('-c default_transaction_read_only=on') }))[0]).toMatch(
      /^problem server: The server does not accept writes/,
    );
  });
});

describe('GitHub', () => {
  const unchecked = (why: string) => `skipped rights: Permissions and webhooks on GitHub are not checked: ${why}.`;

  test('doctor reports missing credentials for GitHub', async () => {
    expect(await complaints({ GITHUB_TOKEN: undefined })).toEqual([
      /^problem credentials: There are no GitHub credentials\. → Set GITHUB_TOKEN,/,
      unchecked('GitHub accepts no credentials of this configuration'),
    ]);
  });

  test('doctor reports a token that GitHub refuses, but does not show it', async () => {
    const wrong = { GITHUB_TOKEN: 'ghp_hush' };
    expect(await complaints(wrong)).toEqual([
      "problem credentials: GitHub refused the service's credentials. → Renew GITHUB_TOKEN.",
      unchecked('GitHub accepts no credentials of this configuration'),
    ]);
    expect(await show(wrong)).not.toContain('hush');
  });

  test.each([
    [
      'http://127.0.0.1:2',
      /^problem reach: The connection to http:\S+ failed: ECONNREFUSED\. → Check GITHUB_API_URL, and that the network/,
    ],
    [
      'https://nowhere.invalid',
      /^problem reach: The connection to https:\S+ failed: (ENOTFOUND|EAI_AGAIN)\. → Check the name in GITHUB_API_URL/,
    ],
  ])('doctor names the cause if GitHub is unreachable at %s', async (url, expected) => {
    expect((await complaints({ GITHUB_API_URL: url })).slice(0, 2)).toEqual([
      expected,
      unchecked("it can't be reached"),
    ]);
  });

  test('doctor reports an address of GitHub at which something else answers', async () => {
    expect((await complaints({ GITHUB_API_URL: `${github.apiUrl}/not/here` }))[0]).toBe(
      'problem credentials: There is no GitHub API at this address. → Check GITHUB_API_URL.',
    );
  });

  test('doctor reports that the clock of this machine is wrong', async () => {
    const date = new Date(Date.now() - 600_000).toUTCString();
    github.fault(
      { kind: 'reply', status: 200, headers: { date }, body: {} },
      { when: ({ path, authorization }) => path === '/rate_limit' && authorization === undefined },
    );
    expect(await complaints()).toContainEqual(
      "warning reach: The clock of this machine is 10 min ahead of GitHub's. → Synchronise it with NTP, such as chrony.",
    );
  });

  test('doctor reports that few points are left and that the token expires soon', async () => {
    const ends = new Date(Date.now() + 5 * 86_400_000).toISOString();
    github.fault(
      {
        kind: 'reply',
        status: 200,
        headers: { 'github-authentication-token-expiration': ends.replace('T', ' ').replace(/\..*/, ' UTC') },
        body: { resources: { graphql: { limit: 5_000, remaining: 12, reset: 4_000_000_000 } } },
      },
      { when: ({ path, authorization }) => path === '/rate_limit' && authorization !== undefined },
    );
    expect((await complaints()).filter(line => line.includes('credentials'))).toEqual([
      expect.stringContaining(`GITHUB_TOKEN expires on ${ends.slice(0, 10)}. → `),
      expect.stringContaining('Only 12 of 5,000 points of the rate limit are left, until 07:06 UTC. → '),
    ]);
  });

  test('doctor does not call GitHub while its rate limit blocks requests', async () => {
    await blockGithub(executor, credentialOf(service.config, organisation), 600);
    const asked = github.requests.length;
    expect(await complaints()).toEqual([
      /^warning patience: GitHub's rate limit blocks requests for another 10 min: .* → Wait\./,
    ]);
    expect(github.requests).toHaveLength(asked);
  });

  test('doctor saves a rate limit that GitHub sets, and its next run keeps to it', async () => {
    github.fault(secondaryLimit('300'));
    await complaints();
    const blocked = [expect.stringContaining('rate limit blocks requests for another 5 min')];
    expect(await complaints()).toEqual(blocked);
    await executor.execute(sql`delete from github_limits`);
    // Where a refusal could also mean that the credentials may not see something.
    github.fault(secondaryLimit('300'), { when: ({ path }) => path.endsWith('/hooks') });
    await complaints();
    expect(await complaints()).toEqual(blocked);
  });

  test('doctor names the missing permission if GitHub refuses to show something', async () => {
    await hook();
    for (const when of ['Members', 'PullRequestList']) {
      github.fault(refusedNode('FORBIDDEN', 'Resource not accessible by personal access token'), { when });
    }
    expect(await complaints()).toEqual([
      /^problem members: GitHub does not let GITHUB_TOKEN read the members of acme: "Resource not accessible.* → On GitHub, let GITHUB_TOKEN read Members/,
      /^problem pull_requests: GitHub does not let GITHUB_TOKEN read .* → On GitHub, let GITHUB_TOKEN read Pull requests, Issues, Contents and Metadata/,
    ]);
  });

  test('doctor reports that GitHub hides members from the token of a non-member', async () => {
    github.grants.viewerIsMember = false;
    expect(await complaints()).toContain(
      'warning members: GitHub shows only 0 public members, so nobody is marked as having left. → Use the token of a member that may read Members (a classic one: the scope read:org), or an App that may.',
    );
  });

  test('doctor reports an organisation that GitHub does not show', async () => {
    await addOrganisation(executor, { login: 'nobodys', githubId: null, name: '', photoUrl: '' });
    onTestFinished(() => execute("delete from organisations where login = 'nobodys'"));
    const found = await complaints({}, '--organisation', 'Nobodys');
    expect(found).toContainEqual(
      /^problem organisation: GitHub does not show the organisation to GITHUB_TOKEN\. → Check/,
    );
    expect(found).toContainEqual(/^skipped hook: /);
    for (const name of ['rules', 'people', 'scores']) {
      expect(found).toContainEqual(expect.stringMatching(new RegExp(`^warning ${name}: .*pullscore .*nobodys`)));
    }
  });

  test('doctor finds a renamed organisation and its webhook under the new login', async () => {
    acme.rename('apex');
    const newcomer = github.organisation('acme');
    onTestFinished(() => {
      // A webhook would make the service compare, perhaps during another test.
      github.stopWebhooks();
      newcomer.rename(`newcomer-${newcomer.id}`);
      acme.rename('acme');
    });
    await hook();
    expect(await complaints()).toEqual([
      'warning organisation: It was renamed: on GitHub it is apex. → The next comparison with GitHub updates the login. ' +
        'To do it now: pullscore members sync --organisation acme',
    ]);
  });

  test('doctor names repositories that GitHub no longer shows, and deletes nothing', async () => {
    await hook();
    const [api, docs] = [acme.repository('api'), acme.repository('docs')];
    for (const repository of [api, docs]) repository.addPullRequest();
    await world.import();
    // As if comparisons had since seen only this one.
    const ticket = await drawTicket(executor);
    await executor.execute(sql`update repositories set fetch_ticket = ${ticket} where name = 'acme/web'`);
    onTestFinished(() =>
      execute(`delete from pull_requests where organisation_id = '${organisation.id}' and repository_id in
        (select id from repositories where name <> 'acme/web');
        delete from repositories where name <> 'acme/web'`),
    );
    expect(await complaints()).toEqual([]);
    api.remove();
    docs.transfer(github.organisation('elsewhere'));
    // Also once a comparison has marked them.
    for (let round = 0; round < 2; round += 1) {
      expect(await complaints()).toEqual([
        'warning repositories: GitHub no longer shows acme/api and acme/docs: 2 stored pull requests stay as last ' +
          'fetched. → On GitHub, check the repository access of GITHUB_TOKEN. If the repository was deleted or transferred, ' +
          'there is nothing to do.',
      ]);
      await markRepositoriesLeft(executor, organisation.id, await drawTicket(executor), [api.id, docs.id]);
    }
    const { rows } = await executor.execute(sql`select name from repositories order by name`);
    expect(rows.map(({ name }) => name)).toEqual(['acme/api', 'acme/docs', 'acme/web']);
    expect(await complaints({ RECONCILE_INTERVAL: '0' })).not.toContainEqual(
      expect.stringContaining('no longer shows'),
    );
  });

  test('doctor still checks everything else if GitHub gives one senseless answer', async () => {
    await hook();
    github.fault(htmlError(500), { when: 'Members' });
    expect(await complaints()).toEqual([/^problem members: GitHub failed with status 500\. → Try again later\.$/]);
  });
});

describe('an App', () => {
  const app = () => ({ GITHUB_TOKEN: undefined, GITHUB_APP_ID: '4711', GITHUB_APP_PRIVATE_KEY: privateKey });

  test('doctor finds nothing wrong with an App with a webhook of its own', async () => {
    github.installApp(acme);
    await hook({ ofApp: true });
    expect(await complaints(app())).toEqual([]);
    const text = await show(app());
    expect(text).toContain('✓ GitHub accepts the App Scores.');
    expect(text).toContain('✓ acme: The App is installed and has all permissions that it needs.');
  });

  test('doctor reports an App with a wrong id, or one that is not installed', async () => {
    expect((await complaints({ ...app(), GITHUB_APP_ID: '4712' }))[0]).toMatch(
      /^problem credentials: .* → Renew GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY\.$/,
    );
    expect(await complaints(app())).toEqual([
      /^problem installation: The App is not installed\. → On GitHub, open/,
      /^skipped hook: /,
    ]);
  });

  test('doctor names the permission that an App lacks', async () => {
    github.installApp(acme);
    await hook();
    delete github.grants.permissions.members;
    expect(await complaints(app())).toEqual([
      /^problem installation: The App is installed, but may not read Members .* → On GitHub, give the App the permission/,
    ]);
  });
});

describe('the webhook on GitHub', () => {
  const page = () => `${github.apiUrl}/organizations/acme/settings/hooks`;
  const here = () => `${environment.PUBLIC_URL}/webhooks/github`;

  test('doctor says how to add a missing webhook', async () => {
    expect(await complaints()).toEqual([
      `problem hook: No webhook on GitHub goes to ${here()}. → Add one at ${page()}/new: ${here()}, content type ` +
        'application/json, the secret of GITHUB_WEBHOOK_SECRET, and the events Pull requests, Pull request reviews, ' +
        'Pull request review threads, Pull request review comments, Issue comments, Labels, Milestones, ' +
        'Organizations and Repositories.',
    ]);
  });

  test('doctor accepts a second webhook if the first one is not active', async () => {
    await hook({ active: false });
    await hook();
    expect(await complaints()).toEqual([]);
  });

  test('doctor finds the webhook by its path if PUBLIC_URL is not set', async () => {
    await hook();
    const { output } = await doctor({ PUBLIC_URL: undefined, PORT: new URL(here()).port }, '--json');
    expect(output).toContain('(check the address: PUBLIC_URL is not set)');
  });

  test('doctor reports a webhook that goes to another address', async () => {
    await hook({ url: 'http://127.0.0.1:1/webhooks/github' });
    expect(await complaints()).toEqual([
      `problem hook: No webhook on GitHub goes to ${here()}; one goes to http://127.0.0.1:1/webhooks/github. → ` +
        `Fix its address at ${page()}, or PUBLIC_URL here.`,
    ]);
  });

  test.each<[string, HookSettings & { secret?: string }, RegExp]>([
    [
      'has the wrong content type',
      { contentType: 'form' },
      /^problem hook: The webhook's content type is form: .* → Choose application\/json at/,
    ],
    [
      'has no secret',
      { secret: '' },
      /^problem hook: The webhook on GitHub has no secret: .* → Set it to the value of/,
    ],
    [
      'has another secret',
      { secret: 'another' },
      /^problem hook: GitHub's latest delivery failed \(ping, \d+ s ago: 401, .*\)\. → Set the same secret/,
    ],
  ])('doctor reports a webhook that %s', async (_, settings, expected) => {
    await hook(settings);
    expect((await complaints())[0]).toMatch(expected);
  });

  test('doctor reports a webhook that cannot reach the service', async () => {
    const proxy = createServer(socket => socket.destroy());
    const port = await listenOn(proxy);
    onTestFinished(() => void proxy.close());
    await hook({ url: `http://127.0.0.1:${port}/webhooks/github` });
    const [failed] = await complaints({ PUBLIC_URL: `http://127.0.0.1:${port}` });
    expect(failed).toMatch(
      /^problem hook: GitHub's latest delivery failed \(ping, .*: 502, failed to connect to host\)\. → Make sure that GitHub can reach PUBLIC_URL/,
    );
  });

  test('doctor reports a webhook that failed once, but works again', async () => {
    await hook();
    web.openPullRequest();
    await github.delivered();
    const change = (reply: unknown) =>
      Array.isArray(reply)
        ? [reply[0], { ...reply[1], status: 'Invalid HTTP Response: 503', status_code: 503 }]
        : reply;
    github.fault({ kind: 'alter', change }, { when: ({ path }) => path.endsWith('/deliveries') });
    expect(await complaints()).toEqual([
      /^warning hook: 1 of GitHub's last 2 deliveries failed, but not the latest \(ping, .*: 503, .*\)\. → Redeliver/,
    ]);
  });

  test('doctor says what to check if the credentials cannot see the webhook', async () => {
    github.grants.scopes = ['repo', 'read:org'];
    const found = await complaints();
    expect(found).toEqual([
      /^skipped hook: GITHUB_TOKEN can't see the webhook on GitHub\. The service works without that\. → Check it at .*admin:org_hook/,
    ]);
    expect(found[0]).toContain(`${page()}: ${here()}, content type application/json`);
    expect(await show()).toContain('No problems found.');
  });

  test('doctor does not check the webhook if webhooks are disabled', async () => {
    await setWebhooksEnabled(executor, organisation.id, false);
    onTestFinished(() => setWebhooksEnabled(executor, organisation.id, true));
    expect(await complaints()).toEqual([
      'skipped deliveries: Disabled here: deliveries are ignored. → To accept them: pullscore webhooks enable --organisation acme',
      'skipped comparison: Repositories are not compared: webhooks are disabled.',
    ]);
  });

  test('answers to deliveries cannot control the terminal of doctor', async () => {
    await hook();
    const evil = 'evil\u001b[2J\u0007\u202e\nnext line';
    github.fault(
      {
        kind: 'alter',
        change: reply =>
          Array.isArray(reply) ? reply.map(each => ({ ...each, status: evil, status_code: 500 })) : reply,
      },
      { times: 2, when: ({ path }) => path.endsWith('/deliveries') },
    );
    expect((await complaints())[0]).toContain('500, evil [2J next line');
    const text = await show();
    expect(text).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
  });
});

describe('the background work', () => {
  async function requests(values: string): Promise<void> {
    const columns = 'organisation_id, github_id, node_id, ticket, due_at, attempts, last_error';
    const rows = values.replaceAll('$acme', `'${organisation.id}'`);
    await executor.execute(`insert into sync_requests (${columns}) values ${rows}`);
    onTestFinished(() => execute('delete from sync_requests'));
  }
  /** Stores a delivery of this age. */
  async function deliveries(state: 'pending' | 'gone', age: string, githubId: number): Promise<void> {
    await executor.execute(sql`
      insert into webhook_deliveries
        (organisation_id, guid, event, action, state, pull_request_github_id, ticket, received_at)
      values (${organisation.id}, ${`doctor-${githubId}`}, 'pull_request', 'opened', ${state}, ${githubId}, 0,
        now() - ${age}::interval)`);
    onTestFinished(() => execute("delete from webhook_deliveries where guid like 'doctor-%'"));
  }
  const failing = `($acme, 2, 'PR_2', 1, now() + interval '1 hour', 3, 'Something went wrong.')`;
  const parked = `($acme, 3, 'PR_3', 1, null, 8, 'Nothing helps.')`;

  test('doctor says how to retry failing and parked pull requests', async () => {
    await hook();
    await requests(failing);
    const retry = 'After fixing the cause: pullscore webhooks retry --organisation acme';
    expect(await complaints()).toEqual([
      `warning requests: 1 pull request is tried again after a failure, such as PR_2: Something went wrong. → ${retry}`,
    ]);
    await executor.execute(sql`delete from sync_requests`);
    await requests(`${failing}, ${parked}`);
    expect(await complaints()).toEqual([
      `problem requests: 1 pull request is parked after failures, such as PR_3: Nothing helps. → ${retry}`,
      `warning requests: 1 pull request is tried again after a failure. → ${retry}`,
    ]);
  });

  test('webhooks status shows failing pull requests, and webhooks retry retries them', async () => {
    await requests(`${failing}, ${parked}`);
    const [text, json] = await Promise.all([
      runHere(environment, 'webhooks status --organisation acme'),
      runJson(environment, 'webhooks status --organisation acme'),
    ]);
    expect(text.stdout).toMatch(/^2 pull requests wait to be synced, 2 of them after a failure\.$/m);
    expect(text.stdout).toMatch(/^Of these, 1 is parked: it is tried again within a minute of the next change,/m);
    expect(text.stdout).toMatch(/^PR_3 +8 +parked +Nothing helps\.\nPR_2 +3 +\d{4}-.* Something went wrong\.\n/m);
    expect(text.stdout).toContain('Retry them now: pullscore webhooks retry --organisation acme');
    const moment = expect.any(Number);
    expect(json).toMatchObject({
      waiting: 2,
      failing: 2,
      parked: 1,
      failures: [
        { pull_request: null, external_id: '3', attempts: 8, reason: 'Nothing helps.', parked: true, due_at: null },
        { pull_request: null, external_id: '2', attempts: 3, parked: false, requested_at: moment, due_at: moment },
      ],
    });
    const retried = await runHere(environment, 'webhooks retry --organisation acme');
    expect(retried).toMatchObject({
      code: 0,
      stdout: /^Retrying 2 pull requests, 1 of them parked\. /,
    });
    // The command wakes the loops, which find that GitHub does not show these pull requests.
    await expect.poll(() => runJson(environment, 'webhooks status --organisation acme')).toMatchObject({ waiting: 0 });
  });

  test('doctor has no complaint while a pull request waits for GitHub to show what a webhook announced', async () => {
    await hook();
    await requests(`($acme, 5, 'PR_5', 1, now() + interval '5 minutes', 0, null)`);
    await executor.execute(sql`update sync_requests set behind_since = now() - interval '11 minutes'`);
    await deliveries('pending', '11 minutes', 5);
    expect(await complaints()).toEqual([]);
    expect(await show()).toMatch(/1 pull request waits to be synced, 1 of them until\s+GitHub shows/);
    const status = () => runJson(environment, 'webhooks status --organisation acme');
    expect(await status()).toMatchObject({ waiting: 1, behind: 1, failing: 0, parked: 0 });
    await executor.execute(sql`update sync_requests set last_error = 'GitHub failed.'`);
    expect(await status()).toMatchObject({ waiting: 1, behind: 0, failing: 1 });
    expect(await complaints()).toEqual([
      /^warning deliveries: 1 delivery came more than ten minutes ago and is not applied yet\./,
      /^warning requests: /,
    ]);
  });

  test('doctor and webhooks status explain deliveries whose pull requests GitHub never showed', async () => {
    await hook();
    await deliveries('gone', '6 days', 6);
    await deliveries('gone', '8 days', 7);
    const [found, ...others] = await complaints();
    expect(others).toEqual([]);
    expect(found).toMatch(
      /^warning deliveries: 1 delivery in the last 7 days named a pull request that GitHub never showed\. → Give the credentials/,
    );
    const [text, json] = await Promise.all([
      runHere(environment, 'webhooks status --organisation acme'),
      runJson<{ deliveries: { state: string }[] }>(environment, 'webhooks status --organisation acme'),
    ]);
    expect(text.stdout).toContain(
      '1 delivery in the last 7 days named a pull request that GitHub never showed. What to do: pullscore doctor --organisation acme',
    );
    expect(text.stdout).toMatch(/ gone +doctor-6\n/);
    expect(text.stdout).toMatch(/^gone: GitHub did not show the pull request for/m);
    expect(json).toMatchObject({ gone: 1 });
    expect(json.deliveries.filter(({ state }) => state === 'gone')).toHaveLength(2);
  });

  test('doctor has no complaint if a later fetch found the pull request of a delivery', async () => {
    await hook();
    const { rows } = await executor.execute<{ id: string }>(sql`select github_id as id from pull_requests limit 1`);
    await deliveries('gone', '1 hour', Number(rows[0]?.id));
    expect(await complaints()).toEqual([]);
    await executor.execute(sql`update webhook_deliveries set ticket = 1000000 where guid like 'doctor-%'`);
    expect(await complaints()).toEqual([/^warning deliveries: .* GitHub never showed/]);
  });

  test('doctor reports refetches that come much later than docs/rules.md promises', async () => {
    await hook();
    const age = (interval: string) =>
      execute(`update pull_requests set fetched_at = now() - interval '${interval}'
        where id = (select min(id::text)::uuid from pull_requests where organisation_id = '${organisation.id}')`);
    onTestFinished(() => age('0'));
    await age('47 hours');
    expect(await complaints()).toEqual([]);
    await age('49 hours');
    expect(await complaints()).toEqual([
      'warning comparison: Some pull requests were last fetched 2 days ago: changes without a webhook are not known ' +
        'yet. → Comparisons catch up while they run and GitHub has points left. See the log of the service.',
    ]);
  });

  test.each([
    sql`comparison_due_at = now() - interval '3 hours'`,
    // The replica that began it was killed.
    sql`comparison_due_at = now() + interval '21 hours', comparison_leased_until = now() - interval '3 hours'`,
  ])('doctor reports waiting pull requests and an overdue comparison if no process works (case %#)', async overdue => {
    await hook();
    await loops.stop();
    onTestFinished(async () => {
      await startWork();
      await executor.execute(
        sql`update organisations set comparison_due_at = now() + interval '10 minutes', comparison_leased_until = 'epoch'`,
      );
    });
    await executor.execute(sql`update organisations set ${overdue} where id = ${organisation.id}`);
    await requests(`($acme, 4, 'PR_4', 1, now() - interval '1 hour', 0, null)`);
    await expect
      .poll(() => complaints({ WORKER: 'false' }))
      .toEqual([
        'warning workers: No process keeps pull requests and scores up to date. → Start pullscore serve, or worker if WORKER is false.',
        /^problem requests: 1 pull request waits to be synced, the first for 60 min\. → Nothing is syncing\. Start pullscore serve/,
        /^warning comparison: The comparison with GitHub has been overdue for 3 h\. → No process is comparing\. Start/,
      ]);
  });

  test('doctor reports an unknown organisation, and that none is tracked yet', async () => {
    expect(await complaints({}, '--organisation', 'emca')).toEqual([
      'problem organisations: There is no organisation emca here. → Add it: pullscore organisation add emca',
    ]);
    expect(await complaints({ DATABASE_URL: await createMigratedDatabase() })).toEqual([
      'warning organisations: No organisation is tracked yet. → Add one: pullscore organisation add LOGIN',
      /^warning workers: /,
    ]);
  });
});
