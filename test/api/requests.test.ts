import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { formatId, newId } from '../../src/ids.ts';
import type { MemberBody, PageBody, PullRequestBody } from '../support/client.ts';
import { closing, type Service, startReplica, startService } from '../support/service.ts';
import { createTenant, createToken, insertMembers, insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service, client } = world;

const absent = formatId('pr', newId());

describe('paths and methods', () => {
  test.each([
    '/2025-04//users',
    '//2025-04/users',
    '/2025-05/users',
    '/2025-04/users;x=1',
    '/2025-04/members//pull-requests',
    '/2025-04/pull-requests//sync',
    '/2026-12/pull-requests//explanation',
    '/webhooks/gitlab',
    '/docs/nothing',
    '/__proto__',
    `/${'a'.repeat(5_000)}`,
  ])('the path %s gets 404 with every method, with a token or without', async url => {
    for (const token of [world.token, undefined]) {
      for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS'] as const) {
        const { status, body } = await client.send(method, url, token);
        expect([method, status, body.message]).toEqual([method, 404, 'No such path. See /docs for the paths.']);
      }
    }
  });

  test.each([
    ['/2025-04/pull-requests/?per_page=3', '/2025-04/pull-requests'],
    ['/2025-04/members/x/pull-requests/', '/2025-04/members/x/pull-requests'],
    ['/2025-04/users//?x=/', '/2025-04/users'],
    ['/webhooks/github/', '/webhooks/github'],
  ])('%s gets 404, which names %s, with every method', async (url, path) => {
    const message = `No such path. Ask for ${path}, without a slash at the end.`;
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'] as const) {
      const { status, body } = await client.send(method, url, world.token);
      expect([method, status, body.message]).toEqual([method, 404, message]);
    }
  });

  test('a path of slashes is refused at once', async () => {
    const begin = process.cpuUsage();
    expect((await client.get(`${'/'.repeat(15_000)}x`)).status).toBe(404);
    expect(process.cpuUsage(begin).user).toBeLessThan(200_000);
  });

  test.each([
    ['/2025-04/account', 'GET, HEAD'],
    ['/2025-04/members', 'GET, HEAD'],
    ['/2025-04/members/%20%2F?', 'GET, HEAD'],
    ['/2025-04/members/x/pull-requests', 'GET, HEAD'],
    ['/2025-04/pull-requests?x=/webhooks/github', 'GET, HEAD'],
    [`/2025-04/pull-requests/${absent}`, 'DELETE'],
    [`/2025-04/pull-requests/${absent}/sync`, 'PUT'],
    ['/2025-04/rules', 'GET, HEAD'],
    ['/2025-04/users', 'GET, HEAD'],
    ['/2026-12/rules/file', 'GET, HEAD, PUT'],
    ['/webhooks/github?#/2025-04/users', 'POST'],
    ['/healthz', 'GET, HEAD'],
    ['/docs/', 'GET, HEAD'],
  ])('%s answers other methods than %s with 405', async (url, allow) => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'QUERY'] as const) {
      if (allow.split(', ').includes(method)) continue;
      const { status, headers, body } = await client.send(method as 'GET', url, world.token);
      const message = `${method} is not allowed here, only ${allow}.`;
      expect([status, headers.allow, body.message]).toEqual([405, allow, message]);
    }
  });

  test('a file that /docs lacks gets 404', async () => {
    expect((await client.get('/docs/static/nothing.js')).status).toBe(404);
  });

  test('HEAD is answered like GET, without the body', async () => {
    for (const url of ['/2025-04/account', '/2025-04/users', '/2025-04/members/x', '/2025-04/users?per_page=0']) {
      const headers = { authorization: `Bearer ${world.token}` };
      const [get, head] = await Promise.all(
        (['GET', 'HEAD'] as const).map(async method => {
          const { statusCode, headers: replied, body } = await service.app.inject({ method, url, headers });
          return { statusCode, type: replied['content-type'], length: replied['content-length'], body };
        }),
      );
      expect(head).toEqual({ ...get, body: '' });
    }
    const headers = { authorization: `Bearer ${world.token}`, 'if-none-match': '*' };
    const unchanged = await service.app.inject({ method: 'HEAD', url: '/2026-12/users', headers });
    expect([unchanged.statusCode, unchanged.headers['content-length']]).toEqual([304, undefined]);
    expect((await service.app.inject({ method: 'HEAD', url: '/2025-04/users' })).statusCode).toBe(401);
  });

  test('HEAD of a list that is sent piece by piece reads no more than its beginning', async () => {
    const other = await world.newTenant();
    await insertMembers(service, other, 1_000);
    const replica = closing(await startReplica(service.database.url));
    const read = vi.spyOn(replica.database, 'readStep');
    const steps = async (method: 'GET' | 'HEAD') => {
      read.mockClear();
      const headers = { authorization: `Bearer ${other.token}` };
      expect((await replica.app.inject({ method, url: '/2025-04/members', headers })).statusCode).toBe(200);
      // Whatever was begun for it ends first.
      await replica.client.get('/2025-04/members', other.token);
      return read.mock.calls.length;
    };
    const whole = (await steps('GET')) / 2;
    expect(whole).toBeGreaterThan(5);
    expect(await steps('HEAD')).toBe(whole + 1);
  });
});

