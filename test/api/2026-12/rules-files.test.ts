import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { expect, onTestFinished, test, vi } from 'vitest';
import { buildApp } from '../../../src/app.ts';
import { findOrganisation } from '../../../src/database/organisations.ts';
import { applyRuleset } from '../../../src/database/rules.ts';
import { createScorer } from '../../../src/scorer/scorer.ts';
import { createLatch } from '../../support/github/faults.ts';
import { hostileScorer } from '../../support/scorer.ts';
import { closing, type Service } from '../../support/service.ts';
import { createTenant, createToken } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';
import { lockWaits, waitUntil } from '../../sync/support.ts';

const file = (value: string) => `rules:
  - name: Base
    logic:
      - expression: 'true'
        effect: { action: ADD, value: '${value}' }
`;

const scopes = ['read', 'rules:read', 'rules:write'];
const world = await startWorld();
const token = await createToken(world.service, world.user, scopes);
const address = await world.service.app.listen({ port: 0, host: '127.0.0.1' });
const author = world.acme.member('ada');
for (const title of ['One', '<b>Two</b>', 'Three']) world.web.openPullRequest({ author, title });
await world.import();
const id = (await world.listed())[0]?.id ?? '';

interface Sent extends RequestInit {
  headers?: Record<string, string>;
  /** The address of another service. */
  to?: string;
}
const send = (path: string, { headers = {}, to = address, ...options }: Sent = {}) =>
  fetch(`${to}/2026-12/${path}`, { ...options, headers: { authorization: `Bearer ${token}`, ...headers } });

/** Another service, with this scorer. @returns its address */
async function startWith(scorer: Service['scorer']): Promise<string> {
  const app = closing(await buildApp({ ...world.service, scorer }, { maxEventLoopDelayMs: 0 }));
  return app.listen({ port: 0, host: '127.0.0.1' });
}
const yaml = { 'content-type': 'application/yaml' };
const put = (body: string, headers: Record<string, string>) =>
  send('rules/file', { method: 'PUT', body, headers: { ...yaml, ...headers } });
const inForce = async () => (await findOrganisation(world.service.database.executor, 'acme'))?.rulesetVersion;

test('the ETag of the rules file is the version of the text beside it, even if others are applied meanwhile', async () => {
  const { database } = world.service;
  await put(file('6'), { 'if-match': '*' });
  const before = await inForce();
  const source = await (await send('rules/file')).text();
  const { asked } = await database.transaction(async executor => {
    await executor.execute(sql`lock table rulesets in access exclusive mode`);
    const asking = send('rules/file');
    await waitUntil(async () => (await lockWaits(world.service)) === 1);
    const rules = { definitions: [], reviews: [], rules: [], source: '# applied meanwhile' };
    await applyRuleset(executor, world.organisation.id, rules);
    return { asked: asking };
  });
  const shown = await asked;
  expect([shown.headers.get('etag'), await shown.text()]).toEqual([`"${before}"`, source]);
  expect(await inForce()).toBe(Number(before) + 1);
});

const hostile: [string, string | Buffer, number, Record<string, string>?][] = [
  ['is not YAML', 'rules: [', 400],
  ['is empty', '', 400],
  ['has control characters', 'rules: "\u0007"', 400],
  ['nests 5,000 lists', '['.repeat(5_000), 400],
  ['is not UTF-8', Buffer.from([0x72, 0xff, 0xfe]), 400],
  ['has unknown functions', file('require("fs")'.replaceAll('"', '')), 400],
  ['has more than 2 MB', `# ${'x'.repeat(2_000_000)}`, 413],
  ['is sent as JSON', '{}', 415, { 'content-type': 'application/json' }],
  ['is in another charset', file('1'), 415, { 'content-type': 'application/yaml; charset=iso-8859-1' }],
  ['is compressed', file('1'), 415, { ...yaml, 'content-encoding': 'gzip' }],
];
test.each(hostile)('a file that %s is refused and changes nothing', async (_what, body, status, headers = yaml) => {
  const before = await inForce();
  for (const [method, path] of [
    ['POST', 'rules/plan'],
    ['POST', 'rules/audit'],
    ['PUT', 'rules/file'],
  ] as const) {
    const reply = await send(path, { method, body, headers: { ...headers, 'if-match': '*' } });
    expect([path, reply.status]).toEqual([path, status]);
  }
  expect(await inForce()).toBe(before);
});

test('reads of one organisation wait for one another, and none is refused', async () => {
  const paths = ['standings', 'rules/file', `pull-requests/${id}/explanation`, 'standings?of=repositories'];
  const replies = await Promise.all([...paths, ...paths, ...paths].map(path => send(path)));
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
});

test('an organisation has one rules file under way at a time, and waits for those of others', async () => {
  const others = await Promise.all(
    ['second', 'third', 'fourth'].map(login => createTenant(world.service, { login, scopes: ['rules:read'] })),
  );
  const tokens = [token, token, ...others.map(each => each.token)];
  const plan = (by: string) =>
    send('rules/plan', { method: 'POST', body: file('1'), headers: { ...yaml, authorization: `Bearer ${by}` } });
  const replies = await Promise.all(tokens.map(plan));
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 429]);
  expect(replies.find(({ status }) => status === 429)?.headers.get('retry-after')).toBe('5');
  expect((await plan(token)).status).toBe(200);
});

