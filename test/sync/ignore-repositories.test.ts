import { sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { findCheckRunsToPublish } from '../../src/database/check-runs.ts';
import { eraseMember } from '../../src/database/erasure.ts';
import { findMembersByLogin } from '../../src/database/members.ts';
import { pullRequests, untrackedPullRequests } from '../../src/database/schema.ts';
import { listTotals } from '../../src/database/standings.ts';
import { oneRow } from '../../src/database/statement.ts';
import { formatId } from '../../src/ids.ts';
import { createIgnore, parseGlob } from '../../src/sync/ignore-repositories.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { runJson } from '../commands/support.ts';
import { furtherPage } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { post } from '../webhooks/support.ts';
import {
  deliver,
  lockWaits,
  openTransaction,
  type SyncTenant,
  startSyncWorld,
  waitUntil,
  withTwoRepositories,
} from './support.ts';

const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, test } = world;

/** Changes the setting with the command. The organisation of `tenant` stays as a turn that began before has it. */
const settings = ({ organisation }: SyncTenant, ...options: string[]) =>
  runJson({ DATABASE_URL: service.database.url }, 'organisation', 'settings', organisation.login, ...options);

async function twoRepositories() {
  const { other, inOther, ...rest } = await withTwoRepositories(world, 'sandbox-1');
  return { sandbox: other, inSandbox: inOther, ...rest };
}

async function withIgnoredSandbox() {
  const parts = await twoRepositories();
  await settings(parts.tenant, '--ignore', 'sandbox-*');
  await parts.tenant.compare();
  return parts;
}

/** Why each is not tracked, by name without the owner: null if it has left. */
async function untracked(tenant: SyncTenant): Promise<Record<string, string | null>> {
  const rows = await tenant.storedRepositories();
  const left = rows.filter(({ leftAt }) => leftAt !== null);
  return Object.fromEntries(left.map(({ name, ignoredBecause }) => [name.split('/')[1], ignoredBecause]));
}

/** Names of the repositories that standings count. */
async function countedRepositories({ id }: SyncTenant): Promise<string[]> {
  const period = { by: 'created', from: undefined, until: undefined } as const;
  const totals = await listTotals(executor, id, 'repositories', period, { withIdle: false });
  return totals.map(({ name }) => name.split('/')[1] ?? '');
}

const idOf = async (tenant: SyncTenant, pullRequest: PullRequest) =>
  formatId('pr', (await tenant.stored(pullRequest))?.id ?? '');

const trackedMessage = 'Ignored: this organisation does not track this repository.';

describe('what is ignored', () => {
  const whyIgnored = createIgnore({
    ignoredGlobs: ['sandbox-*', '{lab,old}?'],
    ignoresArchived: true,
    ignoresForks: true,
  });
  const plain = { isArchived: false, isFork: false };

  test.each([
    ['acme/web', plain, undefined],
    ['acme/Sandbox-1', plain, 'its name matches sandbox-*'],
    ['acme/old1', plain, 'its name matches {lab,old}?'],
    ['acme/old', plain, undefined],
    ['acme/web', { ...plain, isArchived: true }, 'it is archived'],
    ['acme/web', { ...plain, isFork: true }, 'it is a fork'],
  ])('%s, %o: %s', (name, facts, reason) => {
    expect(whyIgnored({ name, ...facts })).toBe(reason);
  });

  test('archived repositories and forks are tracked unless the setting says otherwise', () => {
    const tracksAll = createIgnore({ ignoredGlobs: [], ignoresArchived: false, ignoresForks: false });
    expect(tracksAll({ name: 'acme/web', isArchived: true, isFork: true })).toBeUndefined();
  });

  test.each([
    ['Sandbox-*', 'sandbox-*'],
    ['ACME/sandbox-*', 'sandbox-*'],
  ])('a glob is stored without the owner and in lower case: %s', (text, glob) => {
    expect(parseGlob('acme', text)).toBe(glob);
  });

  test.each([
    '',
    'other/web',
    'acme/',
    '**/web',
    'a b',
    '!web',
    '{a,b',
    '[z-a]',
    'a'.repeat(201),
    'a\0',
    '\u001b[2J',
    "'",
  ])('a glob that can match no name is refused: %j', text => {
    expect(() => parseGlob('acme', text)).toThrow(expect.objectContaining({ code: 'bad_request' }));
  });
});

