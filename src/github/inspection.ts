import { createCredentials, type GithubConfig, type OrganisationReference, octokitOptions } from './credentials.ts';
import { withDeadline } from './deadline.ts';
import { errorOfRequest, GithubError, isHttpError } from './errors.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import { count, entries, flag, id, list, Misfit, optionalText, optionalTime, present, text, time } from './reading.ts';

/** What GitHub tells of the credentials. */
export interface CredentialFacts {
  /** GraphQL's points of this hour, `resetAt` in Unix seconds; null on a GitHub Enterprise Server without limits. */
  limit: { limit: number; remaining: number; resetAt: number } | null;
  /** Unix seconds; null if it does not say. */
  expiresAt: number | null;
}

export interface Installation {
  /** `read`, `write` or `admin`, by the permission's name. */
  permissions: ReadonlyMap<string, string>;
  isSuspended: boolean;
}

/** A webhook as it is set up on GitHub. */
export interface GithubHook {
  /** Null: the App's own. */
  id: number | null;
  url: string | null;
  active: boolean;
  /** `*` stands for all. */
  events: readonly string[];
  contentType: string | null;
  hasSecret: boolean;
}

export interface HookDelivery {
  event: string;
  /** What the receiver answered; GitHub puts 502 or 504 if it did not answer. */
  statusCode: number;
  /** GitHub's words for it. */
  status: string;
  /** Unix seconds. */
  deliveredAt: number;
}

/**
 * Questions about GitHub itself and what the credentials may do, by the REST API; each is one request, or a few for an
 * App. The organisation's webhooks are asked for by its login, which must be the present one. All throw
 * {@link GithubError} as the GraphQL client does.
 */
export interface GithubInspection {
  /** Any answer counts, whatever its status. `clockAhead` is GitHub's clock less ours, in seconds. */
  reach(): Promise<{ milliseconds: number; clockAhead: number | null }>;
  /** An App's are those of its installation on the organisation. */
  readCredentials(organisation: OrganisationReference): Promise<CredentialFacts>;
  /** The App's name. */
  readApp(): Promise<string>;
  /** Of the App; undefined if it is not installed on the organisation. */
  findInstallation(organisation: OrganisationReference): Promise<Installation | undefined>;
  /** The App's own and the organisation's: `mayHideMore` if the credentials may not see the latter. */
  findHooks(organisation: OrganisationReference): Promise<{ shown: GithubHook[]; mayHideMore: boolean }>;
  /** The latest first. */
  listDeliveries(organisation: OrganisationReference, hook: GithubHook): Promise<HookDelivery[]>;
}

const timeout = 8_000;
const largestReply = 4 * 1024 * 1024;

type Parameters = Record<string, string | number>;

/** On the first request only: it takes a while. */
const octokitModule = () => import('octokit');

