import { createServer } from 'node:net';
import { sql } from 'drizzle-orm';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { organisations } from '../../src/database/schema.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { createClient, type PageBody, type PullRequestBody } from '../support/client.ts';
import { type Fault, htmlError, pointsUsedUp, secondaryLimit } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { type Scene, startScene } from '../support/scene.ts';
import { closing, startReplica } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { setPoints } from '../support/world.ts';
import { post } from '../webhooks/support.ts';

let scene: Scene;
let source: PullRequest;
let id: string;
beforeAll(async () => {
  scene = await startScene();
  scene.github.clock.set(1_790_000_000);
  scene.acme.member('ada');
  source = scene.web.addPullRequest({ title: 'First', createdAt: 1_780_000_000 });
  await scene.applyRules([
    {
      name: 'Size',
      description: '',
      is_enabled: true,
      logic: [{ expression: 'additions > 0', effect: { action: 'ADD', value: 'additions' } }],
    },
  ]);
  await scene.import();
  id = (await stored()).id;
});
afterAll(() => scene.close());
afterEach(async () => {
  scene.github.clearFaults();
  await beginHour();
});

/** GitHub has set no limit, and nobody has used points or waits for a turn. */
async function beginHour(): Promise<void> {
  const { executor } = scene.service.database;
  await executor.execute(sql`delete from github_limits`);
  await executor.update(organisations).set({ pointsUsed: 0, syncLeasedUntil: sql`now()` });
}

async function stored(): Promise<PullRequestBody> {
  const { body } = await scene.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', scene.token);
  const found = body.data.find(({ external_id }) => external_id === String(source.id));
  if (found === undefined) throw new Error('the pull request is not listed');
  return found;
}
const url = () => `/2025-04/pull-requests/${id}/sync`;
const sync = <Body = { message: string }>() => scene.client.put<Body>(url(), scene.token);

test('PUT sync returns the pull request as GitHub has it now, with its new score, using one request', async () => {
  scene.github.clock.advance(60);
  source.edit({ title: 'Second' });
  source.push({ additions: 40, deletions: 2, commits: 3 });
  source.merge();
  const before = await stored();
  const asked = scene.github.count();
  const { status, body } = await sync<{ data: PullRequestBody }>();
  expect(status).toBe(200);
  expect(body).toEqual({
    data: {
      ...before,
      title: 'Second',
      state: 'merged',
      additions: 40,
      deletions: 2,
      commits: 4,
      score: 40,
      score_breakdown: [{ name: 'Size', action: 'ADD', effect: 40, expression: 'additions > 0' }],
    },
  });
  expect(await stored()).toEqual(body.data);
  expect(scene.github.count()).toBe(asked + 1);
});

test('a second PUT sync in a row gives the same reply', async () => {
  const first = await sync();
  expect(await sync()).toEqual({ ...first, headers: expect.anything() });
});

test('thirty PUT syncs at once get the same answer, with at most two requests to GitHub', async () => {
  scene.github.clock.advance(1);
  source.edit({ title: 'Many' });
  const asked = scene.github.count();
  const replies = await Promise.all(Array.from({ length: 30 }, () => sync<{ data: PullRequestBody }>()));
  const expected = await stored();
  expect(expected.title).toBe('Many');
  for (const { status, body } of replies) expect([status, body]).toEqual([200, { data: expected }]);
  expect(scene.github.count() - asked).toBeLessThanOrEqual(2);
});

test('PUT sync finds the pull request by its id after its repository was renamed', async () => {
  scene.github.clock.advance(1);
  scene.web.rename('site');
  const { status, body } = await sync<{ data: PullRequestBody }>();
  expect([status, body.data.id, body.data.url]).toEqual([
    200,
    id,
    `https://github.com/acme/site/pull/${source.number}`,
  ]);
});

