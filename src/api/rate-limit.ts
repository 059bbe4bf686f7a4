import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';
import { rateLimited } from '../errors.ts';

const windowMs = 60_000;

/**
 * @param max requests in a minute
 * @returns a function that limits the requests of each token in a minute, on this replica, to all versions together. Call
 *   it for each version, after authentication
 */
export function createRateLimit(max: number) {
  /** By token, until its window ends. */
  const counts = new LRUCache<string, number>({ max: 10_000, ttl: windowMs });

  /** The plugin's own store hands all callers one object, which concurrent requests change before it is read. */
  class FixedWindows {
    incr(tokenId: string, callback: (error: null, result: { current: number; ttl: number }) => void): void {
      const current = (counts.get(tokenId) ?? 0) + 1;
      counts.set(tokenId, current, { noUpdateTTL: true });
      callback(null, { current, ttl: counts.getRemainingTTL(tokenId) });
    }

    child(): this {
      return this;
    }
  }

  return async (api: FastifyInstance): Promise<void> => {
    await api.register(rateLimit, {
      max,
      timeWindow: windowMs,
      store: FixedWindows,
      keyGenerator: request => request.caller.tokenId,
      errorResponseBuilder: (_request, { ttl }) =>
        rateLimited('Too many requests with this token.', 'Slow down.', { retryAfter: ttl / 1000 }),
    });
  };
}
