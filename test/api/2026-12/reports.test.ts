import { sql } from 'drizzle-orm';
import { describe, expect, test } from 'vitest';
import { requestListed } from '../../../src/database/background-requests.ts';
import { addUser } from '../../../src/database/users.ts';
import { formatId, newId } from '../../../src/ids.ts';
import { readStandings } from '../../../src/reports/standings.ts';
import { importPullRequests } from '../../../src/sync/import.ts';
import { rescoreAll } from '../../support/rescore.ts';
import { waitUntilSettled } from '../../support/settled.ts';
import { applyRules, createToken, insertPullRequests } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';
import { lockWaits, rule } from '../../sync/support.ts';

const file = (value: string) => `# kept: ü
rules:
  - name: Base
    logic:
      - expression: 'true'
        effect: { action: ADD, value: '${value}' }
  - name: Merged
    when: merged
    logic:
      - expression: additions >= 0
        effect: { action: ADD, value: '3' }
`;

const world = await startWorld();
const { service, client, executor } = world;
const token = await createToken(service, world.user, ['read', 'rules:read', 'rules:write']);
const reader = await createToken(service, world.user, ['read']);
for (const title of ['One', '<b>Two</b>']) world.web.addPullRequest({ author: world.acme.member('ada'), title });
await world.import();
await world.workOff();

interface Listed {
  data: { id: string }[];
}
const firstOf = async (list: string, by = token) =>
  (await client.get<Listed>(`/2026-12/${list}`, by)).body.data[0]?.id ?? '';
const id = await firstOf('pull-requests');
const member = await firstOf('members');
const scoreAll = () => rescoreAll(service, world.organisation.id);

const yaml = { 'content-type': 'application/yaml' };
const put = (payload: string, headers: Record<string, string>, by = token) =>
  client.put<Record<string, unknown>>('/2026-12/rules/file', by, { payload, headers: { ...yaml, ...headers } });

describe('the rules file in force', () => {
  test('comes back as it was, and its ETag is the version that the next one must match', async () => {
    const first = await client.applyFile(token, file('5'));
    expect(first).toMatchObject({ status: 200, body: { data: { organisation: 'acme', changed: true, rules: 2 } } });
    const etag = String(first.headers.etag);
    expect(await client.get('/2026-12/rules/file', token)).toMatchObject({
      status: 200,
      body: file('5'),
      headers: { etag, 'content-type': 'application/yaml; charset=utf-8' },
    });

    expect(await put(file('6'), {})).toMatchObject({
      status: 428,
      body: { code: 'precondition_required', parameter: 'if-match' },
    });
    for (const version of ['W/"1"', etag.replace('"', '"0'), '1', '"1", "2"']) {
      expect(await put(file('6'), { 'if-match': version })).toMatchObject({
        status: 400,
        body: { code: 'bad_request', parameter: 'if-match' },
      });
    }
    expect((await put(file('6'), { 'if-match': etag })).status).toBe(200);
    expect(await put(file('7'), { 'if-match': etag })).toMatchObject({
      status: 412,
      body: { code: 'precondition_failed', parameter: 'if-match' },
    });
    expect((await put(file('7'), { 'if-match': '*' }, reader)).status).toBe(403);
  });

  test('has another ETag if only its comments differ, so that of two editors the second one is refused', async () => {
    const text = async () => (await client.get<string>('/2026-12/rules/file', token)).body;
    const etag = String((await client.applyFile(token, file('5'))).headers.etag);
    const first = await put(`# Ada's reason\n${file('5')}`, { 'if-match': etag });
    expect(first).toMatchObject({ status: 200, body: { data: { changed: false, source_changed: true } } });
    expect(first.headers.etag).not.toBe(etag);
    expect((await put(`# Bob's reason\n${file('5')}`, { 'if-match': etag })).status).toBe(412);
    expect(await text()).toBe(`# Ada's reason\n${file('5')}`);
    const again = await put(await text(), { 'if-match': String(first.headers.etag) });
    expect(again.headers.etag).toBe(first.headers.etag);
    expect(again.body).toMatchObject({ data: { changed: false, source_changed: false } });
  });
});

test('plans and audits need the scope rules:read', async () => {
  for (const name of ['plan', 'audit']) {
    const sent = { payload: file('1'), headers: yaml };
    const { status } = await client.send('POST', `/2026-12/rules/${name}`, reader, sent);
    expect([name, status]).toEqual([name, 403]);
  }
});

test('the explanation and the scores of a pull request of nobody are 404, of one of another organisation 403', async () => {
  const other = await world.newTenant();
  for (const below of ['explanation', 'scores']) {
    const absent = `/2026-12/pull-requests/${formatId('pr', newId())}/${below}`;
    expect((await client.get(absent, token)).status).toBe(404);
    expect((await client.get(`/2026-12/pull-requests/acme/${below}`, token)).status).toBe(404);
    expect((await client.get(`/2026-12/pull-requests/${id}/${below}`, other.token)).status).toBe(403);
  }
});

