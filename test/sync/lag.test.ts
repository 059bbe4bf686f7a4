import { sql } from 'drizzle-orm';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { requestListed, requestRefetchesWith } from '../../src/database/background-requests.ts';
import { syncRequests, webhookDeliveries } from '../../src/database/schema.ts';
import { drawTicket } from '../../src/database/tickets.ts';
import { earlier } from '../support/citus.ts';
import { reviewCommentEvent, type WebhookEvent } from '../support/github/events.ts';
import { htmlError } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import type { Repository } from '../support/github/repository.ts';
import { openClient } from '../support/service.ts';
import { countReads, deliver as deliverTo, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service, executor } = world;
afterEach(async () => {
  await executor.delete(syncRequests);
  await executor.delete(webhookDeliveries);
  service.complaints.length = 0;
});

let tenant: SyncTenant;
let web: Repository;
beforeEach(async () => {
  tenant = await world.newTenant();
  web = tenant.web;
  world.github.clock.advance(60);
});

const deliver = (...events: (WebhookEvent | undefined)[]) => deliverTo(service, ...events);

async function deliverAndSync(...events: (WebhookEvent | undefined)[]): Promise<void> {
  await deliver(...events);
  await world.workOff();
}

/** Lets time pass in the database, in seconds, and syncs what is due then. */
async function pass(seconds: number): Promise<void> {
  const interval = sql`make_interval(secs => ${seconds})`;
  await executor.update(syncRequests).set({
    dueAt: earlier('due_at', interval),
    requestedAt: earlier('requested_at', interval),
    behindSince: earlier('behind_since', interval),
  });
  await world.workOff();
}

/** Edits it in the next second: GitHub does not show that yet. */
function editUnseen(source: PullRequest, title = 'After'): WebhookEvent {
  source.lag();
  world.github.clock.advance(1);
  return source.edit({ title });
}

const withAction = ({ event, payload }: WebhookEvent, action: string): WebhookEvent => ({
  event,
  action,
  payload: { ...payload, action },
});

const waiting = () => tenant.waitingSyncs();
const states = () => tenant.deliveryStates();

/**
 * Syncs what is due while time passes: each time, until the next is due.
 *
 * @returns seconds until nothing was left, including real ones, and how many requests it took
 */
async function settle(maxSeconds: number): Promise<{ seconds: number; requests: number }> {
  const before = world.github.count();
  const begin = performance.now();
  await world.workOff();
  let seconds = 0;
  for (let rows = await waiting(); seconds < maxSeconds && rows.length > 0; rows = await waiting()) {
    const next = Math.min(...rows.map(({ dueAt }) => dueAt?.getTime() ?? Infinity));
    const step = Math.max(1, Math.ceil((next - Date.now()) / 1000));
    await pass(step);
    seconds += step;
  }
  return { seconds: seconds + (performance.now() - begin) / 1000, requests: world.github.count() - before };
}

