import { describe, expect, onTestFinished, test } from 'vitest';
import { newAppKeys } from '../support/app-keys.ts';
import { createLatch } from '../support/github/faults.ts';
import { clientOf, errorOf, start } from './support.ts';

/** Holds every reply until the latch is released. */
async function startHolding(...options: Parameters<typeof start>) {
  const { released, release } = createLatch();
  onTestFinished(release);
  const started = await start(...options);
  started.github.fault({ kind: 'hold', until: released }, { times: Infinity });
  return { ...started, release };
}

describe('requests beyond the number that may be under way', () => {
  test('are sent in their order, once others have ended', async () => {
    const { github, client, release } = await startHolding({}, { maxUnderWay: 2 });
    const logins = ['one', 'two', 'three', 'four'];
    const asked = logins.map(login => client.findOrganisation({ login }));
    await expect.poll(() => github.count()).toBe(2);
    release();
    expect(await Promise.all(asked)).toEqual([undefined, undefined, undefined, undefined]);
    expect(github.requests.map(({ variables }) => variables.login)).toEqual(logins);
  });

  test('a request that fails leaves its place to the next one', async () => {
    const { github, client, web } = await start({}, { maxUnderWay: 1 });
    const { nodeId } = web.openPullRequest();
    github.fault({ kind: 'hang' }, { when: 'PullRequests' });
    const failed = errorOf(client.fetchPullRequests({ login: 'acme' }, [nodeId], performance.now() + 100));
    expect(await client.findOrganisation({ login: 'two' })).toBeUndefined();
    expect(await failed).toMatchObject({ code: 'github_timeout' });
  });

  test("a request whose caller can't wait any longer is neither sent nor counted, and keeps no place", async () => {
    const { github, client, release, web } = await startHolding({}, { maxUnderWay: 1 });
    const { nodeId } = web.openPullRequest();
    const counted: string[] = [];
    client.onRequest(({ organisation }) => counted.push(organisation));
    const metered = client.metered(({ organisation }) => counted.push(organisation));
    const first = client.findOrganisation({ login: 'one' });
    const late = metered.fetchPullRequests({ login: 'acme' }, [nodeId], performance.now() + 50);
    const last = client.findOrganisation({ login: 'last' });
    expect(await errorOf(late)).toMatchObject({ code: 'github_timeout' });
    release();
    await Promise.all([first, last]);
    expect(github.requests.map(({ variables }) => variables.login)).toEqual(['one', 'last']);
    expect(counted).toEqual(['one', 'last']);
  });

  test('an App has places for each organisation', async () => {
    const { privateKey, publicKey } = newAppKeys();
    const { github, release } = await startHolding({ app: { id: '4711', publicKey } });
    const [one, two] = [github.organisation('one'), github.organisation('two')];
    for (const organisation of [one, two]) github.installApp(organisation);
    const app = { id: '4711', privateKey };
    const client = clientOf({ apiUrl: github.apiUrl, app }, { maxUnderWay: 1 });
    const asked = [one, two, one].map(({ login }) => client.findOrganisation({ login }));
    await expect.poll(() => github.count()).toBe(2);
    const sent = github.requests.filter(({ path }) => path === '/graphql');
    expect(sent.map(({ variables }) => variables.login).sort()).toEqual(['one', 'two']);
    release();
    await Promise.all(asked);
    expect(github.count()).toBe(3);
  });
});
