import { App, Octokit } from 'octokit';
import { describe, expect, test } from 'vitest';
import { newAppKeys } from '../support/app-keys.ts';
import type { LoadedRecord } from '../support/github/load.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import type { Repository } from '../support/github/repository.ts';
import { measureQuery, readQuery } from '../support/github/schema.ts';
import type { GithubStandIn } from '../support/github/server.ts';
import { fetchOne, start, startStandIn } from './support.ts';

async function ask(github: GithubStandIn, query: string, variables: object = {}) {
  const response = await fetch(`${github.apiUrl}/graphql`, {
    method: 'POST',
    headers: { authorization: `bearer ${github.token}` },
    body: JSON.stringify({ query, variables }),
  });
  const reply = (await response.json()) as { data?: Record<string, unknown>; errors?: unknown };
  return { ...reply, headers: response.headers };
}

describe("GitHub's rules for queries", () => {
  const limits: [string, string, string][] = [
    ['an unknown field is refused', 'query { viewer { shoeSize } }', 'undefinedField'],
    ['a page needs a size', '{ organization(login: "acme") { repositories { nodes { id } } } }', 'MISSING_PAGINATION'],
    [
      'a page has 100 entries at most',
      '{ organization(login: "acme") { repositories(first: 101) { nodes { id } } } }',
      'EXCESSIVE',
    ],
    [
      'nodes are counted through all levels',
      `{ organization(login: "acme") { repositories(first: 100) { nodes { pullRequests(first: 100) {
         nodes { labels(first: 100) { nodes { name } } } } } } } }`,
      'MAX_NODE_LIMIT_EXCEEDED',
    ],
  ];

  test.each(limits)('%s', async (_, query, type) => {
    const { github } = await start();
    const reply = await ask(github, query);
    expect(reply.data).toBeUndefined();
    const wanted = type === 'undefinedField' ? /Cannot query field/ : new RegExp(type);
    expect(JSON.stringify(reply.errors)).toMatch(wanted);
  });

  test("the example of GitHub's documentation has 22,060 nodes", () => {
    const query = readQuery(
      `{ viewer { repositories(first: 50) { nodes {
           pullRequests(first: 20) { nodes { title comments(first: 10) { nodes { bodyHTML } } } }
           issues(first: 20) { totalCount nodes { title bodyHTML comments(first: 10) { nodes { bodyHTML } } } } } }
         followers(first: 10) { nodes { login } } } }`,
    );
    expect(query.errors).toEqual([]);
    expect(measureQuery(query, {})).toMatchObject({ nodeCount: 22_060, error: undefined });
  });

  test('an id past 32 bits has no databaseId, but a full one', async () => {
    const { github, web } = await start();
    const { nodeId, id } = web.openPullRequest();
    const reply = await ask(
      github,
      'query($id: ID!) { node(id: $id) { ... on PullRequest { databaseId fullDatabaseId } } }',
      {
        id: nodeId,
      },
    );
    expect(reply.data?.node).toEqual({ databaseId: null, fullDatabaseId: String(id) });
  });

  test("the hour's points are used up, and come back when the hour is over", async () => {
    const { github } = await start();
    if (!github.limit) throw new Error('no limit');
    const resetAt = Math.floor(Date.now() / 1000) + 60;
    Object.assign(github.limit, { remaining: 1, resetAt });
    const points = async () => {
      const { headers, ...reply } = await ask(github, '{ rateLimit { remaining used resetAt } }');
      const ofHour = ['limit', 'remaining', 'used', 'reset'].map(name => Number(headers.get(`x-ratelimit-${name}`)));
      return { ofHour, ...reply };
    };
    expect(await points()).toMatchObject({ ofHour: [5_000, 0, 5_000, resetAt], data: { rateLimit: { used: 5_000 } } });
    expect(await points()).toMatchObject({ ofHour: [5_000, 0, 5_000, resetAt], errors: [{ type: 'RATE_LIMIT' }] });
    // Nobody asked for two hours.
    github.limit.resetAt = resetAt - 2 * 3_600;
    expect(await points()).toMatchObject({
      ofHour: [5_000, 4_999, 1, resetAt],
      data: { rateLimit: { remaining: 4_999, resetAt: new Date(resetAt * 1_000).toISOString().replace('.000Z', 'Z') } },
    });
    Object.assign(github.limit, { remaining: 0, resetAt: resetAt - 3_600 });
    const response = await fetch(`${github.apiUrl}/rate_limit`);
    expect(await response.json()).toMatchObject({ resources: { graphql: { remaining: 5_000, reset: resetAt } } });
  });
});

describe('the list of members', () => {
  const query =
    '{ organization(login: "acme") { viewerIsAMember membersWithRole(first: 9) { totalCount nodes { login } } } }';
  const everybody = { totalCount: 2, nodes: [{ login: 'ada' }, { login: 'bob' }] };

  test('is complete for a member, and shows public ones to others', async () => {
    const { github, acme } = await start();
    acme.member('ada');
    acme.publicMembers.add(acme.member('bob').id);
    const ofMember = await ask(github, query);
    expect(ofMember.data?.organization).toEqual({ viewerIsAMember: true, membersWithRole: everybody });
    github.grants.viewerIsMember = false;
    const ofAnother = await ask(github, query);
    expect(ofAnother.data?.organization).toEqual({
      viewerIsAMember: false,
      membersWithRole: { totalCount: 1, nodes: [{ login: 'bob' }] },
    });
  });

  test("is complete for an App's installation, which is not a member", async () => {
    const { privateKey, publicKey } = newAppKeys();
    const { github, acme } = await start({ app: { id: '1', publicKey } });
    acme.member('ada');
    acme.member('bob');
    github.installApp(acme);
    github.grants.viewerIsMember = false;
    const app = new App({ appId: '1', privateKey, Octokit: Octokit.defaults({ baseUrl: github.apiUrl }) });
    const installation = await app.getInstallationOctokit(acme.installationId ?? 0);
    expect(await installation.graphql(query)).toEqual({
      organization: { viewerIsAMember: false, membersWithRole: everybody },
    });
  });
});

