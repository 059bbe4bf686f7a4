import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenApiDocument, readDocument, type Schema } from '../support/openapi.ts';
import { closing, createTenant, type Service, startReplica, startService, type Tenant } from '../support/service.ts';

let service: Service;
let tenant: Tenant;
beforeAll(async () => {
  service = await startService();
  tenant = await createTenant(service);
});
afterAll(() => service.close());

const nowhere = 'postgres://nobody@127.0.0.1:1/none';

describe('/healthz', () => {
  test('tells that the process answers, also without a database, and asks for no token', async () => {
    const orphan = closing(await startReplica(nowhere));
    for (const { app } of [service, orphan]) {
      const reply = await app.inject('/healthz');
      expect([reply.statusCode, reply.json()]).toEqual([200, { status: 'ok' }]);
      expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
    }
  });
});

describe('/readyz', () => {
  const ready = async ({ app }: Service) => {
    const { statusCode, headers, json } = await app.inject('/readyz');
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
    return [statusCode, json()];
  };

  test('is 200 where the database is reachable and migrated', async () => {
    expect(await ready(service)).toEqual([200, { status: 'ready' }]);
  });

  test('is 503 without a database', async () => {
    const orphan = closing(await startReplica(nowhere));
    expect(await ready(orphan)).toEqual([503, { message: 'The database is not available. Try again shortly.' }]);
  });

  test('is 503 while migrations are missing', async () => {
    const fresh = closing(await startService());
    const client = new pg.Client({ connectionString: fresh.database.url });
    await client.connect();
    try {
      await client.query('update drizzle.__drizzle_migrations set created_at = created_at - 1');
      const lacking = [503, { message: 'The database lacks migrations: run pullscore migrate.' }];
      expect(await ready(fresh)).toEqual(lacking);
      await client.query('drop schema drizzle cascade');
      expect(await ready(fresh)).toEqual(lacking);
    } finally {
      await client.end();
    }
  });

  test('is 503 once the service is about to stop, while requests are still served and connections given up', async () => {
    const stopping = closing(await startReplica(service.database.url));
    stopping.app.drain();
    expect(await ready(stopping)).toEqual([503, { message: 'The service is stopping.' }]);
    const headers = { authorization: `Bearer ${tenant.token}` };
    const reply = await stopping.app.inject({ url: '/2025-04/account', headers });
    expect([reply.statusCode, reply.headers.connection]).toEqual([200, 'close']);
    expect((await stopping.app.inject('/healthz')).statusCode).toBe(200);
  });
});

