import { beforeAll, expect, test } from 'vitest';
import { listen, stall } from './support/raw-http.ts';
import { createToken } from './support/tenants.ts';
import { startWorld } from './support/world.ts';

const world = await startWorld();
let port: number;
let tokens: string[];
beforeAll(async () => {
  const users = [world.user, (await world.newTenant()).user];
  tokens = await Promise.all(users.map(user => createToken(world.service, user, ['rules:read'])));
  port = await listen(world.service.app);
  // On a slow machine, the first of many stalled requests would end before the last one is sent.
  world.service.app.server.requestTimeout = 0;
});

/** A plan of a rules file of this size that sends a byte less. */
const plan = (token: string | undefined, bytes: number, type = 'application/yaml') =>
  `POST /2026-12/rules/plan HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\nAuthorization: Bearer ${token}\r\n` +
  `Content-Length: ${bytes}\r\n\r\n${'x'.repeat(bytes - 1)}`;

test('of 250 rules files of an organisation whose last byte never comes, one is read; the others get 429', async () => {
  const before = process.memoryUsage.rss();
  const stalled: Awaited<ReturnType<typeof stall>>[] = [];
  const withheld = Buffer.from(plan(tokens[0], 2_000_000));
  for (let index = 0; index < 250; index += 1) {
    stalled.push(await stall(world.service.app, port, withheld));
  }
  const refused = () => stalled.filter(({ received }) => received.text.startsWith('HTTP/1.1 429 '));
  await expect.poll(() => refused().length).toBe(249);
  expect(stalled[1]?.received.text).toMatch(/retry-after: 5\r\n.*"Another file of this organisation is under way\. /s);
  expect(process.memoryUsage.rss() - before).toBeLessThan(300e6);

  // Another organisation's file is read, and so is the next one of this organisation once the first is gone.
  const readOne = async (token: string | undefined) => {
    const { received } = await stall(world.service.app, port, `${plan(token, 100, 'text/plain')}x`);
    await expect.poll(() => received.text).toMatch(/^HTTP/);
    return received.text;
  };
  // The type is judged once the body is read.
  expect(await readOne(tokens[1])).toMatch(/^HTTP\/1.1 415 /);
  expect(await readOne(tokens[0])).toMatch(/^HTTP\/1.1 429 /);
  stalled[0]?.socket.destroy();
  await expect.poll(() => readOne(tokens[0])).toMatch(/^HTTP\/1.1 415 /);
});
