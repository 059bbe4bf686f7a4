import { sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { finishRemoval } from '../../src/database/erasure.ts';
import { findOrganisation, releaseLogin } from '../../src/database/organisations.ts';
import { drawTicket } from '../../src/database/tickets.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { previewImport } from '../../src/sync/scope-import.ts';
import { readMemberList, syncMembers } from '../../src/sync/sync-members.ts';
import type { PageBody, PullRequestBody } from '../support/client.ts';
import type { Organisation as GithubOrganisation } from '../support/github/organisation.ts';
import { waitUntilSettled } from '../support/settled.ts';
import { createTenant } from '../support/tenants.ts';
import { deliver, makeDue, rule, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, test } = world;

const loginOf = async (tenant: SyncTenant) => (await tenant.row()).login;

/** Compares organisations until none is due. @returns how many comparisons it took */
async function compareDue(): Promise<number> {
  for (let made = 0; ; made += 1) if (!(await compareOrganisation(service))) return made;
}

const repositoryNames = async (tenant: SyncTenant) => (await tenant.storedRepositories()).map(({ name }) => name);

/** Another organisation, which takes the free login, with a repository of the same name. */
function takeOver(login: string, author: string): GithubOrganisation {
  const newcomer = world.github.organisation(login);
  const member = newcomer.member(author);
  newcomer.member(`stranger-${login}`);
  newcomer.repository('web').openPullRequest({ author: member, title: 'Not ours' });
  newcomer.repository('secrets').openPullRequest({ author: member, title: 'Not ours' });
  return newcomer;
}

describe('an organisation that is renamed on GitHub', () => {
  test('is followed by a comparison without a webhook and without another request', async ({ tenant }) => {
    const login = `${tenant.acme.login}-now`;
    const [web, lib] = [tenant.web, tenant.acme.repository('lib')];
    const opened = [web.openPullRequest(), lib.openPullRequest()];
    await tenant.apply(rule('7', `starts_with(repository, "${login}/")`));
    await tenant.sync(...opened);
    await tenant.compareLater();
    tenant.acme.rename(login);
    expect(await tenant.compare()).toBe(1);
    expect(await loginOf(tenant)).toBe(login);
    expect(await repositoryNames(tenant)).toEqual([`${login}/lib`, `${login}/web`]);
    await tenant.rescore();
    const stored = await tenant.storedPullRequests();
    expect(stored.map(({ score }) => score)).toEqual([7, 7]);
    expect(stored.map(({ url }) => url)).toEqual(opened.map(({ url }) => url));
  });

  test('is not renamed back by an answer from before it got its login again', async ({ tenant }) => {
    const pullRequest = await tenant.openStored();
    const { login } = tenant.acme;
    tenant.acme.rename(`${login}-for-a-while`);
    const early = await tenant.fetchedSync(pullRequest);
    tenant.acme.rename(login);
    await tenant.compare();
    await early.save();
    expect(await loginOf(tenant)).toBe(login);
  });

  test('keeps its login if it is the one to which GitHub has given it', async ({ tenant }) => {
    const { database } = service;
    const ticket = await drawTicket(database.executor);
    const profile = { githubId: tenant.acme.id, login: tenant.acme.login };
    await database.transaction(executor => releaseLogin(executor, ticket, profile));
    expect(await loginOf(tenant)).toBe(tenant.acme.login);
  });

  test('is followed by an import, an estimate, a list of members and a fetch', async () => {
    const ways: ((tenant: SyncTenant) => Promise<unknown>)[] = [
      tenant => tenant.import(),
      tenant => tenant.import({ repositories: ['web'] }),
      tenant => previewImport(service, tenant.organisation),
      tenant => tenant.syncMembers(),
      tenant => tenant.sync(...tenant.web.pullRequests),
    ];
    for (const way of ways) {
      const tenant = await world.newTenant();
      tenant.web.openPullRequest();
      tenant.acme.rename(`${tenant.acme.login}-now`);
      await way(tenant);
      expect(await loginOf(tenant)).toBe(tenant.acme.login);
    }
  });

  test('gets nothing from another one that has taken its login', async ({ tenant }) => {
    const { login } = tenant.acme;
    const own = tenant.web.openPullRequest({ title: 'Ours' });
    await tenant.syncMembers();
    tenant.acme.rename(`${login}-now`);
    takeOver(login, tenant.ada.login);
    await tenant.import({ repositories: ['web'] });
    await tenant.import();
    const { repositories: found } = await previewImport(service, tenant.organisation);
    expect(found.map(({ name }) => name)).toEqual([`${login}-now/web`]);
    expect(await tenant.syncMembers()).toEqual({ members: 1, left: 0 });
    await tenant.compare();
    expect((await tenant.storedPullRequests()).map(({ githubId }) => githubId)).toEqual([own.id]);
    expect(await repositoryNames(tenant)).toEqual([`${login}-now/web`]);
    await expect(importPullRequests(service, await tenant.row(), { repositories: ['secrets'] })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  test("has GitHub's login, whatever a late, doubled or redelivered webhook says", async ({ tenant }) => {
    const { login } = tenant.acme;
    const [first, second] = [tenant.acme.rename(`${login}-b`), tenant.acme.rename(`${login}-c`)];
    await makeDue(service);
    for (const event of [second, first, second, first]) {
      await deliver(service, event);
      expect(await loginOf(tenant)).not.toBe(`${login}-b`);
      expect(await compareDue()).toBe(1);
      expect(await loginOf(tenant)).toBe(`${login}-c`);
    }
  });
});

describe('a repository that is renamed twice', () => {
  async function renamedTwice() {
    const tenant = await world.newTenant();
    const web = tenant.acme.repository('a');
    const pullRequest = web.openPullRequest();
    await tenant.sync(pullRequest);
    // Later comparisons read no pull request, which would show the latest name.
    await tenant.compareLater();
    await makeDue(service);
    const name = (last: string) => [`${tenant.acme.login}/${last}`];
    return { tenant, web, pullRequest, name };
  }

  test('has its last name once the webhooks have come, even in reverse', async () => {
    const { tenant, web, pullRequest, name } = await renamedTwice();
    const [first, second] = [web.rename('b'), web.rename('c')];
    for (const event of [second, first]) {
      await deliver(service, event);
      expect(await compareDue()).toBe(1);
      expect(await repositoryNames(tenant)).toEqual(name('c'));
    }
    await tenant.rescore();
    expect((await tenant.storedPullRequests()).map(({ url }) => url)).toEqual([pullRequest.url]);
  });

  test('has its last name after the comparison that follows one under way', async () => {
    const { tenant, web, name } = await renamedTwice();
    const first = web.rename('b');
    const reply = world.github.hold('late', 'Repositories');
    const underway = tenant.compare();
    await reply.begun;
    await deliver(service, web.rename('c'), first);
    reply.release();
    await underway;
    expect(await repositoryNames(tenant)).toEqual(name('b'));
    expect(await compareDue()).toBe(1);
    expect(await repositoryNames(tenant)).toEqual(name('c'));
  });
});

describe('the address of a pull request', () => {
  test('follows a renamed repository, and no other address changes', async ({ tenant }) => {
    const [web, lib] = [tenant.web, tenant.acme.repository('web-lib')];
    const opened = [web.openPullRequest(), lib.openPullRequest(), web.openPullRequest()];
    await tenant.compareLater();
    const odd = `https://github.test/elsewhere/${opened[2]?.id}`;
    await executor.execute(sql`update pull_requests set url = ${odd} where github_id = ${opened[2]?.id}`);
    web.rename('site');
    await tenant.compare();
    await tenant.apply(rule('1'));
    await tenant.scoreBy(rule('2'));
    const stored = await tenant.storedPullRequests();
    expect(stored.map(({ url }) => url)).toEqual([opened[0]?.url, opened[1]?.url, odd]);
    expect(opened[0]?.url).toMatch(/\/site\/pull\/1$/);
  });

  test("lists and single pull requests show a repository's new name before its pull requests are scored again", async () => {
    const tenant = await world.newTenant();
    const { web } = tenant;
    web.openPullRequest();
    await tenant.compareLater();
    type Named = PullRequestBody & { repository: string };
    const read = async <Body>(path: string) => (await world.client.get<Body>(`/2026-12${path}`, tenant.token)).body;
    const list = async () => (await read<PageBody<Named>>('/pull-requests')).data;
    // From the third time on, a page comes from memory.
    for (let time = 0; time < 3; time += 1) await list();
    web.rename('site');
    await tenant.compare();
    const [listed] = await list();
    expect(listed?.repository).toBe(web.fullName);
    expect((await read<{ data: Named }>(`/pull-requests/${listed?.id}`)).data).toEqual(listed);
  });

  test('a client that follows changes knows the name of a repository that was renamed and soon renamed back', async () => {
    const tenant = await world.newTenant();
    const { web } = tenant;
    web.openPullRequest();
    await tenant.compareLater();
    await tenant.rescore();
    type Named = PullRequestBody & { repository: string };
    type Change = { type: string; pull_request: Named };
    const known = new Map<string, Named>();
    let cursor = '';
    const follow = async () => {
      await waitUntilSettled(service.database);
      for (;;) {
        const path = `/2026-12/changes${cursor && `?cursor=${cursor}`}`;
        const { data, meta } = (await world.client.get<PageBody<Change>>(path, tenant.token)).body;
        cursor = meta.next_cursor ?? '';
        if (data.length === 0) return;
        for (const { pull_request: pullRequest } of data) known.set(pullRequest.id, pullRequest);
      }
    };
    web.rename('site');
    await tenant.compare();
    await follow();
    web.rename('web');
    await tenant.compare();
    await tenant.rescore();
    await follow();
    const { data } = (await world.client.get<PageBody<Named>>('/2026-12/pull-requests', tenant.token)).body;
    expect([...known.values()]).toEqual(data);
  });

  test('a fetch from before a renaming that is saved after it gets the new address and score', async ({ tenant }) => {
    await tenant.apply(rule('7', 'ends_with(repository, "/site")'));
    const [one, other] = tenant.open(2);
    await tenant.compareLater();
    const early = await tenant.fetchedSync(one);
    tenant.web.rename('site');
    await tenant.compare();
    await tenant.rescore();
    expect(await early.save()).toBe('saved');
    const stored = await tenant.storedPullRequests();
    expect(stored.map(({ url }) => url)).toEqual([one.url, other.url]);
    expect(stored.map(({ score }) => score)).toEqual([7, 7]);
  });
});

describe('two tracked organisations', () => {
  test.each([
    ['the first', 0],
    ['the second', 1],
  ])('that swap their logins are both followed, even if %s is compared alone first', async (_, place) => {
    const tenants = [await world.newTenant(), await world.newTenant()] as const;
    const [one, two] = tenants;
    const logins = tenants.map(({ acme }) => acme.login);
    one.acme.rename(`${logins[0]}-for-a-moment`);
    two.acme.rename(`${logins[0]}`);
    one.acme.rename(`${logins[1]}`);
    await makeDue(service, tenants[place] ?? one);
    expect(await compareOrganisation(service)).toBe(true);
    const other = tenants[1 - place] ?? two;
    expect(await loginOf(other)).toBe(`renamed_${other.acme.id}`);
    // This has made it due.
    expect(await compareDue()).toBe(1);
    expect(await Promise.all(tenants.map(loginOf))).toEqual([logins[1], logins[0]]);
  });
});

test('an answer about an organisation that was removed takes its login away from no other', async ({ tenant }) => {
  await finishRemoval(service.database, tenant.id);
  const again = await createTenant(service, { login: tenant.acme.login });
  await readMemberList(service, tenant.organisation);
  expect(await loginOf(tenant.as(again.organisation))).toBe(tenant.acme.login);
});

describe('an organisation whose node id is not known yet', () => {
  async function unidentified(values: { githubId?: null } = {}): Promise<SyncTenant> {
    const tenant = await world.newTenant();
    await tenant.update({ nodeId: null, ...values });
    return tenant.as(await tenant.row());
  }

  test('is identified by its login, once', async () => {
    const tenant = await unidentified({ githubId: null });
    expect(await tenant.compare()).toBe(2);
    expect(await tenant.row()).toMatchObject({ githubId: tenant.acme.id, nodeId: tenant.acme.nodeId });
    expect(await tenant.compare()).toBe(1);
  });

  test('is not confused with the present owner of its login', async () => {
    const tenant = await unidentified();
    const { login } = tenant.acme;
    const pullRequest = tenant.web.openPullRequest();
    tenant.acme.rename(`${login}-now`);
    await expect(tenant.syncMembers()).rejects.toMatchObject({
      message: `GitHub shows no organisation ${login} to the configured credentials.`,
      action: expect.stringMatching(/^Check the login .* If it was renamed, edit one of its pull requests on GitHub: /),
    });
    takeOver(login, 'ada');
    for (const work of [importPullRequests, previewImport, syncMembers]) {
      await expect(work(service, tenant.organisation)).rejects.toMatchObject({
        message: `On GitHub, the login ${login} now belongs to a different organisation.`,
        action: expect.stringMatching(/^If it was renamed, edit one of its pull requests on GitHub: /),
      });
    }
    expect(await tenant.row()).toMatchObject({ githubId: tenant.acme.id, nodeId: null, login });
    expect(await tenant.sync(pullRequest)).toEqual(['saved']);
    expect(await tenant.row()).toMatchObject({ nodeId: tenant.acme.nodeId, login: `${login}-now` });
    expect(await syncMembers(service, await tenant.row())).toMatchObject({ members: 1 });
  });

  test('does not become a duplicate of one that is tracked already', async () => {
    const known = await world.newTenant();
    const former = known.acme.login;
    known.acme.rename(`${former}-now`);
    const twin = await unidentified({ githubId: null });
    await twin.update({ login: `${former}-now` });
    await expect(syncMembers(service, await twin.row())).rejects.toMatchObject({
      text: `GitHub's organisation ${former}-now is tracked here already, as ${former}. Use that organisation.`,
    });
    await known.compare();
    expect(await findOrganisation(executor, `${former}-now`)).toMatchObject({
      id: known.id,
    });
  });
});
