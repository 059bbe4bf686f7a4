import { type Static, Type } from '@sinclair/typebox';
import { createCredentials, createOctokit, type GithubConfig, type OrganisationReference } from './credentials.ts';
import { withDeadline } from './deadline.ts';
import { decode, present, Reply, UnexpectedReply, unixSeconds } from './decode.ts';
import { errorOfRequest, githubRefused, isHttpError } from './github-error.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import { unexpectedReplyError } from './reply-entries.ts';

/** What GitHub says about the credentials. */
export interface CredentialFacts {
  /** GraphQL's points of this hour, `resetAt` in Unix seconds; null on a GitHub Enterprise Server without limits. */
  limit: { limit: number; remaining: number; resetAt: number } | null;
  /** Unix seconds; null if it does not say. */
  expiresAt: number | null;
}

/** A webhook that is set up on GitHub. */
export interface GithubHook {
  /** Null if it is the App's own. */
  id: number | null;
  url: string | null;
  active: boolean;
  /** `*` means all. */
  events: readonly string[];
  contentType: string | null;
  hasSecret: boolean;
}

export type GithubInspection = ReturnType<typeof createInspection>;

const timeoutMs = 8_000;
const maxReplyBytes = 4 * 1024 * 1024;

type Parameters = Record<string, string | number>;

/**
 * Asks GitHub's REST API about itself and what the credentials may do. Each method sends one request, or a few for an
 * App. Webhooks are found by the organisation's login, which must be the current one. All methods throw
 * errors as the GraphQL client does.
 */
export function createInspection(config: GithubConfig) {
  const baseUrl = config.apiUrl;
  const guardedFetch = createGuardedFetch(maxReplyBytes, config.proxy);
  const credentials = createCredentials(config, guardedFetch, timeoutMs);

  /** Throws Octokit's own errors, which have a status. */
  async function get(route: string, parameters: Parameters, authorization: string | undefined) {
    const octokit = await createOctokit(baseUrl, { fetch: guardedFetch });
    const headers = authorization === undefined ? {} : { authorization };
    return withDeadline(timeoutMs, signal =>
      octokit.request(`GET ${route}`, { ...parameters, headers, request: { signal } }),
    );
  }

  const asOrganisation = async (route: string, organisation: OrganisationReference, parameters: Parameters = {}) =>
    get(route, parameters, await credentials.authorization(organisation));

  const asApp = async (route: string, parameters: Parameters = {}) =>
    get(route, parameters, await credentials.appAuthorization());

  async function readAppHook(): Promise<GithubHook> {
    const [{ data: app }, { data: hook }] = await Promise.all([asApp('/app'), asApp('/app/hook/config')]);
    const events = decode(Events, app).events ?? [];
    return { id: null, active: true, events, ...readHookConfig(decode(HookConfig, hook)) };
  }

  /** @param subject for the message if the reply is not what GitHub documents */
  async function ask<Answer>(subject: string, work: () => Promise<Answer>): Promise<Answer> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof UnexpectedReply) throw unexpectedReplyError(error, subject, 'Check GITHUB_API_URL.');
      throw errorOfRequest(error, credentials.names, baseUrl, baseUrl);
    }
  }

  return {
    /** Any answer counts, whatever its status. `clockAhead` is GitHub's clock minus ours, in seconds. */
    reach: () =>
      ask('itself', async () => {
        // Its import takes a while, too.
        await import('octokit');
        const begin = performance.now();
        const sent = Date.now();
        const { headers } = await get('/rate_limit', {}, undefined).catch((error: unknown) => {
          if (isHttpError(error) && error.response !== undefined) return error.response;
          throw error;
        });
        const milliseconds = performance.now() - begin;
        const clock = Date.parse(String(headers.date));
        // GitHub read its clock between the two, and cut off the fraction of a second.
        const ahead = (clock + 500 - sent - milliseconds / 2) / 1000;
        return { milliseconds, clockAhead: Number.isNaN(ahead) ? null : ahead };
      }),

    /** For an App, those of its installation on the organisation. */
    readCredentials: (organisation: OrganisationReference) =>
      ask<CredentialFacts>('the credentials', async () => {
        const expiry = (headers: Record<string, unknown>) => {
          const moment = Date.parse(String(headers['github-authentication-token-expiration']));
          return Number.isNaN(moment) ? null : Math.floor(moment / 1000);
        };
        try {
          const { data, headers } = await asOrganisation('/rate_limit', organisation);
          const { limit, remaining, reset } = decode(Limits, data).resources.graphql;
          return { limit: { limit, remaining, resetAt: reset }, expiresAt: expiry(headers) };
        } catch (error) {
          // The status alone would also mean that there is no GitHub at this address.
          const isUnlimited = isHttpError(error) && /rate limiting is not enabled/i.test(error.message);
          if (!isUnlimited || error.response === undefined) throw error;
          return { limit: null, expiresAt: expiry(error.response.headers) };
        }
      }),

    /** The App's name. */
    readApp: () =>
      ask('the App', async () => {
        try {
          return decode(App, (await asApp('/app')).data).name;
        } catch (error) {
          if (!isHttpError(error) || !/integration not found/i.test(error.message)) throw error;
          const action = 'Check GITHUB_APP_ID, and that GITHUB_API_URL is the GitHub that it is on.';
          throw githubRefused('GitHub has no App with this id.', action, { cause: error });
        }
      }),

    /** The App's; undefined if it is not installed on the organisation. */
    findInstallation: (organisation: OrganisationReference) =>
      ask('the installation', () => credentials.findInstallation(organisation)),

    /** The App's own and the organisation's; `mayHideMore` if the credentials may not list the latter. */
    findHooks: (organisation: OrganisationReference) =>
      ask('webhooks', async () => {
        const shown = config.app === undefined ? [] : [await readAppHook()];
        try {
          const { data } = await asOrganisation('/orgs/{org}/hooks', organisation, {
            org: organisation.login,
            per_page: 100,
          });
          shown.push(...present(decode(Hooks, data)).map(readHook));
          return { shown, mayHideMore: false };
        } catch (error) {
          const isHidden = isHttpError(error) && [403, 404].includes(error.response?.status ?? 0) && !isLimited(error);
          if (!isHidden) throw error;
          return { shown, mayHideMore: true };
        }
      }),

    /** The latest first. */
    listDeliveries: (organisation: OrganisationReference, { id: hookId }: GithubHook) =>
      ask('deliveries', async () => {
        const { data } =
          hookId === null
            ? await asApp('/app/hook/deliveries', { per_page: 30 })
            : await asOrganisation('/orgs/{org}/hooks/{hook_id}/deliveries', organisation, {
                org: organisation.login,
                hook_id: hookId,
                per_page: 30,
              });
        return present(decode(Deliveries, data)).map(readDelivery);
      }),
  };
}

