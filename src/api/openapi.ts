import { posix } from 'node:path';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { license } from '../package.ts';
import { addExamples } from './examples.ts';
import type { GeneratedDocument, Version } from './version.ts';

const svg = (viewBox: string, content: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${viewBox}" font-family="sans-serif">${content}</svg>`;
const icon = svg(
  '0 0 32 32',
  '<rect width="32" height="32" rx="6" fill="#1f6feb"/><text x="16" y="22" font-size="18" fill="#fff" text-anchor="middle">ps</text>',
);
const logo = svg('0 0 120 40', '<text y="28" font-size="24" fill="#fff">pullscore</text>');

const documentOptions = ({ info, tags }: GeneratedDocument) => ({
  openapi: {
    openapi: '3.1.0',
    info: { ...info, license: { name: license, identifier: license } },
    servers: [{ url: '/' }],
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
 * Serves the version's document; call it before adding the routes from which it is generated. A second one is for the
 * page at `/docs`: whatever the public address is, browsers let the page ask only the address under which they opened it.
 */
export async function serveDocument(api: FastifyInstance, version: Version): Promise<void> {
  const { document } = version;
  if (!('finished' in document)) await api.register(swagger, documentOptions(document));
  const write = () => ('finished' in document ? document.finished : addExamples(api.swagger(), version, document));
  const serve = (path: string, url: string) => {
    let bytes: Buffer | undefined;
    api.get(path, { schema: { hide: true } }, async (_request, reply) => {
      bytes ??= Buffer.from(JSON.stringify({ ...write(), servers: [{ url }] }));
      reply.type('application/json; charset=utf-8');
      return bytes;
    });
  };
  serve(document.path, api.deps.config.publicUrl ?? '/');
  serve(document.path.replace('.json', '.page.json'), posix.relative(posix.dirname(document.path), '/') || '.');
}

/** Serves the page that shows the documents, the first one first. */
export async function serveDocumentation(app: FastifyInstance, versions: readonly Version[]): Promise<void> {
  // Only because the page's plugin asks for it.
  await app.register(swagger, {});
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
      urls: versions.map(({ name, document: { path } }) => ({
        url: `..${path.replace('.json', '.page.json')}`,
        name: `pullscore ${name}`,
      })),
    },
  });
}