describe('the floor that a webhook sets', () => {
  test('a pull request that GitHub does not show yet is stored once GitHub shows it', async () => {
    web.lag();
    const opened = web.openPullRequest({ title: 'New' });
    await deliverAndSync(opened.opened);
    expect(await tenant.stored(opened)).toBeUndefined();
    expect(await states()).toEqual(['pending']);
    await pass(2);
    web.catchUp();
    await pass(2);
    expect(await tenant.stored(opened)).toMatchObject({ title: 'New' });
    expect(await states()).toEqual(['applied']);
    expect(await waiting()).toEqual([]);
    expect(service.complaints).toEqual([]);
  });

  test('a change that GitHub does not show yet is stored once GitHub shows it', async () => {
    const source = await tenant.openStored({ title: 'Before' });
    await deliverAndSync(editUnseen(source));
    expect(await tenant.stored(source)).toMatchObject({ title: 'Before' });
    expect(await waiting()).toHaveLength(1);
    source.catchUp();
    await pass(1);
    expect(await tenant.stored(source)).toMatchObject({ title: 'After' });
    expect(await states()).toEqual(['applied']);
  });

  test('the highest floor of several webhooks counts; an answer below it is stored if nothing newer is', async () => {
    const source = web.openPullRequest();
    world.github.clock.advance(1);
    const first = source.edit({ title: 'First' });
    await deliverAndSync(editUnseen(source, 'Second'), first);
    expect(await tenant.stored(source)).toMatchObject({ title: 'First' });
    expect(await waiting()).toMatchObject([{ minSourceUpdatedAt: source.updatedAt }]);
    source.catchUp();
    await pass(1);
    expect(await tenant.stored(source)).toMatchObject({ title: 'Second' });
    expect(await states()).toEqual(['applied', 'applied']);
  });

  test('a PUT sync settles a sync request only if it reaches the floor of its webhook', async () => {
    const source = web.openPullRequest({ title: 'Before' });
    await deliver(editUnseen(source));
    await tenant.sync(source);
    expect(await waiting()).toHaveLength(1);
    source.catchUp();
    await tenant.sync(source);
    expect(await waiting()).toEqual([]);
    expect(await states()).toEqual(['applied']);
  });

  test('a fetch that began before a delivery does not settle it, however new the answer is', async () => {
    const source = web.openPullRequest();
    await deliver(source.opened);
    await executor.update(syncRequests).set({ ticket: (await drawTicket(executor)) + 1000 });
    await tenant.sync(source);
    expect(await waiting()).toHaveLength(1);
  });
});