describe('bodies', () => {
  const types = [
    undefined,
    'application/json',
    'application/json; charset=latin1',
    'text/plain',
    'multipart/form-data',
    'application/x-www-form-urlencoded',
    'application/octet-stream',
    'a/b',
  ];
  const malformed = ['', 'nonsense', ';', 'a/b/c', 'text/\u00fcml'];
  const payloads = ['', '{}', '{', 'null', '\0', 'a=b', Buffer.alloc(1_000, 0xff)];

  test('request bodies are ignored, whatever they are; only a malformed content type may be refused', async () => {
    const bodies = [
      ...[...types, ...malformed].map(type => [type, '{'] as const),
      ...payloads.flatMap(payload => [undefined, 'application/json'].map(type => [type, payload] as const)),
    ];
    for (const [type, payload] of bodies) {
      for (const [method, url, expected] of [
        ['PUT', `/2025-04/pull-requests/${absent}/sync`, 404],
        ['DELETE', `/2025-04/pull-requests/${absent}`, 404],
        ['GET', `/2025-04/members/${absent}`, 404],
        ['POST', '/2025-04/users', 405],
        ['QUERY' as 'POST', '/2025-04/users', 405],
        ['POST', '/nothing', 404],
        ['QUERY' as 'POST', '/nothing', 404],
      ] as const) {
        const headers = type === undefined ? {} : { 'content-type': type };
        const { status } = await client.send(method, url, world.token, { payload, headers });
        const allowed = malformed.includes(type ?? 'a/b') ? [expected, 415] : [expected];
        expect(allowed, `${method} ${url} with ${JSON.stringify(payload)} as ${type}`).toContain(status);
      }
    }
  });

  test('a request body over 16 KiB gets 413', async () => {
    const url = `/2025-04/pull-requests/${absent}/sync`;
    const fits = await client.put(url, world.token, { payload: 'a'.repeat(16 * 1024) });
    expect(fits.status).toBe(404);
    const over = await client.put(url, world.token, { payload: 'a'.repeat(16 * 1024 + 1) });
    expect([over.status, over.body.message]).toEqual([413, 'The request body is too large.']);
  });
});

describe("a request's id", () => {
  test.each(['a', '0af7651916cd43dd8448eb211c80319c', 'A-1_b.c:d', 'x'.repeat(64)])(
    'is returned if it is short and plain: %s',
    async id => {
      for (const url of ['/2025-04/account', '/nothing', '/%']) {
        const { headers } = await client.get(url, world.token, { headers: { 'x-request-id': id } });
        expect(headers['x-request-id']).toBe(id);
      }
    },
  );

  test.each(['', ' ', 'x'.repeat(65), 'a b', 'a"b', '<b>', 'a,b', '\u00e9'])(
    'is replaced if it is not short and plain: "%s"',
    async id => {
      const { headers } = await client.get('/2025-04/account', world.token, { headers: { 'x-request-id': id } });
      expect(headers['x-request-id']).toMatch(/^[\w-]{3,40}$/);
      expect(headers['x-request-id']).not.toBe(id);
    },
  );

  test('differs from all others if the client gives none', async () => {
    const replies = await Promise.all(Array.from({ length: 20 }, () => service.app.inject('/healthz')));
    expect(new Set(replies.map(({ headers }) => headers['x-request-id'])).size).toBe(20);
  });
});

