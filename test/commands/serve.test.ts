import dns from 'node:dns/promises';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { query } from '../support/database-server.ts';
import { startProxy } from '../support/proxy.ts';
import { freePort, listenOn } from '../support/raw-http.ts';
import { closing, createDatabase, openClient, webhookSecret } from '../support/service.ts';
import { insertMembers } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import {
  commandsWith,
  complaintOf,
  type Running,
  runHere,
  start,
  startForTest,
  startHere,
  startProcess,
  typeForTest,
} from './support.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const world = await startWorld();
const { github, acme, web } = world;
const { url: databaseUrl } = world.service.database;
const environment = { ...world.shell, GITHUB_WEBHOOK_SECRET: webhookSecret, RECONCILE_INTERVAL: '0', PORT: '0' };
const { runJson } = commandsWith(environment);

beforeAll(async () => {
  acme.member('ada');
  for (let index = 0; index < 3; index += 1) web.addPullRequest();
  await world.import();
});

/** Delivers an edit of one of acme's three pull requests. */
function deliverEdit(url: string, index: 0 | 1, title: string) {
  const pullRequest = web.pullRequests[index];
  if (pullRequest === undefined) throw new Error('no pull request');
  return github.deliver(`${url}/webhooks/github`, webhookSecret, pullRequest.edit({ title }));
}

test('an import that Ctrl-C interrupts says how to continue, and then continues', async () => {
  const apex = github.organisation('apex');
  apex.member('ada');
  for (let index = 0; index < 120; index += 1)
    apex.repository('web').addPullRequest({ createdAt: 1_700_000_000 + index });
  await runJson('organisation add apex');
  github.fault({ kind: 'delay', milliseconds: 300 }, { times: 3, when: 'PullRequestList' });
  const before = github.count('PullRequestList');
  const running = startHere(environment, 'import --organisation apex');
  while (github.count('PullRequestList') === before) await delay(5);
  running.interrupt();
  const { code, stdout, stderr } = await running.ended;
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toBe('pullscore: Interrupted. What was imported is kept; run the same command again to continue.\n');
  expect(github.count('PullRequestList')).toBe(before + 1);
  expect(await runJson('import --organisation apex')).toMatchObject({ seen: 20, saved: 20 });
  expect(await runJson('import --organisation apex')).toMatchObject({ seen: 120, saved: 120 });
});

