import { eq, sql } from 'drizzle-orm';
import pg from 'pg';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { TransactionOvertaken } from '../../src/database/driver-errors.ts';
import { eraseMembers } from '../../src/database/erasure.ts';
import { untrackedPullRequests } from '../../src/database/schema.ts';
import { settleSyncRequests } from '../../src/database/sync-requests.ts';
import { drawTicket } from '../../src/database/tickets.ts';
import { rememberUntracked, requestUntrackedOfMembers } from '../../src/database/untracked-pull-requests.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import type { WebhookEvent } from '../support/github/events.ts';
import { queryTimeout } from '../support/github/faults.ts';
import type { Account } from '../support/github/world.ts';
import { startWorld, type TenantOnGithub } from '../support/world.ts';
import { post } from '../webhooks/support.ts';
import {
  apply,
  compare,
  fetchedSync,
  memberLogins,
  memberRows,
  rule,
  stored,
  storedPullRequests,
  sync,
  waitingSyncs,
} from './support.ts';

const world = await startWorld();
afterEach(() => {
  world.github.clearFaults();
  world.github.grants.viewerIsMember = true;
});

const readList = ({ organisation }: TenantOnGithub) => syncMembers(world.service, organisation);

const storedMembers = (home: TenantOnGithub) => memberRows(world.service, home);
const logins = (home: TenantOnGithub) => memberLogins(world.service, home);

function addMembers({ acme }: TenantOnGithub, count: number, name = 'm'): Account[] {
  return Array.from({ length: count }, (_, index) => acme.member(`${name}${index}-${acme.login}`));
}

async function deliver(event: WebhookEvent | undefined): Promise<void> {
  if (event === undefined) throw new Error('no event');
  expect(await post(world.service, event)).toMatchObject({ status: 202 });
}

