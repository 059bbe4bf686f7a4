import { once } from 'node:events';
import { connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { sql } from 'drizzle-orm';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { requestRescoring } from '../../src/database/rescore-ranges.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { fingerprintOf } from '../../src/sync/share-github-points.ts';
import { secondaryLimit } from '../support/github/faults.ts';
import { startProxy } from '../support/proxy.ts';
import { listen } from '../support/raw-http.ts';
import { closing, openClient, type Service, startReplica, startService } from '../support/service.ts';
import { createTenant, insertMembers } from '../support/tenants.ts';
import { appOptions, startWorld } from '../support/world.ts';
import { post } from '../webhooks/support.ts';

const world = await startWorld();
const { service } = world;

const nowhere = 'postgres://nobody@127.0.0.1:1/none';

test('/healthz answers without a database and without a token', async () => {
  const orphan = closing(await startReplica(nowhere));
  for (const { app } of [service, orphan]) {
    const reply = await app.inject('/healthz');
    expect([reply.statusCode, reply.json()]).toEqual([200, { status: 'ok' }]);
    expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
  }
});

const ready = async ({ app }: Service) => {
  const { statusCode, headers, json } = await app.inject('/readyz');
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
  return [statusCode, json()];
};

test('/readyz answers 200 if the database is reachable and migrated', async () => {
  expect(await ready(service)).toEqual([200, { status: 'ready' }]);
});

test('/readyz answers 503 without a database', async () => {
  const orphan = closing(await startReplica(nowhere));
  expect(await ready(orphan)).toEqual([503, { message: 'The database is not available. Try again shortly.' }]);
});

test('/readyz answers 503 while migrations are missing', async () => {
  const fresh = closing(await startService());
  const client = await openClient(fresh.database.url);
  await client.query('update drizzle.__drizzle_migrations set created_at = created_at - 1');
  const lacking = [503, { message: 'The database schema is not up to date. Run pullscore migrate.' }];
  expect(await ready(fresh)).toEqual(lacking);
  await client.query('drop schema drizzle cascade');
  expect(await ready(fresh)).toEqual(lacking);
  // Probes ask every few seconds: one line each, without a stack trace.
  for (const line of fresh.complaints) expect(line).not.toHaveProperty('err');
  expect(fresh.complaints).toHaveLength(2);
});

test('/readyz answers 503 once the service stops, which still serves requests and closes connections', async () => {
  const stopping = closing(await startReplica(service.database.url));
  stopping.app.drain();
  expect(await ready(stopping)).toEqual([503, { message: 'The service is stopping.' }]);
  const { status, headers } = await stopping.client.get('/2025-04/account', world.token);
  expect([status, headers.connection]).toEqual([200, 'close']);
  expect((await stopping.app.inject('/healthz')).statusCode).toBe(200);
});

test('a service that stops answers what still arrives on an open connection', async () => {
  const stopping = closing(await startReplica(service.database.url));
  const socket = connect(await listen(stopping.app), '127.0.0.1');
  const request = 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n';
  socket.write(request);
  await once(socket, 'data');
  stopping.app.drain();
  const closed = stopping.app.close();
  await expect.poll(() => stopping.app.server.listening).toBe(false);
  socket.write(request);
  expect((await buffer(socket)).toString()).toMatch(/^HTTP\/1\.1 200 /);
  await closed;
});

test('a service that stops ends connections that are silent or in the middle of a head', async () => {
  const stopping = closing(await startReplica(nowhere));
  const port = await listen(stopping.app);
  const ended = ['', 'GET /heal', 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /heal'].map(async bytes => {
    const socket = connect(port, '127.0.0.1');
    socket.write(bytes);
    await once(socket, 'connect');
    return buffer(socket);
  });
  await expect.poll(promisify(stopping.app.server.getConnections.bind(stopping.app.server))).toBe(3);
  stopping.app.drain();
  await Promise.all([stopping.app.close(), ...ended]);
}, 9_000);

