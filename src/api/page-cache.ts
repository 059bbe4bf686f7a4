import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { version } from '../package.ts';
import { baseUrl } from './addresses.ts';

/** Shared by all organisations. */
const maxCacheBytes = 64 * 1024 * 1024;

/** A few pages of long texts must not displace all others. */
const maxEntryBytes = 1024 * 1024;

/** Something other than this release may have changed the rows without a new version. */
const defaultMaxAgeMs = 60_000;

/** For the schema of a route that sends pages. */
export const notModified = {
  304: Type.Null({ description: 'The page is unchanged: it still has the `ETag` in `If-None-Match`' }),
};

/** Replies with a page of pull requests: from memory if it was built since they last changed. */
export type SendPage = (
  request: FastifyRequest,
  reply: FastifyReply,
  build: () => Promise<Buffer>,
) => Promise<Buffer | undefined>;

/**
 * The content version is read together with the token, in a statement of the request's own, so a page is never older
 * than the request, whichever replica built it. If it is newer than its version, the version has changed and no later
 * request has this tag.
 *
 * A page is kept the second time that it is built: most are asked for once, and keeping them would take a seventh of
 * the processor time of a page. Of others, the tag is remembered. Neither is believed for longer than a minute.
 */
export function createPageCache({ maxAgeMs = defaultMaxAgeMs, release = version } = {}): SendPage {
  const built = new LRUCache<string, { tag: string; page: Buffer | undefined }>({
    ttl: maxAgeMs,
    maxSize: maxCacheBytes,
    maxEntrySize: maxEntryBytes,
    // Plus the entry's own overhead, which matters for small pages.
    sizeCalculation: ({ page }, key) => (page?.length ?? 0) + key.length + 500,
  });

  return async (request, reply, build) => {
    const { contentVersion } = request.caller;
    reply.type('application/json; charset=utf-8');
    if (contentVersion === null) return build();
    // The content version is the organisation's own, so no other organisation has the same key. Another release may show
    // the same content in another way.
    const key = `${release} ${contentVersion} ${baseUrl(request)}${request.url}`;
    const sent = request.headers['if-none-match'];
    const known = built.get(key);
    let { tag, page } = known ?? {};
    // If there is a tag, this page was built for an earlier request, so this one is valid, too.
    if (tag === undefined || (page === undefined && !hasTag(sent, tag))) {
      page = await build();
      tag = `"${hash('sha256', key, 'base64url')}.${crc32(page).toString(36)}"`;
      built.set(key, { tag, page: known && page });
    }
    return isUnchanged(request, reply, tag) ? undefined : page;
  };
}

/** Replies with a page that is built anew for each request: what it shows has no version. */
export function sendTagged(request: FastifyRequest, reply: FastifyReply, page: Buffer): Buffer | undefined {
  const tag = `"${hash('sha256', page, 'base64url')}"`;
  reply.type('application/json; charset=utf-8');
  return isUnchanged(request, reply, tag) ? undefined : page;
}

/** Gives the reply its tag. @returns whether the client has what it stands for: the reply is then 304, without a body */
export function isUnchanged(request: FastifyRequest, reply: FastifyReply, tag: string): boolean {
  reply.headers({ etag: tag, 'cache-control': 'private, no-cache' });
  const isKnown = hasTag(request.headers['if-none-match'], tag);
  if (isKnown) reply.code(304);
  return isKnown;
}

/** @param header `If-None-Match`: tags, which proxies mark as weak or as compressed, as Apache does; or `*` for any */
function hasTag(header: string | undefined, tag: string): boolean {
  const isSame = (sent: string) => sent === '*' || sent.replace(/^W\//, '').replace(/--?(gzip|br|zstd)"$/, '"') === tag;
  return header?.split(',').some(sent => isSame(sent.trim())) ?? false;
}
