import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { signature } from '../support/github/webhooks.ts';
import { exchange, listen } from '../support/raw-http.ts';
import { type Service, startService, webhookSecret } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { post } from './support.ts';

const mebibyte = 1024 * 1024;

let service: Service;
let port: number;
beforeAll(async () => {
  service = await startService();
  await createTenant(service, { login: 'acme', githubId: 1 });
  port = await listen(service.app);
});
afterAll(() => service.close());

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

/** A delivery that has announced its size and sent one byte; the service has seen it. */
async function begin(length: number | 'chunked'): Promise<Socket> {
  const known = once(service.app.server, 'request');
  const socket = connect(port, '127.0.0.1', () => {
    socket.write(`${head(length)}\r\n${length === 'chunked' ? '1\r\n{\r\n' : '{'}`);
  });
  onTestFinished(() => void socket.destroy());
  await Promise.race([known, once(socket, 'close')]);
  return socket;
}

describe('a payload', () => {
  test.each([
    ['24.9 MB', 24_900_000],
    ['25 MiB', 25 * mebibyte],
  ])('a payload of %s is taken', async (_, bytes) => {
    const body = payloadOf(bytes);
    expect(Buffer.byteLength(body)).toBe(bytes);
    expect(await post(service, { event: 'pull_request' }, { body })).toMatchObject({ status: 202, message: 'Taken.' });
  });

  test('a payload of more than 25 MiB is 413, by its announced length or by what arrives', async () => {
    const announced = await exchange(port, `${head(25 * mebibyte + 1)}\r\n`);
    expect([announced.status, JSON.parse(announced.body)]).toEqual([413, { message: 'The payload is over 25 MiB.' }]);
    expect(announced.milliseconds).toBeLessThan(1_000);
    const chunk = Buffer.from(`${(26 * mebibyte).toString(16)}\r\n${'x'.repeat(26 * mebibyte)}\r\n0\r\n\r\n`);
    const sent = await exchange(port, Buffer.concat([Buffer.from(`${head('chunked')}\r\n`), chunk]));
    expect([sent.status, JSON.parse(sent.body)]).toEqual([413, { message: 'The payload is over 25 MiB.' }]);
  });

  test('a payload of millions of values is 400 before it is parsed', async () => {
    for (const value of ['[],', '{"a":{}},', '1,']) {
      const values = value.repeat(Math.floor((24 * mebibyte) / value.length));
      const body = `{"action":"opened","list":[${values}0]}`;
      expect(await post(service, { event: 'pull_request' }, { body })).toMatchObject({
        status: 400,
        message: 'The payload has too many values.',
      });
    }
  });

  test('a payload with a string of 300,000 brackets, quotes and backslashes is taken', async () => {
    const body = payloadOf(100_000).replace('xxxx', '\\\\\\"[{,'.repeat(300_000));
    expect((await post(service, { event: 'pull_request' }, { body })).status).toBe(202);
  });

  test('a payload in chunks is taken like one with a length', async () => {
    const body = payloadOf(1_000);
    const chunks = [body.slice(0, 300), body.slice(300)].map(part => `${part.length.toString(16)}\r\n${part}\r\n`);
    const signed = `${head('chunked')}X-Hub-Signature-256: ${signature(webhookSecret, body)}\r\n\r\n`;
    expect((await exchange(port, `${signed}${chunks.join('')}0\r\n\r\n`)).status).toBe(202);
  });
});

