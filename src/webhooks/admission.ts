import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

const mebibyte = 1024 * 1024;

/** GitHub sends no larger payloads. */
export const maxPayloadBytes = 25 * mebibyte;

/** Nearly all are much smaller than this. */
const maxOrdinaryBytes = mebibyte;

/**
 * Bytes of all payloads in memory at once; parsing multiplies them. Large ones, which anybody may announce, have their
 * own share, so that they can't keep ordinary ones out.
 */
const maxBytes = { ordinary: 64 * mebibyte, large: 3 * maxPayloadBytes };

const overloaded = () =>
  new ServiceError('overloaded', 'Too many payloads at once.', { action: 'Deliver it again shortly.', retryAfter: 5 });

interface Admitted {
  share: keyof typeof maxBytes;
  /** As announced, before we know who sends it and whether it arrives. */
  bytes: number;
}

/**
 * Bounds the memory that payloads take, whoever sends them and however slowly they arrive. If the ordinary share is
 * full, a new payload replaces the largest one still arriving that is not smaller: to keep payloads of GitHub's usual
 * size out, somebody would have to hold thousands of connections.
 */
export function createAdmission() {
  const taken = { ordinary: 0, large: 0 };
  const admitted = new Map<FastifyRequest, Admitted>();
  /** Ordinary payloads whose body is being read, the oldest first, each with a function that refuses it. */
  const arriving = new Map<FastifyRequest, () => void>();

  function release(request: FastifyRequest): void {
    const admission = admitted.get(request);
    if (admission !== undefined) taken[admission.share] -= admission.bytes;
    admitted.delete(request);
    arriving.delete(request);
  }

  function largestArriving() {
    let largest: { request: FastifyRequest; bytes: number; refuse(): void } | undefined;
    for (const [request, refuse] of arriving) {
      const bytes = admitted.get(request)?.bytes ?? 0;
      if (bytes > (largest?.bytes ?? 0)) largest = { request, bytes, refuse };
    }
    return largest;
  }

  return {
    /** @throws ServiceError if the payload is too large or there is no room for it */
    admit(request: FastifyRequest): void {
      // A chunked body does not announce its length.
      const bytes = Number(request.headers['content-length'] ?? maxPayloadBytes);
      if (bytes > maxPayloadBytes) throw new ServiceError('payload_too_large', 'The payload is over 25 MiB.');
      const share = bytes > maxOrdinaryBytes ? 'large' : 'ordinary';
      while (taken[share] + bytes > maxBytes[share]) {
        const largest = share === 'ordinary' ? largestArriving() : undefined;
        if (largest === undefined || largest.bytes < bytes) throw overloaded();
        release(largest.request);
        largest.refuse();
      }
      taken[share] += bytes;
      admitted.set(request, { share, bytes });
    },
    /** Reading of the body begins. */
    begin(request: FastifyRequest, reply: FastifyReply): void {
      if (admitted.get(request)?.share !== 'ordinary') return;
      arriving.set(request, () => {
        // Otherwise the rest of the body would still be received, for nothing.
        reply.header('connection', 'close');
        // Fastify reads on until the stream fails. If it is not reading, its answer is already on the way.
        if (request.raw.listenerCount('error') > 0) request.raw.emit('error', overloaded());
      });
    },
    /** The whole body has arrived. */
    complete(request: FastifyRequest): void {
      arriving.delete(request);
    },
    release,
  };
}
