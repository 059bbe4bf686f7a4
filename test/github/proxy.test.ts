import { inspect } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { createGithub } from '../../src/github/github.ts';
import { createInspection } from '../../src/github/rest.ts';
import { requireBuild, startForTest } from '../commands/support.ts';
import { newAppKeys } from '../support/app-keys.ts';
import { startConnectProxy } from '../support/connect-proxy.ts';
import type { StartOptions } from '../support/github/server.ts';
import { closing } from '../support/service.ts';
import { errorOf, startStandIn } from './support.ts';

/** Nobody but the proxy knows this name. */
const apiUrl = 'http://api.github.invalid:8080';

async function startBehindProxy(
  environment: Record<string, string> = {},
  { authorization, ...options }: StartOptions & { authorization?: string } = {},
) {
  const github = await startStandIn(options);
  const acme = github.organisation('acme');
  const proxy = closing(await startConnectProxy(github.apiUrl, authorization));
  const settings = { GITHUB_API_URL: apiUrl, GITHUB_TOKEN: github.token, HTTP_PROXY: proxy.url };
  const config = loadConfig({ ...settings, ...environment }).github;
  const clientWithin = (timeoutMs: number) => createGithub(config, { timeoutMs });
  return { github, acme, proxy, config, settings, clientWithin, client: clientWithin(8_000) };
}

const find = (client: ReturnType<typeof createGithub>) => client.findOrganisation({ login: 'acme' });

describe('a connection through a proxy', () => {
  test('GraphQL and REST reach GitHub by a name that only the proxy knows, and keep their tunnels', async () => {
    const { proxy, config, client } = await startBehindProxy();
    for (let count = 0; count < 10; count += 1) expect((await find(client))?.login).toBe('acme');
    expect(await createInspection(config).readCredentials({ login: 'acme' })).toMatchObject({ expiresAt: null });
    expect(new Set(proxy.tunnels)).toEqual(new Set(['api.github.invalid:8080']));
    expect(proxy.tunnels.length).toBeLessThan(5);
  });

  test('an App gets its tokens', async () => {
    const { publicKey, privateKey } = newAppKeys();
    const { github, acme, config } = await startBehindProxy({}, { app: { id: '4711', publicKey } });
    github.installApp(acme);
    const client = createGithub({ ...config, token: undefined, app: { id: '4711', privateKey } });
    expect((await find(client))?.login).toBe('acme');
  });

  test('https goes through the proxy of HTTPS_PROXY, to port 443 of the name', async () => {
    const { proxy, clientWithin } = await startBehindProxy({ GITHUB_API_URL: 'https://api.github.invalid' });
    // HTTP_PROXY is not for https.
    await errorOf(find(clientWithin(2_000)));
    expect(proxy.tunnels).toEqual([]);
    const config = loadConfig({ GITHUB_TOKEN: 'x', HTTPS_PROXY: proxy.url }).github;
    // The stand-in has no TLS.
    expect(await errorOf(find(createGithub(config)))).toMatchObject({ code: 'github_failed' });
    expect(new Set(proxy.tunnels)).toEqual(new Set(['api.github.com:443']));
  });

  test('a call succeeds after its tunnel died', async () => {
    const { github, client } = await startBehindProxy();
    await find(client);
    github.fault({ kind: 'reset' });
    expect((await find(client))?.login).toBe('acme');
  });

  test.each(['the proxy', 'GitHub'])('a call ends in time if %s is silent', async silent => {
    const { github, proxy, clientWithin } = await startBehindProxy();
    if (silent === 'GitHub') github.fault({ kind: 'hang' });
    else proxy.hang();
    const began = performance.now();
    expect(await errorOf(find(clientWithin(300)))).toMatchObject({ code: 'github_timeout' });
    expect(performance.now() - began).toBeLessThan(8_000);
  });
});

describe('a proxy', () => {
  const authorization = `Basic ${Buffer.from('me:p@ss').toString('base64')}`;
  const withPassword = (url: string, password: string) => url.replace('//', `//me:${encodeURIComponent(password)}@`);

  test('gets the user and the password of its address', async () => {
    const { proxy, settings } = await startBehindProxy({}, { authorization });
    const config = loadConfig({ ...settings, HTTP_PROXY: withPassword(proxy.url, 'p@ss') }).github;
    expect((await find(createGithub(config)))?.login).toBe('acme');
  });

  test('that refuses a password is named with its variable, without a secret', async () => {
    const { proxy, github, settings } = await startBehindProxy({}, { authorization });
    const config = loadConfig({ ...settings, HTTP_PROXY: withPassword(proxy.url, 'hush-hush') }).github;
    const error = await errorOf(find(createGithub(config)));
    expect(error).toMatchObject({
      code: 'github_failed',
      status: 502,
      message: `The connection to GitHub through the proxy ${proxy.url} failed: it answered 407.`,
      action: 'Check the user and the password in HTTP_PROXY.',
    });
    const shown = inspect(error, { depth: 12 });
    for (const secret of ['hush-hush', Buffer.from('me:hush-hush').toString('base64'), github.token]) {
      expect(shown).not.toContain(secret);
    }
  });

  test('that does not answer is named, for GraphQL and for doctor', async () => {
    const { proxy, config, client } = await startBehindProxy();
    await proxy.close();
    for (const failing of [find(client), createInspection(config).reach()]) {
      expect(await errorOf(failing)).toMatchObject({
        message: `The connection to GitHub through the proxy ${proxy.url} failed: ECONNREFUSED.`,
        action: 'Check HTTP_PROXY, or name the host in NO_PROXY if it is reached directly.',
      });
    }
  });
});

describe('the program', () => {
  beforeAll(requireBuild);

  test('doctor uses the proxy of its environment, says so, and ends despite open tunnels', async () => {
    const { proxy, settings } = await startBehindProxy();
    const { ended } = startForTest(settings, 'doctor', '--json');
    const { checks } = JSON.parse((await ended).stdout) as { checks: { name: string; message: string }[] };
    expect(checks.find(({ name }) => name === 'reach')?.message).toMatch(
      new RegExp(`^${apiUrl} answers in \\d+ ms, through the proxy ${proxy.url} \\(HTTP_PROXY\\)\\.$`),
    );
  });
});
