import { randomBytes, randomInt } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createApps } from './apps.ts';
import { createAuthorities } from './authorities.ts';
import { pingEvent } from './events.ts';
import { answerWithFault, createFaults, type Fault, type GithubStandInRequest, sendWithFault } from './faults.ts';
import { type Answer, answerQuery, type PointLimit, refill } from './graphql.ts';
import { Organisation } from './organisation.ts';
import { answerRest, type Grants } from './rest.ts';
import { githubSchema } from './schema.ts';
import { createHooks, deliver, type HookSettings } from './webhooks.ts';
import { accountOf, createClock, createWorld } from './world.ts';

export interface StartOptions {
  /** 0 for any free port. */
  port?: number;
  /** The accepted personal token; random by default. */
  token?: string;
  /** The App whose signed tokens are accepted: its id, and its public key as PEM. */
  app?: { id: string; publicKey: string };
  /** Of each hour, 5,000 by default. */
  points?: number;
  /** As a GitHub Enterprise Server: REST under `/api/v3`, GraphQL at `/api/graphql`, no rate limits. */
  enterprise?: boolean;
}

export type GithubStandIn = Awaited<ReturnType<typeof startGithub>>;

/** As many as GraphQL can represent. */
export const maxPoints = 2 ** 31 - 1;

const maxRequestBytes = 1024 * 1024;

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > maxRequestBytes) throw new Error('The request is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/**
 * A stand-in for GitHub on loopback: it keeps accounts, organisations, repositories and pull requests, answers GraphQL
 * by GitHub's published schema, sends webhooks, and fails in any way it is told to.
 */
export async function startGithub(options: StartOptions = {}) {
  githubSchema();
  const clock = createClock();
  const hooks = createHooks();
  const faults = createFaults();
  const requests: GithubStandInRequest[] = [];
  const { points = 5_000 } = options;
  const base = options.enterprise ? '/api/v3' : '';
  const server = createServer({ keepAliveTimeout: 5_000 });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const apiUrl = `http://127.0.0.1:${port}${base}`;
  const webUrl = options.enterprise ? `http://127.0.0.1:${port}` : 'https://github.com';
  const world = createWorld(clock, webUrl, apiUrl, (event, organisation) => hooks.send(event, organisation));
  const token = options.token ?? `ghp_${randomBytes(18).toString('hex')}`;
  const authorities = createAuthorities(token, options.app);
  const limit: PointLimit | null = options.enterprise
    ? null
    : { limit: points, remaining: points, resetAt: Math.floor(Date.now() / 1000) + 3_600 };

  const grants: Grants = {
    scopes: ['repo', 'read:org', 'admin:org_hook'],
    permissions: {
      contents: 'read',
      issues: 'read',
      members: 'read',
      metadata: 'read',
      organization_hooks: 'read',
      pull_requests: 'read',
      checks: 'write',
    },
    viewerIsMember: true,
    readsMembers: true,
  };
  const origin = `http://127.0.0.1:${port}`;
  const holdings = { world, authorities, hooks, grants, limit, base };
  const apps = createApps(holdings, origin);

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', apiUrl);
    const { pathname: path, searchParams } = url;
    const text = await readBody(request);
    const isForm = request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') === true;
    const body: unknown = text === '' || isForm ? {} : JSON.parse(text);
    const { query = '', variables = Object.fromEntries(searchParams) } = body as {
      query?: string;
      variables?: Record<string, unknown>;
    };
    const record: GithubStandInRequest = {
      method: request.method ?? '',
      path,
      operation: /^\s*(?:query|mutation) (\w+)/.exec(query)?.[1],
      variables,
      authorization: request.headers.authorization,
      status: 0,
    };
    requests.push(record);
    response.once('finish', () => {
      record.status = response.statusCode;
    });
    const fault = faults.take(record);
    if (fault && answerWithFault(fault, response)) return;
    if (fault?.kind === 'delay') await new Promise(resolve => setTimeout(resolve, fault.milliseconds));
    if (fault?.kind === 'hold') await fault.until;
    const { status, headers, reply } = apps.answer(record.method, url, text) ?? answerOf(record, query, fault);
    if (fault?.kind === 'late') {
      await ('until' in fault ? fault.until : new Promise(resolve => setTimeout(resolve, fault.milliseconds)));
    }
    for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value);
    sendWithFault(fault, response, status, reply);
  }

  function answerOf(request: GithubStandInRequest, query: string, fault: Fault | undefined): Answer {
    if (limit) refill(limit);
    const graphqlPath = options.enterprise ? '/api/graphql' : '/graphql';
    if (request.path !== graphqlPath) return answerRest(holdings, request);
    const authority = authorities.of(request.authorization);
    if (authority?.kind !== 'reader') return { status: 401, reply: { message: 'Bad credentials' } };
    const viewer = { world, organisation: authority.organisation, grants, broken: brokenBy(fault), limit };
    const answer = answerQuery(viewer, query, request.variables);
    return { ...answer, headers: { ...answer.headers, date: dateOf(request.variables.id) } };
  }

  /** By the clock of the requested organisation. */
  function dateOf(nodeId: unknown): string {
    const node = typeof nodeId === 'string' ? world.nodes.get(nodeId) : undefined;
    const { clock: itsClock } = node instanceof Organisation ? node : world;
    return new Date(itsClock.now() * 1000).toUTCString();
  }

  server.on('request', (request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ message: `Problems parsing JSON: ${error}` }));
    });
  });

  return {
    /** For `GITHUB_API_URL`. */
    apiUrl,
    token,
    clock,
    /** Points left until `resetAt`; a request that costs more gets the rate limit error. Null: no limit. */
    limit,
    /** What the token and the App may see: by default all that is needed. Tests may change it. */
    grants,
    /** The organisation of this login, created on first mention. */
    organisation: (login: string, { name = login }: { name?: string } = {}) =>
      world.organisations.get(login.toLowerCase()) ?? new Organisation(world, login, name),
    /** The account of this login, created on first mention; not a member of anything. */
    account: (login: string, accountOptions?: Parameters<typeof accountOf>[2]) =>
      accountOf(world, login, accountOptions),
    installApp(organisation: Organisation) {
      // Random, because Octokit shares pending tokens between all clients of a process by this number.
      organisation.installationId = randomInt(1, 2 ** 31);
    },
    uninstallApp(organisation: Organisation) {
      organisation.installationId = undefined;
      authorities.revokeInstallation(organisation);
    },
    /** Revokes the personal token, and every token issued to the App. */
    revokeCredentials: () => authorities.revokeAll(),
    /** Makes later requests fail, each by the first fault that fits. @returns a function that removes the fault */
    fault: faults.add,
    /** Holds the answer to one request: see {@link createFaults}. */
    hold: faults.hold,
    clearFaults: faults.clear,
    /** All requests, oldest first. */
    requests,
    /** Number of GraphQL requests, of one operation or in all. */
    count: (operation?: string) =>
      requests.filter(each => each.path.endsWith('/graphql') && (!operation || each.operation === operation)).length,
    /** Delivers each later event there, and a ping at once. Without an organisation: the events of all. */
    webhookTo(url: string, secret: string, organisation?: Organisation, settings?: HookSettings) {
      const owner = organisation ?? [...world.organisations.values()][0];
      hooks.add({ url, secret, organisation, ...settings }, hook => owner && pingEvent(owner, hook));
    },
    stopWebhooks: hooks.clear,
    /** Settles when all webhooks sent so far are answered. */
    delivered: hooks.settled,
    deliveries: hooks.deliveries,
    /** Sends a single webhook, also again. */
    deliver,
    /** Ends everything at once, also open connections. */
    async close() {
      hooks.clear();
      const closed = new Promise(resolve => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

function brokenBy(fault: Fault | undefined) {
  if (fault?.kind !== 'broken') return new Map();
  const { nodeIds, type = '', message = 'Something went wrong while loading this.', field } = fault;
  return new Map(nodeIds.map(nodeId => [nodeId, { type, message, field }]));
}
