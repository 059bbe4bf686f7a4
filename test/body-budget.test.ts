import { promisify } from 'node:util';
import { sql } from 'drizzle-orm';
import Fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { createErrorSender, handleErrors } from '../src/api/error-handlers.ts';
import { createBodyBudget } from '../src/body-budget.ts';
import { createLatch } from './support/github/faults.ts';
import { exchange, listen, stall } from './support/raw-http.ts';
import { createToken } from './support/tenants.ts';
import { startWorld } from './support/world.ts';

const maxBodyBytes = 5_000_000;
const mebibyte = 1024 * 1024;

/** An application with the budget, whose bodies never come. */
function startApp() {
  const app = Fastify();
  handleErrors(app, createErrorSender([]));
  createBodyBudget()(app, maxBodyBytes);
  const latch = createLatch();
  let admitted = 0;
  app.addHook('onRequest', () => {
    admitted += 1;
    return latch.released;
  });
  app.post('/', async () => 'done');
  onTestFinished(async () => {
    latch.release();
    await app.close();
  });
  const send = (headers: Record<string, string>) => app.inject({ method: 'POST', url: '/', headers });
  return {
    send,
    announce: (bytes: number) => send({ 'content-length': String(bytes) }),
    admitted: () => admitted,
  };
}

test('bodies above 64 KiB have 32 MiB together, and all have 160 MiB', async () => {
  const { announce, send, admitted } = startApp();
  for (let count = 0; count < 6; count += 1) void announce(maxBodyBytes);
  await expect.poll(admitted).toBe(6);
  const refused = await announce(maxBodyBytes);
  expect([refused.statusCode, refused.headers['retry-after'], refused.json()]).toEqual([
    503,
    '5',
    { message: 'Too many request bodies at once. Send it again in a few seconds.' },
  ]);
  // In chunks, a body may be as long as the longest.
  expect((await send({ 'transfer-encoding': 'chunked' })).statusCode).toBe(503);
  const room = Math.floor((160 * mebibyte - 6 * maxBodyBytes) / (64 * 1024));
  for (let count = 0; count < room; count += 1) void announce(64 * 1024);
  await expect.poll(admitted).toBe(6 + room);
  expect((await announce(64 * 1024)).statusCode).toBe(503);
});

test('of 20 rules files of an organisation whose last byte never comes, one is read; the others get 429', async () => {
  const { service, user, newTenant } = await startWorld();
  const users = [user, (await newTenant()).user];
  const [own, others] = await Promise.all(users.map(each => createToken(service, each, ['rules:read'])));
  const port = await listen(service.app);
  /** A plan of a rules file of this size that sends a byte less. */
  const plan = (token: string | undefined, bytes: number, type = 'application/yaml') =>
    `POST /2026-12/rules/plan HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\nAuthorization: Bearer ${token}\r\n` +
    `Content-Length: ${bytes}\r\n\r\n${'x'.repeat(bytes - 1)}`;
  const stalled: Awaited<ReturnType<typeof stall>>[] = [];
  for (let index = 0; index < 20; index += 1) stalled.push(await stall(service.app, port, plan(own, 2_000_000)));
  const refused = () => stalled.filter(({ received }) => received.text.startsWith('HTTP/1.1 429 '));
  await expect.poll(() => refused().length).toBe(19);
  expect(stalled[1]?.received.text).toMatch(/retry-after: 5\r\n.*"Another file of this organisation is under way\. /s);

  // Another organisation's file is read, and so is the next one of this organisation once the first is gone.
  const readOne = async (token: string | undefined) => {
    const { received } = await stall(service.app, port, `${plan(token, 100, 'text/plain')}x`);
    await expect.poll(() => received.text).toMatch(/^HTTP/);
    return received.text;
  };
  // The type is judged once the body is read.
  expect(await readOne(others)).toMatch(/^HTTP\/1.1 415 /);
  expect(await readOne(own)).toMatch(/^HTTP\/1.1 429 /);
  stalled[0]?.socket.destroy();
  await expect.poll(() => readOne(own)).toMatch(/^HTTP\/1.1 415 /);
});

test('a rules file whose connection closes while its token is looked up keeps no place', async () => {
  const world = await startWorld();
  const token = await createToken(world.service, world.user, ['rules:read']);
  const port = await listen(world.service.app);
  const plan = (bytes: string) =>
    `POST /2026-12/rules/plan HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nAuthorization: Bearer ${token}\r\n` +
    `Content-Length: 100\r\nConnection: close\r\n\r\n${bytes}`;
  const { server } = world.service.app;
  const connections = promisify(server.getConnections.bind(server));
  const next = await world.service.database.transaction(async executor => {
    await executor.execute(sql`lock table access_tokens in access exclusive mode`);
    const { socket } = await stall(world.service.app, port, plan(''));
    socket.destroy();
    await expect.poll(connections).toBe(0);
    return () => exchange(port, plan('x'.repeat(100)));
  });
  expect((await next()).status).toBe(415);
});
