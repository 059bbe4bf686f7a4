import type { FastifyReply, FastifyRequest } from 'fastify';
import { overloaded, payloadTooLarge } from '../errors.ts';

const mebibyte = 1024 * 1024;

/** GitHub sends no larger payloads. */
export const maxPayloadBytes = 25 * mebibyte;

/** Nearly all are much smaller than this. */
export const maxOrdinaryBytes = mebibyte;

/**
 * Bytes of all payloads in memory at once; parsing multiplies them. Large ones have their own share, so that they can't
 * keep ordinary ones out. They count by what has arrived: anybody may announce 25 MiB and send a byte.
 */
const maxBytes = { ordinary: 64 * mebibyte, large: 3 * maxPayloadBytes };

const tooManyPayloads = () =>
  overloaded('Too many payloads at once.', 'Redeliver it in a few seconds.', { retryAfter: 5 });

const tooLarge = () => payloadTooLarge('The payload is over 25 MiB.');

type Share = keyof typeof maxBytes;

interface Admitted {
  share: Share;
  /** What an ordinary payload announced, or what has arrived of a large one. */
  bytes: number;
  /** Undefined if its body is not being read. */
  refuse: (() => void) | undefined;
}

/**
 * Bounds the memory that payloads take, whoever sends them and however slowly they arrive. If a share is full, the
 * largest payload in it that is still arriving makes room: to keep payloads of GitHub's usual size out, somebody would
 * have to hold thousands of connections.
 */
export function createAdmission() {
  const bytesInUse = { ordinary: 0, large: 0 };
  /** The oldest first. */
  const admitted = new Map<FastifyRequest, Admitted>();

  function release(request: FastifyRequest): void {
    const admission = admitted.get(request);
    if (admission !== undefined) bytesInUse[admission.share] -= admission.bytes;
    admitted.delete(request);
  }

  function largestArriving(share: Share) {
    let largest: { request: FastifyRequest; bytes: number; refuse(): void } | undefined;
    for (const [request, { share: candidateShare, bytes, refuse }] of admitted) {
      if (candidateShare === share && refuse !== undefined && bytes > (largest?.bytes ?? 0))
        largest = { request, bytes, refuse };
    }
    return largest;
  }

  /** @returns false if there is no room, and only smaller payloads than this are still arriving */
  function makeRoom(share: Share, bytes: number): boolean {
    while (bytesInUse[share] + bytes > maxBytes[share]) {
      const largest = largestArriving(share);
      if (largest === undefined || largest.bytes < bytes) return false;
      release(largest.request);
      largest.refuse();
    }
    return true;
  }

  return {
    /** @throws ServiceError if the payload is too large or there is no room for it */
    admit(request: FastifyRequest): void {
      // A chunked body does not announce its length.
      const announced = Number(request.headers['content-length'] ?? maxPayloadBytes);
      if (announced > maxPayloadBytes) throw tooLarge();
      const share = announced > maxOrdinaryBytes ? 'large' : 'ordinary';
      const bytes = share === 'ordinary' ? announced : 0;
      if (!makeRoom(share, bytes)) throw tooManyPayloads();
      bytesInUse[share] += bytes;
      admitted.set(request, { share, bytes, refuse: undefined });
    },
    /** Reading of the body begins. */
    begin(request: FastifyRequest, reply: FastifyReply): void {
      const admission = admitted.get(request);
      if (admission === undefined) return;
      admission.refuse = () => {
        // Otherwise the rest of the body would still be received, for nothing.
        reply.header('connection', 'close');
        // Fastify reads on until the stream fails. If it is not reading, its answer is already on the way.
        if (request.raw.listenerCount('error') > 0) request.raw.emit('error', tooManyPayloads());
      };
    },
    /** @throws ServiceError if the payload is larger than it may be, or has made room */
    receive(request: FastifyRequest, bytes: number): void {
      const admission = admitted.get(request);
      if (admission === undefined) throw tooManyPayloads();
      if (admission.share === 'ordinary') return;
      admission.bytes += bytes;
      bytesInUse.large += bytes;
      if (admission.bytes > maxPayloadBytes) throw tooLarge();
      // This one may be the largest.
      makeRoom('large', 0);
    },
    /**
     * The whole body has arrived.
     *
     * @throws ServiceError if it has made room: its stream had ended, so nothing else refuses it
     */
    complete(request: FastifyRequest): void {
      const admission = admitted.get(request);
      if (admission === undefined) throw tooManyPayloads();
      admission.refuse = undefined;
    },
    release,
  };
}
