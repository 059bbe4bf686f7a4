import { describe, expect } from 'vitest';
import { createSyncOnRequest } from '../../src/sync/sync-on-request.ts';
import { rule, startSyncWorld, withStep } from './support.ts';

const world = await startSyncWorld();
const { service, test } = world;

describe('pull requests that are kept', () => {
  test.for([
    ['MEMBER', 'User'],
    ['OWNER', 'User'],
    ['MEMBER', 'Bot'],
  ] as const)(
    'a pull request is kept if GitHub marks its author as %s, who becomes a member, also a %s',
    async ([mark, type], { home }) => {
      const author = world.github.account(`new-${mark}-${type}-${home.acme.login}`, { name: 'New Person', type });
      const pullRequest = home.web.openPullRequest({ author, authorAssociation: mark });
      expect(await home.sync(pullRequest)).toEqual(['saved']);
      // Bots have no name.
      const name = type === 'Bot' ? author.login : 'New Person';
      const members = await home.storedMembers();
      expect(members).toMatchObject([{ githubId: author.id, login: author.login, name, leftAt: null }]);
      expect(await home.stored(pullRequest)).toMatchObject({ memberId: members[0]?.id, authorIsBot: type === 'Bot' });
    },
  );

  test('include one if GitHub marks its author only at another one of the same reply', async ({ home }) => {
    const author = world.github.account(`once-${home.acme.login}`);
    const opened = ['MEMBER', 'NONE'].map(mark => home.web.openPullRequest({ author, authorAssociation: mark }));
    expect(await home.sync(...opened)).toEqual(['saved', 'saved']);
  });

  test('include one if its organisation is known only by its login, in any letter case', async ({ home }) => {
    const pullRequest = home.web.openPullRequest();
    const login = home.acme.login.toUpperCase();
    expect(await home.as({ githubId: null, nodeId: null, login }).sync(pullRequest)).toEqual(['saved']);
  });

  test('include one if its author is known as a member, whatever GitHub says', async ({ home }) => {
    await home.syncMembers();
    const pullRequest = home.web.openPullRequest({ authorAssociation: 'CONTRIBUTOR' });
    expect(await home.sync(pullRequest)).toEqual(['saved']);
  });

  test('a stored pull request keeps its member even if its author leaves or the account is deleted', async () => {
    const home = await world.newTenant();
    const author = home.ada;
    const pullRequest = home.web.openPullRequest({ authorAssociation: 'NONE' });
    await home.syncMembers();
    await home.sync(pullRequest);
    const before = await home.stored(pullRequest);
    await home.left(author);
    pullRequest.edit({ title: 'after leaving' });
    expect(await home.sync(pullRequest)).toEqual(['saved']);
    expect((await home.storedMembers())[0]?.leftAt).not.toBeNull();
    author.deleted = true;
    pullRequest.edit({ title: 'as a ghost' });
    expect(await home.sync(pullRequest)).toEqual(['saved']);
    expect(await home.stored(pullRequest)).toMatchObject({
      id: before?.id,
      memberId: before?.memberId,
      title: 'as a ghost',
      author: 'ghost',
    });
    expect((await home.storedMembers()).map(({ login }) => login)).toEqual([author.login]);
  });
});

describe('pull requests that are not kept', () => {
  test.for([
    ['a stranger', 'User', 'NONE'],
    ['a contributor who is not a member', 'User', 'CONTRIBUTOR'],
    ['a collaborator who is not a member', 'User', 'COLLABORATOR'],
    ['a bot', 'Bot', 'NONE'],
    ['a mannequin', 'Mannequin', 'MANNEQUIN'],
  ] as const)(
    'a pull request by %s is not kept, and adds no member or repository',
    async ([, type, authorAssociation], { home }) => {
      const author = world.github.account(`${type}-${authorAssociation}-${home.acme.login}`, { type });
      const pullRequest = home.web.openPullRequest({ author, authorAssociation });
      expect(await home.sync(pullRequest)).toEqual(['untracked']);
      expect(await home.storedPullRequests()).toEqual([]);
      expect(await home.storedMembers()).toEqual([]);
      expect(await home.storedRepositories()).toEqual([]);
    },
  );
});

