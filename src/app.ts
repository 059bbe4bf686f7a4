import { randomUUID } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import underPressure from '@fastify/under-pressure';
import Fastify, { type FastifyBaseLogger } from 'fastify';
import { version202504 } from './api/2025-04/version.ts';
import { version202612 } from './api/2026-12/version.ts';
import { requireHost } from './api/addresses.ts';
import { createErrorSender, handleClientError, handleConnections, handleErrors } from './api/error-handlers.ts';
import { addOperationRoutes } from './api/health.ts';
import { serveDocumentation } from './api/openapi.ts';
import { createPageCache, type SendPage } from './api/page-cache.ts';
import { createRateLimit } from './api/rate-limit.ts';
import { boundReplies } from './api/replies.ts';
import { createRuleLists } from './api/rules.ts';
import { securityHeaders } from './api/security-headers.ts';
import { serveVersion } from './api/serve-version.ts';
import { compileValidator } from './api/validation.ts';
import { serveWeb } from './api/web.ts';
import { type AdmitBodies, createBodyBudget } from './body-budget.ts';
import type { Deps } from './deps.ts';
import { overloaded } from './errors.ts';
import { createSyncOnRequest } from './sync/sync-on-request.ts';
import { webhookRoutes } from './webhooks/route.ts';

declare module 'fastify' {
  interface FastifyInstance {
    readonly deps: Deps;
    readonly sendPage: SendPage;
    readonly readRuleList: ReturnType<typeof createRuleLists>;
    readonly admitBodies: AdmitBodies;
    readonly syncOnRequest: ReturnType<typeof createSyncOnRequest>;
    readonly limitRequests: ReturnType<typeof createRateLimit>;
    readonly refuseOverload: () => void;
    readonly refuseUnread: ReturnType<typeof boundReplies>;
  }
}

/** Newest first. */
const versions = [version202612, version202504];

export type App = Awaited<ReturnType<typeof buildApp>>;

/**
 * The HTTP service, ready to be injected into or to listen; closing it leaves `deps` open.
 *
 * @param options `maxEventLoopDelayMs`: above this delay, requests get 503; 0 turns the check off. `maxReplyMs`: as
 *   {@link boundReplies} takes it. `metricsMaxAgeMs`: as {@link addOperationRoutes} takes it. `isHealthOnly`: it answers
 *   for health and metrics only
 */
export async function buildApp(
  deps: Deps,
  {
    maxEventLoopDelayMs = 2_000,
    maxReplyMs,
    metricsMaxAgeMs,
    isHealthOnly = false,
  }: { maxEventLoopDelayMs?: number; maxReplyMs?: number; metricsMaxAgeMs?: number; isHealthOnly?: boolean } = {},
) {
  const { config, log } = deps;
  const sendError = createErrorSender(versions);
  const app = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new Fastify.LogController({ disableRequestLogging: true }),
    trustProxy: config.trustProxy.length > 0 && [...config.trustProxy],
    // No endpoint of the interface takes a body; webhooks and rules files have limits of their own.
    bodyLimit: 16 * 1024,
    requestTimeout: 30_000,
    keepAliveTimeout: 72_000,
    http: {
      headersTimeout: 10_000,
      maxHeaderSize: 16 * 1024,
      // How often Node checks the time limits.
      connectionsCheckingInterval: 1_000,
      requireHostHeader: false,
    },
    // Requests that arrive while the service stops are served, not refused.
    return503OnClosing: false,
    genReqId: request => {
      const requestId = request.headers['x-request-id'];
      return typeof requestId === 'string' && /^[\w.:-]{1,64}$/.test(requestId) ? requestId : randomUUID();
    },
    // Errors before routing, such as a path that can't be decoded.
    frameworkErrors: sendError,
    // Schemas of replies are for the documents; tests hold replies against them.
    schemaController: { compilersFactory: { buildSerializer: () => () => JSON.stringify } },
    clientErrorHandler: handleClientError,
    // The maximum size of the headers: an overlong id gets 404, like any unknown one.
    routerOptions: { maxParamLength: 16 * 1024 },
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.decorate('deps', deps);
  app.decorate('sendPage', createPageCache());
  app.decorate('readRuleList', createRuleLists(deps.database));
  app.decorate('admitBodies', createBodyBudget());
  app.decorate('syncOnRequest', createSyncOnRequest(deps));
  app.decorate('limitRequests', createRateLimit(config.rateLimit));
  // A context that adds schemas does not inherit the compiler, so each route gets it.
  app.addHook('onRoute', route => {
    route.validatorCompiler = compileValidator;
    if (route.method !== 'HEAD') return;
    // Fastify's own hook says that a 304 has the length 0: https://www.rfc-editor.org/rfc/rfc9110#section-8.6-12
    route.onSend = [route.onSend ?? []].flat().concat((_request, reply, _payload, done) => {
      if (reply.statusCode === 304) reply.removeHeader('content-length');
      done();
    });
  });
  // Only webhooks and rules files are read. Elsewhere any body is allowed and ignored.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async () => undefined);
  handleConnections(app);
  handleErrors(app, sendError);
  // Hooks that wait for nothing are no promises: each would cost as much as the hook.
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  requireHost(app);
  app.decorate('refuseUnread', boundReplies(app, maxReplyMs));

  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(securityHeaders);
    done();
  });
  let readyAt = Number.POSITIVE_INFINITY;
  app.addHook('onReady', async () => {
    readyAt = performance.now();
  });
  await app.register(underPressure);
  app.decorate('refuseOverload', () => {
    const { eventLoopDelay: delay } = app.memoryUsage();
    if (maxEventLoopDelayMs === 0 || delay <= maxEventLoopDelayMs) return;
    // The plugin measures for a second at a time. The start itself is a delay, and a second without a measurement, as
    // after one long computation, is infinite.
    if (delay === Number.POSITIVE_INFINITY || performance.now() - readyAt < 2_000) return;
    throw overloaded('The service is overloaded.', 'Try again shortly.', { retryAfter: 2 });
  });
  addOperationRoutes(app, metricsMaxAgeMs);
  if (isHealthOnly) return app;
  await app.register(async docs => serveDocumentation(docs, versions));
  if (config.web) await app.register(serveWeb);
  await app.register(webhookRoutes, { prefix: '/webhooks' });
  for (const version of versions) await app.register(async api => serveVersion(api, version));
  return app;
}