const forwarded = {
  host: 'inside:3000',
  'x-forwarded-for': '203.0.113.9',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'scores.example',
};
const pathOf = async (replica: Service, headers: Record<string, string>, remoteAddress = '10.1.2.3') => {
  const { status, body } = await replica.client.get<PageBody<object>>('/2025-04/users', world.token, {
    headers,
    remoteAddress,
  });
  return status === 200 ? body.meta.path : status;
};

test("links use the request's own host, and forwarded headers only if TRUST_PROXY names their sender", async () => {
  expect(await pathOf(service, forwarded)).toBe('http://inside:3000/2025-04/users');
  const proxied = closing(await startReplica(service.database.url, { TRUST_PROXY: '10.0.0.0/8, ::1' }));
  expect(await pathOf(proxied, forwarded)).toBe('https://scores.example/2025-04/users');
  expect(await pathOf(proxied, forwarded, '192.0.2.1')).toBe('http://inside:3000/2025-04/users');
  const many = { ...forwarded, 'x-forwarded-host': 'evil.example, scores.example' };
  expect(await pathOf(proxied, many)).toBe('https://scores.example/2025-04/users');
});

test('links are not built from nonsense that a proxy passes on', async () => {
  const proxied = closing(await startReplica(service.database.url, { TRUST_PROXY: '10.0.0.0/8' }));
  for (const nonsense of [
    { 'x-forwarded-proto': 'javascript' },
    { 'x-forwarded-proto': 'https://evil.example/' },
    { 'x-forwarded-host': 'evil.example/path' },
    { 'x-forwarded-host': 'a"b' },
  ]) {
    expect([nonsense, await pathOf(proxied, { ...forwarded, ...nonsense })]).toEqual([nonsense, 400]);
  }
});

test('links begin with PUBLIC_URL if it is set, whatever the Host', async () => {
  const environment = { PUBLIC_URL: 'https://scores.example/api/', TRUST_PROXY: '10.0.0.0/8' };
  const published = closing(await startReplica(service.database.url, environment));
  await insertPullRequests(service, world, [1, 2]);
  for (const headers of [forwarded, { ...forwarded, host: '<script>' }]) {
    const get = <Body>(path: string) =>
      published.client.get<Body>(`/2025-04/${path}`, world.token, { headers, remoteAddress: '10.1.2.3' });
    const { body } = await get<PageBody<PullRequestBody>>('pull-requests?per_page=1');
    const base = 'https://scores.example/api/2025-04/';
    expect(body.meta.path).toBe(`${base}pull-requests`);
    expect(body.links.next).toMatch(`${base}pull-requests?per_page=1&cursor=`);
    expect(body.data[0]?.links.member).toMatch(`${base}members/mem_`);
    const members = await get<{ data: MemberBody[] }>('members');
    expect(members.body.data[0]?.links.pull_requests).toMatch(`${base}members/mem_`);
  }
  expect((await published.app.inject('/openapi.json')).json().servers).toEqual([{ url: 'https://scores.example/api' }]);
});

test('the rate limit counts each request of a token, also failed ones, and spares other tokens', async () => {
  const { client: slow } = closing(await startReplica(service.database.url, { RATE_LIMIT: '6' }));
  const token = await createToken(service, world.user, ['read']);
  const requests = [
    ['GET', '/2025-04/account', 200],
    ['GET', '/2025-04/members/x', 404],
    ['GET', '/2025-04/users?per_page=0', 400],
    ['PUT', `/2025-04/pull-requests/${absent}/sync`, 403],
    ['GET', '/2025-04/users', 200],
    ['HEAD', '/2025-04/users', 200],
    ['GET', '/2025-04/users', 429],
    ['GET', '/2025-04/users?per_page=0', 429],
    ['DELETE', `/2025-04/pull-requests/${absent}`, 429],
  ] as const;
  for (const [method, url, status] of requests) {
    expect([method, url, (await slow.send(method, url, token)).status]).toEqual([method, url, status]);
  }
  const { status, body, headers } = await slow.get('/2025-04/rules', token);
  expect([status, body.message]).toEqual([429, 'Too many requests with this token. Slow down.']);
  expect(Number(headers['retry-after'])).toBeGreaterThan(0);
  expect(Number(headers['retry-after'])).toBeLessThanOrEqual(60);
  const forged = { 'x-forwarded-for': '203.0.113.77', 'x-real-ip': '203.0.113.78' };
  expect((await slow.get('/2025-04/rules', token, { headers: forged })).status).toBe(429);
  expect((await slow.get('/2025-04/rules', world.token)).status).toBe(200);
  expect((await slow.get('/2025-04/rules')).status).toBe(401);
});