describe('a repository that is ignored', () => {
  test('the next comparison marks it, and neither lists nor fetches it, now or later', async () => {
    const { tenant, sandbox, inSandbox } = await twoRepositories();
    await settings(tenant, '--ignore', 'sandbox-*');
    inSandbox.edit({ title: 'Changed' });
    sandbox.openPullRequest();
    expect(await tenant.compare()).toBe(1);
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'its name matches sandbox-*' });
    expect(await tenant.compare()).toBe(1);
  });

  test('it does not count and shows no check runs, but its pull requests stay in lists', async () => {
    const { tenant, inWeb } = await withIgnoredSandbox();
    expect(await countedRepositories(tenant)).toEqual(['web']);
    const published = await findCheckRunsToPublish(executor, tenant.id, { minSeconds: 0, limit: 10 });
    expect(published.map(({ id }) => formatId('pr', id))).toEqual([await idOf(tenant, inWeb)]);
    const { body } = await world.client.get('/2025-04/pull-requests', tenant.token);
    expect((body as unknown as { data: object[] }).data).toHaveLength(2);
  });

  test('the sweep leaves it out, and passes over its pull requests once a day', async () => {
    const { tenant, inWeb } = await withIgnoredSandbox();
    await tenant.makeSweepDue();
    await tenant.compareOnly();
    expect((await tenant.waitingSyncs()).map(({ githubId }) => githubId)).toEqual([inWeb.id]);
    const isOld = sql`organisation_id = ${tenant.id} and fetched_at < now() - interval '1 day'`;
    expect(await executor.$count(pullRequests, isOld)).toBe(0);
    await world.workOff();
  });

  test('its webhooks are ignored, and say so', async () => {
    const { tenant, sandbox, inSandbox } = await withIgnoredSandbox();
    const events = [
      inSandbox.edit({ title: 'Changed' }),
      sandbox.openPullRequest().opened ?? { event: '' },
      inSandbox.comment(world.github.account(`grace-${tenant.acme.login}`)),
    ];
    for (const event of events) {
      expect(await post(service, event)).toMatchObject({ status: 200, message: trackedMessage });
    }
    expect(await tenant.waitingSyncs()).toEqual([]);
    expect(await tenant.deliveryStates()).toEqual([]);
  });

  test('a renamed label fetches none of its pull requests', async ({ tenant }) => {
    const sandbox = tenant.acme.repository('sandbox-1');
    sandbox.openPullRequest({ labels: ['bug'] });
    await tenant.import();
    await settings(tenant, '--ignore', 'sandbox-*');
    await tenant.compare();
    await post(service, sandbox.renameLabel('bug', 'defect'));
    expect(await tenant.waitingSyncs()).toEqual([]);
  });

  test('one that is not known yet is fetched once, for its first webhook, and nothing of it is kept', async () => {
    const tenant = await world.newTenant();
    await settings(tenant, '--ignore', 'sandbox-*');
    const sandbox = tenant.acme.repository('sandbox-1');
    const early = sandbox.openPullRequest();
    await deliver(service, early.opened);
    await world.workOff();
    expect(await tenant.storedPullRequests()).toEqual([]);
    expect(await post(service, early.edit({ title: 'Changed' }))).toMatchObject({ message: trackedMessage });
  });

  test('a PUT sync is answered with 404 and the reason, and asks GitHub nothing', async () => {
    const { tenant, inSandbox, inWeb } = await withIgnoredSandbox();
    const before = world.github.count();
    const put = async (pullRequest: PullRequest) =>
      world.client.put(`/2025-04/pull-requests/${await idOf(tenant, pullRequest)}/sync`, tenant.token);
    const refusal = {
      status: 404,
      body: {
        message: 'The organisation ignores the repository of this pull request; the stored copy is unchanged.',
      },
    };
    expect(await put(inSandbox)).toMatchObject(refusal);
    expect(world.github.count()).toBe(before);
    const [own, ignored] = await Promise.all([put(inWeb), put(inSandbox)]);
    expect([own.status, ignored.status]).toEqual([200, 404]);
  });

  test('an import leaves it out, marks it, and refuses to import it by its name', async () => {
    const { tenant } = await twoRepositories();
    await settings(tenant, '--ignore', 'sandbox-*');
    const before = world.github.count('PullRequestList');
    const result = await importPullRequests(service, { ...tenant.organisation, ignoredGlobs: ['sandbox-*'] });
    expect(result).toMatchObject({ repositories: 1, ignored: [{ name: `${tenant.acme.login}/sandbox-1` }] });
    expect(world.github.count('PullRequestList')).toBe(before + 1);
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'its name matches sandbox-*' });
    await expect(
      importPullRequests(
        service,
        { ...tenant.organisation, ignoredGlobs: ['sandbox-*'] },
        { repositories: ['sandbox-1'] },
      ),
    ).rejects.toThrow(/^The organisation ignores acme-\d+\/sandbox-1: its name matches sandbox-\*\.$/);
  });

  test('is marked by a comparison that was under way before the setting', async ({ tenant }) => {
    for (let index = 0; index < 100; index += 1) tenant.acme.repository(`empty-${index}`);
    await tenant.sync(tenant.acme.repository('sandbox-1').openPullRequest());
    const secondPage = world.github.hold('late', furtherPage('Repositories'));
    const underWay = tenant.compareOnly();
    await secondPage.begun;
    await settings(tenant, '--ignore', 'sandbox-*');
    secondPage.release();
    await underWay;
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'its name matches sandbox-*' });
  });

  test('one that GitHub then deletes has left, and is ignored no more', async () => {
    const { tenant, sandbox } = await withIgnoredSandbox();
    sandbox.remove();
    await tenant.compare();
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': null });
  });

  test('one that is renamed costs later comparisons nothing', async () => {
    const { tenant, sandbox } = await withIgnoredSandbox();
    sandbox.rename('sandbox-2');
    expect([await tenant.compare(), await tenant.compare()]).toEqual([1, 1]);
  });
});