test.each([
  ['at once', 0],
  ['after the time that is left to idle connections', 2_200],
])(
  'a service that stops sends the rest of a reply to a client that reads it %s, and ends the connection',
  async (_, wait) => {
    const stopping = closing(await startReplica(service.database.url));
    const slow = await world.newTenant();
    // Pages end below a megabyte, which connections take at once.
    await insertMembers(service, slow, 6_000, 'a'.repeat(1_000));
    const port = await listen(stopping.app);
    const socket = connect(port, '127.0.0.1');
    socket.write(`GET /2025-04/members HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${slow.token}\r\n\r\n`);
    const [begin] = (await once(socket, 'data')) as [Buffer];
    socket.pause();
    stopping.app.drain();
    const closed = stopping.app.close();
    await expect.poll(() => stopping.app.server.listening).toBe(false);
    await delay(wait);
    expect(begin.byteLength + (await buffer(socket)).byteLength).toBeGreaterThan(6_000_000);
    await closed;
  },
);

test('/metrics counts requests by route, not by path, and shows no tokens or ids', async () => {
  const replica = closing(await startReplica(service.database.url));
  const headers = { authorization: `Bearer ${world.token}` };
  const known = ['/2025-04/account', '/2025-04/members/mem_1', '/2025-04/members/mem_2'];
  for (const url of [...known, '/nothing/1', '/nothing/2', '/%']) await replica.app.inject({ url, headers });
  const { statusCode, body, headers: replied } = await replica.app.inject('/metrics');
  expect(statusCode).toBe(200);
  expect(replied['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
  const counts = body.matchAll(/^http_request_duration_seconds_count(.*)$/gm);
  expect([...counts].map(([, count]) => count)).toEqual(
    expect.arrayContaining([
      '{method="GET",route="/2025-04/account",status="200"} 1',
      '{method="GET",route="/2025-04/members/:member",status="404"} 2',
      '{method="GET",route="none",status="404"} 2',
    ]),
  );
  expect(body).toMatch(/^process_cpu_seconds_total /m);
  expect(body).not.toMatch(/mem_1|ps_|nothing/);
});

test('/metrics counts the time of requests in seconds', async () => {
  const replica = closing(await startReplica(service.database.url));
  await replica.app.ready();
  const begin = performance.now();
  for (let index = 0; index < 20; index += 1) await replica.app.inject('/healthz');
  const seconds = (performance.now() - begin) / 1_000;
  const { body } = await replica.app.inject('/metrics');
  const sum = Number(/^http_request_duration_seconds_sum\{[^}]*healthz[^}]*\} (\S+)$/m.exec(body)?.[1]);
  expect(sum).toBeGreaterThan(0);
  expect(sum).toBeLessThanOrEqual(seconds);
});

test('/metrics reads the database once for scrapes at the same time', async () => {
  const reads = vi.spyOn(service.database.executor, '$count');
  await Promise.all(Array.from({ length: 3 }, () => service.app.inject('/metrics')));
  expect(reads).toHaveBeenCalledTimes(1);
  reads.mockRestore();
});

test('/metrics answers with the same text for a second, and then with a new one', async () => {
  const app = closing(await buildApp(service));
  const scrape = async () => (await app.inject('/metrics')).body;
  const begin = performance.now();
  const first = await scrape();
  await app.inject('/healthz');
  await expect.poll(scrape).not.toBe(first);
  expect(performance.now() - begin).toBeGreaterThan(900);
  expect(await scrape()).toContain('route="/healthz"');
});

test('/metrics requires METRICS_TOKEN, if it is set', async () => {
  const token = 'a-token-for-prometheus';
  const { app } = closing(await startReplica(service.database.url, { METRICS_TOKEN: token }));
  const scrape = (authorization = '') => app.inject({ url: '/metrics', headers: { authorization } });
  expect((await scrape(`Bearer ${token}`)).statusCode).toBe(200);
  for (const wrong of ['', token, `Bearer ${token} `, `Bearer ${token}s`, `Bearer ${world.token}`]) {
    const { statusCode, headers } = await scrape(wrong);
    expect([wrong, statusCode, headers['www-authenticate']]).toEqual([wrong, 401, 'Bearer']);
  }
});

