import { onTestFinished } from 'vitest';
import { createGithub, type Github } from '../../src/github/client.ts';
import type { GithubError } from '../../src/github/errors.ts';
import type { GithubIdentity } from '../../src/github/organisation.ts';
import type { FetchedPullRequest } from '../../src/github/pull-request.ts';
import type { FetchResult } from '../../src/github/replies.ts';
import type { GithubOptions } from '../../src/github/transport.ts';
import type { Organisation } from '../support/github/organisation.ts';
import { type GithubStandIn, type StartOptions, startGithub } from '../support/github/server.ts';

/** A stand-in that ends with the test, an organisation in it, and a client with its token. */
export async function start(options: StartOptions = {}, clientOptions: GithubOptions = {}) {
  const github = await startStandIn(options);
  const acme = github.organisation('acme');
  const web = acme.repository('web');
  const client = createGithub({ apiUrl: github.apiUrl, token: github.token, app: undefined }, clientOptions);
  return { github, acme, web, client };
}

export async function startStandIn(options: StartOptions = {}): Promise<GithubStandIn> {
  const github = await startGithub(options);
  onTestFinished(() => github.close());
  return github;
}

export function found(result: FetchResult | undefined): FetchedPullRequest {
  if (result?.status !== 'found') throw new Error(`Not found: ${JSON.stringify(result)}`);
  return result.pullRequest;
}

export async function fetchOne(client: Github, nodeId: string): Promise<FetchedPullRequest> {
  return found((await client.fetchPullRequests({ login: 'acme' }, [nodeId])).get(nodeId));
}

/** As the service knows it once GitHub has told. */
export const identityOf = ({ id, nodeId, login }: Organisation): GithubIdentity => ({ githubId: id, nodeId, login });

/** The error that the promise ends with; it must. */
export async function errorOf(promise: Promise<unknown>): Promise<GithubError> {
  return promise.then(
    value => {
      throw new Error(`No error, but ${JSON.stringify(value)}`);
    },
    (error: GithubError) => error,
  );
}
