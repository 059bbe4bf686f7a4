import { describe, expect } from 'vitest';
import { createSyncOnRequest } from '../../src/sync/sync-on-request.ts';
import { rule, startSyncWorld, withStep } from './support.ts';

const world = await startSyncWorld();
const { service, test } = world;

describe('pull requests that are kept', () => {
  test.for([
    ['User', 'MEMBER'],
    ['User', 'OWNER'],
    ['Bot', 'MEMBER'],
  ] as const)(
    'include one if GitHub marks its author, a %s, as %s: it becomes a member',
    async ([type, mark], { tenant }) => {
      const author = world.github.account(`new-${mark}-${type}-${tenant.acme.login}`, { name: 'New Person', type });
      const pullRequest = tenant.web.openPullRequest({ author, authorAssociation: mark });
      expect(await tenant.sync(pullRequest)).toEqual(['saved']);
      // Bots have no name.
      const name = type === 'Bot' ? author.login : 'New Person';
      const members = await tenant.storedMembers();
      expect(members).toMatchObject([{ githubId: author.id, login: author.login, name, leftAt: null }]);
      expect(await tenant.stored(pullRequest)).toMatchObject({ memberId: members[0]?.id, authorIsBot: type === 'Bot' });
    },
  );

  test('include one if GitHub marks its author only at another one of the same reply', async ({ tenant }) => {
    const author = world.github.account(`once-${tenant.acme.login}`);
    const opened = ['MEMBER', 'NONE'].map(mark => tenant.web.openPullRequest({ author, authorAssociation: mark }));
    expect(await tenant.sync(...opened)).toEqual(['saved', 'saved']);
  });

  test('include one if its organisation is known only by its login, in any letter case', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    const login = tenant.acme.login.toUpperCase();
    expect(await tenant.as({ githubId: null, nodeId: null, login }).sync(pullRequest)).toEqual(['saved']);
  });

  test('include one if its author is known as a member, whatever GitHub says', async ({ tenant }) => {
    await tenant.syncMembers();
    const pullRequest = tenant.web.openPullRequest({ authorAssociation: 'CONTRIBUTOR' });
    expect(await tenant.sync(pullRequest)).toEqual(['saved']);
  });

  test('keep their member even if their author leaves or the account is deleted', async ({ tenant }) => {
    const author = tenant.ada;
    const pullRequest = tenant.web.openPullRequest({ authorAssociation: 'NONE' });
    await tenant.syncMembers();
    await tenant.sync(pullRequest);
    const before = await tenant.stored(pullRequest);
    await tenant.left(author);
    pullRequest.edit({ title: 'after leaving' });
    expect(await tenant.sync(pullRequest)).toEqual(['saved']);
    expect((await tenant.storedMembers())[0]?.leftAt).not.toBeNull();
    author.deleted = true;
    pullRequest.edit({ title: 'as a ghost' });
    expect(await tenant.sync(pullRequest)).toEqual(['saved']);
    expect(await tenant.stored(pullRequest)).toMatchObject({
      id: before?.id,
      memberId: before?.memberId,
      title: 'as a ghost',
      author: 'ghost',
    });
    expect((await tenant.storedMembers()).map(({ login }) => login)).toEqual([author.login]);
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
    async ([, type, authorAssociation], { tenant }) => {
      const author = world.github.account(`${type}-${authorAssociation}-${tenant.acme.login}`, { type });
      const pullRequest = tenant.web.openPullRequest({ author, authorAssociation });
      expect(await tenant.sync(pullRequest)).toEqual(['untracked']);
      expect(await tenant.storedPullRequests()).toEqual([]);
      expect(await tenant.storedMembers()).toEqual([]);
      expect(await tenant.storedRepositories()).toEqual([]);
    },
  );
});

describe('members', () => {
  test('who rename themselves keep their id', async ({ tenant }) => {
    const author = tenant.ada;
    const pullRequest = await tenant.openStored();
    const [before] = await tenant.storedMembers();
    author.login = `countess-${tenant.acme.login}`;
    author.name = 'Ada King';
    await tenant.sync(pullRequest);
    const formerLogins = [before?.login];
    const now = { login: author.login, formerLogins, name: 'Ada King', fetchTicket: expect.any(Number) };
    expect(await tenant.storedMembers()).toEqual([{ ...before, ...now }]);
    expect(await tenant.stored(pullRequest)).toMatchObject({
      author: author.login,
      memberId: before?.id,
    });
  });
});

