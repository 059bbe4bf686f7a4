import { type SQL, sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { TransactionOvertaken } from '../../src/database/driver-errors.ts';
import { eraseMember } from '../../src/database/erasure.ts';
import { untrackedPullRequests } from '../../src/database/schema.ts';
import { oneRow } from '../../src/database/statement.ts';
import { settleSyncRequests } from '../../src/database/sync-requests.ts';
import { drawTicket } from '../../src/database/tickets.ts';
import { rememberUntracked } from '../../src/database/untracked-pull-requests.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { furtherPage, queryTimeout, replacing } from '../support/github/faults.ts';
import type { Account } from '../support/github/world.ts';
import { openClient } from '../support/service.ts';
import { deliver, figureOf, rule, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

function addMembers({ acme }: SyncTenant, count: number, name = 'm'): Account[] {
  return Array.from({ length: count }, (_, index) => acme.member(`${name}${index}-${acme.login}`));
}

describe('members', () => {
  test('are those whom GitHub lists: others have left, and keep their ids if they come back', async ({ tenant }) => {
    const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
    expect(await tenant.syncMembers()).toEqual({ members: 2, left: 0 });
    const before = await tenant.storedMembers();
    tenant.acme.leave(bert);
    expect(await tenant.syncMembers()).toEqual({ members: 1, left: 1 });
    expect(await tenant.memberLogins()).not.toContain(bert.login);
    expect(await tenant.syncMembers()).toEqual({ members: 1, left: 0 });
    tenant.acme.join(bert);
    expect(await tenant.syncMembers()).toEqual({ members: 2, left: 0 });
    const withoutTicket = (rows: typeof before) => rows.map(row => ({ ...row, fetchTicket: 0 }));
    expect(withoutTicket(await tenant.storedMembers())).toEqual(withoutTicket(before));
  });

  test('stay as they are if a page of the list fails', async ({ tenant }) => {
    const first = addMembers(tenant, 101);
    await tenant.syncMembers();
    world.github.fault({ kind: 'reply', status: 500 }, { when: furtherPage('Members') });
    for (const account of first.slice(0, 50)) tenant.acme.leave(account);
    addMembers(tenant, 50, 'n');
    await expect(tenant.syncMembers()).rejects.toMatchObject({ code: 'github_failed' });
    const rows = await tenant.storedMembers();
    expect(rows).toHaveLength(102);
    expect(rows.filter(({ leftAt }) => leftAt !== null)).toEqual([]);
  });

  test('keep a newer name that a fetch has shown since the list was read', async ({ tenant }) => {
    addMembers(tenant, 100);
    const ada = tenant.ada;
    const first = world.github.hold('late');
    const reading = tenant.syncMembers();
    await first.begun;
    ada.name = 'Ada King';
    await tenant.sync(tenant.web.openPullRequest({ author: ada }));
    first.release();
    await reading;
    expect((await tenant.storedMembers()).map(({ name }) => name)).toContain('Ada King');
  });

  test('leave if they are not on the list, even if a later fetch shows a new name', async ({ tenant }) => {
    const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
    await tenant.syncMembers();
    tenant.acme.leave(bert);
    const list = world.github.hold('late', 'Members');
    const reading = tenant.syncMembers();
    await list.begun;
    bert.name = 'Bert Now';
    await tenant.sync(tenant.web.openPullRequest({ author: bert }));
    list.release();
    expect(await reading).toMatchObject({ left: 1 });
    expect((await tenant.storedMembers()).map(({ name }) => name)).toContain('Bert Now');
    expect(await tenant.memberLogins()).not.toContain(bert.login);
  });

  test('are back if they are on the list, even if a later fetch shows a new login', async ({ tenant }) => {
    const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
    await tenant.syncMembers();
    await tenant.left(bert);
    tenant.acme.join(bert);
    const list = world.github.hold('late', 'Members');
    const reading = tenant.syncMembers();
    await list.begun;
    bert.login = `bertram-${tenant.acme.login}`;
    const assigned = tenant.web.openPullRequest();
    assigned.assign(bert);
    await tenant.sync(assigned);
    list.release();
    expect(await reading).toEqual({ members: 2, left: 0 });
    expect(await tenant.memberLogins()).toContain(bert.login);
  });

  test('do not leave if any page of the list has only public members', async ({ tenant }) => {
    const [first] = addMembers(tenant, 101);
    await tenant.syncMembers();
    if (first !== undefined) tenant.acme.leave(first);
    world.github.fault(replacing('"viewerIsAMember":true', '"viewerIsAMember":false'), { when: 'Members' });
    expect(await tenant.syncMembers()).toEqual({ members: 101, left: null });
  });

  test('do not leave if the token may read public members only; an operator is told so even if none is missing', async () => {
    const tenant = await world.newTenant();
    const hidden = { members: 0, left: null };
    world.github.grants.readsMembers = false;
    expect(await tenant.syncMembers(async () => undefined)).toEqual(hidden);
    world.github.grants.readsMembers = true;
    await tenant.syncMembers();
    const before = await tenant.memberLogins();
    world.github.grants.readsMembers = false;
    expect(await tenant.syncMembers()).toEqual(hidden);
    expect(await tenant.memberLogins()).toEqual(before);
  });

  test('take a request for a hundred, however many there are', async ({ tenant }) => {
    const first = addMembers(tenant, 299);
    const before = world.github.count('Members');
    expect(await tenant.syncMembers()).toEqual({ members: 300, left: 0 });
    expect(world.github.count('Members') - before).toBe(3);
    for (const account of first.slice(0, 130)) tenant.acme.leave(account);
    expect(await tenant.syncMembers()).toEqual({ members: 170, left: 130 });
    expect(await tenant.memberLogins()).toHaveLength(170);
  });

  test('come in smaller pages if GitHub times out on larger ones', async ({ tenant }) => {
    addMembers(tenant, 60);
    const isLarge = ({ operation, variables }: { operation: string | undefined; variables: Record<string, unknown> }) =>
      operation === 'Members' && Number(variables.first) > 30;
    world.github.fault(queryTimeout(), { times: Infinity, when: isLarge });
    const before = world.github.requests.length;
    expect(await tenant.syncMembers()).toEqual({ members: 61, left: 0 });
    const large = world.github.requests.slice(before).filter(isLarge);
    expect(large.map(({ variables }) => variables.first)).toEqual([100, 50]);
  });

  test('are added, and do not leave, if GitHub lists only public ones', async ({ tenant }) => {
    await tenant.syncMembers();
    const known = tenant.ada;
    const hidden = tenant.acme.member(`hidden-${tenant.acme.login}`);
    const shown = tenant.acme.member(`shown-${tenant.acme.login}`);
    tenant.acme.publicMembers.add(shown.id);
    world.github.grants.viewerIsMember = false;
    expect(await tenant.syncMembers()).toEqual({ members: 1, left: null });
    expect(await tenant.memberLogins()).toEqual([known.login, shown.login]);
    world.github.grants.viewerIsMember = true;
    expect(await tenant.syncMembers()).toEqual({ members: 3, left: 0 });
    expect(await tenant.memberLogins()).toContain(hidden.login);
  });
});

test('those who have left are counted once, even if the transaction that saves it is run again', async ({ tenant }) => {
  const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
  await tenant.syncMembers();
  tenant.acme.leave(bert);
  let isOvertaken = true;
  const { left } = await tenant.syncMembers(async () => {
    if (!isOvertaken) return;
    isOvertaken = false;
    throw new TransactionOvertaken();
  });
  expect(left).toBe(1);
});

test('an earlier fetch in which somebody is not marked as a member does not bring back a former name', async () => {
  const tenant = await world.newTenant();
  const bert = tenant.acme.member(`bert-${tenant.acme.login}`, { name: 'Bert' });
  await tenant.syncMembers();
  const pullRequest = tenant.web.openPullRequest({ author: bert, authorAssociation: 'CONTRIBUTOR' });
  bert.name = 'Bert Before';
  const early = await tenant.fetchedSync(pullRequest);
  bert.name = 'Bert Now';
  await tenant.sync(pullRequest);
  await early.save();
  expect((await tenant.storedMembers()).map(({ name }) => name)).toContain('Bert Now');
});

test('an erasure covers the login that a fetch shows while the operator is asked', async ({ tenant }) => {
  const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
  await tenant.syncMembers();
  const asked = (await tenant.storedMembers()).filter(({ githubId }) => githubId === bert.id);
  bert.login = `bertram-${tenant.acme.login}`;
  const pullRequest = tenant.web.openPullRequest();
  pullRequest.assign(bert);
  await tenant.sync(pullRequest);
  expect(await tenant.stored(pullRequest)).toMatchObject({ assignees: [bert.login] });
  await eraseMember(service.database, tenant.id, oneRow(asked));
  expect(await tenant.stored(pullRequest)).toMatchObject({ assignees: [] });
});

/** The service, and what each of its transactions adds to a figure of PostgreSQL about the tables. */
function countingService(figure: SQL) {
  const { database } = service;
  const counts: number[] = [];
  const transaction: typeof database.transaction = work =>
    database.transaction(async executor => {
      // As PostgreSQL plans for many.
      await executor.execute(sql`set local enable_seqscan = off; set local enable_sort = off`);
      const before = await figureOf(executor, figure);
      const result = await work(executor);
      counts.push((await figureOf(executor, figure)) - before);
      return result;
    });
  return { counting: { ...service, database: { ...database, transaction } }, counts };
}

test('an erasure reads a few thousand pull requests in a transaction, however many there are', async ({ tenant }) => {
  const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
  await tenant.syncMembers();
  await tenant.newStored(5_000);
  const { counting, counts } = countingService(
    sql`sum(seq_tup_read + idx_tup_fetch) filter (where relname = 'pull_requests')`,
  );
  const people = (await tenant.storedMembers()).filter(({ githubId }) => githubId === bert.id);
  await eraseMember(counting.database, tenant.id, oneRow(people));
  expect(Math.max(...counts)).toBeLessThan(3_000);
});

test('an erasure asks GitHub again about a login that somebody else had before', async ({ tenant }) => {
  const [bert, carl] = [
    tenant.acme.member(`bert-${tenant.acme.login}`),
    tenant.acme.member(`carl-${tenant.acme.login}`),
  ];
  const reused = bert.login;
  const pullRequest = tenant.web.openPullRequest();
  pullRequest.assign(bert);
  await tenant.syncMembers();
  await tenant.sync(pullRequest);
  bert.login = `bertram-${tenant.acme.login}`;
  carl.login = reused;
  await tenant.syncMembers();
  const people = (await tenant.storedMembers()).filter(({ githubId }) => githubId === carl.id);
  await eraseMember(service.database, tenant.id, oneRow(people));
  await world.workOff();
  expect(await tenant.stored(pullRequest)).toMatchObject({ assignees: [bert.login] });
});

test.for(['came and left', 'left and came back'])(
  'somebody who %s has the right state, even if the webhooks come in reverse order',
  async (story, { tenant }) => {
    const bert = world.github.account(`bert-${tenant.acme.login}`);
    if (story === 'left and came back') tenant.acme.join(bert);
    await tenant.syncMembers();
    const before = await tenant.memberLogins();
    const changes = [tenant.acme.join, tenant.acme.leave];
    if (story === 'left and came back') changes.reverse();
    const events = changes.map(change => change.call(tenant.acme, bert));
    await deliver(service, ...events.toReversed());
    expect(await tenant.memberLogins()).toEqual(before);
    await tenant.syncMembers();
    expect((await tenant.memberLogins()).includes(bert.login)).toBe(story === 'left and came back');
  },
);

/** GitHub ids of pull requests that were fetched but not kept. */
async function untracked(tenant: SyncTenant): Promise<number[]> {
  const rows = await tenant.rowsOf(untrackedPullRequests, untrackedPullRequests.githubId);
  return rows.map(({ githubId }) => githubId);
}

const storedIds = async (tenant: SyncTenant) => (await tenant.storedPullRequests()).map(({ githubId }) => githubId);
const idsOf = (all: readonly { id: number }[]) => all.map(({ id }) => id).sort((a, b) => a - b);

/** Of an author, for {@link rememberUntracked}. */
const manyOf = (author: Account, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    githubId: 5_000_000_000 + index,
    nodeId: `PR_${index}`,
    authorGithubId: author.id,
    sourceUpdatedAt: 1,
  }));

