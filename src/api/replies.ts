import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { brokenOff, rateLimited } from '../errors.ts';

const mebibyte = 1024 * 1024;

/** Bytes that wait until clients take them: of one token, and of all together. */
const maxWaitingBytes = { token: 16 * mebibyte, all: 128 * mebibyte };

/** Enough for the largest page at 17 KB a second. */
const defaultMaxReplyMs = 60_000;

interface Waiting {
  request: FastifyRequest;
  /** Undefined for what needs no token. */
  tokenId: string | undefined;
  bytes: number;
  /** Cuts it if it is not taken in time. */
  timer: NodeJS.Timeout;
}

const tooManyBytes = () =>
  rateLimited('Earlier replies to this token have not been read.', 'Read them, or close their connections.', {
    retryAfter: 5,
  });

/**
 * Bounds the memory and the time that replies take until their clients have taken them. If all together take too much,
 * the token with the most bytes loses its oldest reply.
 *
 * @param maxReplyMs a reply that is not taken within this time is cut, also one that is sent piece by piece
 * @returns refuses a request of a token with too many bytes; call it after authentication
 */
export function boundReplies(app: FastifyInstance, maxReplyMs = defaultMaxReplyMs) {
  /** The oldest first. */
  const replies = new Set<Waiting>();
  const bytesByToken = new Map<string | undefined, number>();
  let allBytes = 0;

  const waitingBytesOf = (tokenId: string | undefined) => bytesByToken.get(tokenId) ?? 0;

  function addBytes(tokenId: string | undefined, bytes: number): void {
    allBytes += bytes;
    const sum = waitingBytesOf(tokenId) + bytes;
    if (sum === 0) bytesByToken.delete(tokenId);
    else bytesByToken.set(tokenId, sum);
  }

  function end(waiting: Waiting): void {
    clearTimeout(waiting.timer);
    if (replies.delete(waiting)) addBytes(waiting.tokenId, -waiting.bytes);
  }

  function cut(waiting: Waiting): void {
    end(waiting);
    waiting.request.raw.socket.destroy();
  }

  function refuse(tokenId: string | undefined): void {
    if (tokenId !== undefined && waitingBytesOf(tokenId) > maxWaitingBytes.token) throw tooManyBytes();
  }

  function makeRoom(): void {
    const [largest] = [...bytesByToken].reduce((max, entry) => (entry[1] > max[1] ? entry : max));
    const oldest = [...replies].find(({ tokenId, bytes }) => tokenId === largest && bytes > 0);
    if (oldest !== undefined) cut(oldest);
  }

  function count(request: FastifyRequest, reply: FastifyReply, payload: unknown): void {
    // Nothing, as in a 304, or for nobody: a connection that is gone does not say so again.
    if (payload === null || payload === undefined || request.raw.socket.destroyed) return;
    const tokenId = request.caller?.tokenId;
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0;
    // Requests that came together were all let in. What was done, rather than read, is not refused any more.
    if (request.method === 'GET' && reply.statusCode < 400 && bytes > 0) refuse(tokenId);
    const timer = setTimeout(() => cut(waiting), maxReplyMs).unref();
    const waiting: Waiting = { request, tokenId, bytes, timer };
    replies.add(waiting);
    addBytes(tokenId, bytes);
    for (const event of ['finish', 'close']) reply.raw.once(event, () => end(waiting));
    while (allBytes > maxWaitingBytes.all) makeRoom();
  }

  app.addHook('onSend', (request, reply, payload, done) => {
    count(request, reply, payload);
    done();
  });

  return (request: FastifyRequest): void => refuse(request.caller.tokenId);
}

/** Aborted if the client goes away. */
export function whileConnected({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const abort = () => gone.abort(brokenOff());
  if (raw.destroyed) abort();
  raw.once('close', abort);
  return gone.signal;
}