export function createInspection(config: GithubConfig): GithubInspection {
  const baseUrl = config.apiUrl;
  const guardedFetch = createGuardedFetch(largestReply);
  const credentials = createCredentials(config, baseUrl, (input, init) =>
    guardedFetch(input, { ...init, signal: AbortSignal.timeout(timeout) }),
  );

  /** Octokit's own errors go through, for their status. */
  async function get(route: string, parameters: Parameters, authorization: string | undefined) {
    const { Octokit } = await octokitModule();
    const octokit = new Octokit({ ...octokitOptions, baseUrl, request: { fetch: guardedFetch } });
    const headers = authorization === undefined ? {} : { authorization };
    return withDeadline(timeout, undefined, signal =>
      octokit.request(`GET ${route}`, { ...parameters, headers, request: { signal } }),
    );
  }

  const asOrganisation = async (route: string, organisation: OrganisationReference, parameters: Parameters = {}) =>
    get(route, parameters, await credentials.authorization(organisation));

  const asApp = async (route: string, parameters: Parameters = {}) =>
    get(route, parameters, await credentials.appAuthorization());

  async function readAppHook(): Promise<GithubHook> {
    const [{ data: app }, { data: hook }] = await Promise.all([asApp('/app'), asApp('/app/hook/config')]);
    return { id: null, active: true, events: readEvents(app), ...readHookConfig({ config: hook }) };
  }

  /** @param subject for the message if the reply is not what GitHub documents */
  async function ask<Answer>(subject: string, work: () => Promise<Answer>): Promise<Answer> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Misfit)) throw errorOfRequest(error, credentials.names, baseUrl);
      throw new GithubError('github_failed', `GitHub's reply about ${subject} makes no sense: ${error.message}.`, {
        action: 'Check GITHUB_API_URL.',
        cause: error,
      });
    }
  }

  return {
    reach: () =>
      ask('itself', async () => {
        await octokitModule();
        const begin = performance.now();
        const sent = Date.now();
        const { headers } = await get('/rate_limit', {}, undefined).catch((error: unknown) => {
          if (isHttpError(error) && error.response !== undefined) return error.response;
          throw error;
        });
        const milliseconds = performance.now() - begin;
        const clock = Date.parse(String(headers.date));
        // Somewhere between sending and receiving, GitHub cut the time to whole seconds.
        const ahead = (clock + 500 - sent - milliseconds / 2) / 1000;
        return { milliseconds, clockAhead: Number.isNaN(ahead) ? null : ahead };
      }),

    readCredentials: organisation =>
      ask('the credentials', async () => {
        const expiry = (headers: Record<string, unknown>) => {
          const moment = Date.parse(String(headers['github-authentication-token-expiration']));
          return Number.isNaN(moment) ? null : Math.floor(moment / 1000);
        };
        try {
          const { data, headers } = await asOrganisation('/rate_limit', organisation);
          const part = 'resources.graphql';
          const limit = {
            limit: count(data, `${part}.limit`),
            remaining: count(data, `${part}.remaining`),
            resetAt: count(data, `${part}.reset`),
          };
          return { limit, expiresAt: expiry(headers) };
        } catch (error) {
          // Where there is no GitHub at all, the status is the same.
          const isUnlimited = isHttpError(error) && /rate limiting is not enabled/i.test(error.message);
          if (!isUnlimited || error.response === undefined) throw error;
          return { limit: null, expiresAt: expiry(error.response.headers) };
        }
      }),

    readApp: () =>
      ask('the App', async () => {
        try {
          return text((await asApp('/app')).data, 'name');
        } catch (error) {
          if (!isHttpError(error) || !/integration not found/i.test(error.message)) throw error;
          throw new GithubError('github_credentials', 'GitHub knows no App of this id.', {
            action: 'Check GITHUB_APP_ID, and that GITHUB_API_URL is where it is.',
            cause: error,
          });
        }
      }),

    findInstallation: organisation =>
      ask('the installation', async () => {
        const installation = await credentials.findInstallation(organisation);
        if (installation === undefined) return undefined;
        return {
          permissions: readPermissions(installation),
          isSuspended: optionalTime(installation, 'suspended_at') !== null,
        };
      }),

    findHooks: organisation =>
      ask('webhooks', async () => {
        const shown = config.app === undefined ? [] : [await readAppHook()];
        try {
          const { data } = await asOrganisation('/orgs/{org}/hooks', organisation, {
            org: organisation.login,
            per_page: 100,
          });
          shown.push(...list({ hooks: data }, 'hooks').map(readHook));
          return { shown, mayHideMore: false };
        } catch (error) {
          const isHidden = isHttpError(error) && [403, 404].includes(error.response?.status ?? 0) && !isLimited(error);
          if (!isHidden) throw error;
          return { shown, mayHideMore: true };
        }
      }),

    listDeliveries: (organisation, { id: hookId }) =>
      ask('deliveries', async () => {
        const { data } =
          hookId === null
            ? await asApp('/app/hook/deliveries', { per_page: 30 })
            : await asOrganisation('/orgs/{org}/hooks/{hook_id}/deliveries', organisation, {
                org: organisation.login,
                hook_id: hookId,
                per_page: 30,
              });
        return list({ deliveries: data }, 'deliveries').map(readDelivery);
      }),
  };
}

const isLimited = (error: unknown) => errorOfRequest(error, '').code === 'github_rate_limited';

const readEvents = (value: unknown): string[] => entries(value, 'events').map(event => text({ event }, 'event'));

function readPermissions(installation: unknown): ReadonlyMap<string, string> {
  if (!present(installation, 'permissions')) throw new Misfit('permissions are missing');
  const { permissions } = installation as { permissions: object };
  return new Map(Object.entries(permissions).map(([name, access]) => [name, String(access)]));
}

const readHookConfig = (hook: unknown) => ({
  url: optionalText(hook, 'config.url'),
  contentType: optionalText(hook, 'config.content_type'),
  hasSecret: present(hook, 'config.secret'),
});

const readHook = (hook: unknown): GithubHook => ({
  id: id(hook, 'id'),
  active: flag(hook, 'active'),
  events: readEvents(hook),
  ...readHookConfig(hook),
});

const readDelivery = (delivery: unknown): HookDelivery => ({
  event: text(delivery, 'event'),
  statusCode: count(delivery, 'status_code'),
  status: text(delivery, 'status'),
  deliveredAt: time(delivery, 'delivered_at'),
});