describe('a repository', () => {
  test('keeps its row and its pull requests if it is renamed, and they are scored again', async ({ tenant }) => {
    const { acme } = tenant;
    const web = acme.repository('web');
    await tenant.apply(rule('7', `repository == "${acme.login}/site"`));
    const [seen, unseen] = tenant.open(2);
    await tenant.sync(seen, unseen);
    const before = await tenant.storedPullRequests();
    const [repository] = await tenant.storedRepositories();
    web.rename('site');
    await tenant.sync(seen);
    await tenant.rescore();
    const after = await tenant.storedPullRequests();
    expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect(after.map(({ score, rulesetVersion }) => [score, rulesetVersion])).toEqual([
      [7, 1],
      [7, 1],
    ]);
    expect(await tenant.storedRepositories()).toMatchObject([{ id: repository?.id, name: `${acme.login}/site` }]);
  });

  test('has its new name once any of its pull requests is fetched, even one that is not kept', async ({ tenant }) => {
    const { web } = tenant;
    await tenant.sync(web.openPullRequest());
    web.rename('site');
    expect(await tenant.sync(web.openPullRequest({ author: null }))).toEqual(['untracked']);
    expect(await tenant.storedRepositories()).toMatchObject([{ name: web.fullName }]);
  });

  test('leaves its pull requests as they are if it moves to another owner, and gets no other; a refresh fails', async () => {
    const tenant = await world.newTenant();
    const other = await world.newTenant();
    const { web } = tenant;
    const pullRequest = await tenant.openStored();
    const before = await tenant.stored(pullRequest);
    web.transfer(other.acme);
    pullRequest.edit({ title: 'elsewhere' });
    expect(await tenant.sync(pullRequest)).toEqual(['untracked']);
    await expect(createSyncOnRequest(service)(tenant.id, before?.id ?? '')).rejects.toMatchObject({
      code: 'not_found',
    });
    expect(await tenant.sync(web.openPullRequest())).toEqual(['untracked']);
    expect(await tenant.storedPullRequests()).toEqual([before]);
    // For its new owner, which is tracked too, it is a pull request like any other.
    pullRequest.edit({ title: 'at home' });
    for (const account of tenant.acme.members.values()) other.acme.join(account);
    expect(await other.sync(pullRequest)).toEqual(['saved']);
  });
});

describe('a reply from GitHub', () => {
  test('ids of pull requests from 2^31 up to 2^53 are stored exactly', async ({ tenant }) => {
    const ids = [2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER];
    const opened = ids.map(id => tenant.web.openPullRequest({ id }));
    expect(await tenant.sync(...opened)).toEqual(['saved', 'saved', 'saved']);
    expect((await tenant.storedPullRequests()).map(({ githubId }) => githubId)).toEqual(ids);
  });

  test("what PostgreSQL cannot hold in GitHub's text is replaced, and all other text is kept", async ({ tenant }) => {
    const hostile = 'nul \0, lone \ud800 and \udfff';
    const odd = '𝒻ix 👩‍👩‍👧 \u202Eevil\u202C \u0007 é ﷽';
    const pullRequest = tenant.web.addPullRequest({
      title: hostile,
      body: odd,
      labels: [hostile, odd],
      milestone: hostile,
      files: [{ path: hostile, additions: 1, deletions: 0 }],
    });
    expect(await tenant.sync(pullRequest)).toEqual(['saved']);
    const replaced = 'nul \uFFFD, lone \uFFFD and \uFFFD';
    expect(await tenant.stored(pullRequest)).toMatchObject({
      title: replaced,
      body: odd,
      labels: [replaced, odd],
      milestone: replaced,
      files: [replaced],
    });
  });

  test('a pull request that is twice in a reply from GitHub is stored once', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    const doubling = withStep(
      service,
      async results => new Map([...results, ...[...results.values()].map(each => ['another id', each] as const)]),
    );
    expect(await tenant.on(doubling).sync(pullRequest)).toEqual(['saved']);
    expect(await tenant.storedPullRequests()).toHaveLength(1);
  });
});