describe('/metrics', () => {
  const { github, acme } = world;
  const identity = { githubId: acme.id, nodeId: acme.nodeId, login: 'acme' };
  afterEach(() => github.clearFaults());

  /** A service with a database of its own. */
  const startOwn = async () =>
    closing(await startService({ GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN: github.token }));

  /** The values of our metrics, by name and labels. */
  const scrape = async ({ app }: Service): Promise<Record<string, number>> => {
    const { statusCode, body } = await app.inject('/metrics');
    expect(statusCode).toBe(200);
    const lines = body.split('\n').filter(line => line.startsWith('pullscore_'));
    return Object.fromEntries(lines.map(line => [line.replace(/ .*/, ''), Number(line.replace(/.* /, ''))]));
  };

  test('counts GitHub requests by operation and outcome, their time and points, and points left', async () => {
    const replica = await world.replica();
    expect((await scrape(replica)).pullscore_github_rate_limit_remaining_points).toBeUndefined();
    await replica.github.findOrganisation({ login: 'acme' });
    await replica.github.findOrganisation({ login: 'nobody' });
    await replica.github.pageMembers(identity, null);
    github.fault(secondaryLimit('60'));
    await replica.github.pageMembers(identity, null).catch(() => undefined);
    github.fault({ kind: 'reply', status: 500 });
    await replica.github.pageMembers(identity, null).catch(() => undefined);
    expect(await scrape(replica)).toMatchObject({
      'pullscore_github_requests_total{operation="Organisation",outcome="ok"}': 2,
      'pullscore_github_requests_total{operation="Members",outcome="ok"}': 1,
      'pullscore_github_requests_total{operation="Members",outcome="github_rate_limited"}': 1,
      'pullscore_github_requests_total{operation="Members",outcome="github_failed"}': 1,
      'pullscore_github_request_duration_seconds_count{operation="Members"}': 3,
      'pullscore_github_points_total{operation="Organisation"}': 2,
      'pullscore_github_points_total{operation="Members"}': 1,
      'pullscore_github_rate_limit_points{organisation=""}': 5_000,
      'pullscore_github_rate_limit_remaining_points{organisation=""}': github.limit?.remaining,
      'pullscore_github_rate_limit_reset_timestamp_seconds{organisation=""}': github.limit?.resetAt,
    });
  });

  test("counts the time of GitHub's answers in seconds, and forgets its points after an hour", async () => {
    const replica = await world.replica();
    github.fault({ kind: 'delay', milliseconds: 200 });
    const begin = performance.now();
    await replica.github.findOrganisation({ login: 'acme' });
    const seconds = (performance.now() - begin) / 1_000;
    const sum = (await scrape(replica))['pullscore_github_request_duration_seconds_sum{operation="Organisation"}'];
    expect(sum).toBeGreaterThan(0.19);
    expect(sum).toBeLessThanOrEqual(seconds);
    const left = async () => (await scrape(replica))['pullscore_github_rate_limit_remaining_points{organisation=""}'];
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now');
    onTestFinished(() => clock.mockRestore());
    clock.mockImplementation(() => now() + 3_500_000);
    // The store looks at the clock once a millisecond.
    await delay(5);
    expect(await left()).toBe(github.limit?.remaining);
    clock.mockImplementation(() => now() + 3_700_000);
    await expect.poll(left).toBeUndefined();
  });

  test("shows an App's points by organisation", async () => {
    const { service: replica, github: other } = await startWorld(...appOptions());
    await replica.github.findOrganisation({ login: 'acme' });
    expect(await scrape(replica)).toMatchObject({
      'pullscore_github_rate_limit_remaining_points{organisation="acme"}': other.limit?.remaining,
    });
  });

  test('shows pull requests to fetch, stale scores, and until when GitHub must not be called', async () => {
    const replica = await startOwn();
    const { organisation } = await createTenant(replica, { login: 'acme' });
    const { executor } = replica.database;
    const fingerprint = fingerprintOf(replica.config);
    const empty = {
      pullscore_database_up: 1,
      'pullscore_sync_requests{state="waiting"}': 0,
      'pullscore_sync_requests{state="behind"}': 0,
      'pullscore_sync_requests{state="failing"}': 0,
      'pullscore_sync_requests{state="parked"}': 0,
      pullscore_webhook_delivery_unapplied_seconds: 0,
      'pullscore_check_runs{state="waiting"}': 0,
      'pullscore_check_runs{state="failing"}': 0,
      'pullscore_check_runs{state="parked"}': 0,
      pullscore_sync_requests_overdue_seconds: 0,
      pullscore_rescore_ranges: 0,
      pullscore_suspended_rules: 0,
      pullscore_failing_comparisons: 0,
      pullscore_pull_requests_gone_total: 0,
      pullscore_stale_answers_total: 0,
    };
    const others = /_github_(request|points|rate)|_comparison_age|_build_info|_deliveries_total/;
    const ofDatabase = async () =>
      Object.fromEntries(Object.entries(await scrape(replica)).filter(([name]) => !others.test(name)));
    expect(await ofDatabase()).toEqual(empty);
    await executor.execute(sql`
      insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at, last_error, behind_since)
      select ${organisation.id}::uuid, id, 'PR_' || id, id, due_at::timestamptz, error, behind::timestamptz from (values
        (1, 'now', null, null), (2, 'yesterday', null, null), (3, 'tomorrow', 'It failed.', 'now'),
        (4, null, 'It failed.', null), (5, null, 'It failed.', null), (6, null, 'It failed.', null),
        (7, 'tomorrow', null, 'now')) as requests (id, due_at, error, behind)`);
    await executor.execute(sql`
      insert into github_limits (credential, blocked_until) values (${fingerprint}, to_timestamp(4000000000)),
        (${`${fingerprint}:${organisation.id}`}, to_timestamp(4000000001)),
        (${`${fingerprint}:of an organisation that is gone`}, 'tomorrow'), ('a former token', 'tomorrow')`);
    await replica.database.transaction(transaction => requestRescoring(transaction, organisation.id));
    const found = await ofDatabase();
    expect(found.pullscore_sync_requests_overdue_seconds).toBeGreaterThan(3_600);
    expect(found).toEqual({
      ...empty,
      pullscore_sync_requests_overdue_seconds: expect.any(Number),
      'pullscore_sync_requests{state="waiting"}': 2,
      'pullscore_sync_requests{state="behind"}': 1,
      'pullscore_sync_requests{state="failing"}': 1,
      'pullscore_sync_requests{state="parked"}': 3,
      pullscore_rescore_ranges: 1,
      'pullscore_github_blocked_until_timestamp_seconds{organisation=""}': 4_000_000_000,
      'pullscore_github_blocked_until_timestamp_seconds{organisation="acme"}': 4_000_000_001,
    });
    for (const table of ['sync_requests', 'github_limits', 'rescore_ranges']) {
      await executor.execute(`delete from ${table}`);
    }
    expect(await ofDatabase()).toEqual(empty);
  });

  test('shows the longest time without a comparison, and how many comparisons fail', async () => {
    const replica = await startOwn();
    const { executor } = replica.database;
    const of = async (service: Service) => {
      const { pullscore_comparison_age_seconds: age, pullscore_failing_comparisons: failing } = await scrape(service);
      return { age, failing };
    };
    expect(await of(replica)).toEqual({ age: undefined, failing: 0 });
    const tenants = await Promise.all([1, 2, 3, 4].map(() => createTenant(replica)));
    const failing = 'comparison_failed_at = now()';
    for (const [index, values] of [
      `compared_at = now(), comparison_failed_at = now() - interval '1 day'`,
      `compared_at = now(), ${failing}`,
      `created_at = now() - interval '2 hours', ${failing}`,
      `created_at = now() - interval '1 day', ${failing}, webhooks_enabled = false`,
    ].entries()) {
      await executor.execute(`update organisations set ${values} where id = '${tenants[index]?.organisation.id}'`);
    }
    const found = await of(replica);
    expect(found.failing).toBe(2);
    expect(Math.round((found.age ?? 0) / 60)).toBe(120);
    const unasked = closing(await startReplica(replica.database.url, { RECONCILE_INTERVAL: '0' }));
    expect(await of(unasked)).toEqual({ age: undefined, failing: 2 });
  });

  test('counts pull requests that GitHub never showed, or showed only in an older state', async () => {
    const replica = await startOwn();
    await createTenant(replica, identity);
    const work = createRequestWorker(replica);
    const [absent, outdated] = [world.web.addPullRequest(), world.web.addPullRequest()];
    for (const each of [absent, outdated]) expect(await post(replica, each.open())).toMatchObject({ status: 202 });
    absent.remove();
    const { executor } = replica.database;
    const counted = async () => {
      const { pullscore_pull_requests_gone_total: gone, pullscore_stale_answers_total: stale } = await scrape(replica);
      return { gone, stale };
    };
    // As if GitHub had given the same answers for this long.
    const behind = (seconds: number) =>
      executor.execute(sql`update sync_requests set due_at = now(),
        behind_since = now() - make_interval(secs => ${seconds}),
        behind_source_updated_at = case when github_id = ${outdated.id} then to_timestamp(${outdated.updatedAt}) end,
        min_source_updated_at = to_timestamp(${outdated.updatedAt + 60})`);
    await behind(20);
    expect(await work()).toBe(true);
    expect(await counted()).toEqual({ gone: 0, stale: 0 });
    await behind(31);
    expect(await work()).toBe(true);
    expect(await counted()).toEqual({ gone: 0, stale: 1 });
    await behind(781);
    expect(await work()).toBe(true);
    expect(await counted()).toEqual({ gone: 1, stale: 1 });
  });

  test('leaves out the metrics of a database that is gone or does not answer, without delay', async () => {
    const proxy = closing(await startProxy(service.database.url));
    const replica = await world.replica(proxy.through(service.database.url));
    await replica.github.findOrganisation({ login: 'acme' });
    expect((await scrape(replica)).pullscore_database_up).toBe(1);
    for (const fail of [proxy.refuse, proxy.hold]) {
      fail();
      proxy.cut();
      const begin = performance.now();
      const metrics = await scrape(replica);
      expect(performance.now() - begin).toBeLessThan(1_900);
      expect(metrics.pullscore_database_up).toBe(0);
      expect(Object.keys(metrics).filter(name => /sync_requests|rescore|blocked|comparison/.test(name))).toEqual([]);
      expect(metrics['pullscore_github_rate_limit_points{organisation=""}']).toBe(5_000);
    }
    proxy.accept();
    await expect.poll(async () => (await scrape(replica)).pullscore_rescore_ranges).toBe(0);
  });
});