test('a client that leaves ends its audit, and the next one has its place', async () => {
  const { service } = world;
  // Audits never end here, and there are two places.
  const scorer = closing(hostileScorer(service.database, service.log));
  const to = await startWith(scorer);
  const post = (path: string, by: string, signal: AbortSignal | null = null) =>
    send(path, { to, method: 'POST', body: file('1'), headers: { ...yaml, authorization: `Bearer ${by}` }, signal });
  const run = vi.spyOn(scorer, 'run');
  onTestFinished(() => run.mockRestore());
  const audits = () => run.mock.calls.filter(([kind]) => kind === 'audit');
  for (const left of [1, 2, 3]) {
    const tenant = await createTenant(service, { scopes: ['rules:read'] });
    const gone = new AbortController();
    const auditing = post('rules/audit', tenant.token, gone.signal);
    await vi.waitFor(() => expect(audits()).toHaveLength(left), { timeout: 200_000 });
    gone.abort();
    await expect(auditing).rejects.toThrow();
  }
  expect((await post('rules/plan', token)).status).toBe(200);
}, 240_000);

test('a plan may take minutes', async () => {
  const { service } = world;
  const run = (async (...job) => {
    await delay(500);
    return service.scorer.run(...job);
  }) as typeof service.scorer.run;
  const app = closing(await buildApp({ ...service, scorer: { ...service.scorer, run } }));
  // As if it took 500 seconds.
  app.server.timeout /= 1_000;
  const to = await app.listen({ port: 0, host: '127.0.0.1' });
  expect((await send('rules/plan', { to, method: 'POST', body: file('1'), headers: yaml })).status).toBe(200);
});

test.each([
  ['POST', 'rules/plan', 'check'],
  ['POST', 'rules/plan', 'plan'],
  ['POST', 'rules/audit', 'audit'],
  ['PUT', 'rules/file', 'check'],
  ['GET', 'pull-requests/ID/explanation', 'explain'],
])('a client that leaves %s %s ends its job to %s', async (method, path, job) => {
  const { service } = world;
  const [begun, ended] = [createLatch(), createLatch()];
  const run = ((kind, input, options) => {
    if (kind !== job) return service.scorer.run(kind, input, options);
    begun.release();
    return new Promise((_, reject) =>
      options?.signal?.addEventListener('abort', () => {
        ended.release();
        reject(options.signal?.reason);
      }),
    );
  }) as typeof service.scorer.run;
  const to = await startWith({ ...service.scorer, run });
  const gone = new AbortController();
  const sent = method === 'GET' ? {} : { body: file('1'), headers: { ...yaml, 'if-match': '*' } };
  const asking = send(path.replace('ID', id), { to, method, ...sent, signal: gone.signal });
  await begun.released;
  gone.abort();
  await expect(asking).rejects.toThrow();
  await ended.released;
});

test('processes of the scorer give the same documents as this one', async () => {
  const { service } = world;
  const scorer = closing(createScorer(service.database, service.log, { environment: {} }));
  const to = await startWith(scorer);
  // Infinite, absent and long values.
  const odd = ['1 / (size - size)', 'hours_to_merge', 'length(body)', 'size']
    .map(file)
    .map((text, index) => (index === 0 ? text : text.replace(/^rules:\n/, '').replace('Base', `Base ${index}`)));
  await put(odd.join(''), { 'if-match': '*' });
  for (const [path, options] of [
    [`pull-requests/${id}/explanation`, {}],
    ['rules/plan?audit=true', { method: 'POST', body: file('7'), headers: yaml }],
    ['rules/audit', { method: 'POST', body: file('size * 2'), headers: yaml }],
  ] as const) {
    const reply = await send(path, { ...options, to });
    const document = await reply.json();
    expect([path, reply.status, document]).toEqual([path, 200, await (await send(path, options)).json()]);
  }
});

test('a rules file with mistakes is refused with the first one, its line, and a list of all', async () => {
  const problemsOf = async (body: string) => {
    const reply = await send('rules/plan', { method: 'POST', body, headers: yaml });
    return (await reply.json()) as { message: string; problems?: { line: number; message: string }[] };
  };
  const messageOf = async (body: string) => (await problemsOf(body)).message;
  expect(await messageOf(file('siez'))).toBe(
    'Line 5: Rule "Base", entry 1, value: `siez` is not a known fact; did you mean `size`?',
  );
  expect(await messageOf(`${file('siez')}  - nothing`)).toMatch(/^Line 5: .* The file has 2 problems\.$/);
  expect((await problemsOf(`${file('siez')}  - nothing`)).problems).toEqual([
    { line: 5, message: expect.stringContaining('`siez` is not a known fact') },
    { line: 6, message: /^Rule 2 must be a map/ },
  ]);
  const test = 'tests:\n  - { name: ten, pull_request: {}, score: 10 }\n';
  expect(await messageOf(`${file('5')}${test}`)).toBe(
    'Line 7: test "ten" expected 10, but the score is 5 (+5 Base); correct the rules or the test.',
  );
});
