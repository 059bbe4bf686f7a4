import dns from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { query } from '../support/database-server.ts';
import { type GithubStandIn, startGithub } from '../support/github/server.ts';
import { startProxy } from '../support/proxy.ts';
import { closing, createDatabase, startReplica, webhookSecret } from '../support/service.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import {
  complaintOf,
  type Environment,
  requireBuild,
  runHere,
  runJson,
  startForTest,
  startHere,
  typeForTest,
} from './support.ts';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise(resolve => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port is free');
  return address.port;
}

let database: { url: string; drop(): Promise<void> };
let github: GithubStandIn;
let tenant: Tenant;
let environment: Environment;

beforeAll(async () => {
  requireBuild();
  database = await createDatabase();
  github = await startGithub();
  const acme = github.organisation('acme');
  acme.member('ada');
  for (let index = 0; index < 3; index += 1) acme.repository('web').addPullRequest();
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
  await runJson(environment, 'import', '--organisation', 'acme');
});
afterAll(async () => {
  await github.close();
  await database.drop();
});
afterEach(() => github.clearFaults());

const ready = /^pullscore is ready at (http:\/\/127\.0\.0\.1:\d+) \(API documentation: \1\/docs\)\n/;

async function pullRequests(url: string): Promise<{ id: string; number: number; title: string }[]> {
  const reply = await fetch(`${url}/2025-04/pull-requests`, { headers: { authorization: `Bearer ${tenant.token}` } });
  expect(reply.status).toBe(200);
  return ((await reply.json()) as { data: { id: string; number: number; title: string }[] }).data;
}

describe('an import', () => {
  test('that Ctrl-C interrupts says how to continue, and then continues', async () => {
    const apex = github.organisation('apex');
    apex.member('ada');
    for (let index = 0; index < 120; index += 1)
      apex.repository('web').addPullRequest({ createdAt: 1_700_000_000 + index });
    await runJson(environment, 'organisation', 'add', 'apex');
    github.fault({ kind: 'delay', milliseconds: 300 }, { times: 3, when: 'PullRequestList' });
    const before = github.count('PullRequestList');
    const running = startHere(environment, 'import', '--organisation', 'apex');
    while (github.count('PullRequestList') === before) await delay(5);
    running.interrupt();
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe('pullscore: Interrupted. What was imported is kept; run the same command again to continue.\n');
    expect(github.count('PullRequestList')).toBe(before + 1);
    expect(await runJson(environment, 'import', '--organisation', 'apex')).toMatchObject({ seen: 20, saved: 20 });
    expect(await runJson(environment, 'import', '--organisation', 'apex')).toMatchObject({ seen: 120, saved: 120 });
  });
});

describe('serve', () => {
  test('prints its address when it is ready, and what to do next', async () => {
    const empty = await createDatabase();
    const { child, shows, ended } = startForTest({ DATABASE_URL: empty.url, PORT: '0' }, 'serve');
    const [, url] = await shows(ready);
    await shows(/members sync/);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    child.kill('SIGINT');
    const { code, stdout } = await ended;
    await empty.drop();
    // After ten seconds it would end with 1.
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

  test('--json prints its address and the remaining steps as JSON', async () => {
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

  test('answers the requests in progress after SIGTERM, is not ready, and ends with 0', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, url = ''] = await shows(ready);
    const [first] = await pullRequests(url);
    github.fault({ kind: 'delay', milliseconds: 1_500 }, { when: 'PullRequests' });
    const before = github.count('PullRequests');
    const headers = { authorization: `Bearer ${tenant.token}` };
    const pending = fetch(`${url}/2025-04/pull-requests/${first?.id}/sync`, { method: 'PUT', headers });
    while (github.count('PullRequests') === before) await delay(5);
    child.kill('SIGTERM');
    let readiness = 200;
    while (readiness === 200) readiness = (await fetch(`${url}/readyz`)).status;
    expect(readiness).toBe(503);
    // Requests still come until load balancers notice, and are served.
    const late = await fetch(`${url}/2025-04/pull-requests`, { headers });
    expect([late.status, late.headers.get('connection')]).toEqual([200, 'close']);
    expect((await pending).status).toBe(200);
    const { code } = await ended;
    // After ten seconds it would end with 1.
    expect(code).toBe(0);
  });

  test('saves the result of a slow fetch after SIGTERM', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, url = ''] = await shows(ready);
    const [pullRequest] = github.organisation('acme').repository('web').pullRequests;
    if (pullRequest === undefined) throw new Error('no pull request');
    github.fault({ kind: 'delay', milliseconds: 1_500 }, { when: 'PullRequests' });
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

  test('starts no fetch after SIGTERM, but stores deliveries for the next process', async () => {
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, url = ''] = await shows(ready);
    const [pullRequest] = github.organisation('acme').repository('web').pullRequests;
    if (pullRequest === undefined) throw new Error('no pull request');
    child.kill('SIGTERM');
    while ((await fetch(`${url}/readyz`)).status === 200);
    const before = github.count('PullRequests');
    const event = pullRequest.edit({ title: 'for the next process' });
    expect(await github.deliver(`${url}/webhooks/github`, webhookSecret, event)).toMatchObject({ status: 202 });
    expect((await ended).code).toBe(0);
    expect(github.count('PullRequests')).toBe(before);
    const status = await runJson(environment, 'webhooks', 'status', '--organisation', 'acme');
    expect(status).toMatchObject({ waiting: 1 });
  });

  test('ends on SIGTERM during start-up', async () => {
    const { child, ended } = startForTest(environment, 'serve');
    await delay(300);
    child.kill('SIGTERM');
    expect((await ended).milliseconds).toBeLessThan(30_000);
  });

  test('survives the reset of an upgrade request on each address of localhost', async () => {
    // This machine may have only one address for localhost.
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
      // After this answer, the service has read the upgrade request.
      await healthz();
      socket.resetAndDestroy();
      await closed;
      await healthz();
    }
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('unexpected error')]);
  });

  test('ends with 1 if the database fails during start-up', async () => {
    const proxy = closing(await startProxy(database.url));
    proxy.loseReplyTo('"hasToken"');
    const failing = { ...environment, DATABASE_URL: proxy.through(database.url) };
    const { code, stdout, stderr } = await runHere(failing, 'serve');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('The database is not available');
  });

  test('says why it can not listen on its address', async () => {
    const other = createServer();
    await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve));
    const address = other.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    const [used, foreign] = await Promise.all([
      runHere({ ...environment, PORT: port }, 'serve'),
      runHere({ ...environment, HOST: '192.0.2.1' }, 'serve'),
    ]);
    await new Promise(resolve => other.close(resolve));
    expect([used.code, foreign.code]).toEqual([1, 1]);
    expect(complaintOf(used)).toBe(
      `pullscore: Port ${port} on 127.0.0.1 is in use. Stop the other program, or set PORT to another port.`,
    );
    expect(complaintOf(foreign)).toBe(
      'pullscore: HOST 192.0.2.1 is not an address of this machine. Set it to 127.0.0.1, or to 0.0.0.0 for all addresses.',
    );
  });

  test.each(['ENOTFOUND', 'EAI_AGAIN'])(
    'blames HOST, and not the database, if its lookup fails with %s',
    async code => {
      const looking = vi.spyOn(dns, 'lookup').mockRejectedValue(Object.assign(new Error(code), { code }));
      syncBuiltinESMExports();
      onTestFinished(() => {
        looking.mockRestore();
        syncBuiltinESMExports();
      });
      const ended = await runHere({ ...environment, HOST: 'nowhere' }, 'serve');
      expect([ended.code, complaintOf(ended)]).toEqual([1, expect.stringContaining('HOST nowhere is not an address')]);
    },
  );
});