describe('the wait while GitHub lags', () => {
  test('a pull request that GitHub never shows counts as gone after 13 minutes and at most nine requests', async () => {
    web.lag();
    const opened = web.openPullRequest();
    await deliver(opened.opened);
    const { seconds, requests } = await settle(2_000);
    expect(seconds).toBeGreaterThanOrEqual(780);
    expect(seconds).toBeLessThan(850);
    // A busy machine may miss one of the first.
    expect([8, 9]).toContain(requests);
    expect(await states()).toEqual(['gone']);
    expect(service.counters.gone).toBe(1);
    expect(service.complaints).toMatchObject([
      { level: 40, organisation: tenant.acme.login, nodeId: opened.nodeId, msg: expect.stringContaining('gone') },
    ]);
  });

  test('an older state that GitHub shows unchanged for half a minute is believed', async () => {
    const source = web.openPullRequest({ title: 'Before' });
    await deliver(editUnseen(source, 'Never shown'));
    const { seconds, requests } = await settle(200);
    expect(seconds).toBeGreaterThanOrEqual(30);
    expect(seconds).toBeLessThan(60);
    expect([5, 6]).toContain(requests);
    expect(await states()).toEqual(['applied']);
    expect(service.counters.stale).toBe(1);
  });

  test('an older state that changes restarts the wait for GitHub', async () => {
    const source = web.openPullRequest({ title: 'First' });
    world.github.clock.advance(1);
    source.edit({ title: 'Second' });
    editUnseen(source, 'Third');
    world.github.clock.advance(1);
    await deliverAndSync(source.edit({ title: 'Fourth' }));
    await pass(20);
    source.catchUp();
    // It has caught up to the third change.
    await executor.update(syncRequests).set({ minSourceUpdatedAt: source.updatedAt + 1 });
    for (let turn = 0; turn < 2; turn += 1) {
      await pass(11);
      expect(await waiting()).toHaveLength(1);
    }
    await pass(31);
    expect(await waiting()).toEqual([]);
  });

  test('requests that go to GitHub anyway carry the waiting retries, too', async () => {
    web.lag();
    const absent = tenant.open(2);
    await deliverAndSync(...absent.map(({ opened }) => opened));
    const lib = tenant.acme.repository('lib');
    for (let turn = 0; turn < 2; turn += 1) {
      const other = lib.openPullRequest();
      await deliver(other.opened);
      world.github.requests.length = 0;
      await world.workOff();
      // On a busy machine, they may be due again after it.
      const [ids] = world.github.requests.map(({ variables }) => (variables.ids as string[]).toSorted());
      expect(ids).toEqual([other, ...absent].map(({ nodeId }) => nodeId).toSorted());
    }
    expect(await waiting()).toHaveLength(2);
  });

  test('sync requests that have failed wait for their own time, even if others go out', async () => {
    const source = web.openPullRequest();
    await deliverAndSync(editUnseen(source, 'One'));
    world.github.fault({ kind: 'broken', nodeIds: [source.nodeId] }, { times: Infinity });
    for (let turn = 0; turn < 2; turn += 1) {
      await deliverAndSync(web.openPullRequest().opened);
    }
    expect(await waiting()).toMatchObject([{ githubId: source.id, attempts: 1 }]);
  });

  test('a delivery with a higher floor restarts the wait for GitHub', async () => {
    const source = web.openPullRequest();
    await deliverAndSync(editUnseen(source, 'One'));
    await pass(29);
    world.github.clock.advance(1);
    await deliverAndSync(source.edit({ title: 'Two' }));
    await pass(2);
    expect(await waiting()).toHaveLength(1);
  });

  test.each([
    ['comment', (source: PullRequest) => source.deleteComment(source.author)],
    ['inline comment', (source: PullRequest) => withAction(reviewCommentEvent(source, '', source.author), 'deleted')],
  ])('a deleted %s, which does not change `updated_at`, is looked up 15 s later', async (_, remove) => {
    const source = await tenant.openStored({ comments: 1 });
    const { updatedAt } = source;
    world.github.clock.advance(5);
    source.lag();
    await deliverAndSync(remove(source));
    expect(source.updatedAt).toBe(updatedAt);
    await pass(10);
    expect(await waiting()).toHaveLength(1);
    source.catchUp();
    await pass(5);
    expect(await waiting()).toEqual([]);
    expect(await tenant.stored(source)).toMatchObject({ comments: source.comments });
  });

  test('a failure of GitHub neither ends nor restarts the wait for it to catch up', async () => {
    web.lag();
    await deliverAndSync(web.openPullRequest().opened);
    const [before] = await waiting();
    world.github.fault(htmlError(503));
    await pass(2);
    const [after] = await waiting();
    expect(after).toMatchObject({ attempts: 1, lastError: expect.stringContaining('503') });
    expect(after?.behindSince?.getTime()).toBe((before?.behindSince?.getTime() ?? 0) - 2_000);
    // GitHub serves it again: the failure no longer counts.
    await pass(10);
    expect(await waiting()).toMatchObject([{ attempts: 0, lastError: null }]);
  });

  test('a deleted pull request stays deleted until GitHub shows the change that the webhook named', async () => {
    const source = await tenant.openStored({ title: 'Before' });
    await tenant.remove((await tenant.stored(source))?.id);
    await deliverAndSync(editUnseen(source));
    expect(await tenant.stored(source)).toBeUndefined();
    source.catchUp();
    await pass(1);
    expect(await tenant.stored(source)).toMatchObject({ title: 'After' });
  });
});

test('a stored pull request that a sweep does not find on GitHub is left as it is, at once', async () => {
  const source = await tenant.openStored();
  source.remove();
  await tenant.makeSweepDue();
  expect(await tenant.refetch(10)).toBe(1);
  await world.workOff();
  expect(await waiting()).toEqual([]);
  expect(await tenant.stored(source)).toBeDefined();
  expect(service.complaints).toEqual([]);
  // It is not first in the next sweep.
  expect(await tenant.refetch(10)).toBe(0);
});