describe('members', () => {
  test('are those whom GitHub lists: others have left, and keep their ids if they come back', async () => {
    const home = await world.newTenant();
    const bert = home.acme.member(`bert-${home.acme.login}`);
    expect(await readList(home)).toEqual({ members: 2, left: 0 });
    const before = await storedMembers(home);
    home.acme.leave(bert);
    expect(await readList(home)).toEqual({ members: 1, left: 1 });
    expect(await logins(home)).not.toContain(bert.login);
    expect(await readList(home)).toEqual({ members: 1, left: 0 });
    home.acme.join(bert);
    expect(await readList(home)).toEqual({ members: 2, left: 0 });
    const withoutTicket = (rows: typeof before) => rows.map(row => ({ ...row, fetchTicket: 0 }));
    expect(withoutTicket(await storedMembers(home))).toEqual(withoutTicket(before));
  });

  test('stay as they are if a page of the list fails', async () => {
    const home = await world.newTenant();
    const first = addMembers(home, 150);
    await readList(home);
    world.github.fault(
      { kind: 'reply', status: 500 },
      { when: ({ operation, variables }) => operation === 'Members' && variables.after !== null },
    );
    for (const account of first.slice(0, 100)) home.acme.leave(account);
    addMembers(home, 100, 'n');
    await expect(readList(home)).rejects.toMatchObject({ code: 'github_failed' });
    const rows = await storedMembers(home);
    expect(rows).toHaveLength(151);
    expect(rows.filter(({ leftAt }) => leftAt !== null)).toEqual([]);
  });

  test('a list of members does not undo a newer name that a fetch has shown since then', async () => {
    const home = await world.newTenant();
    addMembers(home, 100);
    const [ada] = home.acme.members.values();
    if (ada === undefined) throw new Error('no member');
    const first = world.github.hold('late');
    const reading = readList(home);
    await first.begun;
    ada.name = 'Ada King';
    await sync(world.service, home, home.acme.repository('web').openPullRequest({ author: ada }));
    first.release();
    await reading;
    expect((await storedMembers(home)).map(({ name }) => name)).toContain('Ada King');
  });

  test('a member who is not on the list leaves, even if a later fetch shows a new name', async () => {
    const home = await world.newTenant();
    const bert = home.acme.member(`bert-${home.acme.login}`);
    await readList(home);
    home.acme.leave(bert);
    const list = world.github.hold('late', 'Members');
    const reading = readList(home);
    await list.begun;
    bert.name = 'Bert Now';
    await sync(world.service, home, home.acme.repository('web').openPullRequest({ author: bert }));
    list.release();
    expect(await reading).toMatchObject({ left: 1 });
    expect((await storedMembers(home)).map(({ name }) => name)).toContain('Bert Now');
    expect(await logins(home)).not.toContain(bert.login);
  });

  test('do not leave if any page of the list has only public members', async () => {
    const home = await world.newTenant();
    const [first] = addMembers(home, 101);
    await readList(home);
    if (first !== undefined) home.acme.leave(first);
    const hide = (reply: object) =>
      JSON.parse(JSON.stringify(reply).replace('"viewerIsAMember":true', '"viewerIsAMember":false'));
    world.github.fault({ kind: 'alter', change: hide }, { when: 'Members' });
    expect(await readList(home)).toEqual({ members: 101, left: null });
  });

  test('nobody leaves in a comparison whose token may read public members only', async () => {
    const home = await world.newTenant();
    const bert = home.acme.member(`bert-${home.acme.login}`);
    await syncMembers(world.service, home.organisation);
    world.github.grants.readsMembers = false;
    onTestFinished(() => void Object.assign(world.github.grants, { readsMembers: true }));
    expect(await syncMembers(world.service, home.organisation)).toEqual({ members: 0, left: null });
    expect(await logins(home)).toContain(bert.login);
  });

  test('an operator is told that the token may read public members only, even if nobody is missing', async () => {
    const home = await world.newTenant();
    world.github.grants.readsMembers = false;
    onTestFinished(() => void Object.assign(world.github.grants, { readsMembers: true }));
    const record = async () => undefined;
    expect(await syncMembers(world.service, home.organisation, record)).toEqual({ members: 0, left: null });
  });

  test('an organisation can have 2,500 members, whose list takes 25 requests', async () => {
    const home = await world.newTenant();
    const first = addMembers(home, 2_499);
    const before = world.github.count('Members');
    expect(await readList(home)).toEqual({ members: 2_500, left: 0 });
    expect(world.github.count('Members') - before).toBe(25);
    for (const account of first.slice(0, 1_300)) home.acme.leave(account);
    expect(await readList(home)).toEqual({ members: 1_200, left: 1_300 });
    expect(await logins(home)).toHaveLength(1_200);
  });

  test('come in smaller pages if GitHub times out on larger ones', async () => {
    const home = await world.newTenant();
    addMembers(home, 150);
    const isLarge = ({ operation, variables }: { operation: string | undefined; variables: Record<string, unknown> }) =>
      operation === 'Members' && Number(variables.first) > 30;
    world.github.fault(queryTimeout(), { times: Number.POSITIVE_INFINITY, when: isLarge });
    const before = world.github.requests.length;
    expect(await readList(home)).toEqual({ members: 151, left: 0 });
    const large = world.github.requests.slice(before).filter(isLarge);
    expect(large.map(({ variables }) => variables.first)).toEqual([100, 50]);
  });

  test('if GitHub lists only public members, those are added and nobody leaves', async () => {
    const home = await world.newTenant();
    await readList(home);
    const [known] = home.acme.members.values();
    const hidden = home.acme.member(`hidden-${home.acme.login}`);
    const shown = home.acme.member(`shown-${home.acme.login}`);
    home.acme.publicMembers.add(shown.id);
    world.github.grants.viewerIsMember = false;
    expect(await readList(home)).toEqual({ members: 1, left: null });
    expect(await logins(home)).toEqual([known?.login, shown.login]);
    world.github.grants.viewerIsMember = true;
    expect(await readList(home)).toEqual({ members: 3, left: 0 });
    expect(await logins(home)).toContain(hidden.login);
  });
});

test('those who have left are counted once, even if the transaction that saves it is run again', async () => {
  const home = await world.newTenant();
  const bert = home.acme.member(`bert-${home.acme.login}`);
  await readList(home);
  home.acme.leave(bert);
  let isOvertaken = true;
  const { left } = await syncMembers(world.service, home.organisation, async () => {
    if (!isOvertaken) return;
    isOvertaken = false;
    throw new TransactionOvertaken();
  });
  expect(left).toBe(1);
});

