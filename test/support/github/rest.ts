import type { Authorities } from './authorities.ts';
import type { GithubStandInRequest } from './faults.ts';
import type { Answer, PointLimit } from './graphql.ts';
import type { Organisation } from './organisation.ts';
import { configOf, hookPayload, organisationPayload } from './payloads.ts';
import type { Hooks, KnownHook } from './webhooks.ts';
import { isoTime, type World } from './world.ts';

export const notFound: Answer = { status: 404, reply: { message: 'Not Found', status: '404' } };
const badCredentials: Answer = { status: 401, reply: { message: 'Bad credentials', status: '401' } };

const forbidden: Answer = {
  status: 403,
  reply: { message: 'Resource not accessible by integration', status: '403' },
};

/** What credentials may see and do. */
export interface Grants {
  /** Of a classic personal token. Undefined: a fine-grained one, which shows no scopes. */
  scopes: string[] | undefined;
  /** Of the App, in every organisation that has it installed. */
  permissions: Record<string, 'read' | 'write'>;
  /** Unlike GitHub, for tests whose token stands for the App of several organisations. */
  tokenWritesChecks?: boolean;
  /** Whether the personal token's owner is a member of the organisations; others only see public members. */
  viewerIsMember: boolean;
  /** Whether the personal token may read members. Others get the public ones, as if these were all. */
  readsMembers: boolean;
}

export interface Holdings {
  world: World;
  authorities: Authorities;
  hooks: Hooks;
  grants: Grants;
  limit: PointLimit | null;
  /** Prefix of all paths; empty on github.com. */
  base: string;
}

/** The REST paths that clients use besides GraphQL: https://docs.github.com/en/rest */
export function answerRest(holdings: Holdings, request: GithubStandInRequest): Answer {
  const { scopes } = holdings.grants;
  const answer = answerRoute(holdings, request);
  const authority = holdings.authorities.of(request.authorization);
  const isPersonal = authority?.kind === 'reader' && authority.organisation === undefined;
  if (!isPersonal || scopes === undefined) return answer;
  return { ...answer, headers: { ...answer.headers, 'x-oauth-scopes': scopes.join(', ') } };
}

