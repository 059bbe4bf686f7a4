import { randomBytes } from 'node:crypto';
import { newAppKeys } from '../app-keys.ts';
import type { Answer } from './graphql.ts';
import { type Holdings, notFound } from './rest.ts';

interface Manifest {
  name: string;
  url: string;
  hook_attributes: { url: string; active?: boolean };
  redirect_url: string;
  public: boolean;
  default_permissions: Record<string, 'read' | 'write'>;
  default_events: string[];
}

const escaped = (text: string) => text.replace(/[&<>"']/g, each => `&#${each.charCodeAt(0)};`);
const page = (body: string): Answer => ({ status: 200, reply: `<!doctype html><title>GitHub</title>${body}` });

/** What GitHub would say below the field. */
function problemsOf(manifest: Manifest): string[] {
  const { hostname } = new URL(manifest.hook_attributes.url);
  return [
    ...(manifest.name.length > 34 ? ['Name is too long (maximum is 34 characters)'] : []),
    ...(hostname === 'localhost' || hostname.startsWith('127.') ? ['Hook url is not supported'] : []),
    ...(manifest.default_events.includes('organization') && !manifest.default_permissions.members
      ? ["Default events unsupported: 'organization'"]
      : []),
  ];
}

/**
 * Pages for people, and the exchange that registers an App:
 * https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
 *
 * @param origin where people open this GitHub
 */
export function createApps({ world, authorities, hooks, grants, base }: Holdings, origin: string) {
  const codes = new Map<string, object>();
  const slugs = new Map<string, string>();
  const pages = base === '' ? 'apps' : 'github-apps';

  function create(login: string, manifest: Manifest, state: string): Answer {
    const { privateKey, publicKey } = newAppKeys('pkcs1');
    const id = 1_000_000 + slugs.size;
    const slug = manifest.name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
    const secret = randomBytes(20).toString('hex');
    slugs.set(slug, login);
    authorities.addApp({ id: String(id), publicKey });
    const hook = { url: manifest.hook_attributes.url, secret, ofApp: true, events: manifest.default_events };
    hooks.add({ ...hook, organisation: undefined }, () => undefined);
    grants.permissions = manifest.default_permissions;
    const code = randomBytes(20).toString('hex');
    codes.set(code, {
      id,
      slug,
      name: manifest.name,
      owner: { login, type: 'Organization' },
      html_url: `${origin}/${pages}/${slug}`,
      permissions: manifest.default_permissions,
      events: manifest.default_events,
      client_id: `Iv23${randomBytes(8).toString('hex')}`,
      client_secret: randomBytes(20).toString('hex'),
      webhook_secret: secret,
      pem: privateKey,
    });
    const location = `${manifest.redirect_url}?code=${code}&state=${encodeURIComponent(state)}`;
    return { status: 302, headers: { location }, reply: '' };
  }

  return {
    /** Undefined if the path is not one of these. */
    answer(method: string, { pathname, searchParams }: URL, body: string): Answer | undefined {
      const form = new URLSearchParams(body);
      const settings = /^\/organizations\/([^/]+)\/settings\/apps(\/new)?$/.exec(pathname);
      if (method === 'POST' && settings) {
        const login = world.organisations.get(String(settings[1]).toLowerCase())?.login;
        if (login === undefined) return { status: 404, reply: 'Not Found' };
        const text = form.get('manifest') ?? '';
        const manifest = JSON.parse(text) as Manifest;
        const problems = problemsOf(manifest);
        if (problems.length > 0) return { status: 422, reply: escaped(problems.join(', ')) };
        if (settings[2] === undefined) return create(login, manifest, form.get('state') ?? '');
        const hidden = (name: string, value: string) =>
          `<input type="hidden" name="${name}" value="${escaped(value)}">`;
        return page(`<h1>Create GitHub App for ${escaped(login)}</h1><p>${escaped(manifest.name)}</p>
<form method="post" action="/organizations/${login}/settings/apps">${hidden('manifest', text)}${hidden('state', searchParams.get('state') ?? '')}
<button>Create GitHub App for ${escaped(login)}</button></form>`);
      }
      const installation = new RegExp(`^/${pages}/([^/]+)/installations/new$`).exec(pathname);
      const login = slugs.get(installation?.[1] ?? '');
      if (installation && login !== undefined) {
        const organisation = world.organisations.get(login.toLowerCase());
        if (method === 'GET')
          return page(`<h1>Install on ${escaped(login)}</h1><form method="post"><button>Install</button></form>`);
        if (organisation) organisation.installationId = Number.parseInt(randomBytes(3).toString('hex'), 16) + 1;
        return page('<h1>Installed</h1>');
      }
      const conversion = new RegExp(`^${base}/app-manifests/([^/]+)/conversions$`).exec(pathname);
      if (method === 'POST' && conversion) {
        const reply = codes.get(conversion[1] ?? '');
        codes.delete(conversion[1] ?? '');
        return reply ? { status: 201, reply } : notFound;
      }
      return undefined;
    },
  };
}