describe('a sync while GitHub fails', () => {
  const inAnHour = Math.floor(Date.now() / 1000) + 3_600;
  const json = (body: string): Fault => ({ kind: 'reply', status: 200, body });
  const failures: [string, Fault, number, RegExp][] = [
    ['fails with 500 in HTML', htmlError(500), 502, /status 500\. Try again later\./],
    ['fails with 502 in HTML', htmlError(502), 502, /status 502/],
    ['fails with 503 in HTML', htmlError(503), 502, /status 503/],
    ['answers HTML with 200', { ...htmlError(500), status: 200 }, 502, /is not valid/],
    ['breaks off in the middle', { kind: 'truncate' }, 502, /is not valid/],
    ['resets the connection', { kind: 'reset' }, 502, /connection to GitHub failed/],
    ['answers null', json('null'), 502, /not GraphQL/],
    ['answers without the fields', json('{"data":{"nodes":[{"id":"x"}]}}'), 502, /is not valid/],
    ['answers with too few nodes', json('{"data":{"nodes":[]}}'), 502, /is not valid/],
    [
      'leaves a field out with an error',
      { kind: 'alter', change: reply => ({ ...reply, errors: [{ message: 'boom', path: ['nodes', 0, 'title'] }] }) },
      502,
      /boom/,
    ],
    [
      'redirects to another host',
      { kind: 'redirect', location: 'http://evil.invalid/graphql' },
      502,
      /another address/,
    ],
    [
      'refuses our credentials',
      { kind: 'reply', status: 401, body: { message: 'Bad credentials' } },
      502,
      /GITHUB_TOKEN/,
    ],
    [
      'forbids the request to our credentials',
      { kind: 'reply', status: 403, body: { message: 'No' } },
      502,
      /GITHUB_TOKEN/,
    ],
  ];
  test.each(failures)(
    'if GitHub %s, a sync leaves the row unchanged and says why',
    async (_, fault, status, message) => {
      const before = await stored();
      scene.github.clock.advance(1);
      source.edit({ title: `Unseen ${scene.github.clock.now()}` });
      scene.github.fault(fault, { times: Number.POSITIVE_INFINITY });
      const reply = await sync();
      expect(reply.status).toBe(status);
      expect(reply.body.message).toMatch(message);
      expect(reply.body.message).not.toContain(scene.github.token);
      expect(await stored()).toEqual(before);
      scene.github.clearFaults();
      expect((await sync()).status).toBe(200);
      expect((await stored()).title).toMatch(/^Unseen/);
    },
  );

  const limits: [string, () => Fault, number, number][] = [
    ['for 90 seconds', () => secondaryLimit('90'), 90, 90],
    ['until a date', () => secondaryLimit(new Date(Date.now() + 120_000).toUTCString()), 100, 121],
    ['without a time', () => secondaryLimit(), 60, 60],
    ['by 429', () => secondaryLimit('7', 429), 7, 7],
    ['for an hour, in a reply of 200', () => pointsUsedUp(inAnHour), 3_500, 3_601],
  ];
  test.each(limits)(
    'if GitHub limits its rate %s, a sync gets 503 with that Retry-After and calls no earlier',
    async (_, faultOf, min, max) => {
      const before = await stored();
      scene.github.fault(faultOf());
      const asked = scene.github.count();
      for (let tried = 0; tried < 3; tried += 1) {
        const { status, headers, body } = await sync();
        expect(status).toBe(503);
        expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(min - tried - 1);
        expect(Number(headers['retry-after'])).toBeLessThanOrEqual(max);
        expect(body.message).toMatch(/rate limit is used up/);
      }
      expect(scene.github.count()).toBe(asked + 1);
      expect(await stored()).toEqual(before);
    },
  );

  test('if GitHub does not answer, or only byte by byte, a sync gets 504 within 10 s', async () => {
    const before = await stored();
    scene.github.fault({ kind: 'hang' });
    scene.github.fault({ kind: 'trickle' });
    const asked = scene.github.count();
    const first = sync();
    // The second starts too late to share the request of the first.
    await expect.poll(() => scene.github.count()).toBe(asked + 1);
    const replies = await Promise.all([first, sync()]);
    expect(scene.github.count()).toBe(asked + 2);
    for (const { status, body } of replies) {
      expect([status, body.message]).toEqual([504, 'GitHub did not answer within 8 seconds. Try again later.']);
    }
    expect(await stored()).toEqual(before);
  });

  test('if GitHub is unreachable, or does not speak HTTP, a sync gets 502', async () => {
    const nonsense = createServer(socket =>
      socket
        .resume()
        .on('error', () => undefined)
        .end('SSH-2.0-OpenSSH_9.6\r\n'),
    );
    await new Promise<void>(resolve => nonsense.listen(0, '127.0.0.1', resolve));
    closing({ close: () => new Promise(resolve => nonsense.close(resolve)) });
    const address = nonsense.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    for (const apiUrl of ['http://127.0.0.1:1', `http://127.0.0.1:${port}`, 'http://github.invalid']) {
      const environment = { GITHUB_API_URL: apiUrl, GITHUB_TOKEN: 'ghp_secret' };
      const replica = closing(await startReplica(scene.service.database.url, environment));
      const { status, body } = await (await createClient(replica)).put(url(), scene.token);
      expect([apiUrl, status]).toEqual([apiUrl, 502]);
      expect(body.message).not.toContain('ghp_secret');
    }
  });

  test('if GitHub is not configured, a sync gets a 503 that says what to set', async () => {
    const replica = closing(await startReplica(scene.service.database.url));
    const { status, body } = await (await createClient(replica)).put(url(), scene.token);
    expect(status).toBe(503);
    expect(body.message).toMatch(/GITHUB_TOKEN/);
  });
});