describe('members', () => {
  test('who rename themselves keep their id', async ({ home }) => {
    const author = home.ada;
    const pullRequest = await home.openStored();
    const [before] = await home.storedMembers();
    author.login = `countess-${home.acme.login}`;
    author.name = 'Ada King';
    await home.sync(pullRequest);
    const formerLogins = [before?.login];
    const now = { login: author.login, formerLogins, name: 'Ada King', fetchTicket: expect.any(Number) };
    expect(await home.storedMembers()).toEqual([{ ...before, ...now }]);
    expect(await home.stored(pullRequest)).toMatchObject({
      author: author.login,
      memberId: before?.id,
    });
  });
});

describe('a repository', () => {
  test('keeps its row and its pull requests if it is renamed, and they are scored again', async ({ home }) => {
    const { acme } = home;
    const web = acme.repository('web');
    await home.apply(rule('7', `repository == "${acme.login}/site"`));
    const [seen, unseen] = home.open(2);
    await home.sync(seen, unseen);
    const before = await home.storedPullRequests();
    const [repository] = await home.storedRepositories();
    web.rename('site');
    await home.sync(seen);
    await home.rescore();
    const after = await home.storedPullRequests();
    expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect(after.map(({ score, rulesetVersion }) => [score, rulesetVersion])).toEqual([
      [7, 1],
      [7, 1],
    ]);
    expect(await home.storedRepositories()).toMatchObject([{ id: repository?.id, name: `${acme.login}/site` }]);
  });

  test('has its new name once any of its pull requests is fetched, even one that is not kept', async ({ home }) => {
    const { web } = home;
    await home.sync(web.openPullRequest());
    web.rename('site');
    expect(await home.sync(web.openPullRequest({ author: null }))).toEqual(['untracked']);
    expect(await home.storedRepositories()).toMatchObject([{ name: web.fullName }]);
  });

  test('leaves its pull requests as they are if it moves to another owner, and gets no other; a refresh fails', async () => {
    const home = await world.newTenant();
    const other = await world.newTenant();
    const { web } = home;
    const pullRequest = await home.openStored();
    const before = await home.stored(pullRequest);
    web.transfer(other.acme);
    pullRequest.edit({ title: 'elsewhere' });
    expect(await home.sync(pullRequest)).toEqual(['untracked']);
    await expect(createSyncOnRequest(service)(home.organisation.id, before?.id ?? '')).rejects.toMatchObject({
      code: 'not_found',
    });
    expect(await home.sync(web.openPullRequest())).toEqual(['untracked']);
    expect(await home.storedPullRequests()).toEqual([before]);
    // For its new owner, which is tracked too, it is a pull request like any other.
    pullRequest.edit({ title: 'at home' });
    for (const account of home.acme.members.values()) other.acme.join(account);
    expect(await other.sync(pullRequest)).toEqual(['saved']);
  });
});

describe('a reply from GitHub', () => {
  test('ids of pull requests from 2^31 up to 2^53 are stored exactly', async ({ home }) => {
    const ids = [2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER];
    const opened = ids.map(id => home.web.openPullRequest({ id }));
    expect(await home.sync(...opened)).toEqual(['saved', 'saved', 'saved']);
    expect((await home.storedPullRequests()).map(({ githubId }) => githubId)).toEqual(ids);
  });

  test("what PostgreSQL cannot hold in GitHub's text is replaced, and all other text is kept", async ({ home }) => {
    const hostile = 'nul \0, lone \ud800 and \udfff';
    const odd = '𝒻ix 👩‍👩‍👧 \u202Eevil\u202C \u0007 é ﷽';
    const pullRequest = home.web.addPullRequest({
      title: hostile,
      body: odd,
      labels: [hostile, odd],
      milestone: hostile,
      files: [{ path: hostile, additions: 1, deletions: 0 }],
    });
    expect(await home.sync(pullRequest)).toEqual(['saved']);
    const replaced = 'nul \uFFFD, lone \uFFFD and \uFFFD';
    expect(await home.stored(pullRequest)).toMatchObject({
      title: replaced,
      body: odd,
      labels: [replaced, odd],
      milestone: replaced,
      files: [replaced],
    });
  });

  test('a pull request that is twice in a reply from GitHub is stored once', async ({ home }) => {
    const pullRequest = home.web.openPullRequest();
    const doubling = withStep(
      service,
      async results => new Map([...results, ...[...results.values()].map(each => ['another id', each] as const)]),
    );
    expect(await home.on(doubling).sync(pullRequest)).toEqual(['saved']);
    expect(await home.storedPullRequests()).toHaveLength(1);
  });
});
