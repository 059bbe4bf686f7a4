import { describe, expect, test } from 'vitest';
import { measureQuery, readQuery } from '../support/github/schema.ts';
import type { GithubStandIn } from '../support/github/server.ts';
import { start } from './support.ts';

async function ask(github: GithubStandIn, query: string) {
  const response = await fetch(`${github.apiUrl}/graphql`, {
    method: 'POST',
    headers: { authorization: `bearer ${github.token}` },
    body: JSON.stringify({ query }),
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