describe('standings', () => {
  test('show the row of one member with the rank among all, and rules for as many rows as fit', async () => {
    const tenant = await world.newTenant();
    const repository = tenant.acme.repository('web');
    for (const [login, count] of Object.entries({ bob: 1, cyd: 2 })) {
      const author = tenant.acme.member(`${login}-of-two`);
      for (let title = 0; title < count; title += 1) repository.addPullRequest({ author, title: String(title) });
    }
    await importPullRequests(service, tenant.organisation);
    const writer = await createToken(service, tenant.user, ['read', 'rules:write']);
    await client.applyFile(writer, file('5'));
    await rescoreAll(service, tenant.organisation.id);
    interface Body {
      data: { standings: { id: string }[] };
    }
    const all = await client.get<Body>('/2026-12/standings?by_rule=true', writer);
    const [first, second] = all.body.data.standings;
    expect(all.body.data).toMatchObject({
      ranked: 2,
      rules: [{ name: 'Base', score: 15, share: 1 }],
      standings: [
        { rank: 1, login: 'cyd-of-two', score: 10, rules: [{ name: 'Base', score: 10, share: 1 }] },
        { rank: 2, login: 'bob-of-two', score: 5, rules: [{ name: 'Base', score: 5, share: 1 }] },
      ],
    });
    const only = await client.get<Body>(`/2026-12/standings?by_rule=true&member=${second?.id}`, writer);
    expect(only.body.data).toEqual({ ...all.body.data, rules: undefined, standings: [second] });
    const query = { by: 'created', of: 'members' } as const;
    const options = { withRules: true, maxRuleBytes: 100 };
    const bounded = await readStandings(service.database, tenant.organisation.id, query, options);
    expect(bounded).toMatchObject({ rules: [{ score: 15 }], standings: [{ rules: [{ score: 10 }] }, { score: 5 }] });
    expect(bounded.standings[1]).not.toHaveProperty('rules');
    const ask = (query: string, by = writer) => client.get(`/2026-12/standings?member=${query}`, by);
    expect(await ask('mem_unknown')).toMatchObject({ status: 404, body: { parameter: 'member' } });
    expect(await ask(`${first?.id}`, reader)).toMatchObject({ status: 403, body: { parameter: 'member' } });
    expect(await ask(`${first?.id}&of=repositories`)).toMatchObject({ status: 400, body: { parameter: 'member' } });
  });

  test.each([
    ['since=yesterday', 'since'],
    ['since=2026-02-30', 'since'],
    ['since=2026-10-02&until=2026-10-01', 'since'],
    ['by=updated', 'by'],
    ['of=teams', 'of'],
    ['by_rule=1', 'by_rule'],
    ['by_rule=', 'by_rule'],
    ['of=members&of=members', 'of'],
    ['rules=/etc/shadow', 'rules'],
  ])('refuse ?%s, and blame %s', async (query, parameter) => {
    const { status, body } = await client.get(`/2026-12/standings?${query}`, reader);
    expect([status, body]).toMatchObject([400, { code: 'bad_request', parameter }]);
  });
});

test('every list has an ETag, which stands for it until something changes', async () => {
  const ofMember = ['pull-requests', 'weeks'].map(below => `members/${member}/${below}`);
  const ofRules = ['rules', 'rules/versions'];
  const lists = ['pull-requests', `pull-requests/${id}/scores`, 'changes', ...ofMember, ...ofRules, 'members', 'users'];
  const ask = (list: string, tag = '') => client.get(`/2026-12/${list}`, token, { headers: { 'if-none-match': tag } });
  await client.applyFile(token, file('5'));
  await scoreAll();
  await waitUntilSettled(service.database);

  const tags = new Map<string, string>();
  for (const list of lists) {
    const { status, headers } = await ask(list);
    const expected = { etag: expect.any(String), 'cache-control': 'private, no-cache' };
    expect([list, status, headers]).toMatchObject([list, 200, expected]);
    tags.set(list, String(headers.etag));
  }
  const statuses = () =>
    Promise.all(lists.map(async list => [list, (await ask(list, tags.get(list))).status] as const));
  expect(await statuses()).toEqual(lists.map(list => [list, 304]));

  await client.applyFile(token, file('17'));
  await scoreAll();
  world.web.addPullRequest({ author: world.acme.member('bert') });
  await world.import();
  const organisationId = world.organisation.id;
  await addUser(executor, { organisationId, name: 'New', email: 'new@acme.example', photoUrl: '' });
  await waitUntilSettled(service.database);
  expect(await statuses()).toEqual(lists.map(list => [list, 200]));
});

test('the rules of another organisation have another ETag, also if their version is the same', async () => {
  const tags = new Set();
  for (const effect of ['5', '6']) {
    const { organisation, token: other } = await world.newTenant();
    await applyRules(service, organisation.id, { rules: [rule(effect)] });
    tags.add((await client.get('/2026-12/rules', other)).headers.etag);
  }
  expect(tags.size).toBe(2);
});

