import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFailed, test } from 'vitest';
import { type GithubStandIn, startGithub } from '../support/github/server.ts';
import { startProxy } from '../support/proxy.ts';
import { closing, createDatabase, createTenant, startReplica, type Tenant, webhookSecret } from '../support/service.ts';
import { complaintOf, type Environment, requireBuild, run, runJson, startForTest } from './support.ts';

let database: { url: string; drop(): Promise<void> };
let github: GithubStandIn;
let tenant: Tenant;
let environment: Environment;

beforeAll(async () => {
  await requireBuild();
  database = await createDatabase();
  github = await startGithub();
  const acme = github.organisation('acme');
  acme.member('ada');
  for (let index = 0; index < 120; index += 1)
    acme.repository('web').addPullRequest({ createdAt: 1_700_000_000 + index });
  const service = await startReplica(database.url);
  tenant = await createTenant(service, { login: 'acme', githubId: acme.id });
  await service.close();
  environment = {
    DATABASE_URL: database.url,
    GITHUB_API_URL: github.apiUrl,
    GITHUB_TOKEN: github.token,
    GITHUB_WEBHOOK_SECRET: webhookSecret,
    RECONCILE_INTERVAL: '0',
    PORT: '0',
  };
});
afterAll(async () => {
  await github.close();
  await database.drop();
});
afterEach(() => github.clearFaults());

const ready = /^pullscore is ready at (http:\/\/127\.0\.0\.1:\d+) \(its documentation: \1\/docs\)\n/;

async function pullRequests(url: string): Promise<{ id: string; number: number; title: string }[]> {
  const reply = await fetch(`${url}/2025-04/pull-requests`, { headers: { authorization: `Bearer ${tenant.token}` } });
  expect(reply.status).toBe(200);
  return ((await reply.json()) as { data: { id: string; number: number; title: string }[] }).data;
}

describe('an import', () => {
  test('that is interrupted by Ctrl-C says how to continue, and continues there', async () => {
    // Another try would go on where this one was.
    onTestFailed(() => runJson(environment, 'import', '--organisation', 'acme'));
    github.fault(
      { kind: 'delay', milliseconds: 300 },
      { times: 3, when: ({ operation }) => operation === 'PullRequestPage' },
    );
    const before = github.count('PullRequestPage');
    const running = startForTest(environment, 'import', '--organisation', 'acme');
    while (github.count('PullRequestPage') === before) await delay(5);
    running.child.kill('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^About 120 pull requests in 3 requests.*\npullscore: Interrupted\. What came in is kept; run the same command again to continue\.\n$/,
    );
    expect(github.count('PullRequestPage')).toBe(before + 1);
    expect(await runJson(environment, 'import', '--organisation', 'acme')).toMatchObject({ seen: 70, saved: 70 });
  });
});

