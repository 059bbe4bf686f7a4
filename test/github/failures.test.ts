import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ServiceError } from '../../src/errors.ts';
import {
  addingErrors,
  type Fault,
  htmlError,
  pointsUsedUp,
  queryTimeout,
  secondaryLimit,
} from '../support/github/faults.ts';
import { clientOf, errorOf, fetchOne, fetchResult, firstPage, identityOf, listen, start } from './support.ts';

const json = (body: string): Fault => ({ kind: 'reply', status: 200, body });

const inAnHour = () => Math.floor(Date.now() / 1000) + 3_600;

async function errorUnder(fault: Fault, options = {}) {
  const { github, web, client } = await start({}, { timeoutMs: 2_000, ...options });
  const { nodeId } = web.openPullRequest();
  github.fault(fault, { times: Infinity });
  const error = await errorOf(client.fetchPullRequests({ login: 'acme' }, [nodeId]));
  expect(error).toBeInstanceOf(ServiceError);
  expect(`${error.message}`).not.toContain(github.token);
  const asked = github.count();
  github.clearFaults();
  expect((await fetchOne(client, nodeId)).nodeId).toBe(nodeId);
  return { error, asked, github };
}

describe("GitHub's rate limits", () => {
  const cases: [string, Fault, number, boolean][] = [
    ['seconds', secondaryLimit('90'), 90, false],
    ['no time', secondaryLimit(), 60, true],
    ['a 429 without a time', secondaryLimit(undefined, 429), 60, true],
    ['GraphQL errors and no header', json('{"data": null, "errors": [{"type": "RATE_LIMITED"}]}'), 60, true],
    ['GraphQL errors beside data', addingErrors({ message: 'You have exceeded a secondary rate limit' }), 60, true],
  ];

  test.each(cases)(
    'a rate limit with %s ends the call at once and says when to come back',
    async (_, fault, retryAfter, retryAfterGuessed) => {
      const { error, asked } = await errorUnder(fault);
      expect(error).toMatchObject({ code: 'github_rate_limited', status: 503, retryAfter, retryAfterGuessed });
      expect(error.tooMuch).toBe(false);
      expect(asked).toBe(1);
    },
  );

  test.each([
    ['a 200 with errors', pointsUsedUp(inAnHour())],
    ['a 403', { ...pointsUsedUp(inAnHour()), status: 403, body: { message: 'Forbidden' } }],
  ])('a rate limit in %s lasts until the points are reset', async (_, fault) => {
    const { error } = await errorUnder(fault);
    expect(error.code).toBe('github_rate_limited');
    expect(error.retryAfter).toBeGreaterThan(3_500);
    expect(error.retryAfter).toBeLessThanOrEqual(3_601);
  });

  test('a fetch succeeds even if GitHub cannot say how many points are left', async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest();
    const errors = [{ message: 'The rate limit can not be read now', path: ['rateLimit'] }];
    github.fault({
      kind: 'alter',
      change: reply => ({ data: { ...(reply.data as object), rateLimit: null }, errors }),
    });
    expect((await fetchOne(client, nodeId)).nodeId).toBe(nodeId);
    expect(github.count()).toBe(1);
  });
});

