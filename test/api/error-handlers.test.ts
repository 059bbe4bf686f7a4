import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import Fastify, { type FastifyBaseLogger } from 'fastify';
import { pino } from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  createErrorSender,
  errorResponses,
  handleClientError,
  handleConnections,
  handleErrors,
} from '../../src/api/error-handlers.ts';
import { type ErrorCode, errorStatuses, ServiceError } from '../../src/errors.ts';
import { listen } from '../support/raw-http.ts';

interface LogLine {
  level: number;
  code: ErrorCode;
  msg: string;
  ms?: number;
  err: { message: string };
}

/** An application whose only route throws `error`, and the lines that it logs. */
function failing(error?: unknown) {
  const lines: LogLine[] = [];
  const log = pino({ base: null, level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const sendError = createErrorSender([]);
  const app = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new Fastify.LogController({ disableRequestLogging: true }),
    genReqId: () => 'request-1',
    forceCloseConnections: true,
    frameworkErrors: sendError,
    clientErrorHandler: handleClientError,
  });
  handleErrors(app, sendError);
  handleConnections(app);
  for (const path of ['/fails', '/webhooks/fails']) {
    app.get(path, async () => {
      throw error;
    });
  }
  app.get('/works', async () => 'well');
  onTestFinished(() => app.close());
  return { app, lines };
}

async function replyTo(error: unknown) {
  const { app, lines } = failing(error);
  const reply = await app.inject('/fails');
  return { status: reply.statusCode, headers: reply.headers, body: reply.json(), lines };
}

describe('a failure that a caller is told', () => {
  test.each(Object.entries(errorStatuses) as [ErrorCode, number][])(
    'the error %s has the status %d',
    async (code, status) => {
      const { status: replied, body, headers } = await replyTo(new ServiceError(code, 'What to do.'));
      expect([replied, body]).toEqual([status, { message: 'What to do.' }]);
      expect(headers['content-type']).toBe('application/json; charset=utf-8');
      expect(headers['x-request-id']).toBe('request-1');
      expect(headers['retry-after']).toBeUndefined();
      expect(headers['www-authenticate']).toBe(code === 'unauthenticated' ? 'Bearer' : undefined);
    },
  );

  test.each([
    [0.2, '1'],
    [-5, '1'],
    [1.2, '2'],
    [60, '60'],
  ])('an error says after how many whole seconds to try again: %d becomes %s', async (retryAfter, header) => {
    const { headers } = await replyTo(new ServiceError('rate_limited', 'Slow down.', { retryAfter }));
    expect(headers['retry-after']).toBe(header);
  });
});

const [info, warn, error] = [30, 40, 50];

test.each<[ErrorCode, number]>([
  ['not_found', info],
  ['rate_limited', info],
  ['overloaded', info],
  ['internal', error],
  ['github_failed', warn],
  ['database_unavailable', warn],
])('the log line of the error %s has the level %s', async (code, level) => {
  const { lines } = await replyTo(new ServiceError(code, 'What to do.'));
  expect(lines).toMatchObject([
    { level, code, msg: 'What to do.', reqId: 'request-1', method: 'GET', status: errorStatuses[code] },
  ]);
  expect(lines[0]?.ms).toBeTypeOf('number');
  // Only a cause has a stack trace.
  expect(lines[0]).not.toHaveProperty('err');
});

test('the log line of a refused webhook has the level warn', async () => {
  const { app, lines } = failing(new ServiceError('unauthenticated', 'The signature does not match.'));
  await app.inject('/webhooks/fails');
  expect(lines).toMatchObject([{ level: warn, status: 401, msg: 'The signature does not match.' }]);
});

test('the log line of a request that worked has the level debug, and no query', async () => {
  const { app, lines } = failing();
  await app.inject('/works?token=secret');
  expect(lines).toMatchObject([{ level: 20, reqId: 'request-1', method: 'GET', path: '/works', status: 200 }]);
  expect(JSON.stringify(lines)).not.toContain('secret');
});

