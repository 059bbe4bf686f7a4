import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';
import { requireAuthentication } from './authentication.ts';
import { serveDocument } from './openapi.ts';
import { closedObject } from './validation.ts';
import type { Version } from './version.ts';

function describeRoutes(api: FastifyInstance, { name, document, refusesUnknownParameters }: Version): void {
  const schemas = 'finished' in document ? undefined : document.schemas;
  for (const schema of schemas ?? []) api.addSchema(schema);
  api.addHook('onRoute', ({ method, schema, config }) => {
    // A HEAD route has the schema of its GET.
    if (schema === undefined || method === 'HEAD') return;
    if (schema.operationId !== undefined) schema.operationId = `v${name.replace('-', '')}.${schema.operationId}`;
    schema.description = [schema.description, `Scope: \`${config?.scope ?? 'read'}\`.`].filter(Boolean).join('\n\n');
    if (!refusesUnknownParameters) return;
    const { properties } = (schema.querystring ?? closedObject({})) as ReturnType<typeof closedObject>;
    schema.querystring = closedObject(properties);
  });
}

/** Serves a version: its document to everybody, and all else to holders of a token. */
export async function serveVersion(app: FastifyInstance, version: Version): Promise<void> {
  await serveDocument(app, version);
  await app.register(
    async api => {
      api.addHook('onSend', (_request, reply, _payload, done) => {
        if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
        done();
      });
      const { corsOrigins } = api.deps.config;
      if (corsOrigins.length > 0) await allowOrigins(api, corsOrigins, version);
      // After CORS: pages of other origins can read refusals.
      api.refuseUnknownPaths(api);
      await api.register(async routes => serveRoutes(routes, version));
    },
    { prefix: `/${version.name}` },
  );
}

async function serveRoutes(api: FastifyInstance, version: Version): Promise<void> {
  describeRoutes(api, version);
  api.addHook('onRequest', (_request, _reply, done) => {
    api.refuseOverload();
    done();
  });
  requireAuthentication(api, api.deps);
  api.addHook('onRequest', (request, _reply, done) => {
    api.refuseUnread(request);
    done();
  });
  if (api.deps.config.rateLimit > 0) await api.limitRequests(api);
  await api.register(version.routes);
}

async function allowOrigins(
  api: FastifyInstance,
  origins: readonly string[],
  { cors: allowed }: Version,
): Promise<void> {
  // Only preflights are the plugin's: all else is answered as without CORS.
  api.addHook('onRequest', async ({ method, headers }, reply) => {
    const isPreflight = headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
    if (method === 'OPTIONS' && !isPreflight) return reply.callNotFound();
  });
  await api.register(cors, {
    origin: [...origins],
    methods: allowed.methods,
    allowedHeaders: ['authorization', 'content-type', ...allowed.headers, 'x-request-id'],
    exposedHeaders: [
      'etag',
      'retry-after',
      'x-ratelimit-limit',
      'x-ratelimit-remaining',
      'x-ratelimit-reset',
      'x-request-id',
    ],
    maxAge: 3_600,
  });
}
