import { createPrivateKey } from 'node:crypto';
import { ServiceError } from '../errors.ts';
import { errorOfRequest, GithubError, isHttpError } from './errors.ts';
import { id } from './reading.ts';

export interface GithubConfig {
  /** REST base, such as `https://github.example.com/api/v3`; undefined for github.com. GraphQL's is derived from it. */
  apiUrl: string | undefined;
  token: string | undefined;
  /** Where both are there the App is used: a token is often in the environment by chance. */
  app: { id: string; privateKey: string } | undefined;
}

const silent = () => {};

/** Octokit warns on the console else: of clocks that differ, of deprecated paths. */
export const silentLog = { debug: silent, info: silent, warn: silent, error: silent };

export interface Credentials {
  /** The variables that hold them, for messages. */
  readonly names: string;
  /** The `authorization` header for requests about one organisation. */
  authorization(organisation: string): Promise<string>;
  /** The header for requests about the App itself. @throws RangeError where there is none */
  appAuthorization(): Promise<string>;
  /** GitHub refused what {@link Credentials.authorization} gave: nothing kept for the organisation is used again. */
  refused(organisation: string): void;
}

export function createCredentials(config: GithubConfig, baseUrl: string, boundedFetch: typeof fetch): Credentials {
  if (config.app) return appCredentials(config.app, baseUrl, boundedFetch);
  if (config.token) return tokenCredentials(config.token);
  return {
    names: 'GITHUB_TOKEN',
    authorization: () =>
      Promise.reject(
        new ServiceError(
          'github_not_configured',
          'No GitHub credentials are configured: set GITHUB_TOKEN, or GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY',
        ),
      ),
    appAuthorization: noApp,
    refused: () => {},
  };
}

const noApp = () => Promise.reject(new RangeError('There is no App'));

function tokenCredentials(token: string): Credentials {
  const names = 'GITHUB_TOKEN';
  return {
    names,
    async authorization() {
      // Checked here, for the error of `fetch` would quote it.
      if (!/^[\x21-\x7e]+$/.test(token)) {
        throw new GithubError(
          'github_credentials',
          `${names} contains a blank or a character that no token has: set it anew`,
        );
      }
      return `token ${token}`;
    },
    appAuthorization: noApp,
    refused: () => {},
  };
}

/** The App's installation is found by organisation; its tokens last an hour and are renewed by auth-app. */
function appCredentials(
  app: { id: string; privateKey: string },
  baseUrl: string,
  boundedFetch: typeof fetch,
): Credentials {
  const names = 'GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY';
  const installations = new Map<string, number>();
  const stale = new Set<string>();
  let client: ReturnType<typeof createAppClient> | undefined;

  async function createAppClient() {
    const privateKey = readPrivateKey(app.privateKey);
    const [{ Octokit }, { createAppAuth }] = await Promise.all([import('@octokit/core'), import('@octokit/auth-app')]);
    return new Octokit({
      authStrategy: createAppAuth,
      auth: { appId: app.id, privateKey },
      baseUrl,
      request: { fetch: boundedFetch },
      log: silentLog,
    });
  }

  const keyOf = (organisation: string) => organisation.toLowerCase();

  function forget(organisation: string) {
    installations.delete(keyOf(organisation));
    stale.add(keyOf(organisation));
  }

  async function installationOf(organisation: string): Promise<number> {
    const known = installations.get(keyOf(organisation));
    if (known !== undefined) return known;
    client ??= createAppClient();
    const { data } = await (await client).request('GET /orgs/{org}/installation', { org: organisation });
    const installation = id(data, 'id');
    installations.set(keyOf(organisation), installation);
    return installation;
  }

  async function authorization(organisation: string): Promise<string> {
    client ??= createAppClient();
    const octokit = await client;
    const installationId = await installationOf(organisation);
    const refresh = stale.delete(keyOf(organisation));
    const { token } = (await octokit.auth({ type: 'installation', installationId, refresh })) as { token: unknown };
    if (typeof token !== 'string' || token === '')
      throw new GithubError('github_failed', 'GitHub gave no token to the App: try again later');
    return `token ${token}`;
  }

  return {
    names,
    async authorization(organisation) {
      try {
        return await authorization(organisation);
      } catch (error) {
        forget(organisation);
        throw errorOfApp(error, organisation, names);
      }
    },
    async appAuthorization() {
      client ??= createAppClient();
      const { token } = (await (await client).auth({ type: 'app' })) as { token: unknown };
      return `bearer ${String(token)}`;
    },
    refused: forget,
  };
}

function errorOfApp(error: unknown, organisation: string, names: string): Error {
  if (isHttpError(error) && error.response?.status === 404) {
    return new GithubError(
      'github_credentials',
      `The GitHub App of ${names} is not installed on the organisation ${organisation}: install it there`,
      { cause: error },
    );
  }
  return errorOfRequest(error, names);
}

/** The key as PKCS #8, whichever PEM it came in; line ends may be written `\\n`, as in one-line variables. */
function readPrivateKey(pem: string): string {
  try {
    const key = createPrivateKey(pem.replaceAll('\\n', '\n'));
    if (key.asymmetricKeyType === 'rsa') return key.export({ type: 'pkcs8', format: 'pem' }).toString();
  } catch {
    // Said below, without the error: it might quote the key.
  }
  throw new GithubError(
    'github_credentials',
    'The key in GITHUB_APP_PRIVATE_KEY cannot be used: set it to the whole PEM file that GitHub gave for the App',
  );
}
