import { hash } from 'node:crypto';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { LRUCache } from 'lru-cache';
import { type Change as ChangeRow, readChanges } from '../../database/change-feed.ts';
import type { Database } from '../../database/client.ts';
import { cursorExpired } from '../../errors.ts';
import { formatId, parseId } from '../../ids.ts';
import { errorResponses } from '../error-handlers.ts';
import { notModified, sendTagged } from '../page-cache.ts';
import {
  decodeCursor,
  formatCursor,
  invalidCursor,
  itemsOf,
  maxPageBytes,
  PageQuery,
  pageOf,
  writePage,
} from '../pagination.ts';
import { closedObject } from '../validation.ts';
import { versionUrl } from '../version.ts';
import { representPullRequest } from './pull-request.ts';

export const Change = Type.Union(
  [
    closedObject(
      { type: Type.Literal('pull_request'), pull_request: Type.Ref('PullRequest') },
      { description: 'A new or changed pull request, in its present state' },
    ),
    closedObject(
      {
        type: Type.Literal('deletion'),
        id: Type.String({ description: 'Identifier of the pull request that is gone' }),
      },
      { description: 'A pull request that was deleted' },
    ),
  ],
  { $id: 'Change', description: 'A change of a pull request' },
);

const Query = Type.Object({
  cursor: Type.Optional(
    Type.String({ description: 'The `next_cursor` of the last page that you read; omit it to begin with everything' }),
  ),
  per_page: PageQuery.properties.per_page,
});

/** Where a reader stands: see `FeedPosition`. */
const cursorCheck = TypeCompiler.Compile(
  closedObject({
    // `xid8` has 64 bits.
    transaction: Type.String({ pattern: '^(0|[1-9]\\d{0,18})$' }),
    from: Type.String(),
    recorded_at: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    id: Type.String(),
    listed: Type.Optional(Type.String()),
    database: Type.String({ pattern: '^[0-9a-f]{32}$' }),
    /** Whose list it is. */
    list: Type.String(),
    _pointsToNextItems: Type.Literal(true),
  }),
);

/*
 * A new client lists all pull requests first, page after page. So the next page is built while it reads this one: twice as
 * many rows a second. The key has the content version, which is read with the token, so the page is never older than its
 * request: see `createPageCache`. After the listing, pages are built when they are asked for: what has been committed may
 * become readable later, without another version.
 */

/** Each has up to a megabyte. */
const maxPagesAhead = 16;

/** Longer than a client reads a page. */
const maxAgeAheadMs = 5_000;

export const changeRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;
  const pagesAhead = new LRUCache<string, Promise<Page | undefined>>({ max: maxPagesAhead, ttl: maxAgeAheadMs });

  app.get(
    '/changes',
    {
      schema: {
        operationId: 'changes.index',
        summary: 'Follow changes',
        description:
          'For a copy that stays up to date. Without a cursor it begins with all pull requests; then come those that have ' +
          'changed since, oldest change first, each once and in its present state, and those that were deleted. There is ' +
          'always a `next_cursor`: keep it. An empty page means that you know everything; ask again later with the same ' +
          'cursor. A cursor is valid for at least 30 days. After that, or if the service has moved to another database or ' +
          'a backup was restored, the reply is 410: start again without a cursor, and drop what does not come again.',
        tags: ['Changes'],
        querystring: Query,
        response: { 200: pageOf('Change'), ...notModified, ...errorResponses('bad_request', 'cursor_expired') },
      },
    },
    async (request, reply) => {
      const { organisationId, contentVersion } = request.caller;
      const { cursor, per_page: perPage } = request.query;
      const source = { database, organisationId, base: versionUrl(request), perPage };
      const keyOf = (of: string | undefined) => JSON.stringify([contentVersion, source.base, perPage, of]);
      const page = (await pagesAhead.get(keyOf(cursor))) ?? (await buildPage(source, cursor));
      if (page.isListing && contentVersion !== null) {
        const next = buildPage(source, page.next).then(ahead => (ahead.isListing ? ahead : undefined));
        pagesAhead.set(
          keyOf(page.next),
          next.catch(() => undefined),
        );
      }
      return sendTagged(request, reply, page.bytes);
    },
  );
};

interface Page {
  bytes: Buffer;
  /** The cursor after it. */
  next: string;
  /** It is one of all pull requests, before what has changed since. */
  isListing: boolean;
}

/** Of whose changes a page is built, and how. `perPage` is undefined if the client does not say it. */
interface Source {
  database: Database;
  organisationId: string;
  base: string;
  perPage: number | undefined;
}

/** @throws ServiceError `bad_request`, `cursor_expired` */
async function buildPage(
  { database, organisationId, base, perPage }: Source,
  cursor: string | undefined,
): Promise<Page> {
  const list = hash('sha256', `changes ${organisationId}`, 'base64url').slice(0, 12);
  const known = cursor === undefined ? undefined : locate(cursor, list);
  const found = await readChanges(database, organisationId, known, { rows: perPage ?? 15, bytes: maxPageBytes });
  if (found === undefined) {
    throw cursorExpired(
      'Changes after this cursor may be missing here.',
      'Start again without a cursor, and drop what does not come again.',
      { parameter: 'cursor' },
    );
  }
  const { transaction, fromId, recordedAt, id, listedId } = found.position;
  const place = {
    transaction,
    from: formatId('pr', fromId),
    recorded_at: recordedAt,
    id: formatId('pr', id),
    ...(listedId !== undefined && { listed: formatId('pr', listedId) }),
    database: found.database,
    list,
  };
  const next = formatCursor(place, 'next');
  const kept = perPage === undefined ? {} : { per_page: perPage };
  const items = itemsOf(found.changes, change => represent(change, base));
  const bytes = writePage(`${base}/changes`, kept, items, { next, previous: null });
  return { bytes, next, isListing: listedId !== undefined };
}

/** @throws ServiceError `bad_request` */
function locate(text: string, wantedList: string) {
  const cursor: unknown = decodeCursor(text);
  if (!cursorCheck.Check(cursor) || cursor.list !== wantedList) throw invalidCursor();
  const { database, transaction, recorded_at: recordedAt, listed } = cursor;
  const [fromId, id] = [parseId('pr', cursor.from), parseId('pr', cursor.id)];
  const listedId = listed === undefined ? undefined : parseId('pr', listed);
  if (fromId === undefined || id === undefined || (listed !== undefined && listedId === undefined))
    throw invalidCursor();
  return { database, position: { transaction, fromId, recordedAt, id, ...(listedId && { listedId }) } };
}

const represent = ({ id, row }: ChangeRow, base: string): string =>
  row === undefined
    ? `{"type":"deletion","id":"${formatId('pr', id)}"}`
    : `{"type":"pull_request","pull_request":${representPullRequest(row, base)}}`;