test('a fault can be limited to a part of a reply of 200', async () => {
  const { github, web } = await start();
  const [bad, good] = [web.openPullRequest(), web.openPullRequest()];
  github.fault({ kind: 'broken', nodeIds: [bad.nodeId], type: 'RESOURCE_LIMITS_EXCEEDED' });
  const reply = await ask(github, 'query($ids: [ID!]!) { nodes(ids: $ids) { ... on PullRequest { number } } }', {
    ids: [bad.nodeId, good.nodeId],
  });
  expect(reply).toMatchObject({
    data: { nodes: [null, { number: 2 }] },
    errors: [{ type: 'RESOURCE_LIMITS_EXCEEDED', path: ['nodes', 0] }],
  });
});

describe('a replica that lags', () => {
  const query = `query($id: ID!, $ids: [ID!]!, $repository: ID!) {
    node(id: $id) { ... on PullRequest { title } }
    nodes(ids: $ids) { ... on PullRequest { title comments { totalCount } reviews(first: 9) { nodes { state } } } }
    repository: node(id: $repository) { ... on Repository {
      pullRequests(first: 9, orderBy: { field: UPDATED_AT, direction: DESC }) { totalCount nodes { title updatedAt } }
    } }
  }`;

  /** Titles as `node`, `nodes` and the repository's list have them. */
  async function shown(github: GithubStandIn, { nodeId: repository }: Repository, { nodeId }: PullRequest) {
    const { data, errors = [] } = await ask(github, query, { id: nodeId, ids: [nodeId], repository });
    const {
      node,
      nodes,
      repository: list,
    } = data as {
      node: { title: string } | null;
      nodes: ({ title: string } | null)[];
      repository: { pullRequests: { totalCount: number; nodes: { title: string; updatedAt: string }[] } };
    };
    const { pullRequests } = list;
    return {
      titles: [node?.title, nodes[0]?.title, pullRequests.nodes.map(({ title }) => title)],
      node: nodes[0],
      updatedAt: pullRequests.nodes[0]?.updatedAt,
      totalCount: pullRequests.totalCount,
      errors: (errors as { type: string }[]).map(({ type }) => type),
    };
  }

  test('shows neither new pull requests nor changes of a repository', async () => {
    const { github, web } = await start();
    const known = web.openPullRequest({ title: 'old' });
    web.lag();
    known.edit({ title: 'new' });
    known.merge();
    const opened = web.openPullRequest({ title: 'opened' });
    opened.push();
    expect(await shown(github, web, known)).toMatchObject({ titles: ['old', 'old', ['old']], totalCount: 1 });
    expect(await shown(github, web, opened)).toMatchObject({
      titles: [undefined, undefined, ['old']],
      errors: ['NOT_FOUND', 'NOT_FOUND'],
    });

    web.catchUp();
    expect(await shown(github, web, opened)).toMatchObject({
      titles: ['opened', 'opened', ['opened', 'new']],
      totalCount: 2,
      errors: [],
    });
    known.edit({ title: 'newer' });
    expect((await shown(github, web, known)).titles.slice(0, 2)).toEqual(['newer', 'newer']);
  });
});

describe('the stand-in', () => {
  const record: LoadedRecord = {
    repository: 'elsewhere/lib',
    number: 7,
    title: 'Bump x',
    body: '',
    author: 'dependabot[bot]',
    is_bot: true,
    state: 'merged',
    additions: 3,
    deletions: 1,
    changed_files: 1,
    files: [{ path: 'package.json', additions: 3, deletions: 1 }],
    commits: 1,
    created_at: '2026-08-20T14:10:49Z',
    merged_at: '2026-08-20T15:10:49Z',
  };

  test('loads records as history, without webhooks', async () => {
    const { github, client } = await start();
    const records = Array.from({ length: 5_000 }, (_, number) => ({ ...record, number, is_bot: number === 0 }));
    const [first] = github.load(records, { organisation: 'acme' });
    if (!first) throw new Error('nothing loaded');
    expect(await fetchOne(client, first.nodeId)).toMatchObject({
      repository: 'acme/lib',
      author: 'dependabot',
      authorIsBot: true,
      state: 'merged',
      createdAt: Date.UTC(2026, 7, 20, 14, 10, 49) / 1000,
      mergedAt: Date.UTC(2026, 7, 20, 15, 10, 49) / 1000,
      sourceUpdatedAt: Date.UTC(2026, 7, 20, 15, 10, 49) / 1000,
    });
    expect(github.deliveries).toEqual([]);
  });

  test('gives changes in one second the same time, and never goes back in time', async () => {
    const { github, web } = await start();
    github.clock.set(1_700_000_000);
    const pullRequest = web.openPullRequest();
    pullRequest.push();
    expect(pullRequest.updatedAt).toBe(1_700_000_000);
    github.clock.advance(1);
    pullRequest.push();
    github.clock.set(1_600_000_000);
    pullRequest.push();
    expect(pullRequest.updatedAt).toBe(1_700_000_001);
  });

  test('ends hanging requests when it closes', async () => {
    const github = await startStandIn();
    github.fault({ kind: 'hang' });
    const hanging = ask(github, '{ viewer { login } }').catch(() => 'ended');
    while (github.requests.length === 0) await new Promise(resolve => setImmediate(resolve));
    await github.close();
    expect(await hanging).toBe('ended');
  });
});