describe('serve', () => {
  test('prints its address when it is ready, and what to do next', async () => {
    const empty = await createDatabase();
    const { child, shows, ended } = startForTest({ DATABASE_URL: empty.url, PORT: '0' }, 'serve');
    const [, url] = await shows(/^pullscore is ready at (http:\/\/127\.0\.0\.1:\d+) \(API documentation: \1\/docs\)\n/);
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

  test('after SIGTERM answers what has begun, saves what it fetches, and stores deliveries for the next process', async () => {
    // As systemd runs it.
    const unit = readFileSync(new URL('../../ops/pullscore.service', import.meta.url), 'utf8');
    const [, command = ''] = /^ExecStart=\/usr\/bin\/node (.*)$/m.exec(unit) ?? [];
    const { child, shows, ended } = typeForTest(environment, `${process.execPath} ${command}`);
    const [, url = ''] = await shows(/ready at (http:\S+)/);
    const headers = { authorization: `Bearer ${world.token}` };
    const list = async () => fetch(`${url}/2025-04/pull-requests`, { headers });
    const { data } = (await (await list()).json()) as { data: { id: string; number: number }[] };
    const third = data.find(({ number }) => number === 3);
    github.fault({ kind: 'delay', milliseconds: 1_500 }, { times: 2, when: 'PullRequests' });
    const before = github.count('PullRequests');
    const { guid, status } = await deliverEdit(url, 0, 'saved at the last moment');
    const syncing = fetch(`${url}/2025-04/pull-requests/${third?.id}/sync`, { method: 'PUT', headers });
    while (github.count('PullRequests') < before + 2) await delay(5);
    child.kill('SIGTERM');
    let readiness = 200;
    while (readiness === 200) readiness = (await fetch(`${url}/readyz`)).status;
    expect([status, readiness]).toEqual([202, 503]);
    // Requests still come until load balancers notice.
    const late = await list();
    expect([late.status, late.headers.get('connection')]).toEqual([200, 'close']);
    const next = await deliverEdit(url, 1, 'for the next process');
    expect([next.status, (await syncing).status]).toEqual([202, 200]);
    // After ten seconds it would end with 1.
    expect((await ended).code).toBe(0);
    expect(github.count('PullRequests')).toBe(before + 2);
    const { waiting, deliveries } = await runJson('webhooks status --organisation acme');
    expect(waiting).toBe(1);
    expect(deliveries).toContainEqual(expect.objectContaining({ guid, state: 'applied' }));
    expect(deliveries).toContainEqual(expect.objectContaining({ guid: next.guid, state: 'pending' }));
  });

  test('ends in order on SIGTERM, although clients neither send their bodies nor read their replies', async () => {
    await insertMembers(world.service, world, 6_000, 'm'.repeat(2_000));
    const { child, shows, ended } = startForTest(environment, 'serve');
    const [, port] = await shows(/ready at http:\S+:(\d+)/);
    const head = `HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${world.token}\r\n`;
    for (const request of [
      `GET /2025-04/members ${head}\r\n`,
      `POST /nothing ${head}Content-Type: a/b\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n`,
    ]) {
      const socket = connect(Number(port), '127.0.0.1', () => socket.write(request));
      onTestFinished(() => void socket.destroy());
      socket.on('error', () => undefined);
      await once(socket, 'readable');
    }
    const reports = () => query(databaseUrl, 'select from service_reports');
    expect(await reports()).toHaveLength(1);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
    expect(await reports()).toEqual([]);
  });

  test('ends on SIGTERM during start-up', async () => {
    const holder = await openClient(databaseUrl);
    await holder.query('begin; lock table service_reports');
    const { child, ended } = startForTest(environment, 'serve');
    const waiting = "select from pg_locks where relation = 'service_reports'::regclass and not granted";
    await expect.poll(() => query(databaseUrl, waiting)).toHaveLength(1);
    child.kill('SIGTERM');
    await holder.query('commit');
    expect(await ended).toMatchObject({ code: 0, stdout: '' });
  });

  test.each(['SIGSEGV', 'SIGBUS', 'SIGABRT'] as const)('ends at once after a crash with %s', async signal => {
    const { child, shows, ended } = startForTest({ ...environment, WORKER: 'false' }, 'serve');
    await shows(/ready at/);
    child.kill(signal);
    await ended;
    expect(child.signalCode).toBe(signal);
  });

  test.runIf(existsSync('/dev/full'))('goes on without a log if the disk of the log is full', async () => {
    const withoutLog = `exec ${process.execPath} dist/main.js serve 2>/dev/full`;
    const settings = { ...environment, LOG_LEVEL: 'trace' };
    const { child, shows, ended } = startProcess(settings, ['sh', '-c', withoutLog], { cwd: root });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [, url = ''] = await shows(/ready at (http:\S+)/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
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
    const proxy = closing(await startProxy(databaseUrl));
    proxy.loseReplyTo('"hasToken"');
    const failing = { ...environment, DATABASE_URL: proxy.through(databaseUrl) };
    const { code, stdout, stderr } = await runHere(failing, 'serve');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('The database is not available');
  });

  test('says why it cannot listen on its address', async () => {
    const other = createServer();
    const port = String(await listenOn(other));
    const [used, foreign] = await Promise.all([
      complaintOf(runHere({ ...environment, PORT: port }, 'serve')),
      complaintOf(runHere({ ...environment, HOST: '192.0.2.1' }, 'serve')),
    ]);
    await new Promise(resolve => other.close(resolve));
    expect(used).toBe(
      `pullscore: Port ${port} on 127.0.0.1 is in use. Stop the other program, or set PORT to another port.`,
    );
    expect(foreign).toBe(
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
      expect(await complaintOf(runHere({ ...environment, HOST: 'nowhere' }, 'serve'))).toContain(
        'HOST nowhere is not an address',
      );
    },
  );
});

/** Types a command in a checkout that is not on the PATH. */
test.each([
  ['npm start', 0],
  // It ends at once, by the signal; the service follows.
  ['npx pullscore serve', null],
])('%s suggests commands that need nothing but Node, and SIGTERM to it ends the service', async (line, code) => {
  const { child, shows, ended } = typeForTest(environment, line);
  const [, url = ''] = await shows(/ready at (http:\S+)[\s\S]*\bnode dist\/main\.js rules apply/);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
  child.kill('SIGTERM');
  // Until all that it started has ended.
  expect((await ended).code).toBe(code);
  await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed');
});

describe('a service with WORKER=false beside a worker', () => {
  let metricsPort: string;
  let serving: Running;
  let working: Running;
  beforeAll(async () => {
    metricsPort = String(await freePort());
    serving = start({ ...environment, WORKER: 'false' }, 'serve', '--json');
    working = start({ ...environment, METRICS_PORT: metricsPort }, 'worker');
    await Promise.all([ready(), working.shows(/^The pullscore worker is ready\.\n$/)]);
  });
  afterAll(async () => {
    for (const { child } of [serving, working]) child.kill('SIGTERM');
    expect(await Promise.all([serving.ended, working.ended])).toMatchObject([{ code: 0 }, { code: 0 }]);
  });
  async function ready(): Promise<{ url: string; next_steps: object[] }> {
    const [line] = await serving.shows(/^\{"url":.*\n/);
    return JSON.parse(line);
  }

  test('serve --json prints its address and the remaining steps as JSON', async () => {
    expect(await ready()).toEqual({
      url: /^http:\/\/127\.0\.0\.1:\d+$/,
      next_steps: [
        expect.objectContaining({ command: 'pullscore rules apply rules.example.yaml --organisation acme' }),
      ],
    });
  });

  test('the worker serves metrics and health on METRICS_PORT, and nothing else', async () => {
    const get = (path: string) => fetch(`http://127.0.0.1:${metricsPort}${path}`);
    expect(await (await get('/metrics')).text()).toContain('pullscore_database_up 1');
    const paths = ['/healthz', '/readyz', '/2025-04/account', '/docs'];
    expect(await Promise.all(paths.map(async path => (await get(path)).status))).toEqual([200, 200, 404, 404]);
    expect(await complaintOf(runHere({ ...environment, METRICS_PORT: metricsPort }, 'worker'))).toBe(
      `pullscore: Port ${metricsPort} on 127.0.0.1 is in use. Stop the other program, or set METRICS_PORT to another port.`,
    );
  });

  test('the worker does the background work, for which the service does not even listen', async () => {
    const { url } = await ready();
    await deliverEdit(url, 0, 'by the worker');
    const status = () => runJson('webhooks status --organisation acme');
    await expect.poll(status).toMatchObject({ waiting: 0 });
    const listening =
      "select from pg_stat_activity where datname = current_database() and application_name = 'pullscore listener'";
    expect(await query(databaseUrl, listening)).toHaveLength(1);
  });
});
