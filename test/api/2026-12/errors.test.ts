import { describe, expect, test } from 'vitest';
import { formatId, newId } from '../../../src/ids.ts';
import { closing, startReplica } from '../../support/service.ts';
import { createToken } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';

const world = await startWorld();
const { service, client, token } = world;
const absent = formatId('pr', newId());
const headers = { 'x-request-id': 'request-1' };

/** The body without its message. */
async function codeOf(url: string, { by = token, method = 'GET', on = client, ...options } = {}) {
  const { status, body } = await on.send(method as 'GET', url, by, { headers, ...options });
  const { message: _, ...rest } = body;
  return { status, ...rest };
}

const request_id = 'request-1';

describe('errors of 2026-12', () => {
  test.each([
    ['GET', '/2026-12/nothing', 404, 'not_found'],
    ['GET', '/2026-12', 404, 'not_found'],
    ['GET', '/2026-12?x=1', 404, 'not_found'],
    ['GET', '/2026-12/users/', 404, 'not_found'],
    ['GET', '/2026-12/members//pull-requests', 404, 'not_found'],
    ['GET', 'http://localhost/2026-12/nothing', 404, 'not_found'],
    ['POST', '/2026-12/users', 405, 'method_not_allowed'],
    ['GET', '/2026-12/%ff', 400, 'bad_request'],
    ['DELETE', `/2026-12/pull-requests/${absent}`, 404, 'not_found'],
    ['PUT', '/2026-12/pull-requests/x/sync', 404, 'not_found'],
  ])('%s %s gets %i with its code and request id', async (method, url, status, code) => {
    expect(await codeOf(url, { method })).toEqual({ status, code, request_id });
  });

  test('a path of no version gets an error with a message only', async () => {
    for (const url of ['/nothing', '/2026-13/users', '/2026-12x', '/2025-04/nothing']) {
      expect((await client.get(url)).body).toEqual({ message: 'No such path. See /docs for the paths.' });
    }
  });

  test('a token that is missing, or lacks the scope, is named by a code before a parameter is', async () => {
    const reader = await createToken(service, world.user, ['read']);
    const url = '/2026-12/users?per_page=0';
    expect(await codeOf(url, { by: 'ps_x' })).toEqual({ status: 401, code: 'unauthenticated', request_id });
    const path = `/2026-12/pull-requests/${absent}?x=1`;
    const refused = await codeOf(path, { by: reader, method: 'DELETE' });
    expect(refused).toEqual({ status: 403, code: 'forbidden', request_id });
  });

  test.each([
    ['per_page=0', 'per_page', 'per_page must be a whole number from 1 to 100.'],
    ['per_page=', 'per_page', 'per_page must be a whole number from 1 to 100.'],
    ['per_page=1&per_page=2', 'per_page', 'per_page may be given only once.'],
    ['cursor=x', 'cursor', 'The cursor does not belong to this list. Leave it out to start from the first page.'],
    ['perpage=3', 'perpage', 'perpage is not a known parameter; did you mean `per_page`?'],
    ['zzz=3', 'zzz', 'zzz is not a known parameter.'],
    ['__proto__=3', '__proto__', '__proto__ is not a known parameter.'],
    ['=3', '', ' is not a known parameter.'],
    ['a/b~c=3', 'a/b~c', 'a/b~c is not a known parameter.'],
  ])('/users?%s gets 400, which names the parameter', async (query, parameter, message) => {
    const { status, body } = await client.get(`/2026-12/users?${query}`, token, { headers });
    expect([status, body]).toEqual([400, { message, code: 'bad_request', request_id, parameter }]);
  });

  test('every route refuses a parameter that it does not know', async () => {
    for (const path of ['account', 'members/x', 'rules', 'users']) {
      const { status, body } = await client.get(`/2026-12/${path}?colour=red`, token);
      expect([path, status, body]).toEqual([path, 400, expect.objectContaining({ parameter: 'colour' })]);
    }
    const { status } = await client.delete(`/2026-12/pull-requests/${absent}?colour=red`, token);
    expect(status).toBe(400);
  });

  test('limits of bodies and of requests have codes', async () => {
    const path = `/2026-12/pull-requests/${absent}/sync`;
    const options = { method: 'PUT', payload: 'a'.repeat(16 * 1024 + 1) };
    expect(await codeOf(path, options)).toEqual({ status: 413, code: 'payload_too_large', request_id });
    const malformed = { method: 'PUT', headers: { ...headers, 'content-type': 'nonsense' } };
    expect(await codeOf(path, malformed)).toEqual({ status: 415, code: 'unsupported_media_type', request_id });
    const limited = closing(await startReplica(service.database.url, { RATE_LIMIT: '1' })).client;
    await limited.get('/2026-12/account', token);
    const refused = await codeOf('/2026-12/account', { on: limited });
    expect(refused).toEqual({ status: 429, code: 'rate_limited', request_id });
  });
});

test('2026-12 lets pages of allowed origins send rules files and the version that they were planned against', async () => {
  const { app } = closing(await startReplica(service.database.url, { CORS_ORIGINS: 'https://page.example' }));
  const asked = { origin: 'https://page.example', 'access-control-request-method': 'PUT' };
  const reply = await app.inject({ method: 'OPTIONS', url: '/2026-12/rules/file', headers: asked });
  expect(reply.headers).toMatchObject({
    'access-control-allow-methods': 'GET, POST, PUT, DELETE',
    'access-control-allow-headers': 'authorization, content-type, if-match, if-none-match, x-request-id',
    'access-control-expose-headers': expect.stringContaining('etag'),
  });
});
