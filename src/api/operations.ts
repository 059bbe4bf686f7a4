import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { isMigrated } from '../database/migrate.ts';
import { ServiceError } from '../errors.ts';
import { unauthenticated } from './authentication.ts';
import { createMetrics } from './metrics.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Makes load balancers and clients go elsewhere; requests that still arrive are served. */
    drain(): void;
  }
}

/** Liveness, readiness and metrics, without an access token. */
export function addOperationRoutes(app: FastifyInstance): void {
  const { database } = app.deps;
  const metrics = createMetrics(app.deps);
  app.addHook('onResponse', async (request, reply) => {
    const labels = { method: request.method, route: request.routeOptions.url ?? 'none', status: reply.statusCode };
    metrics.observeHttp(labels, reply.elapsedTime / 1000);
  });
  app.addHook('onClose', async () => metrics.close());

  let draining = false;
  app.decorate('drain', () => {
    draining = true;
  });
  app.addHook('onSend', async (_request, reply) => {
    if (draining) reply.header('connection', 'close');
  });

  // An overloaded process must stay observable, and not be restarted.
  const config = { pressureHandler: () => undefined };

  app.get('/healthz', { config, schema: { hide: true } }, async () => ({ status: 'ok' }));

  app.get('/readyz', { schema: { hide: true } }, async () => {
    if (draining) throw new ServiceError('overloaded', 'The service is stopping.');
    if (!(await isMigrated(database))) {
      throw new ServiceError('database_unavailable', 'The database lacks migrations.', {
        action: 'Run pullscore migrate.',
      });
    }
    return { status: 'ready' };
  });

  app.get('/metrics', { config, schema: { hide: true } }, async (request, reply) => {
    const { metricsToken } = app.deps.config;
    if (metricsToken !== undefined && !hasToken(request.headers.authorization, metricsToken)) throw unauthenticated();
    reply.type(metrics.contentType);
    return metrics.text();
  });
}

/** In constant time. */
function hasToken(authorization: string | undefined, token: string): boolean {
  const [given, expected] = [authorization ?? '', `Bearer ${token}`].map(text =>
    createHash('sha256').update(text).digest(),
  ) as [Buffer, Buffer];
  return timingSafeEqual(given, expected);
}
