import type { FastifyReply } from 'fastify';
import { badRequest } from '../../errors.ts';

/** For routes whose replies are reports: their schema is for the document. */
export const report = { serializerCompiler: () => JSON.stringify };

/** Aborted if the client goes away. */
export function whileConnected({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const abort = () => gone.abort(badRequest('The client broke off its request.'));
  if (raw.destroyed) abort();
  raw.once('close', abort);
  return gone.signal;
}
