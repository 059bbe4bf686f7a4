import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { brokenOff, overloaded, rateLimited } from './errors.ts';

const mebibyte = 1024 * 1024;

/** Most of GitHub's payloads are smaller. */
const maxSmallBytes = 64 * 1024;

/**
 * Bytes of all bodies in memory. Four fifths are for small ones: to keep these out, 2,000 connections have to
 * stall at once. docs/decisions/0024-body-budget.md
 */
const maxBytes = { large: 32 * mebibyte, small: 160 * mebibyte };

/**
 * A large body with a wrong signature keeps its place for this long: hashing is most of its cost. So strangers can't have
 * more than 32 MiB a second hashed.
 */
const refusalMs = 1_000;

export type AdmitBodies = ReturnType<typeof createBodyBudget>;

/**
 * One budget for the bodies of all requests. A body has its place before its first byte is read, by the length that it
 * announces, and until the reply. Node's `requestTimeout` ends one that stalls.
 *
 * @returns a function that adds the hooks to a context whose routes read bodies. Add them after authentication.
 */
export function createBodyBudget() {
  let bytesInUse = 0;
  /**
   * @param maxBodyBytes the limit of each body; one in chunks, which announces no length, reserves as much
   * @param senderOf each sender has one body at a time
   */
  return (app: FastifyInstance, maxBodyBytes: number, senderOf?: (request: FastifyRequest) => string): void => {
    const admitted = new Map<FastifyRequest, { bytes: number; sender: string | undefined }>();
    const senders = new Set<string>();

    app.addHook('onRequest', async request => {
      const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
      // Fastify refuses longer ones unread.
      const bytes = encoding === undefined ? Math.min(Number(length ?? 0), maxBodyBytes) : maxBodyBytes;
      if (bytes === 0) return;
      // Its client has left: neither its body nor `onRequestAbort` will come, so the place would stay taken.
      if (request.raw.destroyed) throw brokenOff();
      const sender = senderOf?.(request);
      if (sender !== undefined && senders.has(sender)) {
        throw rateLimited('Another file of this organisation is under way.', 'Try again shortly.', { retryAfter: 5 });
      }
      if (bytesInUse + bytes > (bytes > maxSmallBytes ? maxBytes.large : maxBytes.small)) {
        throw overloaded('Too many request bodies at once.', 'Send it again in a few seconds.', { retryAfter: 5 });
      }
      bytesInUse += bytes;
      if (sender !== undefined) senders.add(sender);
      admitted.set(request, { bytes, sender });
    });

    async function release(request: FastifyRequest): Promise<void> {
      const { bytes = 0, sender } = admitted.get(request) ?? {};
      bytesInUse -= bytes;
      if (sender !== undefined) senders.delete(sender);
      admitted.delete(request);
    }
    // Not `onResponse`: if the connection is gone, it never comes, and the place would stay taken.
    app.addHook('onSend', async (request, reply) => {
      const { bytes = 0 } = admitted.get(request) ?? {};
      if (reply.statusCode === 401 && bytes > maxSmallBytes) await delay(refusalMs);
      await release(request);
    });
    app.addHook('onRequestAbort', release);
  };
}
