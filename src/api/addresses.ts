import type { FastifyInstance, FastifyRequest } from 'fastify';
import { badRequest } from '../errors.ts';

const hostRefused = () => badRequest('The request needs exactly one Host header, with a valid host.');

/** All values of a header: if it is repeated, Node shows only the first. */
export function headerValues({ raw: { rawHeaders } }: FastifyRequest, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [sent, value] = [rawHeaders[index] as string, rawHeaders[index + 1] as string];
    if (sent.length === name.length && sent.toLowerCase() === name) values.push(value);
  }
  return values;
}

/** HTTP/1.1 requires one Host header. Node's own check would answer without a body. */
export function requireHost(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { length: hosts } = headerValues(request, 'host');
    if (hosts > 1 || (hosts === 0 && request.raw.httpVersion === '1.1')) throw hostRefused();
    done();
  });
}

/** The address under which the caller reached the service, without a trailing slash. */
export function baseUrl(request: FastifyRequest): string {
  const { publicUrl } = request.server.deps.config;
  if (publicUrl !== undefined) return publicUrl;
  const { host, protocol } = request;
  // The client controls both: the protocol if a proxy passes on its header.
  if (!/^([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?$/i.test(host)) throw hostRefused();
  if (protocol !== 'http' && protocol !== 'https') {
    throw badRequest('The X-Forwarded-Proto header must be http or https.');
  }
  return `${protocol}://${host}`;
}
