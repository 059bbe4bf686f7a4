import { beforeEach, describe, expect, test } from 'vitest';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { createSyncOnRequest } from '../../src/sync/sync-on-request.ts';
import { rescoreAll } from '../support/rescore.ts';
import { startWorld, type TenantOnGithub } from '../support/world.ts';
import {
  adaOf,
  apply,
  memberRows,
  repositoryRows,
  rule,
  stored,
  storedPullRequests,
  sync,
  withStep,
} from './support.ts';

const world = await startWorld();
const { service } = world;
let home: TenantOnGithub;
beforeEach(async () => {
  home = await world.newTenant();
});

const storedMembers = (home: TenantOnGithub) => memberRows(service, home);
const storedRepositories = (home: TenantOnGithub) => repositoryRows(service, home);

describe('pull requests that are kept', () => {
  test.each(['MEMBER', 'OWNER'])(
    'a pull request is kept if GitHub marks its author as %s, who becomes a member',
    async mark => {
      const author = world.github.account(`new-${mark}-${home.acme.login}`, { name: 'New Person' });
      const pullRequest = home.acme.repository('web').openPullRequest({ author, authorAssociation: mark });
      expect(await sync(service, home, pullRequest)).toEqual(['saved']);
      expect(await storedMembers(home)).toMatchObject([
        { githubId: author.id, login: author.login, name: 'New Person', leftAt: null },
      ]);
      expect((await stored(service, home, pullRequest))?.memberId).toBe((await storedMembers(home))[0]?.id);
    },
  );

  test('include one if GitHub marks its author only at another one of the same reply', async () => {
    const author = world.github.account(`once-${home.acme.login}`);
    const opened = ['MEMBER', 'NONE'].map(mark =>
      home.acme.repository('web').openPullRequest({ author, authorAssociation: mark }),
    );
    expect(await sync(service, home, ...opened)).toEqual(['saved', 'saved']);
  });

  test('include one if its organisation is known only by its login, in any letter case', async () => {
    const pullRequest = home.acme.repository('web').openPullRequest();
    const organisation = { ...home.organisation, githubId: null, nodeId: null, login: home.acme.login.toUpperCase() };
    expect(await sync(service, { ...home, organisation }, pullRequest)).toEqual(['saved']);
  });

  test('include one if its author is known as a member, whatever GitHub says', async () => {
    await syncMembers(service, home.organisation);
    const pullRequest = home.acme.repository('web').openPullRequest({ authorAssociation: 'CONTRIBUTOR' });
    expect(await sync(service, home, pullRequest)).toEqual(['saved']);
  });

  test('a stored pull request keeps its member even if its author leaves or the account is deleted', async () => {
    const author = adaOf(home);
    const pullRequest = home.acme.repository('web').openPullRequest({ authorAssociation: 'NONE' });
    await syncMembers(service, home.organisation);
    await sync(service, home, pullRequest);
    const before = await stored(service, home, pullRequest);
    home.acme.leave(author);
    await syncMembers(service, home.organisation);
    pullRequest.edit({ title: 'after leaving' });
    expect(await sync(service, home, pullRequest)).toEqual(['saved']);
    expect((await storedMembers(home))[0]?.leftAt).not.toBeNull();
    author.deleted = true;
    pullRequest.edit({ title: 'as a ghost' });
    expect(await sync(service, home, pullRequest)).toEqual(['saved']);
    expect(await stored(service, home, pullRequest)).toMatchObject({
      id: before?.id,
      memberId: before?.memberId,
      title: 'as a ghost',
      author: 'ghost',
    });
    expect((await storedMembers(home)).map(({ login }) => login)).toEqual([author.login]);
  });

  test('include one if its author is a bot that is marked as a member', async () => {
    const author = world.github.account(`robot-${home.acme.login}`, { type: 'Bot' });
    const pullRequest = home.acme.repository('web').openPullRequest({ author, authorAssociation: 'MEMBER' });
    expect(await sync(service, home, pullRequest)).toEqual(['saved']);
    expect((await stored(service, home, pullRequest))?.authorIsBot).toBe(true);
  });
});

describe('pull requests that are not kept', () => {
  test.each([
    ['a stranger', 'User', 'NONE'],
    ['a contributor who is not a member', 'User', 'CONTRIBUTOR'],
    ['a collaborator who is not a member', 'User', 'COLLABORATOR'],
    ['a bot', 'Bot', 'NONE'],
    ['a mannequin', 'Mannequin', 'MANNEQUIN'],
  ] as const)(
    'a pull request by %s is not kept, and adds no member or repository',
    async (_, type, authorAssociation) => {
      const author = world.github.account(`${type}-${authorAssociation}-${home.acme.login}`, { type });
      const pullRequest = home.acme.repository('web').openPullRequest({ author, authorAssociation });
      expect(await sync(service, home, pullRequest)).toEqual(['untracked']);
      expect(await storedPullRequests(service, home)).toEqual([]);
      expect(await storedMembers(home)).toEqual([]);
      expect(await storedRepositories(home)).toEqual([]);
    },
  );
});

