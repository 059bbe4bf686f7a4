import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PageSize } from '../database/pull-request-pages.ts';
import type { ByteString } from '../database/statement.ts';
import { badRequest } from '../errors.ts';
import { formatId, type IdPrefix, parseId } from '../ids.ts';
import { maxUnixSeconds } from '../text/times.ts';
import { closedObject, namedObject } from './validation.ts';
import { versionUrl } from './version.ts';

export const PageQuery = Type.Object({
  cursor: Type.Optional(
    Type.String({
      description: "A `next_cursor` or `prev_cursor` from this list's `meta`; omit it for the first page",
    }),
  ),
  per_page: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      default: 15,
      description:
        'Number of items on a page. A page of long texts ends below a megabyte and may hold fewer: only ' +
        '`next_cursor` and `prev_cursor` say whether the list goes on',
    }),
  ),
});
export type PageQuery = Static<typeof PageQuery>;

const NullableString = Type.Union([Type.String(), Type.Null()]);
const NullableUri = Type.Union([Type.String({ format: 'uri' }), Type.Null()]);

const PageMeta = namedObject('PageMeta', {
  path: { ...NullableString, description: 'Base path for paginator-generated URLs' },
  per_page: Type.Integer({ description: 'Number of items on a page' }),
  next_cursor: { ...NullableString, description: 'Cursor pointing to the next set of items' },
  prev_cursor: { ...NullableString, description: 'Cursor pointing to the previous set of items' },
});

const PageLinks = namedObject('PageLinks', {
  first: NullableString,
  last: NullableString,
  prev: NullableUri,
  next: NullableUri,
});

export const pageSchemas = [PageMeta, PageLinks];

/** Of descriptions, breakdowns and reviews. With all else, a page stays below a megabyte. */
export const maxPageBytes = 900_000;

/** A reply whose only property is `data`. */
export const dataOf = <Data extends TSchema>(data: Data, description: string) =>
  closedObject({ data }, { description });

/** A reply with this schema, which the handler returns as the bytes of its JSON. */
export const jsonBytes = (schema: TSchema) => Type.Unsafe<Buffer>(schema);

/** The bytes of JSON whose texts are byte strings. */
export const bytesOf = (json: string): Buffer => Buffer.from(json, 'latin1');

/**
 * A whole list, sent piece by piece: a long one holds up no other request.
 *
 * @param pieces items as JSON, several joined by commas; empty pieces are left out
 * @param meta sent after the list
 */
export function sendList(
  reply: FastifyReply,
  pieces: Iterable<string | Buffer> | AsyncIterable<string | Buffer>,
  others: object = {},
): Readable {
  reply.type('application/json; charset=utf-8');
  const text = async function* () {
    yield '{"data":[';
    let isFirst = true;
    for await (const piece of pieces) {
      if (piece.length === 0) continue;
      if (!isFirst) yield ',';
      isFirst = false;
      yield piece;
      // A fast client would take all pieces in one round of the event loop.
      await setImmediate();
    }
    yield `]${Object.entries(others)
      .map(([name, value]) => `,"${name}":${JSON.stringify(value)}`)
      .join('')}}`;
  };
  // For HEAD, Fastify would read all of it and send none: with no reader to wait for, nothing would bound that.
  return Readable.from(reply.request.method === 'HEAD' ? [] : text(), { objectMode: false });
}

/** @param item the name of the schema of its items */
export const pageOf = (item: string) =>
  jsonBytes(
    closedObject(
      { data: Type.Array(Type.Ref(item)), meta: Type.Ref(PageMeta), links: Type.Ref(PageLinks) },
      { description: 'A page of the list' },
    ),
  );

/**
 * A list in a total order, read forwards or backwards from a position. Page 50,000 costs as much as page 1. The cursor
 * is the position as Laravel's `cursorPaginate` writes it: base64url of JSON with the order's columns and
 * `_pointsToNextItems`.
 */
export interface PagedList<Row extends { id: string }, Position> {
  /** The list's path within its version. */
  readonly path: string;
  /** Of its rows' ids. */
  readonly prefix: IdPrefix;
  /** The column by which it is sorted; rows with equal values are sorted by id. */
  readonly sortedBy: string;
  valueOf(row: Row): number | ByteString;
  /** All that a cursor holds besides its direction. With what the list is restricted to, it is valid for this list only. */
  place(value: unknown, id: string): object;
  /** @param value as a cursor holds it. @returns undefined if the column can't have it */
  locate(value: unknown, id: string): Position | undefined;
  /** Before all rows. */
  readonly start: Position;
  /**
   * Rows after the position, or before it with the nearest first. If there are fewer than fit although the list goes on, the
   * last one is not for this page.
   */
  read(direction: 'next' | 'previous', from: Position, size: PageSize): Promise<Row[]>;
  /** False for a row that only shows that the list goes on. */
  isForPage?(row: Row): boolean;
  /** The item as JSON, its texts as byte strings. */
  format(row: Row): string;
}

