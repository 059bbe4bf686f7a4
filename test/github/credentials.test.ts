import { createServer, type IncomingHttpHeaders } from 'node:http';
import { inspect } from 'node:util';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { GithubConfig } from '../../src/github/credentials.ts';
import { newAppKeys } from '../support/app-keys.ts';
import { refusedNode } from '../support/github/faults.ts';
import type { GithubStandIn } from '../support/github/server.ts';
import { clientOf, errorOf, fetchResult, identityOf, listen, start, startStandIn } from './support.ts';

const { publicKey, privateKey } = newAppKeys('pkcs1');

const ownApp = { id: '4711', privateKey };

const clientWith = ({ apiUrl }: GithubStandIn, credentials: Partial<GithubConfig>) =>
  clientOf({ apiUrl, ...credentials });

const realNow = performance.now.bind(performance);
let ahead = 0;

/** Tokens issued before are no longer so new that GitHub may not know them. */
function ageTokens() {
  ahead += 5_000;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + ahead);
  onTestFinished(() => clock.mockRestore());
}

async function startApp() {
  const github = await startStandIn({ app: { id: '4711', publicKey } });
  const acme = github.organisation('acme');
  github.installApp(acme);
  const { nodeId } = acme.repository('web').openPullRequest();
  const client = clientWith(github, { app: ownApp });
  const restPaths = () => github.requests.filter(each => !each.path.endsWith('/graphql')).map(each => each.path);
  return { github, acme, nodeId, client, restPaths };
}

test('a call without credentials says what to set, and sends no request', async () => {
  const { github } = await start();
  const client = clientWith(github, {});
  expect(client.configured).toBe(false);
  const error = await errorOf(client.findOrganisation({ login: 'acme' }));
  expect(error).toMatchObject({ code: 'github_not_configured', status: 503 });
  expect(error.text).toMatch(/GITHUB_TOKEN.*GITHUB_APP_ID/);
  expect(github.requests).toEqual([]);
});

describe('a token', () => {
  test('the error for a revoked token names its variable, but does not show it', async () => {
    const { github, client } = await start();
    expect(client.configured).toBe(true);
    expect((await client.findOrganisation({ login: 'acme' }))?.login).toBe('acme');
    github.revokeCredentials();
    const error = await errorOf(client.findOrganisation({ login: 'acme' }));
    expect(error).toMatchObject({ code: 'github_credentials', status: 502 });
    expect(error.text).toContain('GITHUB_TOKEN');
    expect(inspect(error, { depth: 12 })).not.toContain(github.token);
  });

  test('that lacks rights leads to an error about credentials', async () => {
    const { github, acme, client } = await start();
    github.fault({ kind: 'reply', status: 403, body: { message: 'Resource not accessible by personal access token' } });
    expect(await errorOf(client.findOrganisation({ login: 'acme' }))).toMatchObject({ code: 'github_credentials' });
    github.fault(refusedNode('INSUFFICIENT_SCOPES', 'needs read:org'));
    const error = await errorOf(client.pageMembers(identityOf(acme), null));
    expect(error).toMatchObject({ code: 'github_credentials' });
    expect(error.text).toContain('needs read:org');
  });
});

describe('a redirect', () => {
  async function listener() {
    const seen: IncomingHttpHeaders[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers);
      response.end('{"data": {"organization": null}}');
    });
    return { url: `${await listen(server)}/graphql`, seen };
  }

  test.each([301, 302, 307, 308] as const)(
    'a redirect with the status %d to another address is not followed, so the token stays secret',
    async status => {
      const { github, client } = await start();
      const { url, seen } = await listener();
      github.fault({ kind: 'redirect', location: url, status });
      const error = await errorOf(client.findOrganisation({ login: 'acme' }));
      expect(error).toMatchObject({ code: 'github_failed' });
      expect(error.text).toContain('GITHUB_API_URL');
      expect(seen).toEqual([]);
    },
  );

  test('to another scheme on the same host is not followed', async () => {
    const { github, client } = await start();
    const other = new URL('/graphql', github.apiUrl.replace('http:', 'https:'));
    github.fault({ kind: 'redirect', location: other.href });
    const error = await errorOf(client.findOrganisation({ login: 'acme' }));
    expect(error.text).toContain(`GitHub redirects to another address (${other.origin})`);
    expect(github.count()).toBe(1);
  });

  test('within the same address is followed with the same method', async () => {
    const { github, client } = await start();
    github.fault({ kind: 'redirect', location: '/graphql?again' });
    expect((await client.findOrganisation({ login: 'acme' }))?.login).toBe('acme');
    expect(github.requests.map(each => [each.method, each.operation])).toEqual([
      ['POST', 'Organisation'],
      ['POST', 'Organisation'],
    ]);
  });

  test('a call follows three redirects at most', async () => {
    const { github, client } = await start();
    github.fault({ kind: 'redirect', location: '/graphql' }, { times: Infinity });
    expect(await errorOf(client.findOrganisation({ login: 'acme' }))).toMatchObject({ code: 'github_failed' });
    expect(github.count()).toBe(4);
  });

  test('to an invalid address is a failure', async () => {
    const { github, client } = await start();
    github.fault({ kind: 'redirect', location: 'http://[' });
    expect(await errorOf(client.findOrganisation({ login: 'acme' }))).toMatchObject({ code: 'github_failed' });
  });
});

