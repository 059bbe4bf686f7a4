import { sql } from 'drizzle-orm';
import { afterEach, describe, expect, test } from 'vitest';
import { organisations } from '../../src/database/schema.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import type { PullRequestBody } from '../support/client.ts';
import { addingErrors, type Fault, htmlError, pointsUsedUp, secondaryLimit } from '../support/github/faults.ts';
import { closing, startReplica } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { setPoints, startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';
import { post } from '../webhooks/support.ts';

const world = await startWorld();
const { executor } = world;
world.github.clock.set(1_790_000_000);
world.acme.member('ada');
const source = world.web.addPullRequest({ title: 'First', createdAt: 1_780_000_000 });
await world.applyRules([rule('additions', 'additions > 0', 'Size')]);
await world.import();
const stored = () => world.find(source);
const { id } = await stored();
afterEach(beginHour);

/** GitHub has set no limit, and nobody has used points or waits for a turn. */
async function beginHour(): Promise<void> {
  await executor.execute(sql`delete from github_limits`);
  await executor.update(organisations).set({ pointsUsed: 0, syncLeasedUntil: sql`now()` });
}

const url = `/2025-04/pull-requests/${id}/sync`;
const sync = <Body = { message: string }>() => world.client.put<Body>(url, world.token);

test('PUT sync returns the pull request as GitHub has it now, with its new score, using one request', async () => {
  world.github.clock.advance(60);
  source.edit({ title: 'Second' });
  source.push({ additions: 40, deletions: 2, commits: 3 });
  source.merge();
  const before = await stored();
  const asked = world.github.count();
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
  expect(world.github.count()).toBe(asked + 1);
});

test('a second PUT sync in a row gives the same reply', async () => {
  const first = await sync();
  expect(await sync()).toEqual({ ...first, headers: expect.anything() });
});

test('thirty PUT syncs of both versions at once get one answer, with at most two requests to GitHub', async () => {
  world.github.clock.advance(1);
  source.edit({ title: 'Many' });
  const asked = world.github.count();
  const versions = Array.from({ length: 30 }, (_, index) => (index % 2 === 0 ? '2025-04' : '2026-12'));
  const replies = await Promise.all(
    versions.map(version =>
      world.client.put<{ data: PullRequestBody }>(`/${version}/pull-requests/${id}/sync`, world.token),
    ),
  );
  expect(world.github.count() - asked).toBeLessThanOrEqual(2);
  const { links: _, ...expected } = await stored();
  expect(expected.title).toBe('Many');
  for (const reply of replies) expect(reply).toMatchObject({ status: 200, body: { data: expected } });
});

test('PUT sync finds the pull request by its id after its repository was renamed', async () => {
  world.github.clock.advance(1);
  world.web.rename('site');
  const { status, body } = await sync<{ data: PullRequestBody }>();
  const renamed = `https://github.com/acme/site/pull/${source.number}`;
  expect([status, body.data.id, body.data.url]).toEqual([200, id, renamed]);
});

describe('a sync while GitHub fails', () => {
  const inAnHour = Math.floor(Date.now() / 1000) + 3_600;
  const json = (body: string): Fault => ({ kind: 'reply', status: 200, body });
  const failures: [string, Fault, RegExp][] = [
    ['fails with 500 in HTML', htmlError(500), /status 500\. Try again later\./],
    ['answers HTML with 200', { ...htmlError(500), status: 200 }, /is not valid/],
    ['resets the connection', { kind: 'reset' }, /connection to GitHub failed/],
    ['answers without the fields', json('{"data":{"nodes":[{"id":"x"}]}}'), /is not valid/],
    ['leaves a field out with an error', addingErrors({ message: 'boom', path: ['nodes', 0, 'title'] }), /boom/],
    ['refuses our credentials', { kind: 'reply', status: 401, body: { message: 'Bad credentials' } }, /GITHUB_TOKEN/],
  ];
  test.each(failures)('if GitHub %s, a sync leaves the row unchanged and says why', async (_, fault, message) => {
    const before = await stored();
    world.github.clock.advance(1);
    source.edit({ title: `Unseen ${world.github.clock.now()}` });
    world.github.fault(fault, { times: Number.POSITIVE_INFINITY });
    const reply = await sync();
    expect(reply.status).toBe(502);
    expect(reply.body.message).toMatch(message);
    expect(reply.body.message).not.toContain(world.github.token);
    expect(await stored()).toEqual(before);
    world.github.clearFaults();
    expect((await sync()).status).toBe(200);
    expect((await stored()).title).toMatch(/^Unseen/);
  });

  const limits: [string, () => Fault, number, number][] = [
    ['for 90 seconds', () => secondaryLimit('90'), 90, 90],
    ['without a time', () => secondaryLimit(), 60, 60],
    ['for an hour, in a reply of 200', () => pointsUsedUp(inAnHour), 3_500, 3_601],
  ];
  test.each(limits)(
    'if GitHub limits its rate %s, a sync gets 503 with that Retry-After and calls no earlier',
    async (_, faultOf, min, max) => {
      const before = await stored();
      world.github.fault(faultOf());
      const asked = world.github.count();
      for (let tried = 0; tried < 3; tried += 1) {
        const { status, headers, body } = await sync();
        expect(status).toBe(503);
        expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(min - tried - 1);
        expect(Number(headers['retry-after'])).toBeLessThanOrEqual(max);
        expect(body.message).toMatch(/rate limit is used up/);
      }
      expect(world.github.count()).toBe(asked + 1);
      expect(await stored()).toEqual(before);
    },
  );

  test('if GitHub does not answer, or only byte by byte, a sync gets 504 within 10 s', async () => {
    const before = await stored();
    world.github.fault({ kind: 'hang' });
    world.github.fault({ kind: 'trickle' });
    const asked = world.github.count();
    const first = sync();
    // The second starts too late to share the request of the first.
    await expect.poll(() => world.github.count()).toBe(asked + 1);
    const replies = await Promise.all([first, sync()]);
    expect(world.github.count()).toBe(asked + 2);
    // The second has waited for the first.
    expect(replies.map(({ status, body }) => [status, body.message])).toEqual([
      [504, 'GitHub did not answer within 8 seconds. Try again later.'],
      [504, 'GitHub did not answer in time. Try again later.'],
    ]);
    expect(await stored()).toEqual(before);
  });

  test('if GitHub is not configured, a sync gets a 503 that says what to set', async () => {
    const replica = closing(await startReplica(world.service.database.url));
    const { status, body } = await replica.client.put(url, world.token);
    expect(status).toBe(503);
    expect(body.message).toMatch(/GITHUB_TOKEN/);
  });
});

describe("GitHub's points", () => {
  const webhook = async (edited = source.edit({ title: `Edited ${world.github.clock.now()}` })) => {
    expect((await post(world.service, edited)).status).toBe(202);
    await world.workOff();
  };
  const refusal = (why: RegExp) => ({ status: 503, body: { message: expect.stringMatching(why) } });

  test("the syncs of a single organisation may use all of GitHub's points but a twentieth for webhooks", async () => {
    setPoints(world.github, 40);
    for (let used = 0; used < 38; used += 1) expect((await sync()).status).toBe(200);
    const reply = await sync();
    expect(reply).toMatchObject(
      refusal(/^2 of GitHub's 40 points are left: they are kept for webhooks until \d\d:\d\d UTC\.$/),
    );
    const wait = Number(reply.headers['retry-after']);
    expect(Math.abs((world.github.limit?.resetAt ?? 0) - Date.now() / 1000 - wait)).toBeLessThan(2);
    expect(world.github.limit?.remaining).toBe(2);
    world.github.clock.advance(1);
    await webhook();
    expect((await stored()).title).toBe(`Edited ${world.github.clock.now()}`);
  });

  test("an organisation's syncs get half of shared GitHub points, on all replicas, and leave the rest to others", async () => {
    const beta = world.github.organisation('beta');
    beta.member('bob');
    const other = await createTenant(world.service, { login: 'beta', githubId: beta.id, nodeId: beta.nodeId });
    const pullRequest = beta.repository('web').openPullRequest({ title: 'Of beta' });
    await post(world.service, pullRequest.open());
    await world.workOff();
    const otherId = (await world.listed(other.token))[0]?.id;
    const replica = await world.replica();
    const clients = [world.client, replica.client];
    await beginHour();
    setPoints(world.github, 20);
    // 19 are not reserved: with the 10th, it has used more than are left of these.
    for (let round = 0; round < 5; round += 1) {
      for (const client of clients) expect((await client.put(url, world.token)).status).toBe(200);
    }
    for (const client of clients) {
      const reply = await client.put(url, world.token);
      expect(reply).toMatchObject(
        refusal(/^This organisation has used 10 of GitHub's 20 points: .* until \d\d:\d\d UTC\.$/),
      );
      const wait = Number(reply.headers['retry-after']);
      expect(Math.abs((world.github.limit?.resetAt ?? 0) - Date.now() / 1000 - wait)).toBeLessThan(2);
    }
    expect(world.github.limit?.remaining).toBe(10);
    for (let tried = 0; tried < 3; tried += 1) {
      const reply = await world.client.put(`/2025-04/pull-requests/${otherId}/sync`, other.token);
      expect(reply.status).toBe(200);
    }
    world.github.clock.advance(1);
    await webhook(pullRequest.edit({ title: 'Of beta, too' }));
    expect((await world.listed(other.token))[0]?.title).toBe('Of beta, too');
    expect(await importPullRequests(replica, other.organisation)).toMatchObject({ seen: 1 });
    await webhook();
    expect((await stored()).title).toBe(`Edited ${world.github.clock.now()}`);
  });
});

const gone =
  'GitHub no longer shows this pull request to the configured credentials; the stored copy is unchanged. If the pull request still exists on GitHub, give the credentials access to its repository.';

test.each(['pull request', 'repository'])(
  'a sync of a pull request whose %s is gone on GitHub gets a 404 that says so, and changes nothing',
  async what => {
    const extra = world.web.addPullRequest();
    await world.import();
    const before = await world.listed();
    const { id } = await world.find(extra);
    (what === 'repository' ? world.web : extra).remove();
    const reply = await world.client.put(`/2025-04/pull-requests/${id}/sync`, world.token);
    expect([reply.status, reply.body.message]).toEqual([404, gone]);
    expect(await world.listed()).toEqual(before);
  },
);