test('an earlier fetch in which somebody is not marked as a member does not bring back a former name', async () => {
  const home = await world.newTenant();
  const bert = home.acme.member(`bert-${home.acme.login}`, { name: 'Bert' });
  await readList(home);
  const pullRequest = home.acme.repository('web').openPullRequest({ author: bert, authorAssociation: 'CONTRIBUTOR' });
  bert.name = 'Bert Before';
  const early = await fetchedSync(world.service, home, pullRequest);
  bert.name = 'Bert Now';
  await sync(world.service, home, pullRequest);
  await early.save();
  expect((await storedMembers(home)).map(({ name }) => name)).toContain('Bert Now');
});

test('an erasure covers the login that a fetch shows while the operator is asked', async () => {
  const home = await world.newTenant();
  const bert = home.acme.member(`bert-${home.acme.login}`);
  await readList(home);
  const asked = (await storedMembers(home)).filter(({ githubId }) => githubId === bert.id);
  bert.login = `bertram-${home.acme.login}`;
  const pullRequest = home.acme.repository('web').openPullRequest();
  pullRequest.assign(bert);
  await sync(world.service, home, pullRequest);
  expect(await stored(world.service, home, pullRequest)).toMatchObject({ assignees: [bert.login] });
  await eraseMembers(world.service.database, home.organisation.id, asked);
  expect(await stored(world.service, home, pullRequest)).toMatchObject({ assignees: [] });
});

test('an erasure asks GitHub again about a login that somebody else had before', async () => {
  const home = await world.newTenant();
  const [bert, carl] = [home.acme.member(`bert-${home.acme.login}`), home.acme.member(`carl-${home.acme.login}`)];
  const reused = bert.login;
  const pullRequest = home.acme.repository('web').openPullRequest();
  pullRequest.assign(bert);
  await readList(home);
  await sync(world.service, home, pullRequest);
  bert.login = `bertram-${home.acme.login}`;
  carl.login = reused;
  await readList(home);
  const people = (await storedMembers(home)).filter(({ githubId }) => githubId === carl.id);
  await eraseMembers(world.service.database, home.organisation.id, people);
  await world.workOff();
  expect(await stored(world.service, home, pullRequest)).toMatchObject({ assignees: [bert.login] });
});

describe('a membership webhook', () => {
  test('a late member_added does not bring back somebody who has left', async () => {
    const home = await world.newTenant();
    const bert = world.github.account(`bert-${home.acme.login}`);
    const added = home.acme.join(bert);
    await readList(home);
    expect(await logins(home)).toContain(bert.login);
    home.acme.leave(bert);
    await readList(home);
    await deliver(added);
    expect(await logins(home)).not.toContain(bert.login);
    await readList(home);
    expect(await logins(home)).not.toContain(bert.login);
  });

  test.each(['came and left', 'left and came back'])(
    'somebody who %s has the right state, even if the webhooks come in reverse order',
    async story => {
      const home = await world.newTenant();
      const bert = world.github.account(`bert-${home.acme.login}`);
      if (story === 'left and came back') home.acme.join(bert);
      await readList(home);
      const before = await logins(home);
      const changes = [home.acme.join, home.acme.leave];
      if (story === 'left and came back') changes.reverse();
      const events = changes.map(change => change.call(home.acme, bert));
      for (const event of events.toReversed()) await deliver(event);
      expect(await logins(home)).toEqual(before);
      await readList(home);
      expect((await logins(home)).includes(bert.login)).toBe(story === 'left and came back');
    },
  );
});

/** GitHub ids of pull requests that were fetched but not kept. */
async function untracked({ organisation }: TenantOnGithub): Promise<number[]> {
  const rows = await world.service.database.executor
    .select()
    .from(untrackedPullRequests)
    .where(eq(untrackedPullRequests.organisationId, organisation.id))
    .orderBy(untrackedPullRequests.githubId);
  return rows.map(({ githubId }) => githubId);
}

const storedIds = async (home: TenantOnGithub) =>
  (await storedPullRequests(world.service, home)).map(({ githubId }) => githubId);
