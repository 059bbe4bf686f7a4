import { describe, expect, test } from 'vitest';
import { pointsOfFetch } from '../../src/github/pull-request-queries.ts';
import type { GithubRequest } from '../../src/github/transport.ts';
import { htmlError, secondaryLimit } from '../support/github/faults.ts';
import { errorOf, fetchOne, firstPage, found, identityOf, start } from './support.ts';

describe('fetching pull requests by id', () => {
  test('a fetch of fifty pull requests takes one request', async () => {
    const seen: GithubRequest[] = [];
    const { github, web, client } = await start();
    client.onRequest(request => seen.push(request));
    const opened = Array.from({ length: 50 }, () => web.openPullRequest());
    const nodeIds = opened.map(each => each.nodeId);
    const results = await client.fetchPullRequests({ login: 'acme' }, nodeIds);
    expect(nodeIds.map(nodeId => found(results.get(nodeId)).number)).toEqual(opened.map(each => each.number));
    expect(github.count()).toBe(1);
    // An import is estimated to need no fewer.
    expect(seen[0]?.rateLimit?.cost).toBeLessThanOrEqual(pointsOfFetch);
    const rateLimit = { limit: 5_000, cost: expect.any(Number) };
    expect(seen).toMatchObject([{ operation: 'PullRequests', organisation: 'acme', rateLimit, error: undefined }]);
  });

  test('a fetch says which pull requests GitHub no longer shows', async () => {
    const { web, client } = await start();
    const [gone, there] = [web.openPullRequest(), web.openPullRequest()];
    gone.remove();
    const results = await client.fetchPullRequests({ login: 'acme' }, [gone.nodeId, there.nodeId, 'PR_nonsense']);
    expect([...results.values()].map(each => each.status)).toEqual(['gone', 'found', 'gone']);
  });

  test('a pull request has new names and the same ids after renames and transfers', async () => {
    const { github, acme, web, client } = await start();
    const { nodeId, id } = web.openPullRequest();
    web.rename('site');
    expect(await fetchOne(client, nodeId)).toMatchObject({ githubId: id, repository: 'acme/site' });
    acme.rename('apex');
    const apex = { repository: 'apex/site', repositoryOwner: { githubId: acme.id } };
    expect(await fetchOne(client, nodeId)).toMatchObject(apex);
    const other = github.organisation('other');
    web.transfer(other);
    const moved = await fetchOne(client, nodeId);
    expect(moved).toMatchObject({ githubId: id, repository: 'other/site', repositoryGithubId: web.id });
    expect(moved.repositoryOwner).toEqual(identityOf(other));
    const { organisation, repository } = await client.findRepository({ ...identityOf(acme), login: 'acme' }, 'site');
    expect([organisation.login, repository?.nodeId, repository?.owner]).toEqual(['apex', web.nodeId, 'other']);
  });
});

