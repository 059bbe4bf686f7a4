import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

const mebibyte = 1024 * 1024;

/** GitHub sends no larger payloads. */
export const largestPayload = 25 * mebibyte;

/** Nearly all are much smaller than this. */
const largestOrdinaryPayload = mebibyte;

/**
 * Bytes that payloads on their way may take in memory at once; parsing multiplies them. Large ones, which anybody may
 * announce, have their own share: they can't keep ordinary ones out.
 */
const mostBytes = { ordinary: 64 * mebibyte, large: 3 * largestPayload };

const overloaded = () =>
  new ServiceError('overloaded', 'Too many payloads at once.', { action: 'Deliver it again shortly.', retryAfter: 5 });

interface Admitted {
  share: keyof typeof mostBytes;
  /** As announced, before it is known who sends it and whether it comes. */
  bytes: number;
}

/**
 * Keeps the memory that payloads take bounded, whoever sends them and however slowly they come. Where ordinary ones
 * leave no room, the largest one that is still on its way gives way to a smaller or equal one: to keep payloads of
 * GitHub's usual size out, somebody would have to hold thousands of connections.
 */
export function createAdmission() {
  const taken = { ordinary: 0, large: 0 };
  const admitted = new Map<FastifyRequest, Admitted>();
  /** Ordinary ones whose body is being read, the oldest first, and what ends that. */
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
    /** @throws ServiceError where it is too large, or there is no room for it */
    admit(request: FastifyRequest): void {
      // A body in chunks does not say how long it is.
      const bytes = Number(request.headers['content-length'] ?? largestPayload);
      if (bytes > largestPayload) throw new ServiceError('payload_too_large', 'The payload is over 25 MiB.');
      const share = bytes > largestOrdinaryPayload ? 'large' : 'ordinary';
      while (taken[share] + bytes > mostBytes[share]) {
        const largest = share === 'ordinary' ? largestArriving() : undefined;
        if (largest === undefined || largest.bytes < bytes) throw overloaded();
        release(largest.request);
        largest.refuse();
      }
      taken[share] += bytes;
      admitted.set(request, { share, bytes });
    },
    /** Its body is read from now on. */
    begin(request: FastifyRequest, reply: FastifyReply): void {
      if (admitted.get(request)?.share !== 'ordinary') return;
      arriving.set(request, () => {
        // The rest of the body would only come to be thrown away.
        reply.header('connection', 'close');
        // Fastify reads on until the stream fails. Where it does not read, its answer is on the way already.
        if (request.raw.listenerCount('error') > 0) request.raw.emit('error', overloaded());
      });
    },
    /** All of it is there. */
    complete(request: FastifyRequest): void {
      arriving.delete(request);
    },
    release,
  };
}
