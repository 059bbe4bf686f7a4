import { createPrivateKey } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { LRUCache } from 'lru-cache';
import type { Config } from '../config.ts';
import { githubNotConfigured } from '../errors.ts';
import { decode, present, Reply } from './decode.ts';
import { errorOfRequest, githubFailed, githubRefused, isHttpError } from './github-error.ts';

export type GithubConfig = Config['github'];

/** What is known of an organisation. GitHub is asked by node id, or by login if that is not known. */
export interface OrganisationReference {
  login: string;
  githubId?: number | null;
  nodeId?: string | null;
}

const silent = () => {};

/**
 * For every Octokit. Throttling and retries are off, because our own rules divide, defer or block requests for
 * all replicas. Logging is off, because Octokit writes to the console about differing clocks and deprecated paths.
 */
const octokitOptions = {
  throttle: { enabled: false },
  retry: { enabled: false },
  log: { debug: silent, info: silent, warn: silent, error: silent },
};

/** Call it with the first request: the import takes a tenth of the time that a process takes to start. */
export async function createOctokit(
  baseUrl: string,
  request: { fetch: typeof fetch; parseSuccessResponseBody?: boolean },
) {
  const { Octokit } = await import('octokit');
  return new Octokit({ ...octokitOptions, baseUrl, request: { ...request, log: octokitOptions.log } });
}

/** What the service needs of the App's installation on an organisation. */
const Installation = Type.Object({
  id: Reply.Id,
  account: Reply.Nullable(Type.Object({ id: Reply.Nullable(Reply.Id) })),
  /** `read`, `write` or `admin`, by the permission's name. */
  permissions: Reply.Nullable(Type.Record(Reply.Text, Reply.Text)),
  suspended_at: Reply.Nullable(Reply.Time),
});
export type GithubInstallation = Static<typeof Installation>;
const Installations = Reply.Entries(Installation);

export interface Credentials {
  /** The variables that hold them, for messages. */
  readonly names: string;
  /** The `authorization` header for requests about one organisation. */
  authorization(organisation: OrganisationReference): Promise<string>;
  /** The header for requests about the App itself. @throws RangeError if there is no App */
  appAuthorization(): Promise<string>;
  /**
   * The App's installation on the organisation; undefined if it is not installed.
   * @throws RangeError if there is no App
   */
  findInstallation(organisation: OrganisationReference): Promise<GithubInstallation | undefined>;
  /** Whether GitHub may refuse a valid token, because it was issued seconds ago and not all of its servers know it. */
  isNew(organisation: OrganisationReference): boolean;
  /** Call this if GitHub refused an authorization: what is cached for the organisation is then not used again. */
  refused(organisation: OrganisationReference): void;
  /** Call this if GitHub refused a part of a request: an App's token from before a permission was granted lacks it. */
  refusedPart(organisation: OrganisationReference): void;
  /**
   * Whether they may read private members. If not, GitHub lists the public ones as if these were all:
   * https://docs.github.com/en/rest/orgs/members#list-organization-members
   */
  readsMembers(organisation: OrganisationReference): Promise<boolean>;
}

/** @param maxInstallations organisations for which an App's installation and token are remembered */
export function createCredentials(
  config: GithubConfig,
  guardedFetch: typeof fetch,
  timeoutMs: number,
  maxInstallations = 10_000,
): Credentials {
  const { token, tokenName: names, app, apiUrl } = config;
  // Several requests may wait for one token of an App, so it has its own time limit and ignores theirs.
  const boundedFetch: typeof fetch = (input, init) =>
    guardedFetch(input, { ...init, signal: AbortSignal.timeout(timeoutMs) });
  if (app) return appCredentials(app, apiUrl, boundedFetch, maxInstallations);
  return {
    names,
    async authorization() {
      if (!token) throw noCredentials();
      return `token ${token}`;
    },
    appAuthorization: noApp,
    findInstallation: noApp,
    isNew: () => false,
    refused: () => {},
    refusedPart: () => {},
    async readsMembers({ login }) {
      const octokit = await createOctokit(apiUrl, { fetch: boundedFetch });
      const headers = { authorization: `token ${token}` };
      try {
        // It takes the same permission as the list does.
        await octokit.request('GET /user/memberships/orgs/{org}', { org: login, headers });
        return true;
      } catch (error) {
        const status = isHttpError(error) ? error.response?.status : undefined;
        // REST's limit is not that of GraphQL, so it does not count as a rate limit here.
        if (status === 403 || status === 429) return false;
        if (status === 404) return true;
        throw errorOfRequest(error, names, apiUrl);
      }
    },
  };
}

export const noCredentials = () =>
  githubNotConfigured(
    'There are no GitHub credentials.',
    'Set GITHUB_TOKEN, or GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY; docs/commands.md lists the permissions that they need.',
  );

const noApp = () => Promise.reject(new RangeError('There is no App'));

/** GitHub's limit. */
const installationsPerPage = 100;

/** GitHub refuses some parts for good: these must not cost a new token each time. */
const minRenewalIntervalMs = 5 * 60_000;

/** As in Octokit, whose own retries need its own authentication: https://github.com/octokit/auth-app.js/issues/65 */
const maxNewTokenMs = 5_000;

/** Stops if GitHub's list never ends. */
const maxPages = 100;

