import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { findOrganisation } from '../../src/database/organisations.ts';
import { applyRuleset } from '../../src/database/rules.ts';
import { createScorer } from '../../src/scorer/scorer.ts';
import { requireBuild, runHere } from '../commands/support.ts';
import { createLatch } from '../support/github/faults.ts';
import { hostileScorer } from '../support/scorer.ts';
import { closing } from '../support/service.ts';
import { createTenant, createToken } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { lockWaits, waitUntil } from '../sync/support.ts';

const file = (value: string) => `rules:
  - name: Base
    logic:
      - expression: 'true'
        effect: { action: ADD, value: '${value}' }
# ::error::not a command
`;

const world = await startWorld();
let token: string;
let address: string;
let folder: string;
let rules: string;
beforeAll(async () => {
  requireBuild();
  const member = world.acme.member('ada');
  for (const title of ['One', '<b>Two</b>', 'Three']) world.web.openPullRequest({ author: member, title });
  await world.import();
  token = await createToken(world.service, world.user, ['rules:read', 'rules:write']);
  address = await world.service.app.listen({ port: 0, host: '127.0.0.1' });
  folder = await mkdtemp(join(tmpdir(), 'pullscore-operator-'));
  rules = join(folder, 'rules.yaml');
  await writeFile(rules, file('5'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

const here = (...words: string[]) =>
  runHere({ DATABASE_URL: world.service.database.url }, ...words, '--organisation', 'acme');
const there = (...words: string[]) => runHere({ PULLSCORE_TOKEN: token }, ...words, '--server', address);
const send = (path: string, { headers = {}, ...options }: RequestInit & { headers?: Record<string, string> } = {}) =>
  fetch(`${address}/operator/${path}`, {
    ...options,
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
const yaml = { 'content-type': 'application/yaml' };
const put = (body: string, headers: Record<string, string>) =>
  send('rules', { method: 'PUT', body, headers: { ...yaml, ...headers } });
const inForce = async () => (await findOrganisation(world.service.database.executor, 'acme'))?.rulesetVersion;

describe('commands with --server', () => {
  const commands: [string, string[]][] = [
    ['rules plan', ['rules', 'plan', 'FILE']],
    ['rules plan in Markdown', ['rules', 'plan', 'FILE', '--format', 'markdown']],
    ['rules audit', ['rules', 'audit', 'FILE']],
    ['rules export', ['rules', 'export']],
    ['standings', ['standings', '--of', 'repositories', '--since', '2020-01-01']],
    ['explain', ['explain', 'acme/web#2']],
  ];
  test.each(commands)('%s prints with --server what it prints beside the database', async (_name, words) => {
    const typed = words.map(word => (word === 'FILE' ? rules : word));
    for (const options of [[], ['--json']]) {
      const [one, other] = await Promise.all([here(...typed, ...options), there(...typed, ...options)]);
      const withoutPlaces = (text: string) => text.replace(/--(organisation acme|server \S+ --if-version \d+)/g, '');
      expect([other.code, withoutPlaces(other.stdout), other.stderr]).toEqual([
        0,
        withoutPlaces(one.stdout),
        one.stderr,
      ]);
    }
  });
});

describe('rules over HTTP', () => {
  test('are applied only if the version that they were planned against is in force', async () => {
    const planned = await inForce();
    expect((await put(file('7'), { 'if-match': `"${planned}"` })).headers.get('etag')).toBe(`"${Number(planned) + 1}"`);
    const late = await put(file('8'), { 'if-match': `"${planned}"` });
    expect([late.status, await late.json()]).toEqual([
      412,
      { message: `Version ${Number(planned) + 1} of the rules is in force, not ${planned}.` },
    ]);
    expect(await inForce()).toBe(Number(planned) + 1);
    const shown = await send('rules');
    expect(shown.headers.get('etag')).toBe(`"${Number(planned) + 1}"`);
    expect(await shown.json()).toMatchObject({ source: file('7') });
    const { stdout } = await here('audit-log', '--json');
    expect(JSON.parse(stdout)).toContainEqual(
      expect.objectContaining({ action: 'rules.apply', actor: world.user.email }),
    );
    const applied = await there('rules', 'apply', rules, '--if-version', String(planned));
    expect([applied.code, applied.stderr]).toEqual([1, expect.stringMatching(/: Version .* Plan the file again\.\n$/)]);
    expect((await there('rules', 'apply', rules, '--if-version', String(Number(planned) + 1))).code).toBe(0);
  });

  test('the ETag of rules is the version of the document beside it, even if others are applied meanwhile', async () => {
    const { database } = world.service;
    await put(file('6'), { 'if-match': '*' });
    const before = await inForce();
    const { source } = (await (await send('rules')).json()) as { source: string };
    const { asked } = await database.transaction(async executor => {
      await executor.execute(sql`lock table rulesets in access exclusive mode`);
      const asking = send('rules');
      await waitUntil(async () => (await lockWaits(world.service)) === 1);
      const rules = { definitions: [], rules: [], source: '# applied meanwhile' };
      await applyRuleset(executor, world.organisation.id, rules);
      return { asked: asking };
    });
    const shown = await asked;
    expect([shown.headers.get('etag'), await shown.json()]).toEqual([
      `"${before}"`,
      expect.objectContaining({ version: before, source }),
    ]);
    expect(await inForce()).toBe(Number(before) + 1);
  });

  test('need If-Match to be applied', async () => {
    expect((await put(file('9'), {})).status).toBe(428);
    for (const wrong of ['7', '"x"', 'W/"1"', '"1", "2"']) {
      expect((await put(file('9'), { 'if-match': wrong })).status).toBe(400);
    }
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
  ];
  test.each(hostile)('a file that %s is refused and changes nothing', async (_what, body, status, headers = yaml) => {
    const before = await inForce();
    for (const [method, path] of [
      ['POST', 'rules/plan'],
      ['POST', 'rules/audit'],
      ['PUT', 'rules'],
    ] as const) {
      const reply = await send(path, { method, body, headers: { ...headers, 'if-match': '*' } });
      expect([path, reply.status, Object.keys((await reply.json()) as object)]).toEqual([path, status, ['message']]);
    }
    expect(await inForce()).toBe(before);
  });

  test('the endpoints for operators ask for scopes of their own', async () => {
    const reader = await createToken(world.service, world.user, ['rules:read']);
    const client = await createToken(world.service, world.user, ['read', 'sync', 'delete']);
    const statusOf = async (by: string, path: string, options: RequestInit = {}) =>
      (await send(path, { ...options, headers: { ...yaml, 'if-match': '"1"', authorization: `Bearer ${by}` } })).status;
    expect(await statusOf(client, 'rules')).toBe(403);
    expect(await statusOf(client, 'standings')).toBe(403);
    expect(await statusOf(reader, 'rules')).toBe(200);
    expect(await statusOf(reader, 'rules', { method: 'PUT', body: file('1') })).toBe(403);
    expect(await statusOf('ps_no', 'rules')).toBe(401);
  });

  test('the endpoints for operators show nothing of another organisation', async () => {
    const other = await createTenant(world.service, { login: 'other', scopes: ['rules:read'] });
    const reply = await send('explanations/acme%2Fweb%232', { headers: { authorization: `Bearer ${other.token}` } });
    expect(reply.status).toBe(404);
    expect((await send('explanations/acme%2Fweb%232')).status).toBe(200);
    expect((await send('explanations/--help')).status).toBe(400);
  });

  test('reads of one organisation wait for one another, and none is refused', async () => {
    const paths = ['standings', 'rules', 'explanations/acme%2Fweb%232', 'standings?of=repositories'];
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
    const app = closing(await buildApp({ ...service, scorer }, { maxEventLoopDelayMs: 0 }));
    const there = await app.listen({ port: 0, host: '127.0.0.1' });
    const post = (path: string, by: string, signal: AbortSignal | null = null) =>
      fetch(`${there}/operator/${path}`, {
        method: 'POST',
        body: file('1'),
        headers: { ...yaml, authorization: `Bearer ${by}` },
        signal,
      });
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

  test.each([
    ['POST', 'rules/plan', 'check'],
    ['POST', 'rules/plan', 'plan'],
    ['POST', 'rules/audit', 'audit'],
    ['PUT', 'rules', 'check'],
    ['GET', 'explanations/acme%2Fweb%231', 'explain'],
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
    const app = closing(await buildApp({ ...service, scorer: { ...service.scorer, run } }, { maxEventLoopDelayMs: 0 }));
    const there = await app.listen({ port: 0, host: '127.0.0.1' });
    const gone = new AbortController();
    const asking = fetch(`${there}/operator/${path}`, {
      method,
      body: method === 'GET' ? null : file('1'),
      headers: { ...(method !== 'GET' && yaml), authorization: `Bearer ${token}`, 'if-match': '*' },
      signal: gone.signal,
    });
    await begun.released;
    gone.abort();
    await expect(asking).rejects.toThrow();
    await ended.released;
  });

  test('processes of the scorer give the same documents as this one', async () => {
    const { service } = world;
    const scorer = closing(createScorer(service.database, service.log, { environment: {} }));
    const app = closing(await buildApp({ ...service, scorer }, { maxEventLoopDelayMs: 0 }));
    const there = await app.listen({ port: 0, host: '127.0.0.1' });
    // Infinite, absent and long values.
    const odd = ['1 / (size - size)', 'hours_to_merge', 'length(body)', 'size']
      .map(file)
      .map((text, index) => (index === 0 ? text : text.replace(/^rules:\n/, '').replace('Base', `Base ${index}`)));
    await put(odd.join(''), { 'if-match': '*' });
    for (const [path, options] of [
      ['explanations/acme%2Fweb%231', {}],
      ['rules/plan?audit=true', { method: 'POST', body: file('7'), headers: yaml }],
      ['rules/audit', { method: 'POST', body: file('size * 2'), headers: yaml }],
    ] as const) {
      const reply = await fetch(`${there}/operator/${path}`, {
        ...options,
        headers: { ...('headers' in options && yaml), authorization: `Bearer ${token}` },
      });
      const document = await reply.json();
      expect([path, reply.status, document]).toEqual([path, 200, await (await send(path, options)).json()]);
    }
  });

  test('a rules file with mistakes is refused with its first one and its line', async () => {
    const messageOf = async (body: string) => {
      const reply = await send('rules/plan', { method: 'POST', body, headers: yaml });
      return ((await reply.json()) as { message: string }).message;
    };
    expect(await messageOf(file('siez'))).toBe(
      'Line 5: Rule "Base", entry 1, value: `siez` is not a known fact; did you mean `size`?',
    );
    expect(await messageOf(`${file('siez')}  - nothing`)).toMatch(/^Line 5: .* The file has 2 problems\.$/);
    const test = 'tests:\n  - { name: ten, pull_request: {}, score: 10 }\n';
    expect(await messageOf(`${file('5')}${test}`)).toBe(
      'Line 8: test "ten" expected 10, but the score is 5 (+5 Base); correct the rules or the test.',
    );
  });

  test.each([
    ['standings?rules=/etc/shadow', 'rules is not a known parameter.'],
    ['standings?csv=true', 'csv is not a known parameter.'],
    ['rules?version=1', 'version is not a known parameter.'],
    ['explanations/acme%2Fweb%231?rules=/etc/shadow', 'rules is not a known parameter.'],
    ['explanations/a%00b', 'pull_request is not valid.'],
  ])('GET /operator/%s is refused', async (path, message) => {
    const reply = await send(path);
    expect([reply.status, await reply.json()]).toEqual([400, { message }]);
  });

  test('the endpoints for operators have a document of their own, and /openapi.json does not list them', async () => {
    const pathsOf = async (document: string) => {
      const { paths } = (await (await fetch(`${address}${document}`)).json()) as { paths: object };
      return Object.keys(paths);
    };
    expect(await pathsOf('/operator/openapi.json')).toEqual([
      '/operator/rules/plan',
      '/operator/rules/audit',
      '/operator/rules',
      '/operator/standings',
      '/operator/explanations/{pull_request}',
    ]);
    const specified = await pathsOf('/openapi.json');
    expect(specified.filter(path => !path.startsWith('/2025-04/'))).toEqual([]);
  });
});

describe('--server', () => {
  const failureOf = async (running: ReturnType<typeof there>) => {
    const { code, stdout } = await running;
    return { exitCode: code, ...JSON.parse(stdout).error };
  };

  test.each([
    ['explain', 'acme/web#99'],
    ['explain', 'pr_01jz8k3v5xe2ksn5q0w4g7h9ab'],
    ['explain', 'elsewhere'],
    ['standings', '--since', '2026-02-30'],
    ['standings', '--since', '2026-02-01', '--until', '2026-01-01'],
    ['rules', 'apply', 'FILE', '--if-version', '0'],
    ['rules', 'plan', '/nonexistent.yaml'],
  ])('%s %s %s fails with --server as it does beside the database', async (...words) => {
    const typed = words.map(word => (word === 'FILE' ? rules : word));
    const [one, other] = [await failureOf(here(...typed, '--json')), await failureOf(there(...typed, '--json'))];
    expect(one.exitCode).not.toBe(0);
    expect(other).toEqual(one);
  });

  test('an error over HTTP is that of the command, as a status and a message', async () => {
    const missing = await send('explanations/acme%2Fweb%2399');
    expect([missing.status, await missing.json()]).toEqual([
      404,
      { message: (await failureOf(here('explain', 'acme/web#99', '--json'))).message },
    ]);
    const period = await send('standings?since=2026-02-01&until=2026-01-01');
    expect([period.status, await period.json()]).toEqual([
      400,
      { message: 'The period begins after it ends: since 2026-02-01 until 2026-01-01.' },
    ]);
  });

  test('a command with --server says which token it needs instead of its own', async () => {
    const ask = (by: string, ...words: string[]) =>
      failureOf(runHere({ PULLSCORE_TOKEN: by }, ...words, '--json', '--server', address));
    expect(await ask('ps_x', 'rules', 'export')).toEqual({
      exitCode: 1,
      code: 'unauthenticated',
      message: 'Unauthenticated. Send a valid token in the header Authorization: Bearer TOKEN.',
      action: expect.stringMatching(/^Set PULLSCORE_TOKEN to a token of the service: pullscore token create /),
    });
    const client = await createToken(world.service, world.user, ['read']);
    expect(await ask(client, 'standings')).toEqual({
      exitCode: 1,
      code: 'forbidden',
      message: 'This action is unauthorized. Use a token with the scope rules:read.',
      action: null,
    });
  });

  test('a command with --server says what is missing or wrong', async () => {
    const ask = (environment: Record<string, string>, ...words: string[]) =>
      runHere(environment, 'rules', 'export', ...words);
    const ways: [Promise<{ code: number; stderr: string }>, number, RegExp][] = [
      [ask({}), 2, /'--organisation <login>' or '--server <url>' not specified/],
      [ask({}, '--server', address), 2, /PULLSCORE_TOKEN is not set/],
      [ask({ PULLSCORE_TOKEN: token }, '--server', 'scores'), 2, /"scores" is not a valid address/],
      [ask({ PULLSCORE_TOKEN: token }, '--server', 'http://127.0.0.1:2'), 1, /can't be asked \(ECONNREFUSED\)/],
      [ask({ PULLSCORE_TOKEN: token }, '--server', `${address}/docs`), 1, / Check --server\.$/m],
    ];
    for (const [ended, code, complaint] of ways) {
      const { code: actual, stderr } = await ended;
      expect([actual, stderr]).toEqual([code, expect.stringMatching(complaint)]);
    }
  });

  test('a command with --server waits for its turn for ten minutes, and then says what to do', async () => {
    let asked = 0;
    let lateBy = 0;
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + lateBy);
    onTestFinished(() => void vi.restoreAllMocks());
    const busy = createServer((_request, response) => {
      asked += 1;
      if (asked > 1) lateBy = 11 * 60_000;
      response.writeHead(429, { 'retry-after': '1' }).end('{"message": "Other files come first."}');
    });
    await once(busy.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void busy.close());
    const { port } = busy.address() as AddressInfo;
    const { code, stdout, stderr } = await runHere(
      { PULLSCORE_TOKEN: token },
      ...['rules', 'plan', rules, '--json', '--server', `http://127.0.0.1:${port}`],
    );
    expect([code, asked]).toEqual([1, 2]);
    const action = 'A command waits for 10 minutes at most. Run it again later.';
    expect(stderr).toBe(`Waiting 1 s: Other files come first.\npullscore: Other files come first. ${action}\n`);
    expect(JSON.parse(stdout).error).toEqual({
      code: 'rate_limited',
      message: 'Other files come first.',
      action,
    });
  });
});
