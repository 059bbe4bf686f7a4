import { createHmac, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import { App, Octokit } from 'octokit';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type FaultOptions, htmlError, naming, ofRepository, pagesWith } from '../support/github/faults.ts';
import type { LoadedRecord } from '../support/github/load.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import type { Repository } from '../support/github/repository.ts';
import { measureQuery, readQuery } from '../support/github/schema.ts';
import type { GithubStandIn } from '../support/github/server.ts';
import { errorOf, fetchOne, start, startStandIn } from './support.ts';

interface Received {
  headers: Record<string, unknown>;
  body: string;
}

async function receiver() {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void text(request).then(body => {
      received.push({ headers: request.headers, body });
      response.writeHead(202).end('{"message": "taken"}');
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return { url: `http://127.0.0.1:${address.port}/webhooks/github`, received };
}

async function ask(github: GithubStandIn, query: string, variables: object = {}) {
  const response = await fetch(`${github.apiUrl}/graphql`, {
    method: 'POST',
    headers: { authorization: `bearer ${github.token}` },
    body: JSON.stringify({ query, variables }),
  });
  const reply = (await response.json()) as { data?: Json; errors?: unknown };
  return { ...reply, headers: response.headers };
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Paths at which `ours` has another type than the example, or has what the example has not. */
function differences(ours: Json, example: Json, path = ''): string[] {
  return Object.keys(ours).flatMap(key => {
    const [mine, theirs] = [ours[key], example[key]];
    const here = `${path}${key}`;
    if (!(key in example)) return [`${here} is not in the example`];
    if (mine === null || theirs === null) return [];
    if (isObject(mine) && isObject(theirs)) return differences(mine, theirs, `${here}.`);
    return typeof mine === typeof theirs && Array.isArray(mine) === Array.isArray(theirs)
      ? []
      : [`${here} is of another type`];
  });
}

/** The published examples of an event; all keys of all of them, for they come from different years. */
function exampleOf(event: string, action: string): Json {
  const all: { name: string; examples: Json[] }[] = createRequire(import.meta.url)('@octokit/webhooks-examples');
  const fitting = all
    .filter(each => each.name === event)
    .flatMap(each => each.examples)
    .filter(each => each.action === action);
  const merge = (into: Json, from: Json): Json => {
    for (const [key, value] of Object.entries(from)) {
      const known = into[key];
      into[key] = isObject(known) && isObject(value) ? merge({ ...known }, value) : (value ?? known ?? null);
    }
    return into;
  };
  return fitting.reduce((merged, each) => merge(merged, each), {});
}

describe('webhooks', () => {
  test("payloads have GitHub's published form", async () => {
    const { github, acme, web } = await start();
    const alice = acme.member('alice');
    const bob = github.account('bob');
    const joined = acme.join(bob);
    const pullRequest = web.openPullRequest({ author: alice, body: 'Text' });
    const events = [
      pullRequest.opened,
      pullRequest.push(),
      pullRequest.review(bob, 'APPROVED'),
      pullRequest.convertToDraft(),
      pullRequest.markReady(),
      pullRequest.merge(),
      pullRequest.comment(bob),
      pullRequest.deleteComment(bob),
      joined,
      web.renameLabel('bug', 'defect'),
      web.deleteLabel('defect'),
      web.deleteMilestone('v1'),
      web.rename('site'),
    ];
    // Keys that are newer than the examples or in none of them, and our own names of hooks.
    const newer = new RegExp(
      [
        'custom_properties|web_commit_signoff_required|before|after|organization is not in|changes.name is not in',
        'issue.pull_request is not in|reactions|performed_via_github_app|timeline_url|state_reason',
      ].join('|'),
    );
    for (const each of events) {
      if (!each) throw new Error('no event');
      const example = exampleOf(each.event, String(each.action));
      expect(Object.keys(example).length, `${each.event} ${each.action}`).toBeGreaterThan(0);
      const wrong = differences(each.payload as unknown as Json, example).filter(path => !newer.test(path));
      expect(wrong, `${each.event} ${each.action}`).toEqual([]);
    }
  });

  test('a pull request event says which one it is, as GitHub does', async () => {
    const { acme, web } = await start();
    const alice = acme.member('alice');
    const pullRequest = web.openPullRequest({ author: alice, title: 'Fix' });
    expect(pullRequest.opened).toMatchObject({
      event: 'pull_request',
      action: 'opened',
      payload: {
        action: 'opened',
        number: 1,
        pull_request: { id: pullRequest.id, node_id: pullRequest.nodeId, title: 'Fix', state: 'open', merged: false },
        repository: { id: web.id, node_id: web.nodeId, full_name: 'acme/web' },
        organization: { id: acme.id, login: 'acme' },
        sender: { id: alice.id, login: 'alice' },
      },
    });
    expect(JSON.stringify(pullRequest.opened?.payload).length).toBeGreaterThan(15_000);
  });

  test('a remark on the conversation is an event about an issue, and its deletion moves no time', async () => {
    const { github, acme, web } = await start();
    github.clock.set(1_700_000_000);
    const bob = acme.member('bob');
    const pullRequest = web.openPullRequest({ comments: 4 });
    github.clock.advance(10);
    const created = pullRequest.comment(bob);
    github.clock.advance(10);
    const deleted = pullRequest.deleteComment(bob);
    const issue = {
      id: pullRequest.issueId,
      node_id: pullRequest.nodeId,
      number: 1,
      updated_at: '2023-11-14T22:13:30Z',
      pull_request: { html_url: pullRequest.url, merged_at: null },
    };
    expect([created, deleted]).toMatchObject([
      { event: 'issue_comment', action: 'created', payload: { action: 'created', issue: { ...issue, comments: 5 } } },
      { event: 'issue_comment', action: 'deleted', payload: { action: 'deleted', issue: { ...issue, comments: 4 } } },
    ]);
    expect(created.payload).not.toHaveProperty('pull_request');
    expect(pullRequest.issueId).not.toBe(pullRequest.id);
    expect(pullRequest).toMatchObject({ comments: 4, updatedAt: 1_700_000_010 });
  });

  test('a label or milestone changes in all pull requests that have it, and no time moves', async () => {
    const { github, web } = await start();
    github.clock.set(1_700_000_000);
    const tagged = web.openPullRequest({ labels: ['bug', 'big'], milestone: 'v1' });
    const other = web.openPullRequest({ labels: ['big'], milestone: 'v2' });
    const { labels, milestone } = tagged.opened?.payload.pull_request ?? {};
    github.clock.advance(10);
    expect(web.renameLabel('bug', 'defect')).toMatchObject({
      event: 'label',
      action: 'edited',
      payload: {
        action: 'edited',
        label: { id: labels?.[0]?.id, node_id: labels?.[0]?.node_id, name: 'defect', color: 'ededed' },
        changes: { name: { from: 'bug' } },
        repository: { id: web.id },
        organization: { login: 'acme' },
      },
    });
    expect(web.renameMilestone('v1', 'v1.0')).toMatchObject({
      event: 'milestone',
      action: 'edited',
      payload: {
        action: 'edited',
        milestone: { id: milestone?.id, node_id: milestone?.node_id, number: 1, title: 'v1.0' },
        changes: { title: { from: 'v1' } },
        repository: { id: web.id },
      },
    });
    expect([tagged, other]).toMatchObject([
      { labels: ['defect', 'big'], milestone: 'v1.0', updatedAt: 1_700_000_000 },
      { labels: ['big'], milestone: 'v2', updatedAt: 1_700_000_000 },
    ]);

    expect([web.deleteLabel('big'), web.deleteMilestone('v2')]).toMatchObject([
      { event: 'label', action: 'deleted', payload: { action: 'deleted', label: { name: 'big' } } },
      { event: 'milestone', action: 'deleted', payload: { action: 'deleted', milestone: { title: 'v2', number: 2 } } },
    ]);
    expect([tagged, other]).toMatchObject([
      { labels: ['defect'], milestone: 'v1.0', updatedAt: 1_700_000_000 },
      { labels: [], milestone: null, updatedAt: 1_700_000_000 },
    ]);
    expect(() => web.renameLabel('defect', 'defect')).toThrow('The label defect already exists');
  });

  test('each event is delivered once, signed over the exact bytes, after a ping', async () => {
    const { github, acme, web } = await start();
    const { url, received } = await receiver();
    github.webhookTo(url, 'It is a secret', acme);
    const pullRequest = web.openPullRequest({ title: 'Ünïcode 👩‍💻' });
    pullRequest.push();
    github.organisation('other').repository('web').openPullRequest();
    await github.delivered();
    expect(received.map(each => each.headers['x-github-event']).sort()).toEqual([
      'ping',
      'pull_request',
      'pull_request',
    ]);
    for (const { headers, body } of received) {
      const digest = createHmac('sha256', 'It is a secret').update(body).digest('hex');
      expect(headers).toMatchObject({ 'x-hub-signature-256': `sha256=${digest}`, 'content-type': 'application/json' });
      expect(headers['user-agent']).toMatch(/^GitHub-Hookshot\//);
    }
    expect(new Set(received.map(each => each.headers['x-github-delivery'])).size).toBe(3);
    expect(github.deliveries.map(each => each.status)).toEqual([202, 202, 202]);
  });

  test("GitHub's published signature is reproduced", async () => {
    const { github } = await start();
    const { url, received } = await receiver();
    const event = { event: 'ping', action: undefined, payload: {} };
    await github.deliver(url, "It's a Secret to Everybody", event, { body: 'Hello, World!', guid: 'g' });
    expect(received[0]?.headers).toMatchObject({
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      'x-github-delivery': 'g',
    });
  });

  test('a delivery that nobody takes fails alone', async () => {
    const { github, web } = await start();
    await github.close();
    const { opened } = web.openPullRequest();
    if (!opened) throw new Error('no event');
    const delivery = await github.deliver(`${github.apiUrl}/webhooks`, 's', opened);
    expect(delivery).toMatchObject({ status: 0, event: 'pull_request', action: 'opened' });
  });
});

describe("GitHub's rules for queries", () => {
  const limits: [string, string, string][] = [
    ['an unknown field is refused', 'query { viewer { shoeSize } }', 'undefinedField'],
    ['a page needs a size', '{ organization(login: "acme") { repositories { nodes { id } } } }', 'MISSING_PAGINATION'],
    ['of 100 at most', '{ organization(login: "acme") { repositories(first: 101) { nodes { id } } } }', 'EXCESSIVE'],
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

  test('the example of the documentation has 22,060 nodes', () => {
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
    // Two hours of which nobody asked.
    github.limit.resetAt = resetAt - 2 * 3_600;
    expect(await points()).toMatchObject({
      ofHour: [5_000, 4_999, 1, resetAt],
      data: { rateLimit: { remaining: 4_999, resetAt: new Date(resetAt * 1_000).toISOString().replace('.000Z', 'Z') } },
    });
    Object.assign(github.limit, { remaining: 0, resetAt: resetAt - 3_600 });
    const response = await fetch(`${github.apiUrl}/rate_limit`);
    expect(await response.json()).toMatchObject({ resources: { graphql: { remaining: 5_000, reset: resetAt } } });
  });

  test('a wrong token is a 401, nonsense a 400', async () => {
    const { github } = await start();
    const post = (authorization: string, body: string) =>
      fetch(`${github.apiUrl}/graphql`, { method: 'POST', headers: { authorization }, body });
    expect((await post('token wrong', '{}')).status).toBe(401);
    expect((await post(`token ${github.token}`, '{')).status).toBe(400);
  });
});

describe('who asks', () => {
  const query =
    '{ organization(login: "acme") { viewerIsAMember membersWithRole(first: 9) { totalCount nodes { login } } } }';
  const everybody = { totalCount: 2, nodes: [{ login: 'ada' }, { login: 'bob' }] };

  test('a member sees all members, another only those who are public', async () => {
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

  test("an App's installation is a member of nothing and sees all members", async () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
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

describe('what fails for good', () => {
  const acme = { login: 'acme' };
  const forGood = (when: FaultOptions['when']) => ({ times: Number.POSITIVE_INFINITY, ...(when && { when }) });

  test('is each request that names a pull request', async () => {
    const { github, web, client } = await start();
    const [bad, good] = [web.openPullRequest(), web.openPullRequest()];
    github.fault(htmlError(502), forGood(naming(bad)));
    await errorOf(client.fetchPullRequests(acme, [good.nodeId, bad.nodeId]));
    await errorOf(client.fetchPullRequests(acme, [bad.nodeId]));
    expect((await fetchOne(client, good.nodeId)).number).toBe(2);
  });

  test('is each request about a repository', async () => {
    const { github, web, acme: organisation, client } = await start();
    const other = organisation.repository('other');
    github.fault(htmlError(502), forGood(ofRepository(web)));
    const options = { order: 'created', after: null, pageSize: 2 } as const;
    await errorOf(client.pagePullRequests(acme, web.nodeId, options));
    await errorOf(client.listPullRequests(acme, web.nodeId, options));
    expect((await client.pagePullRequests(acme, other.nodeId, options))?.items).toEqual([]);
  });

  test('is each page that has a pull request, by what GraphQL shows', async () => {
    const { github, web, client } = await start();
    github.clock.set(1_700_000_000);
    const opened = Array.from({ length: 5 }, () => {
      github.clock.advance(1);
      return web.openPullRequest();
    });
    const [, , bad] = opened;
    if (!bad) throw new Error('none opened');
    github.fault(htmlError(502), forGood(pagesWith(bad)));
    const page = (order: 'created' | 'updated', pageSize: number, after: string | null = null) =>
      client.pagePullRequests(acme, web.nodeId, { order, after, pageSize });
    const first = await page('created', 2);
    expect(first?.items).toHaveLength(2);
    await errorOf(page('created', 3));
    await errorOf(page('created', 1, first?.endCursor));

    bad.lag();
    github.clock.advance(1);
    bad.push();
    expect((await page('updated', 2))?.items).toHaveLength(2);
    await errorOf(page('updated', 3));
    bad.catchUp();
    await errorOf(page('updated', 1));
  });

  test('may be a part of a reply of 200 that was too much for GitHub', async () => {
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
});

describe('replicas that lag', () => {
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

  test('a pull request that lags is shown as it was, and told of as it is', async () => {
    const { github, acme, web } = await start();
    github.clock.set(1_700_000_000);
    const ada = acme.member('ada');
    const pullRequest = web.openPullRequest({ title: 'old' });
    pullRequest.review(ada, 'APPROVED');
    web.openPullRequest({ title: 'other' });
    pullRequest.lag();
    const before = await shown(github, web, pullRequest);
    expect(before.titles).toEqual(['old', 'old', ['other', 'old']]);

    github.clock.advance(10);
    pullRequest.comment(ada);
    pullRequest.dismissReview(ada);
    const { payload } = pullRequest.edit({ title: 'new' });
    expect(payload.pull_request).toMatchObject({ title: 'new', updated_at: '2023-11-14T22:13:30Z' });
    expect(await shown(github, web, pullRequest)).toEqual(before);

    pullRequest.catchUp();
    expect(await shown(github, web, pullRequest)).toMatchObject({
      titles: ['new', 'new', ['new', 'other']],
      node: { comments: { totalCount: 1 }, reviews: { nodes: [{ state: 'DISMISSED' }] } },
      updatedAt: '2023-11-14T22:13:30Z',
    });
  });

  test('a repository that lags has no pull request that was opened since, and no change', async () => {
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

  test('each change becomes visible by itself, so long after it happened', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { github, web } = await start();
    github.lagMilliseconds = 3_000;
    const pullRequest = web.openPullRequest({ title: 'first' });
    const titleAfter = async (milliseconds: number) => {
      vi.advanceTimersByTime(milliseconds);
      return (await shown(github, web, pullRequest)).titles[1];
    };
    expect(await titleAfter(1_000)).toBeUndefined();
    pullRequest.edit({ title: 'second' });
    expect(await titleAfter(1_999)).toBeUndefined();
    expect(await titleAfter(1)).toBe('first');
    expect(await titleAfter(1_000)).toBe('second');
  });
});

describe('its state', () => {
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

  test('records are loaded as history, fast and without webhooks', async () => {
    const { github, client } = await start();
    const records = Array.from({ length: 5_000 }, (_, number) => ({ ...record, number, is_bot: number === 0 }));
    const began = performance.now();
    const [first] = github.load(records, { organisation: 'acme' });
    expect(performance.now() - began).toBeLessThan(1_000);
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

  test('changes within one second have equal times, and no time goes back', async () => {
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

  test('closing ends what hangs', async () => {
    const github = await startStandIn();
    github.fault({ kind: 'hang' });
    const hanging = ask(github, '{ viewer { login } }').catch(() => 'ended');
    while (github.requests.length === 0) await new Promise(resolve => setImmediate(resolve));
    const began = performance.now();
    await github.close();
    expect(await hanging).toBe('ended');
    expect(performance.now() - began).toBeLessThan(500);
  });
});