describe('members', () => {
  test('who rename themselves keep their id', async () => {
    const author = adaOf(home);
    const pullRequest = home.acme.repository('web').openPullRequest();
    await sync(service, home, pullRequest);
    const [before] = await storedMembers(home);
    author.login = `countess-${home.acme.login}`;
    author.name = 'Ada King';
    await sync(service, home, pullRequest);
    const formerLogins = [before?.login];
    const now = { login: author.login, formerLogins, name: 'Ada King', fetchTicket: expect.any(Number) };
    expect(await storedMembers(home)).toEqual([{ ...before, ...now }]);
    expect(await stored(service, home, pullRequest)).toMatchObject({
      author: author.login,
      memberId: before?.id,
    });
  });
});

describe('a repository', () => {
  test('keeps its row and its pull requests if it is renamed, and they are scored again', async () => {
    const { acme } = home;
    const web = acme.repository('web');
    await apply(service, home, rule('7', `repository == "${acme.login}/site"`));
    const [seen, unseen] = [web.openPullRequest(), web.openPullRequest()];
    await sync(service, home, seen, unseen);
    const before = await storedPullRequests(service, home);
    const [repository] = await storedRepositories(home);
    web.rename('site');
    await sync(service, home, seen);
    await rescoreAll(service, home.organisation.id);
    const after = await storedPullRequests(service, home);
    expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect(after.map(({ score, rulesetVersion }) => [score, rulesetVersion])).toEqual([
      [7, 1],
      [7, 1],
    ]);
    expect(await storedRepositories(home)).toMatchObject([{ id: repository?.id, name: `${acme.login}/site` }]);
  });

  test('has its new name once any of its pull requests is fetched, even one that is not kept', async () => {
    const web = home.acme.repository('web');
    await sync(service, home, web.openPullRequest());
    web.rename('site');
    expect(await sync(service, home, web.openPullRequest({ author: null }))).toEqual(['untracked']);
    expect(await storedRepositories(home)).toMatchObject([{ name: web.fullName }]);
  });

  test('leaves its pull requests as they are if it moves to another owner, and gets no other; a refresh fails', async () => {
    const other = await world.newTenant();
    const web = home.acme.repository('web');
    const pullRequest = web.openPullRequest();
    await sync(service, home, pullRequest);
    const before = await stored(service, home, pullRequest);
    web.transfer(other.acme);
    pullRequest.edit({ title: 'elsewhere' });
    expect(await sync(service, home, pullRequest)).toEqual(['untracked']);
    await expect(createSyncOnRequest(service)(home.organisation.id, before?.id ?? '')).rejects.toMatchObject({
      code: 'not_found',
    });
    expect(await sync(service, home, web.openPullRequest())).toEqual(['untracked']);
    expect(await storedPullRequests(service, home)).toEqual([before]);
    // For its new owner, which is tracked too, it is a pull request like any other.
    pullRequest.edit({ title: 'at home' });
    for (const account of home.acme.members.values()) other.acme.join(account);
    expect(await sync(service, other, pullRequest)).toEqual(['saved']);
  });
});

describe('a reply from GitHub', () => {
  test('ids of pull requests from 2^31 up to 2^53 are stored exactly', async () => {
    const web = home.acme.repository('web');
    const ids = [2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER];
    const opened = ids.map(id => web.openPullRequest({ id }));
    expect(await sync(service, home, ...opened)).toEqual(['saved', 'saved', 'saved']);
    expect((await storedPullRequests(service, home)).map(({ githubId }) => githubId)).toEqual(ids);
  });

  test("what PostgreSQL cannot hold in GitHub's text is replaced, and all other text is kept", async () => {
    const hostile = 'nul \0, lone \ud800 and \udfff';
    const odd = '𝒻ix 👩‍👩‍👧 \u202Eevil\u202C \u0007 é ﷽';
    const pullRequest = home.acme.repository('web').addPullRequest({
      title: hostile,
      body: odd,
      labels: [hostile, odd],
      milestone: hostile,
      files: [{ path: hostile, additions: 1, deletions: 0 }],
    });
    expect(await sync(service, home, pullRequest)).toEqual(['saved']);
    const replaced = 'nul \uFFFD, lone \uFFFD and \uFFFD';
    expect(await stored(service, home, pullRequest)).toMatchObject({
      title: replaced,
      body: odd,
      labels: [replaced, odd],
      milestone: replaced,
      files: [replaced],
    });
  });

  test('a pull request that is twice in a reply from GitHub is stored once', async () => {
    const pullRequest = home.acme.repository('web').openPullRequest();
    const doubling = withStep(
      service,
      async results => new Map([...results, ...[...results.values()].map(each => ['another id', each] as const)]),
    );
    expect(await sync(doubling, home, pullRequest)).toEqual(['saved']);
    expect(await storedPullRequests(service, home)).toHaveLength(1);
  });
});
