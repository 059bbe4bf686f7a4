import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { sql } from 'drizzle-orm';
import Fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { boundReplies } from '../../src/api/replies.ts';
import type { App } from '../../src/app.ts';
import type { Caller } from '../../src/database/access-tokens.ts';
import { renewContentVersion } from '../../src/database/content-versions.ts';
import { listen } from '../support/raw-http.ts';
import { closing, startReplica } from '../support/service.ts';
import { createToken, insertMembers, insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service } = world;
const port = await listen(service.app);
await insertPullRequests(service, world, [1_700_000_000]);
// Longer than any that is stored today, so that the system's buffers can't hold it.
await service.database.executor.execute(sql`update pull_requests set body = repeat('b', 12000000)`);
await insertMembers(service, world, 1_000, 'm'.repeat(20_000));

const pages = '/2025-04/pull-requests';

/** Asks, and reads no more than the beginning of the reply. */
async function askWithoutReading(path: string, to = port, token = world.token): Promise<Socket> {
  const socket = connect(to, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await once(socket, 'readable');
  return socket;
}

const get = (path: string, token = world.token) =>
  fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${token}` } });

const connectionsOf = ({ server }: Pick<App, 'server'>) => promisify(server.getConnections.bind(server))();

test('a token that leaves more than 16 MiB of replies unread gets 429, and others do not', async () => {
  const other = await createToken(service, world.user);
  const slow = await Promise.all([askWithoutReading(pages), askWithoutReading(pages)]);
  const refused = await get('/2025-04/account');
  expect(refused.status).toBe(429);
  expect(refused.headers.get('retry-after')).toBe('5');
  expect(await refused.json()).toEqual({
    message: 'Earlier replies to this token have not been read. Read them, or close their connections.',
  });
  expect((await get('/2025-04/account', other)).status).toBe(200);
  for (const socket of slow) socket.destroy();
  await expect.poll(async () => (await get('/2025-04/account')).status).toBe(200);
});

test('of requests that come together, those over the limit of their token get 429, without an ETag', async () => {
  // The tag of a page is known before its reply is refused.
  await renewContentVersion(service.database.executor, world.organisation.id);
  const replies = await Promise.all(Array.from({ length: 6 }, () => askWithoutReading(pages)));
  const heads = replies.map(socket => String(socket.read()).split('\r\n\r\n')[0] ?? '');
  const answers = heads.map(head => `${head.split(' ')[1]}${/^etag:/im.test(head) ? ' with a tag' : ''}`);
  expect(answers.toSorted()).toEqual(['200 with a tag', '200 with a tag', '429', '429', '429', '429']);
  for (const socket of replies) socket.destroy();
  await expect.poll(async () => (await get('/2025-04/account')).status).toBe(200);
});

test.each([pages, '/2025-04/members'])('a reply of %s that is not taken in time is cut', async path => {
  const replica = closing(await startReplica(service.database.url, {}, { maxReplyMs: 2_000 }));
  const socket = await askWithoutReading(path, await listen(replica.app));
  expect(String(socket.read())).toMatch(/^HTTP\/1\.1 200 /);
  await expect.poll(() => connectionsOf(replica.app)).toBe(0);
});

/** A service that bounds its replies, and takes every token as it is. */
function createBounded() {
  const app = Fastify();
  onTestFinished(() => app.close());
  const check = boundReplies(app);
  app.addHook('onRequest', async request => {
    request.caller = { tokenId: request.headers.authorization } as Caller;
    check(request);
  });
  return app;
}

test('if replies to all take more than 128 MiB, the token with most of it loses its oldest', async () => {
  const app = createBounded();
  const replies = new Map([10, 16].map(size => [`/${size}`, Buffer.alloc(size * 1024 * 1024)]));
  app.get('/:size', async request => replies.get(request.url));
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port: own } = app.server.address() as AddressInfo;
  const first = await askWithoutReading('/16', own, 'large');
  await askWithoutReading('/16', own, 'large');
  for (let token = 0; token < 9; token += 1) await askWithoutReading('/10', own, `small-${token}`);
  expect(await connectionsOf(app)).toBe(11);
  await askWithoutReading('/10', own, 'last');
  await expect.poll(() => connectionsOf(app)).toBe(11);
  let bytes = 0;
  first.on('data', chunk => {
    bytes += chunk.length;
  });
  await once(first, 'close');
  expect(bytes).toBeLessThan(16 * 1024 * 1024);
});

test('a reply that comes after its client has left does not count', async () => {
  const app = createBounded();
  const asked: Socket[] = [];
  let left = 0;
  app.get('/', async ({ raw: { socket } }) => {
    asked.push(socket);
    await once(socket, 'close');
    left += 1;
    return Buffer.alloc(10 * 1024 * 1024);
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port: own } = app.server.address() as AddressInfo;
  for (let count = 1; count <= 3; count += 1) {
    const socket = connect(own, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nAuthorization: one\r\n\r\n');
    await expect.poll(() => asked.length).toBe(count);
    socket.destroy();
    await expect.poll(() => left).toBe(count);
  }
});