/** Somebody who is not a member, with pull requests that were fetched but not kept. */
async function startStranger(tenant: SyncTenant, count = 3) {
  const author = world.github.account(`stranger-${tenant.acme.login}`);
  const opened = tenant.open(count, { author, authorAssociation: 'CONTRIBUTOR' });
  await tenant.sync(...opened);
  return { author, opened };
}

describe('the earlier pull requests of somebody who joins', () => {
  test('are fetched and scored without an import', async ({ tenant }) => {
    const author = world.github.account(`stranger-${tenant.acme.login}`);
    await tenant.apply(rule('7'));
    const names = ['web', 'api', 'docs'];
    const history = names.map(name => tenant.acme.repository(name).addPullRequest({ author, state: 'MERGED' }));
    await tenant.import();
    const news = names.map(name => tenant.acme.repository(name).openPullRequest({ author }));
    await tenant.compare();
    expect(await storedIds(tenant)).toEqual([]);

    await tenant.joined(author);
    expect(await untracked(tenant)).toEqual([]);
    const before = world.github.count();
    await world.workOff();
    expect(world.github.count() - before).toBe(1);
    expect(await storedIds(tenant)).toEqual(idsOf([...history, ...news]));
    expect((await tenant.storedPullRequests()).map(({ score }) => score)).toEqual(Array(6).fill(7));
    expect(await untracked(tenant)).toEqual([]);
  });

  test('are fetched if another one shows that their author has joined', async ({ tenant }) => {
    const { author, opened } = await startStranger(tenant);
    const marked = tenant.web.openPullRequest({ author, authorAssociation: 'MEMBER' });
    expect(await tenant.sync(marked)).toEqual(['saved']);
    expect((await tenant.waitingSyncs()).map(({ githubId }) => githubId)).toEqual(idsOf(opened));
    await world.workOff();
    expect(await storedIds(tenant)).toEqual(idsOf([...opened, marked]));
  });

  test('are fetched if another one shows that their author is a member again', async ({ tenant }) => {
    const author = tenant.acme.member(`bert-${tenant.acme.login}`);
    await tenant.syncMembers();
    await tenant.left(author);
    const earlier = tenant.web.openPullRequest({ author });
    expect(await tenant.sync(earlier)).toEqual(['untracked']);
    tenant.acme.join(author);
    const later = await tenant.openStored({ author });
    await world.workOff();
    expect(await storedIds(tenant)).toEqual(idsOf([earlier, later]));
  });

  test('are looked for again if GitHub does not show them at once', async ({ tenant }) => {
    const { author, opened } = await startStranger(tenant, 1);
    await tenant.joined(author);
    const notFound = { type: 'NOT_FOUND', message: 'Could not resolve to a node', path: ['nodes', 0] };
    world.github.fault({ kind: 'alter', change: () => ({ data: { nodes: [null] }, errors: [notFound] }) });
    await world.workOff();
    expect(await tenant.waitingSyncs()).toHaveLength(1);
    await executor.execute(sql`update sync_requests set due_at = now()`);
    await world.workOff();
    expect(await storedIds(tenant)).toEqual(idsOf(opened));
  });

  test('wait for the next return if their author leaves again at once', async ({ tenant }) => {
    const { author, opened } = await startStranger(tenant);
    await tenant.joined(author);
    await tenant.left(author);
    await world.workOff();
    expect(await storedIds(tenant)).toEqual([]);
    await tenant.syncMembers();
    expect(await untracked(tenant)).toEqual(idsOf(opened));

    await tenant.joined(author);
    await world.workOff();
    expect(await storedIds(tenant)).toEqual(idsOf(opened));
  });

  test('are requested at once, but in the background', async ({ tenant }) => {
    const { author, opened } = await startStranger(tenant);
    const listener = await openClient(service.database.url);
    const heard: (string | undefined)[] = [];
    listener.on('notification', ({ payload }) => heard.push(payload));
    await listener.query('listen pullscore');
    tenant.acme.join(author);
    const before = new Date();
    await tenant.syncMembers();
    await expect.poll(() => heard).toContain('sync');
    const waiting = await tenant.waitingSyncs();
    expect(waiting.map(({ nodeId }) => nodeId)).toEqual(opened.map(({ nodeId }) => nodeId));
    expect(waiting.map(({ isBackground, attempts }) => [isBackground, attempts])).toEqual(Array(3).fill([true, 0]));
    for (const { dueAt } of waiting) expect(dueAt?.getTime()).toBeLessThan(before.getTime() + 60_000);
    expect(waiting.map(({ ticket }) => ticket)).toEqual(waiting.map(({ ticket }) => ticket).toSorted((a, b) => a - b));
  });

  test('keep their sync requests, which no fetch under way settles', async ({ tenant }) => {
    const { author, opened } = await startStranger(tenant);
    const [one] = opened;
    await deliver(service, one.edit({ title: 'changed' }));
    const [before] = await tenant.waitingSyncs();
    const underWay = await drawTicket(executor);
    await tenant.sync(tenant.web.openPullRequest({ author, authorAssociation: 'OWNER' }));
    const answer = { githubId: one.id, sourceUpdatedAt: one.updatedAt };
    await settleSyncRequests(service.database, tenant.id, underWay, [answer], 15);
    const waiting = await tenant.waitingSyncs();
    expect(waiting).toHaveLength(3);
    expect(waiting.find(({ githubId }) => githubId === one.id)).toEqual({ ...before, ticket: expect.any(Number) });
    await world.workOff();
  });

  test('are requested only if they are their own, and only in that organisation', async ({ tenant }) => {
    const other = await world.newTenant();
    const { author } = await startStranger(tenant);
    const someone = tenant.acme.repository('api').openPullRequest({ author: world.github.account('someone-else') });
    const elsewhere = other.acme.repository('web').openPullRequest({ author });
    await tenant.sync(someone);
    await other.sync(elsewhere);
    tenant.acme.join(author);
    await Promise.all([tenant, other].map(each => each.syncMembers()));
    expect(await untracked(tenant)).toEqual([someone.id]);
    expect(await untracked(other)).toEqual([elsewhere.id]);
    expect(await tenant.waitingSyncs()).toHaveLength(3);
    expect(await other.waitingSyncs()).toEqual([]);
    await world.workOff();
  });

  test('are remembered in both organisations if they move, and fetched in the one that their author joins', async () => {
    const tenant = await world.newTenant();
    const other = await world.newTenant();
    const { author, opened } = await startStranger(tenant);
    tenant.web.transfer(other.acme);
    await other.sync(...opened);
    await other.joined(author);
    expect(await untracked(other)).toEqual([]);
    await world.workOff();
    expect(await storedIds(other)).toEqual(idsOf(opened));
    expect(await untracked(tenant)).toEqual(idsOf(opened));
  });
});