describe('a change without another `updated_at`', () => {
  const bug = 'bug';

  test.each([
    ['a renamed label', () => web.renameLabel(bug, 'defect'), { labels: ['defect'] }],
    ['a deleted comment', (source: PullRequest) => source.deleteComment(null), { comments: 0 }],
  ])('GitHub gets time to catch up with %s even if a fetch was waiting already', async (_, change, expected) => {
    const source = web.openPullRequest({ labels: [bug], title: 'Before' });
    source.comment(tenant.acme.member('bob'));
    await tenant.sync(source);
    world.github.clock.advance(5);
    source.lag();
    const edit = source.edit({ title: 'After' });
    await deliverAndSync(edit);
    // GitHub now shows the edit, and not yet what follows.
    source.catchUp();
    source.lag();
    await deliver(change(source));
    const other = web.openPullRequest();
    await deliver(other.opened);
    await pass(5);
    expect(await waiting()).toHaveLength(1);
    source.catchUp();
    await pass(15);
    expect(await tenant.stored(source)).toMatchObject({ title: 'After', ...expected });
    expect(await waiting()).toEqual([]);
  });

  test('GitHub gets time to catch up with a deleted comment even if it has just failed', async () => {
    const source = web.openPullRequest({ title: 'Before' });
    source.comment(tenant.acme.member('bob'));
    await tenant.sync(source);
    world.github.clock.advance(5);
    world.github.fault(htmlError(503));
    await deliverAndSync(source.edit({ title: 'After' }));
    source.lag();
    await deliver(source.deleteComment(null));
    await pass(8);
    expect(await waiting()).toMatchObject([{ attempts: 1 }]);
    source.catchUp();
    await pass(8);
    expect(await tenant.stored(source)).toMatchObject({ title: 'After', comments: 0 });
    expect(await waiting()).toEqual([]);
  });

  test('a webhook that comes late does not end the time that GitHub gets', async () => {
    const source = await tenant.openStored({ labels: [bug] });
    world.github.clock.advance(5);
    const edit = source.edit({ title: 'After' });
    source.lag();
    await deliverAndSync(web.renameLabel(bug, 'defect'), edit);
    source.catchUp();
    await pass(15);
    expect(await tenant.stored(source)).toMatchObject({ title: 'After', labels: ['defect'] });
    expect(await waiting()).toEqual([]);
  });

  test('a webhook that comes at the same moment does not end the time that GitHub gets', async () => {
    const source = await tenant.openStored();
    const deleted = withAction(reviewCommentEvent(source, 'A remark.', null), 'deleted');
    // Two statements are under way at once: the next one takes both.
    const others = [web.openPullRequest().opened, web.openPullRequest().opened];
    await Promise.all([...others, deleted, source.edit({ title: 'After' })].map(event => deliver(event)));
    await world.workOff();
    expect(await waiting()).toHaveLength(1);
  });

  test('a sync that a client asks for meanwhile does not end the time that GitHub gets', async () => {
    const source = await tenant.openStored({ labels: [bug] });
    source.lag();
    await deliver(web.renameLabel(bug, 'defect'));
    await tenant.sync(source);
    source.catchUp();
    await pass(15);
    expect(await tenant.stored(source)).toMatchObject({ labels: ['defect'] });
    expect(await waiting()).toEqual([]);
  });

  test.each([
    ['a renamed label', () => web.renameLabel(bug, 'defect'), { labels: ['defect'] }],
    ['a deleted comment', (source: PullRequest) => source.deleteComment(null), { comments: 0 }],
  ])('a sync after %s does not end the time that GitHub gets, even if it had failed', async (_, change, expected) => {
    const source = web.openPullRequest({ labels: [bug] });
    source.comment(tenant.acme.member('bob'));
    await tenant.sync(source);
    world.github.clock.advance(5);
    world.github.fault(htmlError(503), { times: 2 });
    await deliverAndSync(source.edit({ title: 'After' }));
    await pass(6);
    source.lag();
    await deliver(change(source));
    await tenant.sync(source);
    expect(await tenant.waitingSyncs()).toMatchObject([{ attempts: 0, lastError: null }]);
    source.catchUp();
    await pass(15);
    expect(await tenant.stored(source)).toMatchObject({ title: 'After', ...expected });
    expect(await waiting()).toEqual([]);
  });
});

