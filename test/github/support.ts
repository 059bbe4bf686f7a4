import { Server as HttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import type { GithubConfig } from '../../src/github/credentials.ts';
import { createGithub, type Github } from '../../src/github/github.ts';
import type { GithubError } from '../../src/github/github-error.ts';
import type { GithubIdentity } from '../../src/github/organisation.ts';
import type { FetchedPullRequest } from '../../src/github/pull-request.ts';
import type { FetchResult } from '../../src/github/reply-entries.ts';
import type { GithubOptions } from '../../src/github/transport.ts';
import type { Organisation } from '../support/github/organisation.ts';
import { type GithubStandIn, type StartOptions, startGithub } from '../support/github/server.ts';

/** A client that is configured by nothing else. */
export const clientOf = (config: Partial<GithubConfig>, options?: GithubOptions): Github =>
  createGithub({ ...loadConfig({}).github, ...config }, options);

/** A stand-in that ends with the test, an organisation in it, and a client with its token. */
export async function start(options: StartOptions = {}, clientOptions: GithubOptions = {}) {
  const github = await startStandIn(options);
  const acme = github.organisation('acme');
  const web = acme.repository('web');
  const client = clientOf({ apiUrl: github.apiUrl, token: github.token }, clientOptions);
  return { github, acme, web, client };
}

/** Also a pull request of Alice's, opened at 1,700,000,000, and two others who can review it. */
export async function startReviews() {
  const started = await start();
  const { github, acme, web, client } = started;
  github.clock.set(1_700_000_000);
  const [alice, bob, carol] = [acme.member('alice'), acme.member('bob'), acme.member('carol')];
  const pullRequest = web.openPullRequest({ author: alice });
  const fetched = () => fetchOne(client, pullRequest.nodeId);
  const reviewers = async () => (await fetched()).reviewers;
  return { ...started, alice, bob, carol, pullRequest, fetched, reviewers };
}

export async function startStandIn(options: StartOptions = {}): Promise<GithubStandIn> {
  const github = await startGithub(options);
  onTestFinished(() => github.close());
  return github;
}

/** Starts a server that ends with the test. @returns its address */
export async function listen(server: Server): Promise<string> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    if (server instanceof HttpServer) server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The first page of pull requests, oldest first. */
export const firstPage = { order: 'created', after: null, pageSize: 50 } as const;

export function found(result: FetchResult | undefined): FetchedPullRequest {
  if (result?.status !== 'found') throw new Error(`Not found: ${JSON.stringify(result)}`);
  return result.pullRequest;
}

export async function fetchResult(client: Github, nodeId: string): Promise<FetchResult | undefined> {
  return (await client.fetchPullRequests({ login: 'acme' }, [nodeId])).get(nodeId);
}

export async function fetchOne(client: Github, nodeId: string): Promise<FetchedPullRequest> {
  return found(await fetchResult(client, nodeId));
}

/** What GitHub says about the organisation's identity. */
export const identityOf = ({ id, nodeId, login }: Organisation): GithubIdentity => ({ githubId: id, nodeId, login });

/** The error that the promise must reject with. */
export async function errorOf(promise: Promise<unknown>): Promise<GithubError> {
  return promise.then(
    value => {
      throw new Error(`No error, but ${JSON.stringify(value)}`);
    },
    (error: GithubError) => error,
  );
}