test('the log has only the beginning of a long path', async () => {
  const { app, lines } = failing();
  await app.inject(`/${'x'.repeat(1_000)}`);
  expect(lines).toMatchObject([{ status: 404, path: `/${'x'.repeat(199)}` }]);
});

test('the log has the cause of an error and the message for the caller', async () => {
  const { lines } = await replyTo(new ServiceError('github_failed', 'What to do.', { cause: new Error('the cause') }));
  expect(lines).toMatchObject([{ msg: 'What to do.', err: { message: 'the cause' } }]);
});

describe('an error from a library', () => {
  const reported = (statusCode: number) => Object.assign(new Error('As they say.'), { statusCode });

  test.each([
    [400, 400, 'As they say.'],
    [413, 413, 'The request body is too large.'],
    [415, 415, 'The content type is not supported.'],
    [499, 400, 'As they say.'],
    [399, 500, 'Something went wrong on our side. It has been logged.'],
    [500, 500, 'Something went wrong on our side. It has been logged.'],
    [503, 500, 'Something went wrong on our side. It has been logged.'],
  ])('with the status %d becomes %d', async (given, status, message) => {
    const reply = await replyTo(reported(given));
    expect([reply.status, reply.body]).toEqual([status, { message }]);
  });

  test('an error without a status is a defect: the caller gets a fixed text, the log the details', async () => {
    const { status, body, lines } = await replyTo(new Error('secret detail'));
    expect([status, body]).toEqual([500, { message: 'Something went wrong on our side. It has been logged.' }]);
    expect(lines).toMatchObject([{ level: 50, code: 'internal', err: { message: 'secret detail' } }]);
  });

  test('an error about a failed database connection becomes 503, with a retry after a second', async () => {
    const lost = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', statusCode: 400 });
    const { status, body, headers, lines } = await replyTo(lost);
    expect([status, body]).toEqual([503, { message: 'The database is not available. Try again shortly.' }]);
    expect(headers['retry-after']).toBe('1');
    expect(lines).toMatchObject([{ level: 40, code: 'database_unavailable', err: { code: 'ECONNREFUSED' } }]);
  });
});

describe('what is not an HTTP request', () => {
  test('behind a request whose reply has begun gets no answer in the middle of that reply', async () => {
    const streaming = failing();
    const streamed = new Readable({ read: () => undefined });
    streamed.push('begun');
    streaming.app.get('/streamed', async () => streamed);
    const socket = connect(await listen(streaming.app), '127.0.0.1');
    socket.write('GET /streamed HTTP/1.1\r\nhost: a\r\n\r\n');
    socket.once('data', () => socket.write('HELLO\r\n\r\n'));
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\nbegun\r\n$/);
  });

  test.each([
    ['cannot be written to', { writable: false }, new Error('late')],
    ['was reset', { writable: true }, Object.assign(new Error('gone'), { code: 'ECONNRESET' })],
  ])('a connection that %s is closed without an answer', (_, { writable }, error) => {
    const done: string[] = [];
    const socket = { writable, write: () => done.push('written'), destroySoon: () => done.push('destroyed') };
    handleClientError(error, socket as unknown as Parameters<typeof handleClientError>[1]);
    expect(done).toEqual(['destroyed']);
  });

  test('a request that takes too long to arrive gets 408', () => {
    const written: string[] = [];
    const socket = { writable: true, write: (text: string) => written.push(text), destroySoon: () => undefined };
    const error = Object.assign(new Error('slow'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
    handleClientError(error, socket as unknown as Parameters<typeof handleClientError>[1]);
    expect(written.join()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*"The request took too long to arrive\."/);
  });
});

test('a route describes the errors that every route has, and its own', () => {
  const responses: Record<string, { $ref?: string; description: string }> = errorResponses(
    'not_found',
    'github_timeout',
  );
  expect(Object.keys(responses)).toEqual(['401', '403', '404', '429', '500', '503', '504', 'default']);
  for (const response of Object.values(responses)) expect(response).toMatchObject({ $ref: 'Error' });
  // Another test compares the texts themselves, with the OpenAPI document.
  expect(new Set(Object.values(responses).map(({ description }) => description)).size).toBe(8);
});
