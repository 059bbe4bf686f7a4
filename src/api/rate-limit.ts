import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';

const windowMs = 60_000;

/** The plugin's own store gives all callers one object, which has changed before they read it. */
class FixedWindows {
  readonly #windows = new LRUCache<string, { count: number; endsAt: number }>({ max: 10_000 });

  incr(tokenId: string, callback: (error: null, result: { current: number; ttl: number }) => void): void {
    const now = performance.now();
    let window = this.#windows.get(tokenId);
    if (window === undefined || window.endsAt <= now) {
      window = { count: 0, endsAt: now + windowMs };
      this.#windows.set(tokenId, window);
    }
    window.count += 1;
    callback(null, { current: window.count, ttl: window.endsAt - now });
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
      new ServiceError('rate_limited', 'Too many requests with this token.', {
        action: 'Slow down.',
        retryAfter: ttl / 1000,
      }),
  });
}