test('more than ten thousand earlier pull requests of a thousand members are all requested with one list, in short transactions', async () => {
  const [other, tenant] = [await world.newTenant(), await world.newTenant()];
  const author = tenant.acme.member(`busiest-${tenant.acme.login}`);
  // PostgreSQL's statistics know another organisation's rows only. It must not compare each of ours with every other.
  await rememberUntracked(executor, other.id, [{ githubId: 1, nodeId: 'PR_1', authorGithubId: 2, sourceUpdatedAt: 1 }]);
  await executor.execute('analyze untracked_pull_requests');
  const many = manyOf(author, 10_002);
  // Not in the order in which they are requested.
  for (const some of [many.slice(5_001), many.slice(0, 5_001)]) {
    await rememberUntracked(executor, tenant.id, some);
  }
  addMembers(tenant, 1_000);
  const { counting, counts } = countingService(
    sql`sum(n_tup_ins + n_tup_upd) filter (where relname in ('members', 'sync_requests'))`,
  );
  await syncMembers(counting, tenant.organisation);
  expect(Math.max(...counts)).toBe(10_000);
  expect(await tenant.memberLogins()).toHaveLength(1_002);
  expect(await untracked(tenant)).toEqual([]);
  const waiting = await tenant.waitingSyncs();
  expect(waiting.map(({ nodeId }) => nodeId)).toEqual(many.map(({ nodeId }) => nodeId));
  expect(waiting.map(({ ticket }) => ticket)).toEqual(waiting.map(({ ticket }) => ticket).toSorted((a, b) => a - b));
  await executor.execute(`delete from sync_requests where organisation_id = '${tenant.id}'`);
});