/** What is known of the App in one organisation. */
interface Access {
  /** Undefined after GitHub refused it: then it is looked up again, and Octokit gets a new token. */
  installationId?: number | undefined;
  token?: unknown;
  permissions?: unknown;
  /** When the token was issued, by `performance.now()`. */
  issuedAt?: number;
}

/** Finds the App's installation on each organisation. Its tokens last an hour; Octokit renews them. */
function appCredentials(
  app: { id: string; privateKey: string },
  baseUrl: string,
  boundedFetch: typeof fetch,
  max: number,
): Credentials {
  const names = 'GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY';
  const accesses = new LRUCache<number | string, Access>({ max });
  let client: ReturnType<typeof createAppClient> | undefined;

  async function createAppClient() {
    const privateKey = toPkcs8(app.privateKey);
    if (privateKey === undefined) {
      throw githubRefused(
        'The key in GITHUB_APP_PRIVATE_KEY cannot be used.',
        'Set it to the whole PEM file that GitHub gave for the App.',
      );
    }
    const { App, Octokit } = await import('octokit');
    const options = { ...octokitOptions, baseUrl, request: { fetch: boundedFetch } };
    return new App({ appId: app.id, privateKey, Octokit: Octokit.defaults(options), log: octokitOptions.log }).octokit;
  }

  const keyOf = ({ login, githubId }: OrganisationReference) => githubId ?? login.toLowerCase();

  const ageOf = (organisation: OrganisationReference) =>
    performance.now() - (accesses.get(keyOf(organisation))?.issuedAt ?? 0);

  const change = (key: number | string, access: Access) => accesses.set(key, { ...accesses.get(key), ...access });

  const forget = (organisation: OrganisationReference) =>
    void change(keyOf(organisation), { installationId: undefined });

  async function findInstallation({ login, githubId }: OrganisationReference) {
    client ??= createAppClient();
    const octokit = await client;
    const isOwn = ({ account }: GithubInstallation) => !githubId || Number(account?.id) === githubId;
    try {
      const { data } = await octokit.request('GET /orgs/{org}/installation', { org: login });
      const installation = decode(Installation, data);
      if (isOwn(installation)) return installation;
    } catch (error) {
      if (!isHttpError(error) || error.response?.status !== 404) throw error;
    }
    if (!githubId) return undefined;
    // It may have been renamed, and its login taken by another organisation.
    for (let page = 1; page <= maxPages; page += 1) {
      const { data } = await octokit.request('GET /app/installations', { per_page: installationsPerPage, page });
      const listed = decode(Installations, data) ?? [];
      const found = present(listed).find(isOwn);
      if (found !== undefined || listed.length < installationsPerPage) return found;
    }
    return undefined;
  }

  async function authorization(organisation: OrganisationReference): Promise<string> {
    const key = keyOf(organisation);
    client ??= createAppClient();
    const octokit = await client;
    const known = accesses.get(key);
    let installationId = known?.installationId;
    const refresh = known !== undefined && installationId === undefined;
    if (installationId === undefined) {
      const installation = await findInstallation(organisation);
      if (installation === undefined) throw notInstalled(organisation, names);
      installationId = Number(installation.id);
      change(key, { installationId });
    }
    const { token, permissions } = (await octokit.auth({ type: 'installation', installationId, refresh })) as {
      token: unknown;
      permissions: unknown;
    };
    if (accesses.get(key)?.token !== token) change(key, { token, permissions, issuedAt: performance.now() });
    if (typeof token !== 'string' || token === '') {
      throw githubFailed('GitHub did not issue a token to the App.', 'Try again later.');
    }
    return `token ${token}`;
  }

  return {
    names,
    async authorization(organisation) {
      try {
        return await authorization(organisation);
      } catch (error) {
        forget(organisation);
        // The installation was removed after it was found.
        if (isHttpError(error) && error.response?.status === 404) throw notInstalled(organisation, names, error);
        throw errorOfRequest(error, names, baseUrl);
      }
    },
    async appAuthorization() {
      client ??= createAppClient();
      const { token } = (await (await client).auth({ type: 'app' })) as { token: unknown };
      return `bearer ${String(token)}`;
    },
    findInstallation,
    isNew: organisation => ageOf(organisation) < maxNewTokenMs,
    refused: forget,
    async readsMembers(organisation) {
      const permissions = accesses.get(keyOf(organisation))?.permissions;
      return typeof permissions !== 'object' || permissions === null || Object.hasOwn(permissions, 'members');
    },
    refusedPart(organisation) {
      if (ageOf(organisation) > minRenewalIntervalMs) forget(organisation);
    },
  };
}

const notInstalled = ({ login }: OrganisationReference, names: string, cause?: unknown) =>
  githubRefused(`The GitHub App of ${names} is not installed on the organisation ${login}.`, 'Install it there.', {
    cause,
  });

/**
 * The key of an App, which may be any PEM, with line ends written as `\\n` in one-line variables.
 * @returns undefined if it can't be used; why is not said, because the reason might quote the key
 */
export function toPkcs8(pem: string): string | undefined {
  try {
    const key = createPrivateKey(pem.replaceAll('\\n', '\n'));
    return key.asymmetricKeyType === 'rsa' ? key.export({ type: 'pkcs8', format: 'pem' }).toString() : undefined;
  } catch {
    return undefined;
  }
}
