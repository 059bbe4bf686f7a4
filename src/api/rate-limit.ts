import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';
import { rateLimited } from '../errors.ts';

const windowMs = 60_000;

/** The plugin's own store hands all callers one object, which concurrent requests change before it is read. */
class FixedWindows {
  /** By token, until its window ends. */
  readonly #counts = new LRUCache<string, number>({ max: 10_000, ttl: windowMs });

  incr(tokenId: string, callback: (error: null, result: { current: number; ttl: number }) => void): void {
    const current = (this.#counts.get(tokenId) ?? 0) + 1;
    this.#counts.set(tokenId, current, { noUpdateTTL: true });
    callback(null, { current, ttl: this.#counts.getRemainingTTL(tokenId) });
  }

  child(): this {
    return this;
  }
}

/**
 * Limits the requests of each token in a minute, on this replica. Register it after authentication.
 *
 * @param max requests in a minute
 */
export async function limitRequests(api: FastifyInstance, max: number): Promise<void> {
  await api.register(rateLimit, {
    max,
    timeWindow: windowMs,
    store: FixedWindows,
    keyGenerator: request => request.caller.tokenId,
    errorResponseBuilder: (_request, { ttl }) =>
      rateLimited('Too many requests with this token.', 'Slow down.', { retryAfter: ttl / 1000 }),
  });
}
