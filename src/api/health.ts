import { hash, timingSafeEqual } from 'node:crypto';
import { Server } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { FastifyInstance } from 'fastify';
import { isMigrated } from '../database/migrations.ts';
import { databaseUnavailable, overloaded } from '../errors.ts';
import { invalidToken } from './authentication.ts';
import { createMetrics } from './metrics.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Makes load balancers and clients go elsewhere; requests that still arrive are served. */
    drain(): void;
  }
}

/**
 * Liveness, readiness and metrics, without an access token.
 *
 * @param metricsMaxAgeMs as {@link createMetrics} takes it
 */
export function addOperationRoutes(app: FastifyInstance, metricsMaxAgeMs?: number): void {
  const { database } = app.deps;
  const metrics = createMetrics(app.deps, metricsMaxAgeMs);
  app.addHook('onResponse', (request, reply, done) => {
    const labels = { method: request.method, route: request.routeOptions.url ?? 'none', status: reply.statusCode };
    metrics.observeHttp(labels, reply.elapsedTime / 1000);
    done();
  });
  app.addHook('onClose', async () => metrics.close());

  let draining = false;
  app.decorate('drain', () => {
    draining = true;
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (draining) reply.header('connection', 'close');
    done();
  });
  let isClosing = false;
  app.addHook('preClose', async () => {
    if (draining && app.server.listening) await finishConnections(app.server);
    isClosing = true;
  });
  // Its head, sent before, may have promised to keep the connection, which would hold up the end for over a minute.
  app.addHook('onResponse', async ({ raw }) => {
    if (isClosing) raw.socket.destroySoon();
  });

  // Neither this nor /metrics refuses overload: the process must stay observable, and not be restarted.
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }));

  app.get('/readyz', { schema: { hide: true } }, async () => {
    if (draining) throw overloaded('The service is stopping.');
    app.refuseOverload();
    if (!(await isMigrated(database))) {
      throw databaseUnavailable('The database schema is not up to date.', 'Run pullscore migrate.');
    }
    return { status: 'ready' };
  });

  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    const { metricsToken } = app.deps.config;
    if (metricsToken !== undefined && !hasToken(request.headers.authorization, metricsToken)) throw invalidToken();
    reply.type(metrics.contentType);
    return metrics.text();
  });
}

/** Connections that are still open after this are treated as idle. */
const maxFinishingMs = 2_000;

/**
 * Stops listening, and waits until what was sent has arrived. Node's own `close` treats a connection as idle as soon as
 * its reply is handed over, and would cut off the rest.
 */
async function finishConnections(server: FastifyInstance['server']): Promise<void> {
  Server.prototype.close.call(server);
  // Once Node's own `close` is called, no time limit ends a connection that has sent no request, or half of one.
  server.headersTimeout = maxFinishingMs / 2;
  const countConnections = promisify(server.getConnections.bind(server));
  for (const begin = performance.now(); performance.now() - begin < maxFinishingMs; await delay(20)) {
    if ((await countConnections()) === 0) return;
  }
}

/** In constant time. */
function hasToken(authorization: string | undefined, token: string): boolean {
  const digest = (text: string) => hash('sha256', text, 'buffer');
  return timingSafeEqual(digest(authorization ?? ''), digest(`Bearer ${token}`));
}