test('the rate limit counts the requests of a token to all versions together', async () => {
  const limited = closing(await startReplica(service.database.url, { RATE_LIMIT: '3' }));
  const token = await createToken(service, world.user, ['read']);
  const replies = [];
  for (const version of ['2025-04', '2026-12', '2025-04', '2026-12']) {
    const { status, headers } = await limited.client.get(`/${version}/account`, token);
    replies.push(`${status}, ${headers['x-ratelimit-remaining']} left`);
  }
  expect(replies).toEqual(['200, 2 left', '200, 1 left', '200, 0 left', '429, 0 left']);
});

test('the rate limit is exact, however many requests come at once', async () => {
  const limited = closing(await startReplica(service.database.url, { RATE_LIMIT: '60' }));
  const token = await createToken(service, world.user, ['read']);
  const send = () => limited.client.get('/2025-04/account', token);
  for (let index = 0; index < 50; index += 1) expect((await send()).status).toBe(200);
  const replies = await Promise.all(Array.from({ length: 30 }, send));
  expect(replies.filter(({ status }) => status === 200).length).toBe(10);
  const remaining = replies.map(reply => Number(reply.headers['x-ratelimit-remaining']));
  expect(remaining.toSorted((a, b) => b - a)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, ...Array(21).fill(0)]);
});

test('the rate limit is for a minute from the first request, whatever is refused in it', async () => {
  const limited = closing(await startReplica(service.database.url, { RATE_LIMIT: '1' }));
  const token = await createToken(service, world.user, ['read']);
  const send = async () => (await limited.client.get('/2025-04/account', token)).status;
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now');
  onTestFinished(() => clock.mockRestore());
  expect(await send()).toBe(200);
  clock.mockImplementation(() => now() + 55_000);
  expect(await send()).toBe(429);
  clock.mockImplementation(() => now() + 61_000);
  await expect.poll(send).toBe(200);
});

test('a defect gets 500 with a fixed text, and is logged once, with its cause and without the token', async () => {
  const broken = closing(await startService());
  const { token } = await createTenant(broken);
  await broken.database.executor.execute('drop table rules; drop table members cascade');
  // Members are streamed.
  const tables = ['rules', 'members'];
  for (const table of tables) {
    const { status, body } = await broken.client.get(`/2025-04/${table}`, token);
    expect([status, body]).toEqual([500, { message: 'Something went wrong on our side. It has been logged.' }]);
  }
  const messages = tables.map(table => `relation "${table}" does not exist`);
  const logged = messages.map(message => ({ level: 50, code: 'internal', err: { message } }));
  expect(broken.complaints).toMatchObject(logged);
  expect(JSON.stringify(broken.complaints)).not.toContain(token);
});