describe('serve', () => {
  test('says where it is ready, once it is, and what there is to do', async () => {
    const empty = await createDatabase();
    const { child, shows, ended } = startForTest({ DATABASE_URL: empty.url, PORT: '0' }, 'serve');
    const [, url] = await shows(ready);
    await shows(/members sync/);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    child.kill('SIGINT');
    const { code, stdout } = await ended;
    await empty.drop();
    // Past ten seconds it would end with 1.
    expect(code).toBe(0);
    for (const step of [
      'GITHUB_TOKEN=…   (with docker compose: in .env,',
      'GITHUB_WEBHOOK_SECRET=…   (with docker compose: in .env,',
      'pullscore organisation add LOGIN',
      'pullscore user add --organisation LOGIN --name NAME --email EMAIL',
      'pullscore token create --user EMAIL --scopes read,sync',
      'pullscore rules apply rules.example.yaml --organisation LOGIN',
      'pullscore members sync --organisation LOGIN && pullscore import --organisation LOGIN',
    ]) {
      expect(stdout).toContain(step);
    }
  });

  test('where all is there has nothing to say but where it is ready, in JSON too', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve', '--json');
    await shows(/\n/);
    child.kill('SIGTERM');
    const { code, stdout } = await ended;
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      next_steps: [
        expect.objectContaining({ command: 'pullscore rules apply rules.example.yaml --organisation acme' }),
      ],
    });
  });

  test('told to end, answers what is under way, tells that it is not ready, and ends with 0', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, url = ''] = await shows(ready);
    const [first] = await pullRequests(url);
    github.fault({ kind: 'delay', milliseconds: 1_500 }, { when: ({ operation }) => operation === 'PullRequests' });
    const before = github.count('PullRequests');
    const headers = { authorization: `Bearer ${tenant.token}` };
    const underWay = fetch(`${url}/2025-04/pull-requests/${first?.id}/sync`, { method: 'PUT', headers });
    while (github.count('PullRequests') === before) await delay(5);
    child.kill('SIGTERM');
    let readiness = 200;
    while (readiness === 200) readiness = (await fetch(`${url}/readyz`)).status;
    expect(readiness).toBe(503);
    // Until load balancers have noticed, requests still come, and are served.
    const late = await fetch(`${url}/2025-04/pull-requests`, { headers });
    expect([late.status, late.headers.get('connection')]).toEqual([200, 'close']);
    expect((await underWay).status).toBe(200);
    const { code } = await ended;
    // Past ten seconds it would end with 1.
    expect(code).toBe(0);
  });

  test('told to end while a fetch of its loops takes its time, lets it be saved', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, url = ''] = await shows(ready);
    const [pullRequest] = github.organisation('acme').repository('web').pullRequests;
    if (pullRequest === undefined) throw new Error('none');
    github.fault({ kind: 'delay', milliseconds: 1_500 }, { when: ({ operation }) => operation === 'PullRequests' });
    const before = github.count('PullRequests');
    const event = pullRequest.edit({ title: 'saved at the last moment' });
    const { guid, status } = await github.deliver(`${url}/webhooks/github`, webhookSecret, event);
    expect(status).toBe(202);
    while (github.count('PullRequests') === before) await delay(5);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
    const { waiting, deliveries } = await runJson(environment, 'webhooks', 'status', '--organisation', 'acme');
    expect(waiting).toBe(0);
    expect(deliveries).toContainEqual(expect.objectContaining({ guid, state: 'applied' }));
  });

  test('told to end begins no new fetch, but keeps what it is told meanwhile for the next', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, url = ''] = await shows(ready);
    const [pullRequest] = github.organisation('acme').repository('web').pullRequests;
    if (pullRequest === undefined) throw new Error('none');
    child.kill('SIGTERM');
    while ((await fetch(`${url}/readyz`)).status === 200);
    const before = github.count('PullRequests');
    const event = pullRequest.edit({ title: 'for the next' });
    expect(await github.deliver(`${url}/webhooks/github`, webhookSecret, event)).toMatchObject({ status: 202 });
    expect((await ended).code).toBe(0);
    expect(github.count('PullRequests')).toBe(before);
    const status = await runJson(environment, 'webhooks', 'status', '--organisation', 'acme');
    expect(status).toMatchObject({ waiting: 1 });
  });

  test('ends when told so while it starts', async () => {
    const { child, ended } = startForTest(environment, 'serve');
    await delay(300);
    child.kill('SIGTERM');
    expect((await ended).milliseconds).toBeLessThan(10_000);
  });

  test('on localhost lives on when a connection that asked for another protocol is reset, by whichever address', async () => {
    // The machine that runs this test may know localhost by one address only.
    const twoAddresses = `import dns from 'node:dns';
      const { lookup } = dns;
      dns.lookup = (host, options, callback) =>
        host === 'localhost' && options.all
          ? callback(null, [{ address: '127.0.0.1', family: 4 }, { address: '::1', family: 6 }])
          : lookup(host, options, callback);`;
    const { child, shows, ended } = startForTest(
      {
        ...environment,
        HOST: 'localhost',
        WORKER: 'false',
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(twoAddresses)}`,
      },
      'serve',
    );
    const [, url = ''] = await shows(/ready at (http:\/\/localhost:\d+)/);
    const healthz = async () => expect((await fetch(`${url}/healthz`)).status).toBe(200);
    for (const host of ['127.0.0.1', '::1']) {
      const socket = connect(Number(new URL(url).port), host);
      const closed = new Promise(resolve => socket.on('error', () => undefined).once('close', resolve));
      socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      // By the time of this answer, what was sent before it has been read.
      await healthz();
      socket.resetAndDestroy();
      await closed;
      await healthz();
    }
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('unexpected error')]);
  });

  test('ends with 1 if the database fails before it is ready', async () => {
    const proxy = closing(await startProxy(database.url));
    proxy.loseReplyTo('"access_tokens"');
    const { ended } = startForTest({ ...environment, DATABASE_URL: proxy.through(database.url) }, 'serve');
    const { code, stdout, stderr } = await ended;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain("The database can't be used");
  });

  test('says what is wrong with its address', async () => {
    const other = createServer();
    await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve));
    const address = other.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    const [taken, foreign] = await Promise.all([
      run({ ...environment, PORT: port }, 'serve'),
      run({ ...environment, HOST: '192.0.2.1' }, 'serve'),
    ]);
    await new Promise(resolve => other.close(resolve));
    expect([taken.code, foreign.code]).toEqual([1, 1]);
    expect(complaintOf(taken)).toBe(
      `pullscore: Port ${port} on 127.0.0.1 is taken: stop the other program, or set PORT to another one.`,
    );
    expect(complaintOf(foreign)).toBe(
      'pullscore: HOST 192.0.2.1 is not an address of this machine: set it to 127.0.0.1, or 0.0.0.0 for all.',
    );
  });
});

describe('worker', () => {
  test('does what a service without loops has taken, and ends when told so', async () => {
    const serving = startForTest({ ...environment, WORKER: 'false' }, 'serve');
    const working = startForTest(environment, 'worker');
    const [[, url = '']] = await Promise.all([
      serving.shows(ready),
      working.shows(/^The pullscore worker is ready\.\n$/),
    ]);
    const [, pullRequest] = github.organisation('acme').repository('web').pullRequests;
    if (pullRequest === undefined) throw new Error('none');
    const event = pullRequest.edit({ title: 'by the worker' });
    await github.deliver(`${url}/webhooks/github`, webhookSecret, event);
    const applied = async () => {
      const status = await runJson<{ waiting: number }>(environment, 'webhooks', 'status', '--organisation', 'acme');
      return status.waiting === 0;
    };
    while (!(await applied()));
    for (const { child } of [serving, working]) child.kill('SIGTERM');
    expect((await Promise.all([serving.ended, working.ended])).map(({ code }) => code)).toEqual([0, 0]);
  });
});