/** The items of a list as JSON. Joining an array of them would copy all of it once more. */
export function itemsOf<Row>(rows: readonly Row[], format: (row: Row) => string): string {
  let items = '';
  for (const row of rows) items += items === '' ? format(row) : `,${format(row)}`;
  return items;
}

export async function paginate<Row extends { id: string }, Position>(
  request: FastifyRequest<{ Querystring: PageQuery }>,
  list: PagedList<Row, Position>,
): Promise<Buffer> {
  const { cursor: text, ...kept } = request.query;
  const { per_page: perPage = 15 } = kept;
  const cursor = text === undefined ? undefined : parseCursor(text, list);
  const backwards = cursor?.direction === 'previous';

  // One extra row shows whether there is another page.
  const size = { rows: perPage + 1, bytes: maxPageBytes };
  const rows = await list.read(cursor?.direction ?? 'next', cursor?.position ?? list.start, size);
  const page = rows.slice(0, perPage).filter(row => list.isForPage?.(row) ?? true);
  const more = page.length < rows.length;
  if (backwards) page.reverse();

  const cursorOf = (row: Row | undefined, direction: 'next' | 'previous') =>
    row === undefined ? null : formatCursor(list.place(list.valueOf(row), formatId(list.prefix, row.id)), direction);
  const next = backwards || more ? cursorOf(page.at(-1), 'next') : null;
  const previous = cursor !== undefined && (!backwards || more) ? cursorOf(page[0], 'previous') : null;

  return writePage(versionUrl(request) + list.path, kept, itemsOf(page, list.format), { next, previous });
}

/**
 * @param kept parameters of the query, which links repeat
 * @param items as JSON, their texts as byte strings
 */
export function writePage(
  path: string,
  kept: { per_page?: number },
  items: string,
  { next, previous }: { next: string | null; previous: string | null },
): Buffer {
  const { per_page: perPage = 15 } = kept;
  const parameters = Object.entries(kept).map(([name, value]): [string, string] => [name, String(value)]);
  const link = (cursor: string | null) =>
    cursor && `${path}?${new URLSearchParams([...parameters, ['cursor', cursor]])}`;
  const meta = { path, per_page: perPage, next_cursor: next, prev_cursor: previous };
  const links = { first: null, last: null, prev: link(previous), next: link(next) };
  return bytesOf(`{"data":[${items}],"meta":${JSON.stringify(meta)},"links":${JSON.stringify(links)}}`);
}

/** @param place its texts may be byte strings */
export function formatCursor(place: object, direction: 'next' | 'previous'): string {
  return bytesOf(JSON.stringify({ ...place, _pointsToNextItems: direction === 'next' })).toString('base64url');
}

export const invalidCursor = () =>
  badRequest('The cursor does not belong to this list.', 'Leave it out to start from the first page.', {
    parameter: 'cursor',
  });

/** What a cursor holds. @throws ServiceError `bad_request` */
export function decodeCursor(text: string): Record<string, unknown> {
  const bytes = Buffer.from(text, 'base64url');
  // The decoder ignores characters outside base64url, and stray bits at the end.
  if (text === '' || bytes.toString('base64url') !== text) throw invalidCursor();
  let cursor: unknown;
  try {
    cursor = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw invalidCursor();
  }
  if (typeof cursor !== 'object' || cursor === null) throw invalidCursor();
  return cursor as Record<string, unknown>;
}

/** @throws ServiceError `bad_request` */
function parseCursor<Position>(
  text: string,
  list: Pick<PagedList<never, Position>, 'prefix' | 'sortedBy' | 'place' | 'locate'>,
): { position: Position; direction: 'next' | 'previous' } {
  const { _pointsToNextItems: forwards, ...place } = decodeCursor(text);
  const { [list.sortedBy]: value, id: publicId } = place;
  if (typeof forwards !== 'boolean' || typeof publicId !== 'string') throw invalidCursor();
  if (!isDeepStrictEqual(place, list.place(value, publicId))) throw invalidCursor();
  const id = parseId(list.prefix, publicId);
  const position = id === undefined ? undefined : list.locate(value, id);
  if (position === undefined) throw invalidCursor();
  return { position, direction: forwards ? 'next' : 'previous' };
}

/** Whether it is a Unix time, until the end of the year 9999. @param unitsPerSecond 1e6 for microseconds */
export const isUnixTime = (value: unknown, unitsPerSecond = 1): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maxUnixSeconds * unitsPerSecond;
