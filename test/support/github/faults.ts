import type { ServerResponse } from 'node:http';
import type { PullRequest } from './pull-request.ts';
import type { Repository } from './repository.ts';

/** A request as it arrived, before any fault or answer. */
export interface GithubStandInRequest {
  method: string;
  /** Without the query string. */
  path: string;
  /** The GraphQL operation's name. */
  operation: string | undefined;
  variables: Record<string, unknown>;
  authorization: string | undefined;
  /** 0 until it is answered; stays 0 if the connection broke. */
  status: number;
}

export interface ReplyFault {
  kind: 'reply';
  status: number;
  body?: string | object;
  headers?: Record<string, string>;
}

/** What goes wrong. */
export type Fault =
  /** This answer instead of the real one. */
  | ReplyFault
  /** The connection stays open without an answer. */
  | { kind: 'hang' }
  /** The headers come at once, then a byte every tenth of a second. */
  | { kind: 'trickle' }
  /** The connection breaks before the answer. */
  | { kind: 'reset' }
  /** Half of the real answer: as a complete reply that is not JSON, or broken off (`reset`). */
  | { kind: 'truncate'; reset?: boolean }
  /** An answer larger than any real one: this many MiB of spaces before the JSON. */
  | { kind: 'oversize'; mebibytes: number }
  | { kind: 'redirect'; location: string; status?: 301 | 302 | 307 | 308 }
  /** The real answer, later. */
  | { kind: 'delay'; milliseconds: number }
  /** The real answer, once the promise resolves: as it is then, or (`late`) as it was at the time of the request. */
  | { kind: 'hold' | 'late'; until: Promise<unknown> }
  /** The real answer at the time of the request, sent later. */
  | { kind: 'late'; milliseconds: number }
  /** The real answer, changed, or what takes its place: for replies that break the schema. */
  | { kind: 'alter'; change: (reply: { data?: unknown; errors?: unknown }) => unknown }
  /** A reply of 200 in which these pull requests, or one field of each, fail, and the others are complete. */
  | { kind: 'broken'; nodeIds: string[]; type?: string; message?: string; field?: string };

/** For `until` of a fault: release it when the test has done what must happen first. */
export function createLatch(): { released: Promise<void>; release(): void } {
  let release: () => void = () => undefined;
  const released = new Promise<void>(resolve => {
    release = resolve;
  });
  return { released, release: () => release() };
}

type Condition = (request: GithubStandInRequest) => boolean;

/** Requests that name one of the pull requests, or lists one of the repositories, by its node id. */
export const naming =
  (...nodes: (PullRequest | Repository)[]): Condition =>
  ({ variables: { ids, repository } }) =>
    nodes.some(({ nodeId }) => nodeId === repository || (Array.isArray(ids) && ids.includes(nodeId)));

/** Requests for the second page of a list, or a later one. */
export const furtherPage =
  (operation?: string): Condition =>
  ({ operation: name, variables: { after } }) =>
    (after ?? null) !== null && name === (operation ?? name);

export interface FaultOptions {
  /** Number of requests that it hits, once by default; `Infinity` lasts until all are cleared. */
  times?: number;
  /** Which requests it hits, or the name of their GraphQL operation: by default all GraphQL ones. */
  when?: Condition | string;
  /** Called with each hit, before the answer. */
  onHit?: () => void;
}

const isGraphql: Condition = ({ path }) => path.endsWith('/graphql');

export function createFaults() {
  let waiting: { fault: Fault; left: number; when: Condition; onHit: () => void }[] = [];

  /** @returns a function that removes the fault */
  function add(fault: Fault, { times = 1, when = isGraphql, onHit = () => undefined }: FaultOptions = {}) {
    const hits: Condition = typeof when === 'string' ? ({ operation }) => operation === when : when;
    const added = { fault, left: times, when: hits, onHit };
    waiting.push(added);
    return () => {
      waiting = waiting.filter(each => each !== added);
    };
  }

  return {
    add,
    /** Holds the answer to one request until `release()`. @returns `begun`, too, which resolves once it is asked */
    hold(kind: 'hold' | 'late', when: Condition | string = isGraphql) {
      const [begun, end] = [createLatch(), createLatch()];
      add({ kind, until: end.released }, { when, onHit: begun.release });
      return { begun: begun.released, release: end.release };
    },
    clear() {
      waiting = [];
    },
    /** The first fault that fits, which counts as one use. */
    take(request: GithubStandInRequest): Fault | undefined {
      const found = waiting.find(({ when }) => when(request));
      if (!found) return undefined;
      found.onHit();
      if (--found.left <= 0) waiting = waiting.filter(each => each !== found);
      return found.fault;
    },
  };
}