const idsOf = (all: readonly { id: number }[]) => all.map(({ id }) => id).sort((a, b) => a - b);

/** Somebody who is not a member, with pull requests that were fetched but not kept. */
async function startStranger(home: TenantOnGithub, count = 3) {
  const author = world.github.account(`stranger-${home.acme.login}`);
  const web = home.acme.repository('web');
  const opened = Array.from({ length: count }, () => web.openPullRequest({ author, authorAssociation: 'CONTRIBUTOR' }));
  await sync(world.service, home, ...opened);
  return { author, web, opened };
}

describe('the earlier pull requests of somebody who joins', () => {
  test('the earlier pull requests of a new member are fetched and scored without an import', async () => {
    const home = await world.newTenant();
    const author = world.github.account(`stranger-${home.acme.login}`);
    await apply(world.service, home, rule('7'));
    const names = ['web', 'api', 'docs'];
    const history = names.map(name => home.acme.repository(name).addPullRequest({ author, state: 'MERGED' }));
    await importPullRequests(world.service, home.organisation);
    const news = names.map(name => home.acme.repository(name).openPullRequest({ author }));
    await compare(world, home);
    expect(await storedIds(home)).toEqual([]);

    home.acme.join(author);
    await readList(home);
    expect(await untracked(home)).toEqual([]);
    const before = world.github.count();
    await world.workOff();
    expect(world.github.count() - before).toBe(1);
    expect(await storedIds(home)).toEqual(idsOf([...history, ...news]));
    expect((await storedPullRequests(world.service, home)).map(({ score }) => score)).toEqual(Array(6).fill(7));
    expect(await untracked(home)).toEqual([]);
  });

  test('earlier pull requests are fetched if another one shows that their author has joined', async () => {
    const home = await world.newTenant();
    const { author, web, opened } = await startStranger(home);
    const marked = web.openPullRequest({ author, authorAssociation: 'MEMBER' });
    expect(await sync(world.service, home, marked)).toEqual(['saved']);
    expect((await waitingSyncs(world.service, home)).map(({ githubId }) => githubId)).toEqual(idsOf(opened));
    await world.workOff();
    expect(await storedIds(home)).toEqual(idsOf([...opened, marked]));
  });

  test('earlier pull requests are fetched if another one shows that their author is a member again', async () => {
    const home = await world.newTenant();
    const author = home.acme.member(`bert-${home.acme.login}`);
    await readList(home);
    home.acme.leave(author);
    await readList(home);
    const web = home.acme.repository('web');
    const earlier = web.openPullRequest({ author });
    expect(await sync(world.service, home, earlier)).toEqual(['untracked']);
    home.acme.join(author);
    const later = web.openPullRequest({ author });
    await sync(world.service, home, later);
    await world.workOff();
    expect(await storedIds(home)).toEqual(idsOf([earlier, later]));
  });

  test('earlier pull requests of a new member are looked for again if GitHub does not show them at once', async () => {
    const home = await world.newTenant();
    const { author, opened } = await startStranger(home, 1);
    home.acme.join(author);
    await readList(home);
    const notFound = { type: 'NOT_FOUND', message: 'Could not resolve to a node', path: ['nodes', 0] };
    world.github.fault({ kind: 'alter', change: () => ({ data: { nodes: [null] }, errors: [notFound] }) });
    await world.workOff();
    expect(await waitingSyncs(world.service, home)).toHaveLength(1);
    await world.service.database.executor.execute(sql`update sync_requests set due_at = now()`);
    await world.workOff();
    expect(await storedIds(home)).toEqual(idsOf(opened));
  });

  test('pull requests of somebody who joins and leaves again at once wait for the next return', async () => {
    const home = await world.newTenant();
    const { author, opened } = await startStranger(home);
    home.acme.join(author);
    await readList(home);
    home.acme.leave(author);
    await readList(home);
    await world.workOff();
    expect(await storedIds(home)).toEqual([]);
    await readList(home);
    expect(await untracked(home)).toEqual(idsOf(opened));

    home.acme.join(author);
    await readList(home);
    await world.workOff();
    expect(await storedIds(home)).toEqual(idsOf(opened));
  });

  test('earlier pull requests of a new member are requested at once, but in the background', async () => {
    const home = await world.newTenant();
    const { author, opened } = await startStranger(home);
    const listener = new pg.Client(world.service.database.url);
    await listener.connect();
    onTestFinished(() => listener.end());
    const heard: (string | undefined)[] = [];
    listener.on('notification', ({ payload }) => heard.push(payload));
    await listener.query('listen pullscore');
    home.acme.join(author);
    const before = new Date();
    await readList(home);
    await expect.poll(() => heard).toContain('sync');
    const waiting = await waitingSyncs(world.service, home);
    expect(waiting.map(({ nodeId }) => nodeId)).toEqual(opened.map(({ nodeId }) => nodeId));
    expect(waiting.map(({ isBackground, attempts }) => [isBackground, attempts])).toEqual(Array(3).fill([true, 0]));
    for (const { dueAt } of waiting) expect(dueAt?.getTime()).toBeLessThan(before.getTime() + 60_000);
    expect(waiting.map(({ ticket }) => ticket)).toEqual(waiting.map(({ ticket }) => ticket).toSorted((a, b) => a - b));
  });

  test('an earlier pull request of a new member keeps its sync request, which no fetch under way settles', async () => {
    const home = await world.newTenant();
    const { author, web, opened } = await startStranger(home);
    const [one] = opened;
    if (one === undefined) throw new Error('none');
    await deliver(one.edit({ title: 'changed' }));
    const [before] = await waitingSyncs(world.service, home);
    const { database } = world.service;
    const underWay = await drawTicket(database.executor);
    await sync(world.service, home, web.openPullRequest({ author, authorAssociation: 'OWNER' }));
    const answer = { githubId: one.id, sourceUpdatedAt: one.updatedAt };
    await settleSyncRequests(database, home.organisation.id, underWay, [answer]);
    const waiting = await waitingSyncs(world.service, home);
    expect(waiting).toHaveLength(3);
    expect(waiting.find(({ githubId }) => githubId === one.id)).toEqual({ ...before, ticket: expect.any(Number) });
    await world.workOff();
  });

  test('a new member brings only their own earlier pull requests, and only in that organisation', async () => {
    const [home, other] = [await world.newTenant(), await world.newTenant()];
    const { author } = await startStranger(home);
    const someone = home.acme.repository('api').openPullRequest({ author: world.github.account('someone-else') });
    const elsewhere = other.acme.repository('web').openPullRequest({ author });
    await sync(world.service, home, someone);
    await sync(world.service, other, elsewhere);
    home.acme.join(author);
    await Promise.all([home, other].map(readList));
    expect(await untracked(home)).toEqual([someone.id]);
    expect(await untracked(other)).toEqual([elsewhere.id]);
    expect(await waitingSyncs(world.service, home)).toHaveLength(3);
    expect(await waitingSyncs(world.service, other)).toEqual([]);
    await world.workOff();
  });

  test('a moved pull request is remembered in both organisations, and fetched in the one its author joins', async () => {
    const [home, other] = [await world.newTenant(), await world.newTenant()];
    const { author, web, opened } = await startStranger(home);
    web.transfer(other.acme);
    await sync(world.service, other, ...opened);
    other.acme.join(author);
    await readList(other);
    expect(await untracked(other)).toEqual([]);
    await world.workOff();
    expect(await storedIds(other)).toEqual(idsOf(opened));
    expect(await untracked(home)).toEqual(idsOf(opened));
  });

  test('a thousand earlier pull requests of a new member become sync requests at once', async () => {
    const home = await world.newTenant();
    const { id: organisationId } = home.organisation;
    const author = home.acme.member(`busy-${home.acme.login}`);
    await readList(home);
    const { executor } = world.service.database;
    const thousand = Array.from({ length: 1_000 }, (_, index) => ({
      githubId: 5_000_000_000 + index,
      nodeId: `PR_${index}`,
      authorGithubId: author.id,
      sourceUpdatedAt: 1,
    }));
    // Not in the order in which they are fetched.
    await rememberUntracked(executor, organisationId, thousand.slice(500));
    await rememberUntracked(executor, organisationId, thousand.slice(0, 500));
    expect(await untracked(home)).toHaveLength(1_000);
    await world.service.database.transaction(each => requestUntrackedOfMembers(each, organisationId));
    expect(await untracked(home)).toEqual([]);
    const waiting = await waitingSyncs(world.service, home);
    const keys = waiting.map(({ githubId, nodeId }) => ({
      githubId,
      nodeId,
      authorGithubId: author.id,
      sourceUpdatedAt: 1,
    }));
    expect(keys).toEqual(thousand);
    expect(waiting.map(({ ticket }) => ticket)).toEqual(waiting.map(({ ticket }) => ticket).toSorted((a, b) => a - b));
    await executor.execute(`delete from sync_requests where organisation_id = '${organisationId}'`);
  });
});

