import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import DataLoader from 'dataloader';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { hashAccessToken, isAccessToken, type Scope } from '../access-token.ts';
import { type Caller, findCallers, writeTokenUse } from '../database/access-tokens.ts';
import type { Deps } from '../deps.ts';
import { type ErrorOptions, forbidden, unauthenticated } from '../errors.ts';
import { headerValues } from './addresses.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
  }
  interface FastifyContextConfig {
    /** The scope that the token needs; `read` by default. */
    scope?: Scope;
  }
}

/** One for all: the stack of a new one would be a twentieth of what a request with a bad token costs. */
const refusal = unauthenticated('Unauthenticated.', 'Send a valid token in the header Authorization: Bearer TOKEN.');
export const invalidToken = () => refusal;

/** For another organisation's object and for a missing scope. */
export const unauthorized = (action?: string, options: ErrorOptions = {}) =>
  forbidden('This action is unauthorized.', action, options);

/** How exact the stored time of a token's last use is. A write for each request would cost more than most requests. */
const lastUseAccuracySeconds = 600;

/** A database that hangs must not make requests wait for one another. */
const maxLookupWaitMs = 20;

/** Makes every route of the instance require a valid token with the route's scope. */
export function requireAuthentication(app: FastifyInstance, { database, log }: Deps): void {
  let underWay: Promise<unknown> | undefined;
  // Requests that come during a lookup share the next one. Without one under way, those from one turn of the event loop
  // do: `setImmediate`, because each connection runs in a tick of its own. After a lookup the next one starts at once: one
  // more turn of the event loop, as a batch of createBatcher waits, doubled the p99 beside long pieces of work. Nothing is
  // cached: a revoked token is refused from the next request on.
  const callers = new DataLoader<string, Caller | undefined>(
    async hashes => {
      const lookup = findCallers(database, [...new Set(hashes)], lastUseAccuracySeconds);
      const waiting = Promise.race([lookup.catch(() => undefined), delay(maxLookupWaitMs)]).then(() => {
        if (underWay === waiting) underWay = undefined;
      });
      underWay = waiting;
      const found = await lookup;
      return hashes.map(hash => found.get(hash));
    },
    { cache: false, maxBatchSize: 500, batchScheduleFn: dispatch => void (underWay ?? setImmediate()).then(dispatch) },
  );

  app.addHook('onRequest', async request => {
    const caller = await callers.load(hashAccessToken(bearerToken(request)));
    if (caller === undefined) throw invalidToken();
    request.caller = caller;
    if (caller.isLastUseStale) {
      writeTokenUse(database.executor, caller, lastUseAccuracySeconds).catch((error: unknown) =>
        log.warn({ err: error }, 'the last use of a token was not written'),
      );
    }
  });
  // After the rate limit, which counts these requests too, and before the rest of the request is read.
  app.addHook('preParsing', (request, _reply, _payload, done) => {
    const { scope = 'read' } = request.routeOptions.config;
    if (!request.caller.scopes.includes(scope)) throw unauthorized(`Use a token with the scope ${scope}.`);
    done();
  });
}

function bearerToken(request: FastifyRequest): string {
  const [credentials = '', ...others] = headerValues(request, 'authorization');
  // With several headers, it is unclear which token was meant.
  if (others.length > 0) throw invalidToken();
  const token = /^bearer +(\S+)$/i.exec(credentials)?.[1];
  if (token === undefined || !isAccessToken(token)) throw invalidToken();
  return token;
}