describe('an App', () => {
  test('finds its installation and takes one token for many calls', async () => {
    const { nodeId, client, restPaths, acme, github } = await startApp();
    expect(client.configured).toBe(true);
    const calls = Array.from({ length: 5 }, () => client.fetchPullRequests({ login: 'acme' }, [nodeId]));
    for (const results of await Promise.all(calls)) expect(results.get(nodeId)?.status).toBe('found');
    // It is not a member, but sees all members.
    expect(await client.pageMembers(identityOf(acme), null)).toMatchObject({ isPublicOnly: false });
    expect(restPaths().filter(path => path.endsWith('/access_tokens'))).toEqual([
      `/app/installations/${acme.installationId}/access_tokens`,
    ]);
    const graphql = github.requests.filter(each => each.path === '/graphql');
    expect(graphql.every(each => /^token ghs_/.test(each.authorization ?? ''))).toBe(true);
  });

  test('remembers only its installations on the organisations asked about last', async () => {
    const { github, restPaths } = await startApp();
    const client = clientOf({ apiUrl: github.apiUrl, app: ownApp }, { maxInstallations: 2 });
    const logins = ['one', 'two', 'three'];
    for (const login of logins) github.installApp(github.organisation(login));
    for (const login of ['one', 'two', 'one', 'three', 'one', 'two']) await client.findOrganisation({ login });
    expect(restPaths().filter(path => path.endsWith('/installation'))).toEqual(
      ['one', 'two', 'three', 'two'].map(login => `/orgs/${login}/installation`),
    );
  });

  test('that may not read members does not count as seeing them all', async () => {
    const { client, acme, github } = await startApp();
    delete github.grants.permissions.members;
    expect(await client.pageMembers(identityOf(acme), null)).toMatchObject({ isPublicOnly: true });
  });

  test('is preferred to a token', async () => {
    const { github } = await startApp();
    const both = clientWith(github, { token: github.token, app: ownApp });
    await both.findOrganisation({ login: 'acme' });
    expect(github.requests.at(-1)?.authorization).toMatch(/^token ghs_/);
  });

  test('accepts a key in one line with \\n for its line ends', async () => {
    const { github } = await startApp();
    const client = clientWith(github, { app: { ...ownApp, privateKey: privateKey.replaceAll('\n', '\\n') } });
    expect((await client.findOrganisation({ login: 'acme' }))?.login).toBe('acme');
  });

  test('finds the installation of a renamed organisation, even if its login was taken', async () => {
    const { github, acme, nodeId, client } = await startApp();
    const known = { githubId: acme.id, login: 'acme' };
    const isFound = async (asked: typeof client) =>
      (await asked.fetchPullRequests(known, [nodeId])).get(nodeId)?.status === 'found';
    expect(await isFound(client)).toBe(true);
    // More than a page of others, before it in the list and after.
    for (let index = 0; index < 120; index += 1) github.installApp(github.organisation(`customer-${index}`));
    acme.rename('apex');
    expect(await isFound(client)).toBe(true);
    expect(await isFound(clientWith(github, { app: ownApp }))).toBe(true);
    github.installApp(github.organisation('acme'));
    expect(await isFound(client)).toBe(true);
    expect(await isFound(clientWith(github, { app: ownApp }))).toBe(true);
    const searched = github.requests.filter(({ path }) => path === '/app/installations');
    const pages = ['1', '2', '1', '2'].map(page => ({ per_page: '100', page }));
    expect(searched.map(({ variables }) => variables)).toEqual(pages);
    ageTokens();
    github.uninstallApp(acme);
    expect(await errorOf(isFound(client))).toMatchObject({ code: 'github_credentials' });
    expect((await errorOf(isFound(client))).text).toContain('not installed');
  });

  test('stops its search after a hundred pages of installations', async () => {
    const { github, acme, nodeId } = await startApp();
    const client = clientOf({ apiUrl: github.apiUrl, app: ownApp }, { timeoutMs: 50_000 });
    const known = { githubId: acme.id, login: 'acme-before' };
    const strangers = [null, { id: 1, account: null }, ...Array(98).fill({ id: 1, account: { id: 1 } })];
    const when = ({ path }: { path: string }) => path === '/app/installations';
    github.fault({ kind: 'reply', status: 200, body: strangers }, { times: Infinity, when });
    expect((await errorOf(client.fetchPullRequests(known, [nodeId]))).text).toContain('not installed');
    expect(github.requests.filter(when)).toHaveLength(100);
  });

  test('says that it is not installed, and works once it is', async () => {
    const { github, client } = await startApp();
    const other = github.organisation('other');
    const error = await errorOf(client.findOrganisation({ login: 'other' }));
    expect(error).toMatchObject({ code: 'github_credentials' });
    expect(error.text).toMatch(/Install it there\.$/);
    github.installApp(other);
    expect((await client.findOrganisation({ login: 'other' }))?.login).toBe('other');
  });

  test('waits until all of GitHub knows its new token', async () => {
    const { github, nodeId, client, restPaths } = await startApp();
    github.fault({ kind: 'reply', status: 401, body: { message: 'Bad credentials' } }, { times: 2 });
    expect((await fetchResult(client, nodeId))?.status).toBe('found');
    expect(restPaths().filter(path => path.endsWith('/access_tokens'))).toHaveLength(1);
  });

  test('gets a new token for the call after its token was revoked', async () => {
    const { github, acme, nodeId, client } = await startApp();
    await client.fetchPullRequests({ login: 'acme' }, [nodeId]);
    ageTokens();
    github.uninstallApp(acme);
    expect(await errorOf(fetchResult(client, nodeId))).toMatchObject({ code: 'github_credentials' });
    github.installApp(acme);
    expect((await fetchResult(client, nodeId))?.status).toBe('found');
    ageTokens();
    github.revokeCredentials();
    expect(await errorOf(fetchResult(client, nodeId))).toMatchObject({ code: 'github_credentials' });
    expect((await fetchResult(client, nodeId))?.status).toBe('found');
  });

  test('renews its token, but not each time, if GitHub refuses a part of a reply', async () => {
    const { github, acme, nodeId, client, restPaths } = await startApp();
    const tokens = () => restPaths().filter(path => path.endsWith('/access_tokens')).length;
    const error = { type: 'FORBIDDEN', message: 'Resource not accessible by integration', path: ['nodes', 0] };
    const body = { data: { nodes: [null] }, errors: [error] };
    const heal = github.fault({ kind: 'reply', status: 200, body }, { times: Infinity });
    const now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now);
    onTestFinished(() => clock.mockRestore());
    for (const minutes of [0, 4, 6, 7, 10]) {
      clock.mockReturnValue(now + minutes * 60_000);
      expect(await fetchResult(client, nodeId)).toMatchObject({ status: 'failed' });
    }
    expect(tokens()).toBe(2);
    heal();
    clock.mockReturnValue(now + 12 * 60_000);
    expect((await client.findOrganisation(identityOf(acme)))?.login).toBe('acme');
    expect(tokens()).toBe(2);
  });

  test('the error for a key that is not valid or is of another App names the variable to check', async () => {
    const { github } = await startApp();
    const askAs = (app: { id: string; privateKey: string }) =>
      errorOf(clientWith(github, { app }).findOrganisation({ login: 'acme' }));
    for (const key of ['nonsense', '-----BEGIN RSA PRIVATE KEY-----', privateKey.slice(0, 400)]) {
      const error = await askAs({ ...ownApp, privateKey: key });
      expect(error).toMatchObject({ code: 'github_credentials' });
      expect(error.text).toContain('GITHUB_APP_PRIVATE_KEY');
    }
    const error = await askAs({ ...ownApp, id: '9' });
    expect(error).toMatchObject({ code: 'github_credentials' });
    expect(error.text).toContain('GITHUB_APP_ID');
  });

  test('asks for a token again after a request for one got no answer', async () => {
    const { github, nodeId } = await startApp();
    const client = clientOf({ apiUrl: github.apiUrl, app: ownApp }, { timeoutMs: 150 });
    github.fault({ kind: 'hang' }, { when: ({ path }) => path.endsWith('/access_tokens') });
    const fetchIt = () => client.fetchPullRequests({ login: 'acme' }, [nodeId]);
    expect(await errorOf(fetchIt())).toMatchObject({ code: 'github_timeout' });
    await expect.poll(() => fetchIt().then(found => found.get(nodeId)?.status, String)).toBe('found');
  });

  test.each(['/installation', '/access_tokens'])('survives failures and timeouts of %s', async path => {
    const { github, nodeId, client } = await startApp();
    const when = (request: { path: string }) => request.path.endsWith(path);
    const fetchIt = (deadline?: number) => client.fetchPullRequests({ login: 'acme' }, [nodeId], deadline);
    github.fault({ kind: 'reply', status: 502, body: '<html>' }, { when });
    expect(await errorOf(fetchIt())).toMatchObject({ code: 'github_failed' });
    for (const body of ['{"id": "x", "token": 5}', 'null', '<html>']) {
      github.fault({ kind: 'reply', status: 200, body }, { when });
      expect(await errorOf(fetchIt())).toMatchObject({ code: 'github_failed' });
    }
    expect((await fetchIt()).get(nodeId)?.status).toBe('found');

    ageTokens();
    github.revokeCredentials();
    expect(await errorOf(fetchIt())).toMatchObject({ code: 'github_credentials' });
    github.fault({ kind: 'hang' }, { when });
    const began = performance.now();
    expect(await errorOf(fetchIt(performance.now() + 200))).toMatchObject({ code: 'github_timeout' });
    expect(performance.now() - began).toBeLessThan(8_000);
  });
});
