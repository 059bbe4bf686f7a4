import { createRequire } from 'node:module';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';

const { homepage, license } = createRequire(import.meta.url)('../../package.json');

/** Generates the OpenAPI document from the routes' schemas; register it before them. */
export async function describeApi(app: FastifyInstance): Promise<void> {
  const { publicUrl } = app.deps.config;
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'pullscore',
        description: "Scores of an organisation's pull requests, by the organisation's own rules.",
        version: '0.0.1',
        license: { name: license, identifier: license },
        ...(homepage === undefined ? {} : { contact: { url: homepage } }),
      },
      servers: [{ url: publicUrl ?? '/' }],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: 'Created with `pullscore token create`' },
        },
      },
      security: [{ bearer: [] }],
      tags: [
        { name: 'Account', description: 'The user who holds the token' },
        { name: 'Members', description: "The organisation's members on GitHub, whose pull requests are tracked" },
        { name: 'Pull requests', description: 'Stored copies of pull requests, with score and breakdown' },
        { name: 'Rules', description: 'How pull requests are scored' },
        { name: 'Users', description: 'The people who may hold access tokens' },
      ],
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `schema-${index}`) },
  });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    // With a path that a proxy adds: from /docs, relative links to the page's assets don't work.
    ...(publicUrl === undefined ? {} : { indexPrefix: new URL(publicUrl).pathname }),
    // The plugin's own policy makes browsers load the page's assets over https, which fails without a TLS proxy.
    staticCSP: {
      'default-src': ["'self'"],
      'base-uri': ["'none'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
      'img-src': ["'self'", 'data:'],
      'object-src': ["'none'"],
      'script-src': ["'self'"],
      'style-src': ["'self'"],
    },
    theme: { title: 'pullscore' },
    // Hides the bar that asks for another document's address.
    uiConfig: { layout: 'BaseLayout' },
  });
  app.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
}