test('a renamed label reads ten thousand pull requests in a statement, however many its repository has', async () => {
  await tenant.newStored(10_002);
  // Without the time limit of our statements.
  const client = await openClient(service.database.url);
  await client.query(`update pull_requests set number = numbered.number, labels = '{bug}'
    from (select id, row_number() over (order by id) as number from pull_requests where organisation_id = '${tenant.id}')
      as numbered where organisation_id = '${tenant.id}' and pull_requests.id = numbered.id`);
  const counts = await countReads(service.database, executor =>
    requestRefetchesWith(executor, tenant.id, web.id, { label: 'bug' }, 15),
  );
  expect(Math.max(...counts)).toBe(10_000);
  expect(await waiting()).toHaveLength(10_002);
});

test('what is due comes before what waits for GitHub to catch up, in the background, too', async () => {
  web.lag();
  const behind = web.openPullRequest();
  await deliverAndSync(behind.opened);
  const listed = web.openPullRequest();
  await requestListed(executor, tenant.id, [
    { githubId: listed.id, nodeId: listed.nodeId, sourceUpdatedAt: listed.updatedAt },
  ]);
  for (const limit of [1, 2]) {
    const due = await tenant.dueRequests(limit);
    expect(due.map(({ githubId }) => githubId)).toEqual([listed.id, behind.id].slice(0, limit));
  }
});

test('a delivery whose node id is of another pull request ends as gone, after one request to GitHub', async () => {
  const source = web.openPullRequest();
  const { event, payload } = source.edit({ title: 'Real' });
  const claimed = { ...(payload as { pull_request: object }).pull_request, id: 999 };
  await deliver({ event, action: 'edited', payload: { ...payload, pull_request: claimed } });
  await world.workOff();
  expect(world.github.count()).toBe(1);
  expect(await waiting()).toEqual([]);
  expect(await states()).toEqual(['gone']);
  expect(service.complaints).toMatchObject([
    { level: 40, organisation: tenant.acme.login, nodeId: source.nodeId, msg: expect.stringContaining('different id') },
  ]);
});

test.each<[string, (pullRequest: PullRequest) => Promise<unknown>]>([
  ['a sweep', () => tenant.refetch(10)],
  [
    'an import',
    ({ id, nodeId, updatedAt }) =>
      requestListed(executor, tenant.id, [{ githubId: id, nodeId, sourceUpdatedAt: updatedAt }]),
  ],
])('a request that has a wrong node id of a delivery gets the right one by %s', async (_, request) => {
  const [source, other] = tenant.open(2);
  await tenant.sync(source);
  await tenant.makeSweepDue();
  const { event, payload } = source.edit({ title: 'Real' });
  const claimed = { ...(payload as { pull_request: object }).pull_request, node_id: other.nodeId };
  await deliver({ event, action: 'edited', payload: { ...payload, pull_request: claimed } });
  await request(source);
  await world.workOff();
  expect(await tenant.stored(source)).toMatchObject({ title: 'Real' });
  expect(await tenant.stored(other)).toBeUndefined();
  expect(await waiting()).toEqual([]);
});

test('the sweep takes what was fetched longest ago first, and nothing that was fetched within a day', async () => {
  const [oldest, older, fresh] = tenant.open(3);
  await tenant.sync(oldest, older, fresh);
  await executor.execute(sql`update pull_requests set fetched_at = now() - interval '1 day' * case github_id
    when ${oldest.id} then 3 when ${older.id} then 2 else 0.9 end where organisation_id = ${tenant.id}`);
  expect(await tenant.refetch(1)).toBe(1);
  expect(await waiting()).toMatchObject([{ githubId: oldest.id, isBackground: true }]);
  expect(await tenant.refetch(5)).toBe(1);
  expect((await waiting()).map(({ githubId }) => githubId)).toEqual([oldest.id, older.id]);
  oldest.linkIssues(2);
  await world.workOff();
  expect(await tenant.stored(oldest)).toMatchObject({ linkedIssues: 2 });
});
