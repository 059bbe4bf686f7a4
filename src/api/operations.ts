import type { FastifyInstance } from 'fastify';
import { isMigrated } from '../database/migrate.ts';
import { ServiceError } from '../errors.ts';
import { createMetrics } from './metrics.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Tells load balancers to send nothing more, and clients to connect anew elsewhere; requests are still served. */
    drain(): void;
  }
}

/** What operators and orchestrators ask: alive, ready, how busy. Needs no token. */
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

  // An overloaded process is to be left alone and looked at, not restarted.
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