describe('a pull request that was fetched but not kept', () => {
  test('is remembered once, however often it is fetched', async ({ tenant }) => {
    const { opened } = await startStranger(tenant);
    expect(await tenant.sync(...opened)).toEqual(Array(3).fill('untracked'));
    expect(await untracked(tenant)).toEqual(idsOf(opened));
  });

  test('is remembered by its latest node id', async ({ tenant }) => {
    for (const nodeId of ['PR_before', 'PR_now']) {
      await rememberUntracked(executor, tenant.id, [{ githubId: 1, nodeId, authorGithubId: 2, sourceUpdatedAt: 1 }]);
    }
    expect(await tenant.rowsOf(untrackedPullRequests)).toMatchObject([{ nodeId: 'PR_now' }]);
  });

  test('is not remembered if its author is a ghost, who cannot join', async ({ tenant }) => {
    const ghostly = tenant.web.openPullRequest({ author: null });
    expect(await tenant.sync(ghostly)).toEqual(['untracked']);
    expect(await untracked(tenant)).toEqual([]);
  });

  test('is not remembered if it is stored', async ({ tenant }) => {
    const { author, opened } = await startStranger(tenant);
    const [one, two] = opened;
    // As if the list had been read at the same moment as the fetch.
    const early = await tenant.fetchedSync(one);
    await tenant.joined(author);
    await rememberUntracked(executor, tenant.id, [
      { githubId: one.id, nodeId: one.nodeId, authorGithubId: author.id, sourceUpdatedAt: one.updatedAt },
    ]);
    expect(await early.save()).toBe('saved');
    expect(await untracked(tenant)).toEqual([]);
    await world.workOff();
    // Nor if its author has left: it stays stored.
    await tenant.left(author);
    expect(await tenant.sync(two)).toEqual(['saved']);
    expect(await untracked(tenant)).toEqual([]);
    expect((await tenant.stored(two))?.authorAssociation).toBe('CONTRIBUTOR');
  });
});
