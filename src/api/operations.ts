import type { FastifyInstance } from 'fastify';
import { isMigrated } from '../database/migrate.ts';
import { ServiceError } from '../errors.ts';
import { createMetrics } from './metrics.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Makes load balancers and clients go elsewhere; requests that still arrive are served. */
    drain(): void;
  }
}

/** Liveness, readiness and metrics, without a token. */
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

  app.get('/metrics', { config, schema: { hide: true } }, async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.text();
  });
}
