/** Registers a GitHub App by a manifest: https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest */
import { Type } from '@sinclair/typebox';
import { plain } from '../text/terminal.ts';
import { createOctokit, type GithubConfig, toPkcs8 } from './credentials.ts';
import { withDeadline } from './deadline.ts';
import { decode, Reply, UnexpectedReply } from './decode.ts';
import { errorOfRequest, githubFailed, isHttpError } from './github-error.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import { permissionTitles } from './permissions.ts';
import { unexpectedReplyError } from './reply-entries.ts';

const timeoutMs = 8_000;
const maxReplyBytes = 1024 * 1024;

/** GitHub's limit for the name of an App. */
const maxNameLength = 34;

/** Where people open GitHub, without a slash at the end: the API of a GitHub Enterprise Server is on the same host. */
export function githubWebsite(apiUrl: string): string {
  const { protocol, host } = new URL(apiUrl);
  return `${protocol}//${host.replace(/^api\./, '')}`;
}

/**
 * @param urls `service`: where people find it, `webhook`: where GitHub delivers, `redirect`: where GitHub sends the
 * browser with a code
 */
export const createManifest = (
  login: string,
  urls: { service: string; webhook: string; redirect: string },
  events: readonly string[],
) => ({
  name: `pullscore ${login}`.slice(0, maxNameLength).trim(),
  url: urls.service,
  description: 'Scores pull requests by the rules of the organisation.',
  hook_attributes: { url: urls.webhook, active: true },
  redirect_url: urls.redirect,
  public: false,
  default_permissions: Object.fromEntries(
    [...permissionTitles.keys()].map(name => [name, name === 'checks' ? 'write' : 'read']),
  ),
  default_events: events,
});

const Conversion = Type.Object({
  id: Reply.Id,
  name: Reply.Text,
  html_url: Reply.Link,
  owner: Type.Object({ login: Reply.Text }),
  // Both become quoted values of an environment file, where nothing may end the quotes or the line.
  pem: Type.String({ pattern: '^[\\w\\r\\n +/=-]*PRIVATE KEY[\\w\\r\\n +/=-]*$', title: 'a private key' }),
  webhook_secret: Type.String({ pattern: '^[\\w.~+/=-]{16,}$', title: 'a secret of 16 characters or more' }),
});

export interface RegisteredApp {
  id: string;
  name: string;
  /** Its page, on the same GitHub. */
  url: string;
  ownerLogin: string;
  privateKey: string;
  webhookSecret: string;
}

export const isManifestCode = (text: string): boolean => /^[\w-]{1,200}$/.test(text);

/**
 * Exchanges the code that GitHub gave for a manifest, once and within an hour.
 *
 * @throws GithubError whose message never quotes the reply: it holds secrets
 */
export async function exchangeCode({ apiUrl, proxy }: GithubConfig, code: string): Promise<RegisteredApp> {
  const octokit = await createOctokit(apiUrl, { fetch: createGuardedFetch(maxReplyBytes, proxy) });
  try {
    const { data } = await withDeadline(timeoutMs, signal =>
      octokit.request('POST /app-manifests/{code}/conversions', { code, request: { signal } }),
    );
    const { id, name, owner, html_url: url, pem, webhook_secret: webhookSecret } = decode(Conversion, data);
    if (toPkcs8(pem) === undefined) throw new UnexpectedReply('pem is not a key');
    if (new URL(url).origin !== githubWebsite(apiUrl)) throw new UnexpectedReply('html_url is on another host');
    return { id: String(id), name: plain(name), url, ownerLogin: owner.login, privateKey: pem, webhookSecret };
  } catch (error) {
    if (error instanceof UnexpectedReply) {
      const invalid = new UnexpectedReply('it is not what GitHub documents');
      throw unexpectedReplyError(invalid, 'the App', 'Check GITHUB_API_URL.');
    }
    if (isHttpError(error) && [404, 422].includes(error.response?.status ?? 0)) {
      throw githubFailed(
        'GitHub does not know this code: it has been used, or is over an hour old.',
        'Run the command again. If GitHub has created an App meanwhile, delete it there.',
      );
    }
    throw errorOfRequest(error, '', apiUrl);
  }
}
