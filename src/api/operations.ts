import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { isMigrated } from '../database/migrate.ts';
import { ServiceError } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Tells load balancers to send nothing more, and clients to connect anew elsewhere; requests are still served. */
    drain(): void;
  }
}

/** What operators and orchestrators ask: alive, ready, how busy. Needs no token. */
export function addOperationRoutes(app: FastifyInstance): void {
  const { database } = app.deps;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to the end of its reply',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [registry],
  });
  app.addHook('onResponse', async (request, reply) => {
    const labels = { method: request.method, route: request.routeOptions.url ?? 'none', status: reply.statusCode };
    duration.observe(labels, reply.elapsedTime / 1000);
  });

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
      throw new ServiceError('database_unavailable', 'The database lacks migrations: run pullscore migrate.');
    }
    return { status: 'ready' };
  });

  app.get('/metrics', { config, schema: { hide: true } }, async (_request, reply) => {
    reply.type(registry.contentType);
    return registry.metrics();
  });
}