/** Keeps the event loop from everything else, without using the processor. */
function blockFor(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

test('a service that starts slowly does not count as overloaded', async () => {
  const replica = closing(await startReplica(service.database.url, {}, { maxEventLoopDelayMs: 200 }));
  for (let turn = 0; turn < 3; turn += 1) {
    blockFor(400);
    await delay(5);
  }
  expect((await replica.client.get('/2025-04/account', world.token)).status).toBe(200);
});

test('a service that is overloaded says so with 503 and Retry-After in the form of each version, also to pages of other origins, and recovers by itself', async () => {
  const origin = 'https://scores.example';
  const variables = { CORS_ORIGINS: origin };
  const replica = closing(await startReplica(service.database.url, variables, { maxEventLoopDelayMs: 200 }));
  const until = Date.now() + 15_000;
  const headers = { 'x-request-id': 'request-1', origin };
  const ask = (version: string) => replica.client.get<object>(`/${version}/account`, world.token, { headers });
  const askEach = () => Promise.all(['2025-04', '2026-12'].map(ask));
  let replies = await askEach();
  while (replies.some(({ status }) => status === 200) && Date.now() < until) {
    blockFor(1_200);
    await delay(10);
    replies = await askEach();
  }
  const message = 'The service is overloaded. Try again shortly.';
  const shown = replies.map(({ status, headers, body }) => [
    status,
    headers['retry-after'],
    headers['access-control-allow-origin'],
    body,
  ]);
  expect(shown).toEqual([
    [503, '2', origin, { message }],
    [503, '2', origin, { message, code: 'overloaded', request_id: 'request-1' }],
  ]);
  for (const [method, url, status] of [
    ['GET', '/readyz', 503],
    ['POST', '/webhooks/github', 503],
    ['GET', '/healthz', 200],
    ['GET', '/metrics', 200],
  ] as const) {
    expect([url, (await replica.app.inject({ method, url })).statusCode]).toEqual([url, status]);
  }
  await expect.poll(async () => (await ask('2025-04')).status).toBe(200);
});

describe('a browser', async () => {
  const origin = 'https://scores.example';
  const allowing = await startReplica(service.database.url, { CORS_ORIGINS: origin });
  afterAll(() => allowing.close());

  const preflight = ({ app }: Service, from: string) => {
    const asked = { 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' };
    return app.inject({ method: 'OPTIONS', url: '/2025-04/pull-requests', headers: { origin: from, ...asked } });
  };

  test('may call the API from the origins in CORS_ORIGINS, and read its limits', async () => {
    const asked = await preflight(allowing, origin);
    expect([asked.statusCode, asked.headers]).toMatchObject([
      204,
      {
        'access-control-allow-origin': origin,
        'access-control-allow-methods': 'GET, PUT, DELETE',
        'access-control-allow-headers': 'authorization, content-type, if-none-match, x-request-id',
      },
    ]);
    const reply = await allowing.app.inject({ url: '/2025-04/pull-requests', headers: { origin } });
    expect([reply.statusCode, reply.headers]).toMatchObject([
      401,
      {
        'access-control-allow-origin': origin,
        'access-control-expose-headers':
          'etag, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id',
      },
    ]);
    expect(reply.headers['access-control-allow-credentials']).toBeUndefined();
  });

  test('can read from an allowed origin that a path or a method is not known', async () => {
    for (const version of ['/2025-04', '/2026-12']) {
      for (const [method, url, status] of [
        ['GET', version, 404],
        ['GET', `${version}/nothing`, 404],
        ['POST', `${version}/users`, 405],
      ] as const) {
        const reply = await allowing.app.inject({ method, url, headers: { origin } });
        expect([reply.statusCode, reply.headers['access-control-allow-origin']]).toEqual([status, origin]);
      }
    }
  });

  test('may not call the API from an origin that CORS_ORIGINS does not name', async () => {
    for (const other of ['https://scores.example.evil.example', 'http://scores.example', 'null']) {
      expect((await preflight(allowing, other)).headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  test('changes no reply by being allowed, but those to preflights', async () => {
    const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'] as const;
    const paths = ['', '/', '/nothing', '/account', '/users/', '/pull-requests/', `/pull-requests/${absent}/sync`];
    for (const method of methods) {
      for (const path of paths) {
        const request = { method: method as 'GET', url: `/2025-04${path}` };
        const [without, beside] = await Promise.all(
          [service, allowing].map(async ({ app }) => {
            const { statusCode, headers, body } = await app.inject(request);
            return { ...request, statusCode, type: headers['content-type'], allow: headers.allow, body };
          }),
        );
        expect(beside).toEqual(without);
      }
    }
  });

  test('may not call the API from anywhere by default', async () => {
    const asked = await preflight(service, origin);
    expect([asked.statusCode, asked.headers['access-control-allow-origin']]).toEqual([405, undefined]);
  });
});