describe('/docs', () => {
  test.each(['', 'https://scores.example/api'])(
    '/docs/ with PUBLIC_URL "%s" is a page whose assets exist and may load under every address',
    async publicUrl => {
      const { app } = closing(await startReplica(service.database.url, { PUBLIC_URL: publicUrl }));
      // Relative: a proxy may have added a path.
      expect((await app.inject('/docs')).headers.location).toBe('docs/');
      const page = await app.inject('/docs/');
      expect(page.statusCode).toBe(200);
      expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
      const parts = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, part = '']) => part);
      expect(parts.length).toBeGreaterThanOrEqual(5);
      const types = { js: /javascript/, css: /^text\/css/, svg: /^image\/svg\+xml$/ };
      for (const part of parts) {
        expect(part).toMatch(/^\.\/static\//);
        const { statusCode, headers } = await app.inject(`/docs/${part.slice(2)}`);
        expect([part, statusCode]).toEqual([part, 200]);
        expect(headers['content-type']).toMatch(types[part.split('.').at(-1) as keyof typeof types]);
      }
      // Without upgrade-insecure-requests, which would break the page on plain HTTP, as in a company's own network.
      expect(page.headers['content-security-policy']).toBe(
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src 'self' data:; " +
          "object-src 'none'; script-src 'self'; style-src 'self' 'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w=';",
      );
      expect(page.body).not.toMatch(/<script>|<style>|onload=/);
    },
  );

  test.each(['/openapi', '/2026-12/openapi'])(
    '%s.page.json is the document with the address from which it comes as the server',
    async path => {
      const { app } = closing(await startReplica(service.database.url, { PUBLIC_URL: 'https://scores.example/api' }));
      const [document, ofPage] = await Promise.all(
        ['json', 'page.json'].map(async end => (await app.inject(`${path}.${end}`)).json()),
      );
      expect(document.servers).toEqual([{ url: 'https://scores.example/api' }]);
      const [server] = ofPage.servers;
      expect(new URL(server.url, `http://127.0.0.1${path}.page.json`).href).toBe('http://127.0.0.1/');
      expect({ ...ofPage, servers: document.servers }).toEqual(document);
    },
  );

  test('the documents are written once', async () => {
    const { app } = closing(await startReplica(service.database.url));
    await app.ready();
    const paths = ['/openapi.json', '/openapi.page.json', '/2026-12/openapi.json', '/2026-12/openapi.page.json'];
    const read = () => Promise.all(paths.map(async path => (await app.inject(path)).body));
    const first = await read();
    const written = vi.spyOn(JSON, 'stringify');
    expect(await read()).toEqual(first);
    expect(written.mock.results.filter(({ value }) => first.includes(String(value)))).toEqual([]);
    written.mockRestore();
    for (const path of ['/docs/json', '/docs/yaml']) {
      expect((await app.inject(path)).headers.location).toBe('../openapi.json');
    }
  });
});
