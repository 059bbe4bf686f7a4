import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

const hostRefused = () => new ServiceError('bad_request', 'The Host header must be there once, and name a host.');

/** HTTP/1.1 asks for one Host header, which Node would check with a reply that has no body. */
export function requireHost(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ raw: { rawHeaders, httpVersion } }) => {
    let hosts = 0;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      if (rawHeaders[index]?.toLowerCase() === 'host') hosts += 1;
    }
    if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) throw hostRefused();
  });
}

/** The address under which the caller reached the service, without a trailing slash. */
export function baseUrl(request: FastifyRequest): string {
  const { publicUrl } = request.server.deps.config;
  if (publicUrl !== undefined) return publicUrl;
  const { host, protocol } = request;
  // Both may come from a client, the latter through a proxy that hands on what it was given.
  if (!/^([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?$/i.test(host)) throw hostRefused();
  if (protocol !== 'http' && protocol !== 'https') {
    throw new ServiceError('bad_request', 'The X-Forwarded-Proto header must be http or https.');
  }
  return `${protocol}://${host}`;
}