/** How GraphQL says that the hour's points are used up: a reply of 200. */
export const pointsUsedUp = (resetAt: number): ReplyFault => ({
  kind: 'reply',
  status: 200,
  headers: { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(resetAt) },
  body: {
    errors: [
      { type: 'RATE_LIMIT', code: 'graphql_rate_limit', message: 'API rate limit already exceeded for user ID 1.' },
    ],
  },
});

/** The secondary limit, against bursts; `retryAfter` in seconds, as an HTTP date, or absent. */
export const secondaryLimit = (retryAfter?: string, status: 403 | 429 = 403): ReplyFault => ({
  kind: 'reply',
  status,
  ...(retryAfter !== undefined && { headers: { 'retry-after': retryAfter } }),
  body: {
    message: 'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.',
    documentation_url: 'https://docs.github.com/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api',
  },
});

/** GitHub's front end answers this while its back end is slow or down. */
export const htmlError = (status: 500 | 502 | 503 | 504): ReplyFault => ({
  kind: 'reply',
  status,
  headers: { 'content-type': 'text/html; charset=utf-8' },
  body: '<!DOCTYPE html><html><head><title>Unicorn! &middot; GitHub</title></head><body>We had issues producing the response to your request.</body></html>',
});

/** The query took GitHub longer than its own ten seconds. */
export const queryTimeout = (): ReplyFault => ({
  kind: 'reply',
  status: 200,
  body: {
    data: null,
    errors: [
      {
        message:
          'Something went wrong while executing your query. This may be the result of a timeout, or it could be a GitHub bug. Please include `C0DE:0000` when reporting this issue.',
      },
    ],
  },
});

/** Instead of the node that was asked for, this error in a reply of 200. */
export const refusedNode = (type: string, message: string): ReplyFault => ({
  kind: 'reply',
  status: 200,
  body: { data: { node: null }, errors: [{ type, message, path: ['node'] }] },
});

/** In a reply of 200, GitHub gives up on these, and the others are complete. */
export const tooExpensive = (...pullRequests: PullRequest[]): Fault => ({
  kind: 'broken',
  nodeIds: pullRequests.map(({ nodeId }) => nodeId),
  type: 'RESOURCE_LIMITS_EXCEEDED',
});

/** This reply of 200 to a request that was carried out. */
export const answering = (reply: object): Fault => ({ kind: 'alter', change: () => reply });

/** The real answer with these errors beside it. */
export const addingErrors = (...errors: object[]): Fault => ({
  kind: 'alter',
  change: reply => ({ ...reply, errors }),
});

/** The real answer, with what `change` makes of each pull request that was asked for by its id. */
export const alteringNodes = (change: (node: object, index: number) => object): Fault => ({
  kind: 'alter',
  change: reply => ({ data: { nodes: (reply.data as { nodes: object[] }).nodes.map(change) } }),
});

/** The real answer with another text in its JSON. */
export const replacing = (pattern: RegExp | string, text: string | (() => string)): Fault => ({
  kind: 'alter',
  change: reply => JSON.parse(JSON.stringify(reply).replace(pattern, typeof text === 'string' ? text : text())),
});

/** Carries out a fault that needs no real answer. False if it needs one first. */
export function answerWithFault(fault: Fault, response: ServerResponse): boolean {
  switch (fault.kind) {
    case 'reply': {
      const { status, body = '', headers } = fault;
      response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
      return true;
    }
    case 'redirect':
      response.writeHead(fault.status ?? 307, { location: fault.location }).end();
      return true;
    case 'hang':
      return true;
    case 'reset':
      response.socket?.resetAndDestroy();
      return true;
    case 'trickle': {
      response.writeHead(200, { 'content-type': 'application/json' });
      const timer = setInterval(() => response.write(' '), 100);
      response.once('close', () => clearInterval(timer));
      return true;
    }
    default:
      return false;
  }
}

/** Sends the real answer, as far as the fault lets it. */
export function sendWithFault(
  fault: Fault | undefined,
  response: ServerResponse,
  status: number,
  body: object | string,
): void {
  const isPage = typeof body === 'string';
  let text = isPage ? body : JSON.stringify(body);
  if (fault?.kind === 'alter') {
    const reply = JSON.parse(text);
    text = JSON.stringify(fault.change(reply) ?? reply);
  }
  if (fault?.kind === 'oversize') text = ' '.repeat(fault.mebibytes * 1024 * 1024) + text;
  response.statusCode = status;
  response.setHeader('content-type', `${isPage ? 'text/html' : 'application/json'}; charset=utf-8`);
  if (fault?.kind !== 'truncate') {
    response.end(text);
    return;
  }
  const half = text.slice(0, Math.floor(text.length / 2));
  if (!fault.reset) {
    response.end(half);
    return;
  }
  response.setHeader('content-length', Buffer.byteLength(text));
  response.write(half, () => response.socket?.resetAndDestroy());
}