describe('SIGTERM to the process that a supervisor knows', () => {
  const unit = readFileSync(new URL('../../ops/pullscore.service', import.meta.url), 'utf8');
  const [, command = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
  const cases = [
    ['npm start', 'npm start', 0],
    ['the unit of systemd', command.replace('/usr/bin/node', process.execPath), 0],
    // It ends at once, by the signal; the service follows.
    ['npx', 'npx pullscore serve', null],
  ] as const;
  test.each(cases)('ends the service if %s started it', async (_way, line, expected) => {
    const { child, shows, ended } = typeForTest(environment, line);
    const [, url = ''] = await shows(/ready at (http:\S+)/);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    child.kill('SIGTERM');
    // Until all that it started has ended.
    expect((await ended).code).toBe(expected);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed');
  });
});

describe('a checkout', () => {
  test.each(['node dist/main.js', 'npx pullscore'])(
    'in a checkout %s suggests commands that need nothing but Node',
    async program => {
      const { code, stderr } = await typeForTest(environment, `${program} token list --nope`).ended;
      expect([code, stderr]).toEqual([2, expect.stringContaining(' See: node dist/main.js token list --help\n')]);
    },
  );
});

describe('worker', () => {
  test('serves metrics and health on METRICS_PORT, and nothing else', async () => {
    const port = await freePort();
    const working = startForTest({ ...environment, METRICS_PORT: String(port) }, 'worker');
    await working.shows(/^The pullscore worker is ready\.\n$/);
    const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    expect((await get('/healthz')).status).toBe(200);
    expect((await get('/readyz')).status).toBe(200);
    expect(await (await get('/metrics')).text()).toContain('pullscore_database_up 1');
    expect((await get('/2025-04/account')).status).toBe(404);
    expect((await get('/docs')).status).toBe(404);
    const second = await runHere({ ...environment, METRICS_PORT: String(port) }, 'worker');
    expect([second.code, complaintOf(second)]).toEqual([
      1,
      `pullscore: Port ${port} on 127.0.0.1 is in use. Stop the other program, or set METRICS_PORT to another port.`,
    ]);
    working.child.kill('SIGTERM');
    expect((await working.ended).code).toBe(0);
  });

  test('does the background work of a service with WORKER=false, and ends on SIGTERM', async () => {
    const serving = startForTest({ ...environment, WORKER: 'false' }, 'serve');
    const working = startForTest(environment, 'worker');
    const [[, url = '']] = await Promise.all([
      serving.shows(ready),
      working.shows(/^The pullscore worker is ready\.\n$/),
    ]);
    const [, pullRequest] = github.organisation('acme').repository('web').pullRequests;
    if (pullRequest === undefined) throw new Error('no pull request');
    const event = pullRequest.edit({ title: 'by the worker' });
    await github.deliver(`${url}/webhooks/github`, webhookSecret, event);
    const applied = async () => {
      const status = await runJson<{ waiting: number }>(environment, 'webhooks', 'status', '--organisation', 'acme');
      return status.waiting === 0;
    };
    while (!(await applied()));
    working.child.kill('SIGTERM');
    expect((await working.ended).code).toBe(0);
    // The service itself waits for no work.
    const listening =
      "select from pg_stat_activity where datname = current_database() and application_name = 'pullscore listener'";
    await expect.poll(() => query(database.url, listening)).toEqual([]);
    serving.child.kill('SIGTERM');
    expect((await serving.ended).code).toBe(0);
  });
});