test('the account says what its token allows and when it ends, also one that is rotated', async () => {
  const endsAt = async (given: string) => (await client.get('/2026-12/account', given)).body;
  expect(await endsAt(token)).toMatchObject({
    data: { organisation: 'acme', scopes: ['read', 'rules:read', 'rules:write'], expires_at: null },
  });
  await executor.execute(
    sql`update access_tokens set expires_at = '2100-01-02Z', revoked_at = '2100-01-01Z' where scopes = array['read']`,
  );
  const firstOf2100 = Date.UTC(2100, 0, 1) / 1000;
  expect(await endsAt(reader)).toMatchObject({ data: { scopes: ['read'], expires_at: firstOf2100 } });
});

test.each(['standings?by_rule=true', 'members/ID/weeks'])(
  '%s ends in PostgreSQL when its client leaves',
  async path => {
    const { app } = await world.replica();
    const address = await app.listen({ port: 0, host: '127.0.0.1' });
    const gone = new AbortController();
    await service.database.transaction(async executor => {
      await executor.execute(sql`lock table pull_requests in access exclusive mode`);
      const reading = fetch(`${address}/2026-12/${path.replace('ID', member)}`, {
        headers: { authorization: `Bearer ${token}` },
        signal: gone.signal,
      });
      await expect.poll(() => lockWaits(service)).toBe(1);
      gone.abort();
      await expect(reading).rejects.toThrow();
      await expect.poll(() => lockWaits(service)).toBe(0);
    });
  },
);

test('the weeks of a member are UTC and begin on Monday', async () => {
  const tenant = await world.newTenant();
  const times = ['2026-11-15T23:59:59Z', '2026-11-16T00:00:00Z', '2026-11-22T23:59:59Z', '2026-11-23T00:00:00Z'];
  const seconds = times.map(time => Date.parse(time) / 1000);
  await insertPullRequests(service, tenant, seconds);
  const path = `/2026-12/members/${await firstOf('members', tenant.token)}/weeks`;
  const weeks = async (query: string) => (await client.get(path + query, tenant.token)).body;
  const zeros = { score: 0, reviews: 0, review_score: 0, total: 0 };
  const [first, second, third] = [
    { week: '2026-11-09', pull_requests: 1, ...zeros },
    { week: '2026-11-16', pull_requests: 2, ...zeros },
    { week: '2026-11-23', pull_requests: 1, ...zeros },
  ];
  expect(await weeks('')).toEqual({ data: [first, second, third] });
  expect(await weeks('?since=2026-11-16&until=2026-11-22')).toEqual({ data: [second] });
  expect(await weeks('?by=merged')).toEqual({ data: [] });
  expect(await weeks('?since=2026-02-30')).toMatchObject({ code: 'bad_request', parameter: 'since' });
  expect((await client.get(path, token)).status).toBe(403);
});

test('the health of an organisation says what waits and what fails, to tokens that may sync', async () => {
  const tenant = await world.newTenant();
  const syncer = await createToken(service, tenant.user, ['sync']);
  const health = async (given: string) => (await client.get<{ data: object }>('/2026-12/health', given)).body;
  expect(await health(syncer)).toMatchObject({
    data: { waiting: 0, overdue_seconds: 0, failing: 0, parked: 0, outdated: 0, failures: [] },
  });
  await requestListed(executor, tenant.organisation.id, [
    { githubId: 1, nodeId: 'PR_1', sourceUpdatedAt: 1_790_000_000 },
    { githubId: 2, nodeId: 'PR_2', sourceUpdatedAt: 1_790_000_000 },
  ]);
  await executor.execute(sql`
    update sync_requests set last_error = 'GitHub answers 502.', attempts = 8, due_at = null
    where organisation_id = ${tenant.organisation.id} and node_id = 'PR_1'`);
  await executor.execute(sql`
    update sync_requests set due_at = now() - interval '1 hour'
    where organisation_id = ${tenant.organisation.id} and node_id = 'PR_2'`);
  const due = await health(syncer);
  expect(Math.abs((due as { data: { overdue_seconds: number } }).data.overdue_seconds - 3_600)).toBeLessThan(60);
  expect(due).toMatchObject({
    data: {
      ...{ waiting: 2, failing: 1, parked: 1 },
      failures: [{ attempts: 8, reason: 'GitHub answers 502.', parked: true, due_at: null }],
    },
  });
  expect(await health(reader)).toMatchObject({ code: 'forbidden' });
});

test('the versions of the rules say when each was applied, and by whom', async () => {
  await client.applyFile(token, file('5'));
  const { version } = (await client.applyFile(token, file('18'))).body.data as { version: number };
  const { body } = await client.get<{ data: object[] }>('/2026-12/rules/versions', reader);
  expect(body.data.slice(0, 2)).toEqual([
    expect.objectContaining({ version, applied_by: world.user.email, suspended_at: null }),
    expect.objectContaining({ version: version - 1 }),
  ]);
});
