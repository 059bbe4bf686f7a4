import { createHmac } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { signature } from '../support/github/webhooks.ts';
import { closing, startReplica, webhookSecret } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { countRows, nothing, post, startForAcme } from './support.ts';

const service = await startForAcme();

const delivery = {
  event: 'pull_request',
  payload: {
    action: 'opened',
    pull_request: { id: 5, node_id: 'PR_5' },
    organization: { id: 1, login: 'acme' },
  },
};
const text = JSON.stringify(delivery.payload);
const whole = signature(webhookSecret, text);
const signedWith = (algorithm: string) =>
  `${algorithm}=${createHmac(algorithm, webhookSecret).update(text).digest('hex')}`;
const mismatch = 'The signature does not match. Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub.';

describe('a signature', () => {
  test("of GitHub's published example matches", async () => {
    const published = closing(
      await startReplica(service.database.url, { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" }),
    );
    const example = {
      body: 'Hello, World!',
      headers: {
        'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      },
    };
    // The example is not JSON, so this error means that the signature matched.
    expect(await post(published, delivery, example)).toMatchObject({
      status: 400,
      message: 'The payload is not JSON.',
    });
    expect((await post(published, delivery, { ...example, body: 'Hello, World?' })).status).toBe(401);
    expect((await post(service, delivery, example)).status).toBe(401);
  });

  const bad: [string, Record<string, string | string[] | undefined>][] = [
    ['missing', { 'x-hub-signature-256': undefined }],
    ['empty', { 'x-hub-signature-256': '' }],
    ['only the name of its algorithm', { 'x-hub-signature-256': 'sha256=' }],
    ['one digit short', { 'x-hub-signature-256': whole.slice(0, -1) }],
    ['one digit long', { 'x-hub-signature-256': `${whole}0` }],
    ['half as long', { 'x-hub-signature-256': whole.slice(0, 39) }],
    ['no hexadecimal', { 'x-hub-signature-256': `sha256=${'z'.repeat(64)}` }],
    ['in capitals', { 'x-hub-signature-256': whole.toUpperCase() }],
    ['without its algorithm', { 'x-hub-signature-256': whole.slice(7) }],
    ['SHA-1', { 'x-hub-signature-256': signedWith('sha1') }],
    ['SHA-1 in the old header', { 'x-hub-signature-256': undefined, 'x-hub-signature': signedWith('sha1') }],
    ['SHA-512', { 'x-hub-signature-256': signedWith('sha512') }],
    ['given twice', { 'x-hub-signature-256': [whole, whole] }],
    ['given twice, once right', { 'x-hub-signature-256': [`sha256=${'0'.repeat(64)}`, whole] }],
    ['made with another secret', { 'x-hub-signature-256': signature('another', text) }],
    ['made with an empty secret', { 'x-hub-signature-256': signature('', text) }],
    ['one with a digit changed', { 'x-hub-signature-256': whole.slice(0, -1) + (whole.endsWith('0') ? '1' : '0') }],
    ['10,000 characters', { 'x-hub-signature-256': `sha256=${'a'.repeat(10_000)}` }],
  ];
  test.each(bad)('that is %s is 401 and leaves no row', async (_, headers) => {
    const { status, message } = await post(service, delivery, { headers });
    expect([status, message]).toEqual([401, mismatch]);
    expect(await countRows(service)).toEqual(nothing);
  });

  const bodies: [string, string | Buffer][] = [
    ['with one byte changed', text.replace('opened', 'opener')],
    ['with an extra space', `${text} `],
    ['with a byte order mark', `\ufeff${text}`],
    ['serialised again', JSON.stringify(JSON.parse(text), null, 1)],
    ['with a character written as an escape', text.replace('acme', '\\u0061cme')],
    ['in UTF-16', Buffer.from(text, 'utf16le')],
    ['that is empty', ''],
  ];
  test.each(bodies)('a body %s does not match the signature of the original, and is 401', async (_, body) => {
    const { status } = await post(service, delivery, { body, headers: { 'x-hub-signature-256': whole } });
    expect(status).toBe(401);
    expect(await countRows(service)).toEqual(nothing);
  });

  test('that is wrong is answered after a second if the body is large, so that strangers have little hashed', async () => {
    const begin = performance.now();
    const answered: number[] = [];
    const send = async (bytes: number) => {
      const headers = { 'x-hub-signature-256': whole };
      expect((await post(service, delivery, { body: 'x'.repeat(bytes), headers })).status).toBe(401);
      answered.push(bytes);
    };
    await Promise.all([send(64 * 1024 + 1), send(64 * 1024)]);
    expect(answered).toEqual([64 * 1024, 64 * 1024 + 1]);
    expect(performance.now() - begin).toBeGreaterThan(990);
  });

  test('over the exact bytes is taken, with a byte order mark or odd white space, too', async () => {
    for (const body of [`\ufeff${text}`, JSON.stringify(JSON.parse(text), null, '\t'), Buffer.from(text)]) {
      expect((await post(service, delivery, { body })).status).toBe(202);
    }
  });
});

describe('secrets', () => {
  const [old, fresh] = ['the old secret of acme', 'the new secret of acme'];
  const startWith = async (secrets: string) =>
    closing(await startReplica(service.database.url, { GITHUB_WEBHOOK_SECRET: secrets }));

  test('all webhook secrets are valid while they are listed, and not after', async () => {
    const rotating = await startWith(`${old}, ${fresh} ,`);
    const ping = { event: 'ping' };
    for (const secret of [old, fresh]) expect((await post(rotating, ping, { secret })).status).toBe(200);
    for (const secret of [`${old}, ${fresh} ,`, `${old},${fresh}`, ` ${fresh}`, '', `${fresh}r`]) {
      expect((await post(rotating, ping, { secret })).status).toBe(401);
    }
    const after = await startWith(fresh);
    expect((await post(after, ping, { secret: fresh })).status).toBe(200);
    expect((await post(after, ping, { secret: old })).status).toBe(401);
  });

  describe('secrets of one organisation', () => {
    const claims = (id: number, login: string) => ({
      ...delivery,
      payload: { ...delivery.payload, organization: { id, login } },
    });
    const others = {
      status: 401,
      message: expect.stringContaining('This webhook secret is for another organisation.'),
    };

    beforeAll(async () => {
      await createTenant(service, { login: 'globex', githubId: 2 });
    });

    test("an organisation's secret is valid for its login in any case, and for no other organisation", async () => {
      const restricted = await startWith(`Acme:${old}, globex:${fresh}`);
      expect((await post(restricted, claims(1, 'acme'), { secret: old })).status).toBe(202);
      for (const [claim, secret] of [
        [claims(2, 'globex'), old],
        [claims(2, 'acme'), old],
        [claims(1, 'acme'), fresh],
        [claims(1, 'globex'), fresh],
      ] as const) {
        expect(await post(restricted, claim, { secret })).toMatchObject(others);
      }
      expect(await post(restricted, claims(3, 'acme-3'), { secret: old })).toMatchObject({
        status: 200,
        message: 'Ignored: this organisation is not tracked here.',
      });
      expect(await countRows(service)).toMatchObject({ deliveries: 1, requests: 1 });
    });

    test('several organisations, or all, may share a secret', async () => {
      const shared = await startWith(`acme:${old}, globex:${old}, acme:${fresh}, ${fresh}`);
      for (const secret of [old, fresh]) {
        for (const [id, login] of [
          [1, 'acme'],
          [2, 'globex'],
        ] as const) {
          expect((await post(shared, claims(id, login), { secret })).status).toBe(202);
        }
      }
    });
  });

  describe("an organisation's own address", () => {
    const path = '/webhooks/github/ACME';

    test("the address of an organisation takes what is signed with its secrets, and nothing else's", async () => {
      const own = await startWith(`acme:${old}, acme:${fresh}, globex:${webhookSecret}, a secret for all of them`);
      for (const secret of [old, fresh]) expect((await post(own, delivery, { path, secret })).status).toBe(202);
      for (const secret of [webhookSecret, 'a secret for all of them']) {
        expect(await post(own, delivery, { path, secret })).toMatchObject({
          status: 401,
          message:
            'The signature does not match. Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub, with the login and a colon before it.',
        });
      }
      const strange = await post(own, delivery, { path: '/webhooks/github/nobody', secret: webhookSecret });
      expect(strange).toEqual({
        ...(await post(own, delivery, { path, secret: webhookSecret })),
        headers: expect.anything(),
      });
    });

    test('with more than four secrets, those of organisations are tried at their own addresses only', async () => {
      const many = ['acme', 'globex', 'initech', 'umbrella'].map(login => `${login}:${login} has its own secret`);
      const secret = 'acme has its own secret';
      const few = await startWith([...many].join());
      expect((await post(few, { event: 'ping' }, { secret })).status).toBe(200);
      const more = await startWith([...many, fresh].join());
      expect((await post(more, { event: 'ping' }, { secret: fresh })).status).toBe(200);
      expect((await post(more, { event: 'ping' }, { path, secret })).status).toBe(200);
      expect(await post(more, { event: 'ping' }, { secret })).toMatchObject({
        status: 401,
        message: expect.stringContaining('let the webhook go to /webhooks/github/LOGIN if its secret'),
      });
    });

    test('a path that cannot end with a login is not the address of a webhook', async () => {
      for (const login of ['', 'a/b', 'a%00', 'a'.repeat(101)]) {
        expect((await post(service, delivery, { path: `/webhooks/github/${login}` })).status).toBe(404);
      }
    });
  });

  test('refused deliveries are counted, whatever they are refused for', async () => {
    const before = service.counters.deliveries.refused;
    await post(service, delivery, { secret: 'another' });
    await post(service, delivery, { body: '[]' });
    await post(service, delivery, { headers: { 'content-type': 'text/plain' } });
    await post(service, { event: 'ping' });
    expect(service.counters.deliveries.refused).toBe(before + 3);
  });

  test('a delivery gets 503 if no webhook secret is set', async () => {
    const open = closing(await startReplica(service.database.url, { GITHUB_WEBHOOK_SECRET: '' }));
    for (const secret of ['', 'undefined', webhookSecret]) {
      const { status, message } = await post(open, delivery, { secret });
      expect([status, message]).toEqual([
        503,
        'Webhooks are not configured. Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub.',
      ]);
    }
    expect(await countRows(service)).toEqual(nothing);
  });
});

describe('a content type', () => {
  const wrong = [
    'application/x-www-form-urlencoded',
    'text/plain',
    'text/json',
    'application/jsonp',
    'application/json-patch+json',
    'application/vnd.github+json',
    'application',
    '',
    ' ',
    'json',
    'text/html, application/json',
    'multipart/form-data; x=application/json',
  ];
  test.each(wrong)('of "%s" is 415, before any other check', async type => {
    const form = `payload=${encodeURIComponent(text)}`;
    for (const [body, headers] of [
      [text, {}],
      [form, {}],
      [text, { 'x-hub-signature-256': 'wrong', 'x-github-event': undefined }],
    ] as const) {
      const { status } = await post(service, delivery, { body, headers: { ...headers, 'content-type': type } });
      expect(status).toBe(415);
    }
    expect(await countRows(service)).toEqual(nothing);
  });

  test('a missing content type is 415', async () => {
    expect((await post(service, delivery, { headers: { 'content-type': undefined } })).status).toBe(415);
  });

  test.each([
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
  ])('of %s is accepted', async type => {
    expect((await post(service, { event: 'ping' }, { headers: { 'content-type': type } })).status).toBe(200);
  });
});