describe("GitHub's points", () => {
  const webhook = async (edited = source.edit({ title: `Edited ${scene.github.clock.now()}` })) => {
    expect((await post(scene.service, edited)).status).toBe(202);
    await scene.workOff();
  };
  const refusal = (why: RegExp) => ({ status: 503, body: { message: expect.stringMatching(why) } });

  test("the syncs of a single organisation may use all of GitHub's points but a twentieth for webhooks", async () => {
    setPoints(scene.github, 40);
    for (let used = 0; used < 38; used += 1) expect((await sync()).status).toBe(200);
    const reply = await sync();
    expect(reply).toMatchObject(
      refusal(/^2 of GitHub's 40 points are left: they are kept for webhooks until \d\d:\d\d UTC\.$/),
    );
    const wait = Number(reply.headers['retry-after']);
    expect(Math.abs((scene.github.limit?.resetAt ?? 0) - Date.now() / 1000 - wait)).toBeLessThan(2);
    expect(scene.github.limit?.remaining).toBe(2);
    scene.github.clock.advance(1);
    await webhook();
    expect((await stored()).title).toBe(`Edited ${scene.github.clock.now()}`);
  });

  test("of shared GitHub points, an organisation's syncs get half, on all replicas, and harm no other", async () => {
    const beta = scene.github.organisation('beta');
    beta.member('bob');
    const other = await createTenant(scene.service, { login: 'beta', githubId: beta.id, nodeId: beta.nodeId });
    const pullRequest = beta.repository('web').openPullRequest({ title: 'Of beta' });
    await post(scene.service, pullRequest.open());
    await scene.workOff();
    const list = () => scene.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', other.token);
    const otherId = (await list()).body.data[0]?.id;
    const environment = { GITHUB_API_URL: scene.github.apiUrl, GITHUB_TOKEN: scene.github.token };
    const replica = closing(await startReplica(scene.service.database.url, environment));
    const clients = [scene.client, await createClient(replica)];
    await beginHour();
    setPoints(scene.github, 40);
    // 38 are not reserved: with the 20th, it has used more than are left of these.
    for (let round = 0; round < 10; round += 1) {
      for (const client of clients) expect((await client.put(url(), scene.token)).status).toBe(200);
    }
    for (const client of clients) {
      const reply = await client.put(url(), scene.token);
      expect(reply).toMatchObject(
        refusal(/^This organisation has used 20 of GitHub's 40 points: .* until \d\d:\d\d UTC\.$/),
      );
      const wait = Number(reply.headers['retry-after']);
      expect(Math.abs((scene.github.limit?.resetAt ?? 0) - Date.now() / 1000 - wait)).toBeLessThan(2);
    }
    expect(scene.github.limit?.remaining).toBe(20);
    for (let tried = 0; tried < 3; tried += 1) {
      const reply = await scene.client.put(`/2025-04/pull-requests/${otherId}/sync`, other.token);
      expect(reply.status).toBe(200);
    }
    scene.github.clock.advance(1);
    await webhook(pullRequest.edit({ title: 'Of beta, too' }));
    expect((await list()).body.data[0]?.title).toBe('Of beta, too');
    expect(await importPullRequests(replica, other.organisation)).toMatchObject({ seen: 1 });
    await webhook();
    expect((await stored()).title).toBe(`Edited ${scene.github.clock.now()}`);
  });
});

describe('a pull request that GitHub no longer shows', () => {
  const gone =
    'GitHub no longer shows this pull request to the configured credentials; the stored copy is unchanged. If the pull request still exists on GitHub, give the credentials access to its repository.';

  test('a sync of a pull request that GitHub no longer shows gets a 404 that says so, and changes nothing', async () => {
    const extra = scene.web.addPullRequest({ title: 'Extra' });
    await scene.import();
    const list = async () =>
      (await scene.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', scene.token)).body.data;
    const before = await list();
    const stale = before.find(({ title }) => title === 'Extra');
    extra.remove();
    const reply = await scene.client.put(`/2025-04/pull-requests/${stale?.id}/sync`, scene.token);
    expect([reply.status, reply.body.message]).toEqual([404, gone]);
    expect(await list()).toEqual(before);
  });

  test('a sync of a pull request whose repository is gone gets a 404 that says so, and changes nothing', async () => {
    const before = await stored();
    scene.web.remove();
    const reply = await sync();
    expect([reply.status, reply.body.message]).toEqual([404, gone]);
    expect(await stored()).toEqual(before);
  });
});
