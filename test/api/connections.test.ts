import { once } from 'node:events';
import { STATUS_CODES } from 'node:http';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import Fastify from 'fastify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { handleConnections } from '../../src/api/error-handlers.ts';
import type { App } from '../../src/app.ts';
import { createLatch } from '../support/github/faults.ts';
import { createReplyCheck } from '../support/openapi.ts';
import { exchange, listen, type RawReply, stall } from '../support/raw-http.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service } = world;
const port = await listen(service.app);
const authorization = `Authorization: Bearer ${world.token}\r\n`;

const close = 'Connection: close\r\n';

/** Exactly the Error body, as JSON, and the request's id; the connection ends. */
function expectError(reply: RawReply, status: number, message: string | RegExp = /./) {
  expect(reply.text.split('\r\n', 1)).toEqual([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`]);
  expect(reply.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(reply.body.length),
    'x-request-id': /^[0-9a-f-]{36}$/,
    connection: 'close',
  });
  expect(JSON.parse(reply.body)).toEqual({ message });
}

describe('what is not an HTTP request', () => {
  const requests: [string, number, string | Buffer][] = [
    ['TLS', 400, Buffer.from('16030102000100', 'hex')],
    ['a line of text', 400, 'hello\r\n\r\n'],
    ['an unknown method', 400, 'BREW / HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a tunnel', 400, 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['an unknown version', 400, 'GET / HTTP/9.9\r\nHost: a\r\n\r\n'],
    ['NUL in a header', 400, `GET /2025-04/account HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \0\r\n\r\n`],
    ['a header without a name', 400, 'GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n'],
    ['letters outside ASCII in the path', 400, Buffer.from('GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n', 'latin1')],
    ['a length that is not a number', 400, 'PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: ten\r\n\r\n'],
    ['two lengths', 400, 'PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
    [
      'a length and chunks at once',
      400,
      'PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'an Authorization of 1 MB',
      431,
      `GET /2025-04/account HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${'a'.repeat(1_000_000)}\r\n${close}\r\n`,
    ],
    ['a path of 1 MB', 431, `GET /${'a'.repeat(1_000_000)} HTTP/1.1\r\nHost: a\r\n${close}\r\n`],
    ['10,000 headers', 431, `GET / HTTP/1.1\r\nHost: a\r\n${'a: 1\r\n'.repeat(10_000)}${close}\r\n`],
  ];
  test.each(requests)('the reply to %s is the Error body with %i', async (_, status, bytes) => {
    const reply = await exchange(port, bytes);
    const message = status === 431 ? 'The request headers are too large.' : 'This is not a valid HTTP request.';
    expectError(reply, status, message);
    expect(Object.keys(reply.headers)).toEqual(['content-type', 'content-length', 'x-request-id', 'connection']);
  });

  test('the reply to chunks that are not valid is the Error body with 400', async () => {
    const head = `PUT /2025-04/pull-requests/x/sync HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${authorization}`;
    expectError(await exchange(port, `${head}${close}\r\nZZ\r\n`), 400);
  });
});

describe('odd but valid HTTP', () => {
  const get = async (line: string, headers = 'Host: a.example:81\r\n') => {
    const reply = await exchange(port, `${line}\r\n${headers}${authorization}${close}\r\n`);
    if (reply.status === 200 && !line.includes('healthz')) {
      (await createReplyCheck(service.app))({ ...reply, statusCode: reply.status }, 'GET', '/2025-04/users');
    }
    return reply;
  };

  test('an HTTP/1.0 request is served, and needs a Host only if the reply has links', async () => {
    expect((await get('GET /2025-04/users HTTP/1.0')).status).toBe(200);
    expect((await get('GET /healthz HTTP/1.0', '')).status).toBe(200);
    expectError(await get('GET /2025-04/users HTTP/1.0', ''), 400);
  });

  test('a request with an absolute URL is served, and the links still have its Host', async () => {
    const reply = await get('GET http://b.example/2025-04/users?per_page=5 HTTP/1.1');
    expect(JSON.parse(reply.body).meta.path).toBe('http://a.example:81/2025-04/users');
    const wrong = await get('POST http://b.example/2025-04/users HTTP/1.1');
    expectError(wrong, 405);
    expect(wrong.headers.allow).toBe('GET, HEAD');
    const unknown = await get('GET http://b.example/2026-12/nothing HTTP/1.1');
    expect(JSON.parse(unknown.body)).toMatchObject({ code: 'not_found' });
  });

  test('a percent-encoded path gives the same list as the plain path, and links to the plain one', async () => {
    const reply = await get('GET /2025-04/%75sers HTTP/1.1');
    expect(JSON.parse(reply.body).meta.path).toBe('http://a.example:81/2025-04/users');
  });

  test('a request with an unknown expectation is served', async () => {
    expect((await get('GET /2025-04/users HTTP/1.1', 'Host: a\r\nExpect: the-unexpected\r\n')).status).toBe(200);
  });

  test('a request with an Upgrade is served, and the Upgrade is ignored', async () => {
    const upgrade = 'Host: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
    expect((await get('GET /2025-04/users HTTP/1.1', upgrade)).status).toBe(200);
  });

  test('two requests in one packet get two replies, in order', async () => {
    const first = `GET /2025-04/account HTTP/1.1\r\nHost: a\r\n${authorization}\r\n`;
    const { text } = await exchange(port, `${first}GET /healthz HTTP/1.1\r\nHost: a\r\n${close}\r\n`);
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(text.indexOf('Ada Lovelace')).toBeLessThan(text.indexOf('{"status":"ok"}'));
  });
});

test('a request behind another one begins after its reply, and not at all if the client leaves', async () => {
  const app = Fastify();
  onTestFinished(() => app.close());
  handleConnections(app);
  let begun = 0;
  const latches = [createLatch(), createLatch()];
  app.get('/', async () => {
    await latches[begun++]?.released;
    return 'x';
  });
  const own = await listen(app as unknown as App);
  const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  const { socket } = await stall(app as unknown as App, own, request);
  const second = once(app.server, 'request');
  socket.write(request.repeat(2));
  await second;
  expect(begun).toBe(1);
  latches[0]?.release();
  await expect.poll(() => begun).toBe(2);
  socket.destroy();
  await expect.poll(promisify(app.server.getConnections.bind(app.server))).toBe(0);
  latches[1]?.release();
  expect((await fetch(`http://127.0.0.1:${own}/`)).status).toBe(200);
  expect(begun).toBe(3);
});

describe('a Host', () => {
  const users = (host: string) =>
    exchange(port, `GET /2025-04/users HTTP/1.1\r\nHost: ${host}\r\n${authorization}${close}\r\n`);

  const nonsense = ['a"b', 'a/../b', 'a b', '<script>', 'user@a', 'a:80:80', 'a:port', 'a?b', 'a#b', 'a\\b'];
  test.each([...nonsense, '[::1', '%61', ''])('of "%s" gets 400, not a link', async host => {
    expectError(await users(host), 400);
  });

  const valid = ['a', 'a.example', 'A-1.example:8080', '127.0.0.1', '[::1]:3000'];
  test.each(valid)('a Host of %s is the host of the links', async host => {
    expect(JSON.parse((await users(host)).body).meta.path).toBe(`http://${host}/2025-04/users`);
  });

  test('a request without a Host header, or with two, gets 400', async () => {
    const message = 'The request needs exactly one Host header, with a valid host.';
    expectError(await exchange(port, `GET /healthz HTTP/1.1\r\n${close}\r\n`), 400, message);
    expectError(await users('a\r\nHost: b'), 400, message);
  });
});

test('two Authorization headers get 401, whichever is valid', async () => {
  const bad = 'Authorization: Bearer x\r\n';
  for (const both of [authorization + authorization, authorization + bad, bad + authorization]) {
    const reply = await exchange(port, `GET /2025-04/account HTTP/1.1\r\nHost: a\r\n${both}${close}\r\n`);
    expectError(reply, 401);
  }
});

test('a connection that is silent, or slow with its headers or body, is closed', async () => {
  const { headersTimeout, requestTimeout } = service.app.server;
  // The configured limits are too long for a test.
  Object.assign(service.app.server, { headersTimeout: 300, requestTimeout: 600 });
  try {
    const slowBody = `PUT /2025-04/pull-requests/x/sync HTTP/1.1\r\nHost: a\r\n${authorization}Content-Length: 9\r\n\r\n1`;
    const [silent, headers, body] = await Promise.all([
      exchange(port, ''),
      exchange(port, 'GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: '),
      exchange(port, slowBody),
    ]);
    for (const reply of [silent, headers, body]) {
      if (reply.text !== '') expectError(reply, 408);
      expect(reply.milliseconds).toBeLessThan(10_000);
    }
  } finally {
    Object.assign(service.app.server, { headersTimeout, requestTimeout });
  }
  expect([headersTimeout, requestTimeout]).toEqual([10_000, 30_000]);
});

test('a thousand silent connections leave the service answering', async () => {
  const sockets = Array.from({ length: 1_000 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
  try {
    const reply = await exchange(port, `GET /2025-04/account HTTP/1.1\r\nHost: a\r\n${authorization}${close}\r\n`);
    expect(reply.status).toBe(200);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

describe('a connection that is reset, at once or on the answer', () => {
  const tunnel = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n';
  const upgrade = 'GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n';
  const put = `PUT /2025-04/pull-requests/x/sync HTTP/1.1\r\nHost: a\r\n${authorization}`;
  const requests: [string, string][] = [
    ['a request', 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['CONNECT', tunnel],
    ['CONNECT with bytes for the tunnel', `${tunnel}hello`],
    ['CONNECT after a request', `GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n${tunnel}`],
    ['Upgrade', `${upgrade}\r\n`],
    ['Upgrade with Connection: Upgrade', `${upgrade}Connection: Upgrade\r\n\r\n`],
    ['Upgrade to HTTP/2', `${upgrade.replace('websocket', 'h2c')}Connection: Upgrade, HTTP2-Settings\r\n\r\n`],
    ['a line of text', 'hello\r\n\r\n'],
    ['a line of text after a request', 'GET /readyz HTTP/1.1\r\nHost: a\r\n\r\nhello\r\n\r\n'],
    ['doubled Transfer-Encoding', `${put}${'Transfer-Encoding: chunked\r\n'.repeat(2)}\r\n0\r\n\r\n`],
    ['chunks that are not valid', `${put}Transfer-Encoding: chunked\r\n\r\nZZ\r\n`],
    ['too many headers', `GET / HTTP/1.1\r\nHost: a\r\n${'a: 1\r\n'.repeat(10_000)}\r\n`],
    ['half the headers', put],
    ['half a body', `${put}Content-Length: 9\r\n\r\n1`],
    ['an expectation that the service meets', `${put}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n`],
    ['an unknown expectation', `${put}Expect: the-unexpected\r\nContent-Length: 9\r\n\r\n1`],
    [
      'half a webhook',
      'POST /webhooks/github HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    ],
  ];

  test.each(requests)('the service still answers if connections are reset after %s', async (_, bytes) => {
    const { server } = service.app;
    const { headersTimeout, requestTimeout } = server;
    Object.assign(server, { headersTimeout: 300, requestTimeout: 600 });
    const restore = () => Object.assign(server, { headersTimeout, requestTimeout });
    const uncaught: Error[] = [];
    const note = (error: Error) => void uncaught.push(error);
    process.on('uncaughtException', note);
    onTestFinished(() => {
      process.off('uncaughtException', note);
      restore();
    });
    const closed = Array.from({ length: 10 }, (__, index) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(bytes, () => index % 2 === 0 && socket.resetAndDestroy());
      });
      socket.on('data', () => socket.resetAndDestroy()).on('error', () => undefined);
      return new Promise(resolve => socket.on('close', resolve));
    });
    await Promise.all(closed);
    restore();
    expect((await exchange(port, `GET /healthz HTTP/1.1\r\nHost: a\r\n${close}\r\n`)).status).toBe(200);
    const open = promisify(server.getConnections.bind(server));
    await expect.poll(open).toBe(0);
    expect(uncaught).toEqual([]);
    expect(service.complaints.filter(({ level }) => level >= 50)).toEqual([]);
  });
});
