import { existsSync } from 'node:fs';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance } from 'fastify';
import { packageFolder } from '../package.ts';

const folder = join(packageFolder, 'dist', 'web');

/** Nothing inline and nothing from elsewhere, but for photos. The browser sends what it knows to this service only. */
const contentSecurityPolicy = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' https:"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');

/** Serves the page: a client of the newest version. Each of its files has a route of its own, so no path leads anywhere else. */
export async function serveWeb(app: FastifyInstance): Promise<void> {
  if (!existsSync(join(folder, 'index.html'))) {
    app.log.warn('the page is not served, because it is not built: run npm run build');
    return;
  }
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('content-security-policy', contentSecurityPolicy);
  });
  await app.register(fastifyStatic, {
    root: folder,
    wildcard: false,
    decorateReply: false,
    preCompressed: true,
    globIgnore: ['**/*.br', '**/*.gz'],
    // The files are small, and a range beyond their end would be an error of its own.
    acceptRanges: false,
    // Each start may serve another release.
    cacheControl: false,
    setHeaders: reply => reply.setHeader('cache-control', 'no-cache'),
  });
}