const isLimited = (error: unknown) => errorOfRequest(error, '', '').code === 'github_rate_limited';

const { Count, Entries, Flag, Id, Nullable, Text, Time, UnixSeconds } = Reply;
const Events = Type.Object({ events: Nullable(Type.Array(Text)) });
const HookConfig = Type.Object({ url: Nullable(Text), content_type: Nullable(Text), secret: Nullable(Type.Unknown()) });
const Hook = Type.Object({ ...Events.properties, id: Id, active: Flag, config: Nullable(HookConfig) });
const Hooks = Entries(Hook);
const Delivery = Type.Object({ event: Text, status_code: Count, status: Text, delivered_at: Time });
const Deliveries = Entries(Delivery);
const Limit = Type.Object({ limit: Count, remaining: Count, reset: UnixSeconds });
const Limits = Type.Object({ resources: Type.Object({ graphql: Limit }) });
const App = Type.Object({ name: Text });

const readHookConfig = ({ url = null, content_type: contentType = null, secret }: Static<typeof HookConfig>) => ({
  url,
  contentType,
  hasSecret: secret !== null && secret !== undefined,
});

const readHook = ({ id, active, events, config }: Static<typeof Hook>): GithubHook => ({
  id: Number(id),
  active,
  events: events ?? [],
  ...readHookConfig(config ?? {}),
});

const readDelivery = (delivery: Static<typeof Delivery>) => ({
  event: delivery.event,
  /** The receiver's answer, or 502 or 504 if there was none. */
  statusCode: delivery.status_code,
  /** The status in GitHub's words. */
  status: delivery.status,
  /** Unix seconds. */
  deliveredAt: unixSeconds(delivery.delivered_at),
});
export type HookDelivery = ReturnType<typeof readDelivery>;