describe('archived repositories', () => {
  test('are ignored from their webhook on, and tracked again once they are no longer archived', async () => {
    const { tenant, sandbox, inSandbox } = await twoRepositories();
    await settings(tenant, '--ignore-archived');
    await tenant.compare();
    expect(await untracked(tenant)).toEqual({});
    await deliver(service, sandbox.archive());
    await tenant.compare();
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'it is archived' });
    await deliver(service, sandbox.unarchive());
    await tenant.compare();
    expect(await untracked(tenant)).toEqual({});
    expect(await tenant.sync(inSandbox)).toEqual(['saved']);
  });
});

describe('forks', () => {
  test('are ignored by a fetch, too', async () => {
    const { tenant, sandbox, inWeb, inSandbox } = await twoRepositories();
    sandbox.fork = true;
    await settings(tenant, '--ignore-forks');
    tenant.organisation.ignoresForks = true;
    expect(await tenant.sync(inWeb, inSandbox)).toEqual(['saved', 'ignored']);
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'it is a fork' });
  });
});

describe('a repository that is tracked again', () => {
  test('comes back with the next comparison: what was known, what was met meanwhile, and its new name', async () => {
    const { tenant, sandbox, inSandbox } = await withIgnoredSandbox();
    inSandbox.edit({ title: 'Changed' });
    const opened = sandbox.openPullRequest();
    sandbox.rename('playground');
    await settings(tenant, '--ignore', 'playground', '--unignore', 'sandbox-*');
    await tenant.compare();
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'its name matches playground' });
    await settings(tenant, '--unignore', 'playground');
    await tenant.compareLater();
    expect(await untracked(tenant)).toEqual({});
    expect(await settings(tenant)).toMatchObject({ ignored_repositories: [] });
    expect((await countedRepositories(tenant)).toSorted()).toEqual(['playground', 'web']);
    expect(await tenant.stored(inSandbox)).toMatchObject({
      title: 'Changed',
      url: expect.stringContaining('/playground/pull/'),
    });
    expect(await tenant.stored(opened)).toBeDefined();
  });

  test('brings the pull requests that were fetched and not kept, however old they are', async ({ tenant }) => {
    await settings(tenant, '--ignore', 'sandbox-*');
    const sandbox = tenant.acme.repository('sandbox-1');
    const early = sandbox.openPullRequest({ createdAt: 1_500_000_000, updatedAt: 1_500_000_000 });
    tenant.organisation.ignoredGlobs = ['sandbox-*'];
    expect(await tenant.sync(early)).toEqual(['ignored']);
    await settings(tenant, '--unignore', 'sandbox-*');
    // Nothing in the repository is new.
    await executor.execute(sql`
      update organisations set created_at = now() + interval '10 days' where id = ${tenant.id}`);
    await tenant.compareLater();
    expect(await tenant.stored(early)).toBeDefined();
  });

  test('nothing is lost if the setting is taken back while GitHub answers', async () => {
    const { tenant, inSandbox } = await withIgnoredSandbox();
    inSandbox.edit({ title: 'Changed' });
    const early = await tenant.as({ ignoredGlobs: ['sandbox-*'] }).fetchedSync(inSandbox);
    await settings(tenant, '--unignore', 'sandbox-*');
    expect(await early.save()).toBe('saved');
    expect(await tenant.stored(inSandbox)).toMatchObject({ title: 'Changed' });
  });

  test('a fetch from before the setting does not track it again', async () => {
    const { tenant, inSandbox } = await twoRepositories();
    inSandbox.edit({ title: 'Changed' });
    const early = await tenant.fetchedSync(inSandbox);
    await settings(tenant, '--ignore', 'sandbox-*');
    await tenant.compareOnly();
    await early.save();
    expect(await untracked(tenant)).toEqual({ 'sandbox-1': 'its name matches sandbox-*' });
    await world.workOff();
  });

  test('no pull request is lost that was fetched while it was archived, and saved afterwards', async () => {
    const { tenant, sandbox } = await twoRepositories();
    await settings(tenant, '--ignore-archived');
    await tenant.compareOnly();
    const opened = sandbox.openPullRequest();
    await deliver(service, opened.opened);
    world.github.clock.advance(120);
    sandbox.archive();
    const early = await tenant.as({ ignoresArchived: true }).fetchedSync(opened);
    await deliver(service, sandbox.unarchive());
    await tenant.compareOnly();
    expect(await early.save()).toBe('saved');
    expect(await untracked(tenant)).toEqual({});
  });

  test('no pull request is lost that is set aside just when its repository is tracked again', async () => {
    const { tenant, sandbox } = await twoRepositories();
    await settings(tenant, '--ignore-archived');
    const opened = sandbox.openPullRequest();
    await deliver(service, opened.opened);
    world.github.clock.advance(120);
    sandbox.archive();
    await tenant.compareOnly();
    const early = await tenant.as({ ignoresArchived: true }).fetchedSync(opened);
    sandbox.unarchive();
    const lock = await openTransaction(world, 'lock table untracked_pull_requests in share mode');
    const saving = early.save();
    await waitUntil(async () => (await lockWaits(service)) === 1);
    const comparing = tenant.compareOnly();
    await Promise.race([comparing, waitUntil(async () => (await lockWaits(service)) === 2)]);
    await lock.query('rollback');
    await Promise.all([saving, comparing]);
    await world.workOff();
    expect(await untracked(tenant)).toEqual({});
    expect(await tenant.stored(opened)).toBeDefined();
  });

  test('brings them all if they are more than one statement takes', async () => {
    const { tenant } = await withIgnoredSandbox();
    const { id } = tenant.organisation;
    await executor.execute(sql`
      insert into untracked_pull_requests (organisation_id, github_id, node_id, source_updated_at, awaits_repository)
      select ${id}::uuid, 900000000000 + place, 'PR_' || place, now(), true from generate_series(1, 10005) as place`);
    await settings(tenant, '--unignore', 'sandbox-*');
    await tenant.compareOnly();
    expect(await tenant.waitingSyncs()).toHaveLength(10_005);
  });
});

