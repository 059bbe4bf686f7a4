import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.ts';
import { license } from '../package.ts';

const introduction = `Scores of an organisation's pull requests, by the organisation's own rules.

**Tokens.** Send \`Authorization: Bearer ps_…\`. An operator creates the token with \`pullscore token create\`. Its scopes are
\`read\` for every GET, \`sync\` for PUT and \`delete\` for DELETE. It sees one organisation; objects of others get 403.

**Pages.** Lists with \`meta\` and \`links\` have 15 items by default; \`per_page\` asks for 1 to 100. Follow \`links.next\` until it
is null. A cursor belongs to its list and does not expire. Pages stay consistent while items are added or deleted.

**Errors.** Each has a \`message\` that says what is wrong and what to do. 401: no valid token. 403: the scope is missing, or the
object belongs to another organisation. 404: there is no such object. 429 and some 503 have \`Retry-After\`, in seconds. Quote
\`x-request-id\` when you report a problem.

**Limits.** \`x-ratelimit-limit\`, \`x-ratelimit-remaining\` and \`x-ratelimit-reset\` show how many requests the token may make in
the current minute.

**Versions.** The paths have the version of the interface, \`2025-04\`; this document has its own, \`0.0.1\`. The program's is
what \`pullscore --version\` prints.

**Caching.** Pages of pull requests have an \`ETag\`: send it as \`If-None-Match\`, and the reply is 304, without a body, if
nothing has changed. All other replies have \`Cache-Control: no-store\`. You always read your own syncs and deletions.`;

const svg = (viewBox: string, content: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${viewBox}" font-family="sans-serif">${content}</svg>`;
const icon = svg(
  '0 0 32 32',
  '<rect width="32" height="32" rx="6" fill="#1f6feb"/><text x="16" y="22" font-size="18" fill="#fff" text-anchor="middle">ps</text>',
);
const logo = svg('0 0 120 40', '<text y="28" font-size="24" fill="#fff">pullscore</text>');

/** Of the routes of operators, which have a document of their own. */
export const operatorPath = '/operator';

/** Options of @fastify/swagger, which makes a document from the schemas of routes. */
export const documentOptions = (
  { publicUrl }: Pick<Config, 'publicUrl'>,
  info: { title: string; description: string; version: string },
  tags: { name: string; description: string }[],
) => ({
  openapi: {
    openapi: '3.1.0',
    info: { ...info, license: { name: license, identifier: license } },
    servers: [{ url: publicUrl ?? '/' }],
    components: {
      securitySchemes: {
        bearer: { type: 'http' as const, scheme: 'bearer', description: 'Created with `pullscore token create`' },
      },
    },
    security: [{ bearer: [] }],
    tags,
  },
  refResolver: {
    buildLocalReference: (json: { $id?: unknown }, _base: unknown, _fragment: string, index: number) =>
      String(json.$id ?? `schema-${index}`),
  },
});

/**
 * Serves a document from its bytes, and a second one for the page at `/docs`: whatever the public address is, browsers let
 * the page ask only the address under which they opened it.
 *
 * @param root of the service, from the document
 */
export function serveDocument(app: FastifyInstance, root: '.' | '..', write: () => object): void {
  const serve = (path: string, writeOne: () => object) => {
    let bytes: Buffer | undefined;
    app.get(path, { schema: { hide: true } }, async (_request, reply) => {
      bytes ??= Buffer.from(JSON.stringify(writeOne()));
      reply.type('application/json; charset=utf-8');
      return bytes;
    });
  };
  serve('/openapi.json', write);
  serve('/openapi.page.json', () => ({ ...write(), servers: [{ url: root }] }));
}

/** Generates the OpenAPI document of the specification's interface; register it before the routes. */
export async function describeApi(app: FastifyInstance): Promise<void> {
  const options = documentOptions(
    app.deps.config,
    { title: 'pullscore', description: introduction, version: '0.0.1' },
    [
      { name: 'Account', description: 'The user who holds the token' },
      { name: 'Members', description: "The organisation's members on GitHub, whose pull requests are tracked" },
      { name: 'Pull requests', description: 'Stored copies of pull requests, with score and breakdown' },
      { name: 'Rules', description: 'How pull requests are scored' },
      { name: 'Users', description: 'The people who may hold access tokens' },
    ],
  );
  await app.register(swagger, {
    ...options,
    transform: ({ schema, url }) => ({
      schema: url.startsWith(`${operatorPath}/`) ? { ...schema, hide: true } : schema,
      url,
    }),
  });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiHooks: {
      async onRequest(request, reply) {
        const [path] = request.url.split('?');
        // The page's addresses are relative to this one, because a proxy may add a path.
        if (path === '/docs') return reply.redirect('docs/');
        // The plugin writes these for each request.
        if (path === '/docs/json' || path === '/docs/yaml') return reply.redirect('../openapi.json');
      },
    },
    // The plugin's own policy makes browsers load the page's assets over https, which fails without a TLS proxy.
    staticCSP: {
      'default-src': ["'self'"],
      'base-uri': ["'none'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
      'img-src': ["'self'", 'data:'],
      'object-src': ["'none'"],
      'script-src': ["'self'"],
      // The page's bar, with which one chooses a document, has a style of its own.
      'style-src': ["'self'", "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"],
    },
    logo: { type: 'image/svg+xml', content: logo, href: '..' },
    theme: {
      title: 'pullscore',
      favicon: [{ filename: 'icon.svg', rel: 'icon', type: 'image/svg+xml', sizes: 'any', content: icon }],
    },
    uiConfig: {
      layout: 'StandaloneLayout',
      urls: [
        { url: '../openapi.page.json', name: 'pullscore' },
        { url: `..${operatorPath}/openapi.page.json`, name: 'pullscore for operators' },
      ],
    },
  });
  serveDocument(app, '.', () => app.swagger());
}
