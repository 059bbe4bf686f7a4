import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

const hostRefused = () =>
  new ServiceError('bad_request', 'The request needs exactly one Host header, with a valid host.');

/** HTTP/1.1 requires one Host header. Node's own check would answer without a body. */
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
  // A client can choose both: the protocol through a proxy that passes its header on.
  if (!/^([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?$/i.test(host)) throw hostRefused();
  if (protocol !== 'http' && protocol !== 'https') {
    throw new ServiceError('bad_request', 'The X-Forwarded-Proto header must be http or https.');
  }
  return `${protocol}://${host}`;
}