describe('/metrics', () => {
  test('counts requests by route, not by path, and says nothing of tokens or ids', async () => {
    const replica = closing(await startReplica(service.database.url));
    const headers = { authorization: `Bearer ${tenant.token}` };
    const urls = [
      '/2025-04/account',
      '/2025-04/members/mem_1',
      '/2025-04/members/mem_2',
      '/nothing/1',
      '/nothing/2',
      '/%',
    ];
    for (const url of urls) await replica.app.inject({ url, headers });
    const { statusCode, body, headers: replied } = await replica.app.inject('/metrics');
    expect(statusCode).toBe(200);
    expect(replied['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
    const counts = body.split('\n').filter(line => line.startsWith('http_request_duration_seconds_count'));
    expect(counts.map(line => line.slice('http_request_duration_seconds_count'.length))).toEqual(
      expect.arrayContaining([
        '{method="GET",route="/2025-04/account",status="200"} 1',
        '{method="GET",route="/2025-04/members/:member",status="404"} 2',
        '{method="GET",route="none",status="404"} 2',
      ]),
    );
    expect(body).toMatch(/^process_cpu_seconds_total /m);
    expect(body).not.toMatch(/mem_1|ps_|nothing/);
  });
});

describe('/openapi.json', () => {
  let document: OpenApiDocument;
  beforeAll(async () => {
    document = await readDocument(service.app);
  });
  const operations = () =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ key: `${method.toUpperCase()} ${path}`, operation })),
    );

  test('describes the nine endpoints of the specification and no other', () => {
    expect(
      operations()
        .map(({ key }) => key)
        .toSorted(),
    ).toEqual([
      'DELETE /2025-04/pull-requests/{pullRequest}',
      'GET /2025-04/account',
      'GET /2025-04/members',
      'GET /2025-04/members/{member}',
      'GET /2025-04/members/{member}/pull-requests',
      'GET /2025-04/pull-requests',
      'GET /2025-04/rules',
      'GET /2025-04/users',
      'PUT /2025-04/pull-requests/{pullRequest}/sync',
    ]);
    expect(new Set(operations().map(({ operation }) => operation.operationId)).size).toBe(9);
    expect(document.security).toEqual([{ bearer: [] }]);
  });

  test('has closed schemas whose properties are all required', () => {
    const open: string[] = [];
    let objects = 0;
    const visit = (schema: unknown, place: string): void => {
      if (Array.isArray(schema)) for (const [index, item] of schema.entries()) visit(item, `${place}/${index}`);
      if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return;
      const { type, properties, required = [], additionalProperties } = schema as Schema;
      if (type === 'object') {
        objects += 1;
        const whole = Object.keys(properties ?? {}).every(name => required.includes(name));
        if (additionalProperties !== false || !whole || properties === undefined) open.push(place);
      }
      for (const [name, part] of Object.entries(schema)) visit(part, `${place}/${name}`);
    };
    visit(document.components.schemas, 'components');
    for (const { key, operation } of operations()) visit(operation.responses, key);
    expect(open).toEqual([]);
    expect(objects).toBeGreaterThan(20);
  });

  test('gives each operation its error replies, all with the Error body', () => {
    for (const { key, operation } of operations()) {
      const { 200: _, ...errors } = operation.responses;
      expect(Object.keys(errors), key).toEqual(expect.arrayContaining(['401', '403', '429', '500', '503', 'default']));
      if (key.includes('{')) expect(Object.keys(errors), key).toContain('404');
      for (const [status, { content }] of Object.entries(errors)) {
        expect([key, status, content]).toEqual([
          key,
          status,
          { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        ]);
      }
    }
    expect(document.components.schemas.Error).toMatchObject({ required: ['message'], additionalProperties: false });
  });
});

describe('/docs', () => {
  test.each([
    ['/docs', '', '/docs/static/'],
    ['/docs/', '', './static/'],
    ['/docs', 'https://scores.example/api', '/api/docs/static/'],
  ])('%s with PUBLIC_URL "%s" is a page whose parts are there and permitted', async (url, publicUrl, prefix) => {
    const { app } = closing(await startReplica(service.database.url, { PUBLIC_URL: publicUrl }));
    const page = await app.inject(url);
    expect(page.statusCode).toBe(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    const parts = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, part = '']) => part);
    expect(parts.length).toBeGreaterThanOrEqual(5);
    const types = { js: /javascript/, css: /^text\/css/, png: /^image\/png/ };
    for (const part of parts) {
      expect(part.startsWith(prefix), part).toBe(true);
      const { statusCode, headers } = await app.inject(`/docs/static/${part.slice(prefix.length)}`);
      expect([part, statusCode]).toEqual([part, 200]);
      expect(headers['content-type']).toMatch(types[part.split('.').at(-1) as keyof typeof types]);
    }
    const policy = String(page.headers['content-security-policy']);
    expect(policy).toMatch(/script-src 'self'/);
    expect(policy).not.toMatch(/unsafe|https:/);
    // Over plain HTTP, as in a company's own network, browsers would look for the page's parts at https.
    expect(policy).not.toContain('upgrade-insecure-requests');
    expect(page.body).not.toMatch(/<script>|<style>|onload=/);
  });
});

describe('every other reply', () => {
  test('lets nothing be loaded, framed or guessed from it', async () => {
    for (const url of ['/healthz', '/2025-04/account', '/nothing', '/openapi.json']) {
      const { headers } = await service.app.inject(url);
      expect(headers).toMatchObject({
        'content-security-policy': "default-src 'none';frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      });
      expect(headers).not.toHaveProperty('x-powered-by');
    }
  });
});
