import { sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, test } from 'vitest';
import { signature } from '../support/github/webhooks.ts';
import { exchange, listen, stall } from '../support/raw-http.ts';
import { webhookSecret } from '../support/service.ts';
import { post, startForAcme } from './support.ts';

const maxBytes = 5_000_000;
/** Of this size, the budget has room for so many. */
const maxLarge = Math.floor((32 * 1024 * 1024) / maxBytes);

const service = await startForAcme();
const port = await listen(service.app);
// On a slow machine, the first of many stalled requests would end before the last one is sent.
service.app.server.requestTimeout = 0;

/** A pull request's payload of exactly this size. */
function payloadOf(bytes: number): string {
  const withBody = (body: string) =>
    JSON.stringify({
      action: 'opened',
      pull_request: { id: 5, node_id: 'PR_5', body },
      organization: { id: 1, login: 'acme' },
    });
  return withBody('x'.repeat(bytes - withBody('').length));
}

const head = (length: number | 'chunked') =>
  `POST /webhooks/github HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-GitHub-Event: pull_request\r\n` +
  `X-GitHub-Delivery: a-b\r\nConnection: close\r\n` +
  (length === 'chunked' ? 'Transfer-Encoding: chunked\r\n' : `Content-Length: ${length}\r\n`);

/** A signed payload in chunks: it counts as the largest possible. */
function inChunks(body: string): string {
  const chunks = [body.slice(0, 300), body.slice(300)].map(part => `${part.length.toString(16)}\r\n${part}\r\n`);
  return `${head('chunked')}X-Hub-Signature-256: ${signature(webhookSecret, body)}\r\n\r\n${chunks.join('')}0\r\n\r\n`;
}

const large = payloadOf(maxBytes);
const send = (body: string) => post(service, { event: 'pull_request' }, { body });
const sendSmall = () => send(payloadOf(25_000));
const tooMany = 'Too many request bodies at once. Send it again in a few seconds.';

describe('a payload', () => {
  test('of 5 MB is taken', async () => {
    expect(await send(large)).toMatchObject({ status: 202, message: 'Accepted.' });
  });

  test('of more than 5 MB is 413, by its announced length or by what arrives', async () => {
    const chunk = `${(maxBytes + 1).toString(16)}\r\n${'x'.repeat(maxBytes + 1)}\r\n0\r\n\r\n`;
    for (const request of [`${head(maxBytes + 1)}\r\n`, `${head('chunked')}\r\n${chunk}`]) {
      const { status, body } = await exchange(port, request);
      expect([status, JSON.parse(body)]).toEqual([413, { message: 'The request body is too large.' }]);
    }
  });

  test('in chunks is taken like one with a length', async () => {
    expect((await exchange(port, inChunks(payloadOf(1_000)))).status).toBe(202);
  });

  test('that its sender breaks off does not count as a failure of the database', async () => {
    const { complaints } = service;
    const before = complaints.length;
    (await stall(service.app, port, `${head(1_000)}\r\n{`)).socket.destroy();
    const messages = () => complaints.slice(before).map(({ msg }) => msg);
    await expect.poll(messages).toContain('The client broke off its request.');
    expect(messages()).not.toContainEqual(expect.stringContaining('database'));
  });
});

describe('many payloads at once', () => {
  test('of 60 payloads of 5 MB whose last byte never comes, all but 6 get 503; small ones are taken', async () => {
    const count = 60;
    const before = process.memoryUsage.rss();
    const withheld = Buffer.from(`${head(maxBytes)}\r\n${large.slice(0, -1)}`);
    const stalled: Awaited<ReturnType<typeof stall>>[] = [];
    for (let index = 0; index < count; index += 1) {
      stalled.push(await stall(service.app, port, withheld));
    }
    const refused = () => stalled.filter(({ received }) => received.text.includes(tooMany));
    await expect.poll(() => refused().length).toBe(count - maxLarge);
    expect(refused()[0]?.received.text).toMatch(/^HTTP\/1.1 503 .*retry-after: 5\r\n/s);
    // Refused ones are not read.
    expect(process.memoryUsage.rss() - before).toBeLessThan((count * maxBytes) / 2);
    expect((await sendSmall()).status).toBe(202);
    expect((await send(payloadOf(100_000))).status).toBe(202);
    expect((await send(large)).status).toBe(503);

    // A payload that breaks off makes room.
    for (const { socket } of stalled) socket.destroy();
    await expect.poll(async () => (await send(large)).status).toBe(202);
  });

  test('that stall make room once their time is over', async () => {
    const { headersTimeout } = service.app.server;
    Object.assign(service.app.server, { headersTimeout: 1_000, requestTimeout: 1_000 });
    onTestFinished(() => void Object.assign(service.app.server, { headersTimeout, requestTimeout: 0 }));
    const stalled: Awaited<ReturnType<typeof stall>>[] = [];
    for (let index = 0; index < maxLarge; index += 1) {
      stalled.push(await stall(service.app, port, `${head(maxBytes)}\r\n{`));
    }
    await expect.poll(() => stalled.every(({ socket }) => socket.destroyed)).toBe(true);
    await expect.poll(async () => (await send(large)).status).toBe(202);
  });

  test('keep their room until they are stored', async () => {
    const statuses: number[] = [];
    const body = payloadOf(1_000);
    // In chunks, a small payload counts as the largest possible: the database's time limit is not used up on hashes.
    const sendOne = async () => {
      const { status } = await post(
        service,
        { event: 'pull_request' },
        { body, headers: { 'transfer-encoding': 'chunked' } },
      );
      statuses.push(status);
    };
    let answered: Promise<unknown> | undefined;
    await service.database.transaction(async executor => {
      await executor.execute(sql`lock table webhook_deliveries in exclusive mode`);
      answered = Promise.all(Array.from({ length: maxLarge + 3 }, sendOne));
      await expect.poll(() => statuses).toEqual([503, 503, 503]);
    });
    await answered;
    expect(statuses.slice(3)).toEqual(Array(maxLarge).fill(202));
  });

  test.each([
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['what is not a request', 'hello\r\n\r\n'],
  ])('make room once they are handled, even if %s follows and their answers cannot be sent', async (_, next) => {
    const payload = inChunks(payloadOf(1_000)).replace('Connection: close\r\n', '');
    // The answer to what follows comes before the payload is handled: until then, its place is taken.
    for (let index = 0; index < maxLarge + 1; index += 1) {
      await expect.poll(async () => (await exchange(port, payload + next)).status).toBe(400);
    }
    await expect.poll(async () => (await send(large)).status).toBe(202);
  });
});
