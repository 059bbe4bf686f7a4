/**
 * A client as you could write it: it reads the list in pages, filters it, and keeps a copy up to date. Its types are
 * generated from the OpenAPI document. `npm run demo` prints the command that runs it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import createClient, { type Client, type ClientOptions } from 'openapi-fetch';
import type { components, operations, paths } from '../openapi/2026-12.d.ts';

export type PullRequest = components['schemas']['PullRequest'];
export type Api = Client<paths>;
type Change = components['schemas']['Change'];
type Query = NonNullable<operations['v202612.pull-requests.index']['parameters']['query']>;

export const connect = (baseUrl: string, token: string, options: ClientOptions = {}): Api =>
  createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` }, ...options });

/** What the API answers if it refuses a request. */
export class Refusal extends Error {}

/** All pull requests that the filter lets through, latest first, read a page at a time. */
export async function* list({ GET }: Api, filter: Omit<Query, 'cursor'> = {}): AsyncGenerator<PullRequest> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: Query = { per_page: 100, ...filter, ...(cursor && { cursor }) };
    const { data, error } = await GET('/2026-12/pull-requests', { params: { query } });
    if (data === undefined) throw new Refusal(error?.message, { cause: error });
    yield* data.data;
    cursor = data.meta.next_cursor;
  }
}

/** A copy of all pull requests. If you store it, store its parts in one transaction. */
export interface Mirror {
  readonly pullRequests: Map<string, PullRequest>;
  /** How far the changes are read. */
  cursor: string | null;
  /** Those known from before it started again. They are gone unless they come again. */
  doubtful: Set<string>;
}

export const createMirror = (): Mirror => ({ pullRequests: new Map(), cursor: null, doubtful: new Set() });

/**
 * Reads the next page of changes into the copy.
 *
 * @returns the changes; if there are none, the copy is up to date
 */
export async function follow(client: Api, mirror: Mirror, perPage = 100): Promise<Change[]> {
  const query = { per_page: perPage, ...(mirror.cursor && { cursor: mirror.cursor }) };
  const { data, error } = await client.GET('/2026-12/changes', { params: { query } });
  if (error?.code === 'cursor_expired') {
    mirror.cursor = null;
    mirror.doubtful = new Set(mirror.pullRequests.keys());
    return follow(client, mirror, perPage);
  }
  if (data === undefined) throw new Refusal(error?.message, { cause: error });
  for (const change of data.data) {
    const id = change.type === 'deletion' ? change.id : change.pull_request.id;
    mirror.doubtful.delete(id);
    if (change.type === 'deletion') mirror.pullRequests.delete(id);
    else mirror.pullRequests.set(id, change.pull_request);
  }
  if (data.data.length === 0) {
    for (const id of mirror.doubtful) mirror.pullRequests.delete(id);
    mirror.doubtful.clear();
  }
  mirror.cursor = data.meta.next_cursor;
  return data.data;
}

const show = ({ repository, number, state, score, title }: PullRequest) =>
  `${repository}#${number}  ${state}  score ${score}  ${title}`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , url = '', token = ''] = process.argv;
  const client = connect(url, token);
  console.log('Open pull requests, latest first:');
  for await (const pullRequest of list(client, { state: 'open' })) console.log(show(pullRequest));
  const mirror = createMirror();
  while ((await follow(client, mirror)).length > 0);
  console.log(`\nCopied ${mirror.pullRequests.size} pull requests. What changes from now on (Ctrl-C ends):`);
  for (; ; await delay(500)) {
    for (const change of await follow(client, mirror)) {
      console.log(change.type === 'deletion' ? `${change.id} is gone` : show(change.pull_request));
    }
  }
}