describe('paging', () => {
  test('a list skips and repeats nothing if pull requests come and go between pages', async () => {
    const { web, client } = await start();
    const opened = Array.from({ length: 7 }, () => web.openPullRequest());
    const list = (page: { after?: string | null; pageSize?: number }) =>
      client.listPullRequests({ login: 'acme' }, web.nodeId, { ...firstPage, ...page });
    const first = await list({ pageSize: 3 });
    opened[0]?.remove();
    const late = web.openPullRequest();
    const rest = await list({ after: first?.endCursor ?? null });
    const nodeIds = [...opened.slice(3), late].map(each => each.nodeId);
    expect(rest?.items.map(each => each.nodeId)).toEqual(nodeIds);
  });

  test('a page gives ids and times of the pull requests that GitHub lists, and an error for each other', async () => {
    const { github, web, client } = await start();
    const opened = Array.from({ length: 3 }, () => web.openPullRequest());
    const [first, second] = opened;
    if (!first || !second) throw new Error('none opened');
    const list = () => client.listPullRequests({ login: 'acme' }, web.nodeId, { ...firstPage, pageSize: 2 });
    github.fault({ kind: 'broken', nodeIds: [second.nodeId], field: 'files' });
    const listed = await list();
    expect(listed).toEqual({
      items: [first, second].map(({ id, nodeId, updatedAt }) => ({ githubId: id, nodeId, sourceUpdatedAt: updatedAt })),
      failed: [],
      endCursor: expect.any(String),
      hasNextPage: true,
      totalCount: 3,
    });
    github.clearFaults();
    for (const field of ['fullDatabaseId', undefined]) {
      github.fault({ kind: 'broken', nodeIds: [second.nodeId], ...(field !== undefined && { field }) });
      const partial = await list();
      expect(partial?.items.map(({ nodeId }) => nodeId)).toEqual([first.nodeId]);
      expect(partial?.failed).toMatchObject([{ code: 'github_failed' }]);
      expect(partial?.endCursor).toBe(listed?.endCursor);
    }
    web.remove();
    expect(await list()).toBeUndefined();
  });

  const withoutEntries = [
    ['null entries', []],
    ['entries that are too much', [{ type: 'RESOURCE_LIMITS_EXCEEDED', message: 'Too much.' }]],
    ['entries that it does not find', [{ type: 'NOT_FOUND', message: 'None.' }]],
  ] as const;
  test.each(withoutEntries)('a page with %s does not count as an empty one', async (_, errors) => {
    const { github, acme, web, client } = await start();
    web.openPullRequest();
    const calls = [
      ['pullRequests', 'nodes', () => client.listPullRequests({ login: 'acme' }, web.nodeId, firstPage)],
      ['repositories', 'edges', () => client.pageRepositories(identityOf(acme), firstPage)],
      ['membersWithRole', 'nodes', () => client.pageMembers(identityOf(acme), null)],
    ] as const;
    for (const [list, entries, call] of calls) {
      github.fault({
        kind: 'alter',
        change: ({ data }) => {
          const { node } = data as { node: Record<string, object> };
          const page = { ...node[list], [entries]: null };
          const path = ['node', list, entries];
          return { data: { node: { ...node, [list]: page } }, errors: errors.map(error => ({ ...error, path })) };
        },
      });
      const tooMuch = errors.some(({ type }) => type === 'RESOURCE_LIMITS_EXCEEDED');
      expect(await errorOf(call())).toMatchObject({ code: 'github_failed', tooMuch });
    }
  });

  test('an empty page does not count as the last one if GitHub failed on a part that it does not name', async () => {
    const { github, web, client } = await start();
    web.openPullRequest();
    const pullRequests = { totalCount: 1, pageInfo: { endCursor: null, hasNextPage: false }, nodes: [] };
    const errors = [{ message: 'Something went wrong while executing your query.' }];
    github.fault({ kind: 'reply', status: 200, body: { data: { node: { pullRequests } }, errors } });
    const error = await errorOf(client.listPullRequests({ login: 'acme' }, web.nodeId, firstPage));
    expect(error).toMatchObject({ code: 'github_failed', tooMuch: true });
  });

  test('a reply without an answer does not mean "gone"', async () => {
    const { github, acme, web, client } = await start();
    github.fault({ kind: 'reply', status: 200, body: { data: {} } }, { times: 4 });
    const calls = [
      client.listPullRequests({ login: 'acme' }, web.nodeId, firstPage),
      client.findRepository(identityOf(acme), 'web'),
      client.findOrganisation({ login: 'acme' }),
      client.pageMembers(identityOf(acme), null),
    ];
    for (const call of calls) expect(await errorOf(call)).toMatchObject({ code: 'github_failed' });
  });

  test('a list of repositories has each once, even if some change while its pages are read', async () => {
    const { github, acme, web, client } = await start();
    const names = ['web', 'api', 'docs', 'lib'];
    for (const name of names) acme.repository(name);
    const listed: string[] = [];
    for (let after: string | null = null; ; ) {
      const page = await client.pageRepositories(identityOf(acme), { after, pageSize: 2 });
      listed.push(...page.items.map(({ name }) => name));
      if (!page.hasNextPage) break;
      after = page.endCursor;
      github.clock.advance(60);
      web.openPullRequest();
    }
    expect(listed).toEqual(names.map(name => `acme/${name}`));
  });

  test('which of a hundred repositories are lost is one request of one point', async () => {
    const seen: GithubRequest[] = [];
    const { github, acme, web, client } = await start();
    client.onRequest(request => seen.push(request));
    const [gone, moved] = [acme.repository('gone'), acme.repository('moved')];
    const others = Array.from({ length: 97 }, (_, index) => acme.repository(`other-${index}`));
    gone.remove();
    moved.transfer(github.organisation('other'));
    const nodeIds = [web, gone, moved, ...others].map(({ nodeId }) => nodeId);
    const lost = await client.findLostRepositories(identityOf(acme), nodeIds);
    expect([...lost]).toEqual([gone.nodeId, moved.nodeId]);
    expect(seen.map(({ rateLimit }) => rateLimit?.cost)).toEqual([1]);
  });

  test('a failure to read the membership does not count as a missing permission', async () => {
    const { acme, client, github } = await start();
    github.fault(htmlError(503), { when: ({ path }) => path.includes('/memberships/') });
    expect(await errorOf(client.pageMembers(identityOf(acme), null))).toMatchObject({ code: 'github_failed' });
  });

  test('a used-up limit of REST does not block the list of members, which counts as public only', async () => {
    const { acme, client, github } = await start();
    github.fault(secondaryLimit('60'), { when: ({ path }) => path.includes('/memberships/') });
    expect(await client.pageMembers(identityOf(acme), null)).toMatchObject({ isPublicOnly: true });
  });

  test('the client finds no organisation that GitHub does not show', async () => {
    const { client } = await start();
    const nowhere = { githubId: 1, nodeId: 'O_none', login: 'nowhere' };
    expect(await client.findOrganisation({ login: 'nowhere' })).toBeUndefined();
    expect(await client.findOrganisation(nowhere)).toBeUndefined();
    expect(await errorOf(client.pageMembers(nowhere, null))).toMatchObject({ code: 'not_found' });
    expect(await errorOf(client.pageRepositories(nowhere, firstPage))).toMatchObject({ code: 'not_found' });
  });

  test('the client finds an organisation by its login in any case', async () => {
    const { acme, client } = await start();
    acme.member('alice');
    expect(await client.findOrganisation({ login: 'ACME' })).toEqual({
      githubId: acme.id,
      nodeId: acme.nodeId,
      login: 'acme',
      name: 'acme',
      photoUrl: acme.avatarUrl,
      repositories: 1,
    });
  });
});

test('a GitHub Enterprise Server without rate limits works', async () => {
  const seen: GithubRequest[] = [];
  const { github, web, client } = await start({ enterprise: true });
  const end = client.onRequest(request => seen.push(request));
  const { nodeId, url } = web.openPullRequest();
  expect((await fetchOne(client, nodeId)).url).toBe(url);
  expect(github.requests[0]?.path).toBe('/api/graphql');
  expect(seen[0]?.rateLimit).toBeUndefined();
  end();
  await fetchOne(client, nodeId);
  expect(seen).toHaveLength(1);
});