test('more than ten thousand earlier pull requests are all requested with one list', async () => {
  const [other, home] = [await world.newTenant(), await world.newTenant()];
  const author = home.acme.member(`busiest-${home.acme.login}`);
  const { executor } = world.service.database;
  // PostgreSQL's statistics know another organisation's rows only. It must not compare each of ours with every other.
  await rememberUntracked(executor, other.organisation.id, [
    { githubId: 1, nodeId: 'PR_1', authorGithubId: 2, sourceUpdatedAt: 1 },
  ]);
  await executor.execute('analyze untracked_pull_requests');
  for (const start of [0, 5_001]) {
    const some = Array.from({ length: 5_001 }, (_, index) => ({
      githubId: 6_000_000_000 + start + index,
      nodeId: `PR_${index}`,
      authorGithubId: author.id,
      sourceUpdatedAt: 1,
    }));
    await rememberUntracked(executor, home.organisation.id, some);
  }
  await readList(home);
  expect(await untracked(home)).toEqual([]);
  await executor.execute(`delete from sync_requests where organisation_id = '${home.organisation.id}'`);
});

describe('a pull request that was fetched but not kept', () => {
  test('an untracked pull request is remembered once, however often it is fetched', async () => {
    const home = await world.newTenant();
    const { opened } = await startStranger(home);
    expect(await sync(world.service, home, ...opened)).toEqual(Array(3).fill('untracked'));
    expect(await untracked(home)).toEqual(idsOf(opened));
  });

  test('an untracked pull request is remembered by its latest node id', async () => {
    const { organisation } = await world.newTenant();
    const { executor } = world.service.database;
    for (const nodeId of ['PR_before', 'PR_now']) {
      await rememberUntracked(executor, organisation.id, [
        { githubId: 1, nodeId, authorGithubId: 2, sourceUpdatedAt: 1 },
      ]);
    }
    const rows = await executor
      .select()
      .from(untrackedPullRequests)
      .where(eq(untrackedPullRequests.organisationId, organisation.id));
    expect(rows).toMatchObject([{ nodeId: 'PR_now' }]);
  });

  test('a pull request of a ghost is neither kept nor remembered: nobody can join to make it tracked', async () => {
    const home = await world.newTenant();
    const ghostly = home.acme.repository('web').openPullRequest({ author: null });
    expect(await sync(world.service, home, ghostly)).toEqual(['untracked']);
    expect(await untracked(home)).toEqual([]);
  });

  test('a stored pull request is not remembered as untracked', async () => {
    const home = await world.newTenant();
    const { author, opened } = await startStranger(home);
    const [one, two] = opened;
    if (one === undefined || two === undefined) throw new Error('none');
    // As if the list had been read at the same moment as the fetch.
    const early = await fetchedSync(world.service, home, one);
    home.acme.join(author);
    await readList(home);
    await rememberUntracked(world.service.database.executor, home.organisation.id, [
      { githubId: one.id, nodeId: one.nodeId, authorGithubId: author.id, sourceUpdatedAt: one.updatedAt },
    ]);
    expect(await early.save()).toBe('saved');
    expect(await untracked(home)).toEqual([]);
    await world.workOff();
    // Nor if its author has left: it stays stored.
    home.acme.leave(author);
    await readList(home);
    expect(await sync(world.service, home, two)).toEqual(['saved']);
    expect(await untracked(home)).toEqual([]);
    expect((await stored(world.service, home, two))?.authorAssociation).toBe('CONTRIBUTOR');
  });
});