function answerRoute(holdings: Holdings, { method, path, authorization, variables }: GithubStandInRequest): Answer {
  const { world, authorities, hooks, grants, limit, base } = holdings;
  const route = `${method} ${path.startsWith(base) ? path.slice(base.length) : path}`;
  const authority = authorities.of(authorization);
  // Anybody may ask for these; the limit goes by address.
  if (route === 'GET /rate_limit' && (authority || authorization === undefined)) return rateLimitOf(limit);
  if (!authority) return badCredentials;
  if (/^\w+ \/app\b|\/installation$/.test(route) && authority.kind !== 'app') return badCredentials;

  const appHook = hooks.all.find(({ ofApp }) => ofApp);
  const { permissions } = grants;
  const installationOf = (organisation: Organisation) => ({
    id: organisation.installationId,
    account: organisationPayload(organisation),
    repository_selection: 'all',
    permissions,
    events: appHook?.events ?? [],
    suspended_at: null,
    suspended_by: null,
  });
  if (route === 'GET /app') {
    const events = appHook?.events ?? [];
    return { status: 200, reply: { id: 4711, slug: 'scores', name: 'Scores', permissions, events } };
  }
  if (route === 'GET /app/hook/config') {
    return { status: 200, reply: appHook ? configOf(appHook) : { content_type: 'form', insecure_ssl: '0' } };
  }
  if (route === 'GET /app/hook/deliveries') return { status: 200, reply: appHook ? deliveriesOf(appHook) : [] };

  if (route === 'GET /app/installations') {
    const { page = 1, per_page: size = 30 } = variables;
    const start = (Number(page) - 1) * Math.min(Number(size), 100);
    const installed = [...world.organisations.values()].filter(each => each.installationId !== undefined);
    return { status: 200, reply: installed.slice(start, start + Math.min(Number(size), 100)).map(installationOf) };
  }

  const hooked = /^GET \/orgs\/([^/]+)\/hooks(?:\/(\d+)\/deliveries)?$/.exec(route);
  if (hooked) {
    const organisation = world.organisations.get(String(hooked[1]).toLowerCase());
    if (!organisation || authority.kind === 'app') return notFound;
    if (authority.organisation !== undefined && authority.organisation !== organisation) return notFound;
    const isInstallation = authority.organisation !== undefined;
    if (isInstallation && grants.permissions.organization_hooks === undefined) return forbidden;
    if (!isInstallation && grants.scopes?.includes('admin:org_hook') !== true) return notFound;
    const own = hooks.all.filter(hook => !hook.ofApp && (hook.organisation ?? organisation) === organisation);
    if (hooked[2] === undefined) return { status: 200, reply: own.map(hook => hookPayload(organisation, hook)) };
    const hook = own.find(({ id }) => id === Number(hooked[2]));
    return hook ? { status: 200, reply: deliveriesOf(hook) } : notFound;
  }

  const membership = /^GET \/user\/memberships\/orgs\/([^/]+)$/.exec(route);
  if (membership) {
    const organisation = world.organisations.get(String(membership[1]).toLowerCase());
    if (!organisation || authority.kind === 'app' || !grants.viewerIsMember) return notFound;
    const mayAsk = authority.organisation === undefined && grants.readsMembers;
    if (!mayAsk) return { ...forbidden, reply: { message: 'You do not have access to this organization membership.' } };
    return { status: 200, reply: { state: 'active', role: 'member', organization: organisationPayload(organisation) } };
  }

  const login = /^GET \/orgs\/([^/]+)(\/installation)?$/.exec(route);
  if (login) {
    const organisation = world.organisations.get(String(login[1]).toLowerCase());
    if (!organisation) return notFound;
    if (login[2] === undefined) return { status: 200, reply: organisationPayload(organisation) };
    if (organisation.installationId === undefined) return notFound;
    return { status: 200, reply: installationOf(organisation) };
  }

  const installation = /^POST \/app\/installations\/(\d+)\/access_tokens$/.exec(route);
  if (installation) {
    const isInstalled = ({ installationId }: Organisation) => installationId === Number(installation[1]);
    const organisation = [...world.organisations.values()].find(isInstalled);
    if (!organisation) return notFound;
    const expiresAt = isoTime(Math.floor(Date.now() / 1000) + 3_600);
    const token = { token: authorities.tokenFor(organisation), expires_at: expiresAt };
    return { status: 201, reply: { ...token, permissions, repository_selection: 'all' } };
  }
  return notFound;
}

function rateLimitOf(limit: PointLimit | null): Answer {
  if (limit === null) return { status: 404, reply: { message: 'Rate limiting is not enabled.' } };
  const graphql = {
    limit: limit.limit,
    used: limit.limit - limit.remaining,
    remaining: limit.remaining,
    reset: limit.resetAt,
  };
  const core = { limit: 5_000, used: 0, remaining: 5_000, reset: limit.resetAt };
  return { status: 200, reply: { resources: { core, graphql }, rate: core } };
}

const deliveriesOf = ({ deliveries }: KnownHook) =>
  deliveries.slice(0, 30).map(({ delivery: { guid, event, action, status }, deliveredAt, seconds }, index) => ({
    id: 12_345_678 - index,
    guid,
    delivered_at: deliveredAt.toISOString(),
    redelivery: false,
    duration: seconds,
    status: status === 0 ? 'failed to connect to host' : status < 300 ? 'OK' : `Invalid HTTP Response: ${status}`,
    status_code: status === 0 ? 502 : status,
    event,
    action: action ?? null,
    installation_id: null,
    repository_id: null,
    throttled_at: null,
  }));