describe('what is remembered of the pull requests of an ignored repository', () => {
  const remembered = async (tenant: SyncTenant) => (await tenant.rowsOf(untrackedPullRequests)).length;

  async function fetchIgnored(tenant: SyncTenant, pullRequest: PullRequest): Promise<void> {
    expect(await tenant.as({ ignoredGlobs: ['sandbox-*'] }).sync(pullRequest)).toEqual(['ignored']);
  }

  async function erase({ id }: SyncTenant, login: string): Promise<void> {
    const people = await findMembersByLogin(executor, id, login);
    await eraseMember(service.database, id, oneRow(people));
  }

  test('goes with the erasure of their author, and does not come back', async ({ tenant }) => {
    const eve = tenant.acme.member(`eve-of-${tenant.acme.login}`);
    const [web, sandbox] = [tenant.web, tenant.acme.repository('sandbox-1')];
    const [inWeb, inSandbox] = [web.openPullRequest({ author: eve }), sandbox.openPullRequest({ author: eve })];
    await tenant.sync(inWeb);
    await settings(tenant, '--ignore', 'sandbox-*');
    await fetchIgnored(tenant, inSandbox);
    expect(await remembered(tenant)).toBe(1);
    await erase(tenant, eve.login);
    expect(await remembered(tenant)).toBe(0);
    await fetchIgnored(tenant, inSandbox);
    expect(await remembered(tenant)).toBe(0);
  });

  test('is not asked for if its author becomes a member', async ({ tenant }) => {
    const author = tenant.acme.member(`late-of-${tenant.acme.login}`);
    const [inWeb, inSandbox] = ['web', 'sandbox-1'].map(name =>
      tenant.acme.repository(name).openPullRequest({ author }),
    );
    if (inWeb === undefined || inSandbox === undefined) throw new Error('two pull requests');
    await settings(tenant, '--ignore', 'sandbox-*');
    await fetchIgnored(tenant, inSandbox);
    await tenant.sync(inWeb);
    expect(await remembered(tenant)).toBe(1);
    expect(await tenant.waitingSyncs()).toEqual([]);
  });
});
