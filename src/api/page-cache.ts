import { createHash } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { version } from '../package.ts';
import { baseUrl } from './addresses.ts';

/** Shared by all organisations. */
const maxCacheBytes = 64 * 1024 * 1024;

/** A few pages of long texts must not displace all others. */
const maxPageBytes = 1024 * 1024;

/** How many tags of pages built only once are remembered. */
const maxAskedOnce = 10_000;

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
 * Pages by entity tag. The content version is read together with the token, in a statement of the request's own, so a
 * page is never older than the request, whichever replica built it. If it is newer than its version, the version has
 * changed and no later request has this tag.
 *
 * A page is kept the second time that it is built: most are asked for once, and keeping them would take a seventh of
 * the processor time of a page.
 */
export function createPageCache(): SendPage {
  const pages = new LRUCache<string, Buffer>({
    maxSize: maxCacheBytes,
    maxEntrySize: maxPageBytes,
    // Plus the entry's own overhead, which matters for small pages.
    sizeCalculation: page => page.length + 500,
  });
  const askedOnce = new LRUCache<string, true>({ max: maxAskedOnce });

  return async (request, reply, build) => {
    const { contentVersion } = request.caller;
    reply.type('application/json; charset=utf-8');
    if (contentVersion === null) return build();
    const tag = entityTag(contentVersion, baseUrl(request) + request.url);
    // Nobody can guess a tag: a client that has it was sent this page, so its request is valid.
    const isKnown = hasTag(request.headers['if-none-match'], tag);
    let page = isKnown ? undefined : pages.get(tag);
    if (!isKnown && page === undefined) {
      page = await build();
      if (askedOnce.has(tag)) pages.set(tag, page);
      else askedOnce.set(tag, true);
    }
    reply.headers({ etag: tag, 'cache-control': 'private, no-cache' });
    if (isKnown) reply.code(304);
    return page;
  };
}

/**
 * The content version is the organisation's own, so no other organisation has the same tags. Another release may show
 * the same content in another way.
 */
function entityTag(contentVersion: string, url: string): string {
  return `"${createHash('sha256').update(`${version} ${contentVersion} ${url}`).digest('base64url')}"`;
}

/** @param header `If-None-Match`: tags, which proxies may have marked as weak */
function hasTag(header: string | undefined, tag: string): boolean {
  return header?.split(',').some(sentTag => sentTag.trim().replace(/^W\//, '') === tag) ?? false;
}