describe('a reply', () => {
  const cases: [string, Fault, boolean][] = [
    ['500 in HTML', htmlError(500), false],
    ['502 in HTML', htmlError(502), true],
    ['503 in HTML', htmlError(503), false],
    ['504 in HTML', htmlError(504), true],
    ['a query that took GitHub too long', queryTimeout(), true],
    ['HTML with 200', { ...htmlError(500), status: 200 }, false],
    ['an empty 200', json(''), false],
    ['a 204', { kind: 'reply', status: 204 }, false],
    ['truncated JSON', { kind: 'truncate' }, false],
    ['a reply that breaks off', { kind: 'truncate', reset: true }, false],
    ['a connection that breaks', { kind: 'reset' }, false],
    ['null', json('null'), false],
    ['a text', json('"data"'), false],
    ['a list', json('[]'), false],
    ['data that is not an object', json('{"data": 5}'), false],
    ['null data without a reason', json('{"data": null}'), false],
    ['errors that are not a list', json('{"data": null, "errors": 5}'), false],
    ['nodes that are not a list', json('{"data": {"nodes": {"length": 1}}}'), false],
    ['fewer nodes than asked for', json('{"data": {"nodes": []}}'), false],
    ['brackets 100,000 deep', json('['.repeat(100_000)), false],
    ['a wrong path', { kind: 'reply', status: 404, body: { message: 'Not Found' } }, false],
    [
      'too many nodes',
      json('{"errors": [{"type": "MAX_NODE_LIMIT_EXCEEDED", "message": "This query requests up to 1,000,000"}]}'),
      true,
    ],
  ];

  test.each(cases)('that is %s is a failure of GitHub, and the next request succeeds', async (_, fault, tooMuch) => {
    const { error } = await errorUnder(fault);
    expect(error).toMatchObject({ code: 'github_failed', status: 502, tooMuch });
  });

  test('a request is sent once more if the connection breaks, but only once', async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest();
    github.fault({ kind: 'reset' });
    expect((await fetchOne(client, nodeId)).nodeId).toBe(nodeId);
    expect(github.count()).toBe(2);
    github.fault({ kind: 'reset' }, { times: 2 });
    expect(await errorOf(fetchResult(client, nodeId))).toMatchObject({ code: 'github_failed' });
    expect(github.count()).toBe(4);
  });

  test('over the size limit is a failure that names the limit', async () => {
    const { error } = await errorUnder({ kind: 'oversize', mebibytes: 3 }, { maxReplyBytes: 2 * 1024 * 1024 });
    expect(error).toMatchObject({ code: 'github_failed', tooMuch: true });
    expect(error.message).toContain('2 MiB');
  });

  test('an error reply is read only at its beginning', async () => {
    const endless = createHttpServer((_, response) => {
      response.writeHead(500).write('x'.repeat(64 * 1024));
    });
    const apiUrl = await listen(endless);
    const client = clientOf({ apiUrl, token: 'ghp_x' }, { timeoutMs: 2_000 });
    const error = await errorOf(client.findOrganisation({ login: 'acme' }));
    expect(error).toMatchObject({ code: 'github_failed', message: expect.stringContaining('status 500') });
  });

  test('of any content leads to a result or a ServiceError', async () => {
    const { github, acme, web, client } = await start();
    const { nodeId } = web.openPullRequest();
    const entry = fc.anything({ withNullPrototype: false, maxDepth: 3 });
    const reply = fc.oneof(
      entry.map(value => ({ data: value })),
      entry.map(value => ({ data: { nodes: [value], organization: value, repository: value, node: value } })),
      fc.record({
        data: fc.record({
          nodes: fc.array(entry),
          node: fc.record({
            pullRequests: fc.record({ totalCount: fc.nat(), pageInfo: entry, nodes: fc.array(entry) }),
          }),
        }),
        errors: entry,
      }),
    );
    await fc.assert(
      fc.asyncProperty(reply, async body => {
        github.clearFaults();
        github.fault({ kind: 'alter', change: () => JSON.parse(JSON.stringify(body)) }, { times: 6 });
        const calls = [
          client.fetchPullRequests({ login: 'acme' }, [nodeId]),
          client.listPullRequests({ login: 'acme' }, web.nodeId, firstPage),
          client.findLostRepositories(identityOf(acme), [web.nodeId]),
          client.pageMembers(identityOf(acme), null),
          client.pageRepositories(identityOf(acme), { after: null, pageSize: 100 }),
          client.findOrganisation({ login: 'acme' }),
        ];
        for (const outcome of await Promise.allSettled(calls)) {
          if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(ServiceError);
        }
      }),
      { numRuns: 25 },
    );
  });
});

describe('the time limit', () => {
  test.each(['hang', 'trickle'] as const)('ends a call under the fault %s', async kind => {
    const began = performance.now();
    const { error } = await errorUnder({ kind });
    expect(error).toMatchObject({ code: 'github_timeout', status: 504, tooMuch: true });
    expect(performance.now() - began).toBeLessThan(8_000);
  });

  test('includes the second try', async () => {
    const { github, web, client } = await start({}, { timeoutMs: 250 });
    const { nodeId } = web.openPullRequest();
    github.fault({ kind: 'reset' });
    github.fault({ kind: 'hang' });
    const began = performance.now();
    expect(await errorOf(fetchResult(client, nodeId))).toMatchObject({ code: 'github_timeout' });
    expect(performance.now() - began).toBeLessThan(8_000);
  });

  test('can be shortened by a caller, and nothing is sent once it is over', async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest();
    github.fault({ kind: 'hang' });
    const fetchUntil = (deadline: number) => errorOf(client.fetchPullRequests({ login: 'acme' }, [nodeId], deadline));
    const timeout = { code: 'github_timeout', message: 'GitHub did not answer in time.', tooMuch: true };
    expect(await fetchUntil(performance.now())).toMatchObject(timeout);
    expect(github.count()).toBe(0);
    expect(await fetchUntil(performance.now() + 500)).toMatchObject(timeout);
  });
});

describe('a failed connection', () => {
  const clientFor = (apiUrl: string) => clientOf({ apiUrl, token: 'ghp_x' }, { timeoutMs: 2_000 });

  test('a connection to a port without a listener fails with ECONNREFUSED', async () => {
    const error = await errorOf(clientFor('http://127.0.0.1:2').findOrganisation({ login: 'acme' }));
    expect(error).toMatchObject({ code: 'github_failed' });
    expect(error.message).toContain('ECONNREFUSED');
  });

  test('a name that does not resolve is a failure or a timeout of GitHub', async () => {
    const error = await errorOf(clientFor('http://github.invalid').findOrganisation({ login: 'acme' }));
    expect(['github_failed', 'github_timeout']).toContain(error.code);
  });

  test.each([
    ['TLS', async () => (await start()).github.apiUrl.replace('http:', 'https:')],
    ['HTTP', () => listen(createServer(socket => socket.end('SSH-2.0-OpenSSH_9.6\r\n').on('error', () => {})))],
  ])('a server that does not use %s is a failure of GitHub', async (_, serve) => {
    const error = await errorOf(clientFor(await serve()).findOrganisation({ login: 'acme' }));
    expect(error).toMatchObject({ code: 'github_failed' });
  });
});