describe('many payloads at once', () => {
  const large = payloadOf(24 * mebibyte);
  const deliver = () => post(service, { event: 'pull_request' }, { body: large });
  const ordinary = () => post(service, { event: 'pull_request' }, { body: payloadOf(100_000) });

  test.each([
    [37, '2 MiB', 2 * mebibyte],
    [64, '1 MiB', mebibyte],
  ])('payloads are refused beyond %i of %s that have arrived and are not yet stored', async (limit, _, bytes) => {
    const body = payloadOf(bytes);
    const statuses: number[] = [];
    const sendOne = async () => {
      statuses.push((await post(service, { event: 'pull_request' }, { body })).status);
    };
    let answered: Promise<unknown> | undefined;
    await service.database.transaction(async executor => {
      await executor.execute(sql`lock table webhook_deliveries in exclusive mode`);
      const deliveries = Array.from({ length: limit + 3 }, sendOne);
      await expect.poll(() => statuses, { timeout: 4_000 }).toEqual([503, 503, 503]);
      deliveries.push(sendOne());
      answered = Promise.all(deliveries);
      await expect.poll(() => statuses, { timeout: 4_000 }).toEqual([503, 503, 503, 503]);
    });
    await answered;
    expect(statuses.slice(4)).toEqual(Array(limit).fill(202));
  });

  test('requests that only announce a large payload keep no other out', async () => {
    for (const length of ['chunked', ...Array(9).fill(25 * mebibyte)] as const) await begin(length);
    for (const send of [deliver, deliver, ordinary]) expect((await send()).status).toBe(202);
  });

  test('a payload that its sender breaks off does not count as a failure of the database', async () => {
    const { complaints } = service;
    const before = complaints.length;
    (await begin(1_000)).destroy();
    const messages = () => complaints.slice(before).map(({ msg }) => msg);
    await expect.poll(messages).toContain('The client broke off its request.');
    expect(messages()).not.toContainEqual(expect.stringContaining('database'));
  });

  test('beyond 75 MiB of large payloads that stall, a new one replaces the largest of these', async () => {
    const stalled = async (bytes: number) => {
      const socket = await begin(25 * mebibyte);
      await new Promise(resolve => socket.write('x'.repeat(bytes), resolve));
      return socket;
    };
    const largest = await stalled(24 * mebibyte);
    const answer = text(largest);
    const others = [await stalled(20 * mebibyte), await stalled(20 * mebibyte)];
    expect((await deliver()).status).toBe(202);
    expect(await answer).toMatch(
      /^HTTP\/1.1 503 .*retry-after: 5.*"Too many payloads at once. Redeliver it in a few seconds."/s,
    );
    expect(others.map(({ readyState, bytesRead }) => [readyState, bytesRead])).toEqual(Array(2).fill(['open', 0]));

    // A payload that breaks off, is refused or is answered makes room.
    for (const socket of others) socket.destroy();
    for (let index = 0; index < 4; index += 1) {
      expect((await post(service, { event: 'x' }, { body: large, secret: 'wrong' })).status).toBe(401);
    }
    expect((await deliver()).status).toBe(202);
  });

  test('beyond 64 MiB of stalled ordinary payloads, a new one replaces the oldest; a large one still fits', async () => {
    const held: Socket[] = [];
    for (let index = 0; index < 64; index += 1) held.push(await begin(mebibyte));
    const [oldest, next] = held;
    if (oldest === undefined || next === undefined) throw new Error('none');
    const answer = text(oldest);
    for (let index = 0; index < 20; index += 1) expect((await ordinary()).status).toBe(202);
    expect(await answer).toMatch(
      /^HTTP\/1.1 503 .*retry-after: 5.*"Too many payloads at once. Redeliver it in a few seconds."/s,
    );
    expect([next.readyState, next.bytesRead]).toEqual(['open', 0]);
    expect((await deliver()).status).toBe(202);
  });

  test('beyond 64 MiB of stalled ordinary payloads, one that is larger than these gets 503', async () => {
    for (let index = 0; index < Math.floor((64 * mebibyte) / 100_000); index += 1) await begin(100_000);
    expect((await post(service, { event: 'pull_request' }, { body: payloadOf(200_000) })).status).toBe(503);
    expect((await post(service, { event: 'pull_request' }, { body: payloadOf(99_000) })).status).toBe(202);
  });

  test.each([
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['what is not a request', 'hello\r\n\r\n'],
  ])(
    'payloads make room once they are handled, even if %s follows and their answers cannot be sent',
    async (_, next) => {
      const payload = `${head(mebibyte).replace('Connection: close\r\n', '')}\r\n${payloadOf(mebibyte)}`;
      for (let index = 0; index < 65; index += 1) {
        expect((await exchange(port, payload + next)).status).toBe(400);
      }
      expect((await ordinary()).status).toBe(202);
      const { status } = await exchange(port, `${head(mebibyte)}\r\n${payloadOf(mebibyte)}`);
      expect(status).toBe(401);
    },
  );
});
