import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PageSize } from '../database/pull-request-pages.ts';
import type { ByteString } from '../database/statement.ts';
import { badRequest } from '../errors.ts';
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
  return Readable.from(text(), { objectMode: false });
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
export interface PagedList<Row, Columns extends TObject, Position> {
  /** The list's path within its version. */
  readonly path: string;
  /** All that a cursor holds besides its direction. */
  readonly columns: Columns;
  /** Undefined if the cursor is not one of this list. */
  locate(columns: Static<Columns>, direction: 'next' | 'previous'): Position | undefined;
  /** The row's position, as its cursor holds it. */
  cursorValues(row: Row): { [Name in keyof Static<Columns>]: Static<Columns>[Name] | ByteString };
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

export async function paginate<Row, Columns extends TObject, Position>(
  request: FastifyRequest<{ Querystring: PageQuery }>,
  list: PagedList<Row, Columns, Position>,
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

  const first = page[0];
  const last = page.at(-1);
  const next = last !== undefined && (backwards || more) ? formatCursor(list.cursorValues(last), 'next') : null;
  const previous =
    first !== undefined && cursor !== undefined && (!backwards || more)
      ? formatCursor(list.cursorValues(first), 'previous')
      : null;

  const path = versionUrl(request) + list.path;
  const parameters = Object.entries(kept).map(([name, value]): [string, string] => [name, String(value)]);
  const link = (target: string | null) =>
    target === null ? null : `${path}?${new URLSearchParams([...parameters, ['cursor', target]])}`;
  const meta = { path, per_page: perPage, next_cursor: next, prev_cursor: previous };
  const links = { first: null, last: null, prev: link(previous), next: link(next) };
  const items = itemsOf(page, list.format);
  return bytesOf(`{"data":[${items}],"meta":${JSON.stringify(meta)},"links":${JSON.stringify(links)}}`);
}

/** @param place its texts may be byte strings */
export function formatCursor(place: object, direction: 'next' | 'previous'): string {
  return bytesOf(JSON.stringify({ ...place, _pointsToNextItems: direction === 'next' })).toString('base64url');
}

const compileCursorCheck = <Columns extends TObject>({ properties }: Columns) =>
  TypeCompiler.Compile(closedObject({ ...properties, _pointsToNextItems: Type.Boolean() }));
const cursorChecks = new WeakMap<TObject, ReturnType<typeof compileCursorCheck>>();

/** Compiled once for each schema. */
function cursorCheckOf(columns: TObject) {
  const check = cursorChecks.get(columns) ?? compileCursorCheck(columns);
  cursorChecks.set(columns, check);
  return check;
}

/** @throws ServiceError `bad_request` */
export function parseCursor<Columns extends TObject, Position>(
  text: string,
  { columns, locate }: Pick<PagedList<never, Columns, Position>, 'columns' | 'locate'>,
): { position: Position; direction: 'next' | 'previous' } {
  const refused = () =>
    badRequest('The cursor does not belong to this list.', 'Leave it out to start from the first page.', {
      parameter: 'cursor',
    });
  const bytes = Buffer.from(text, 'base64url');
  // The decoder ignores characters outside base64url, and stray bits at the end.
  if (text === '' || bytes.toString('base64url') !== text) throw refused();
  let cursor: unknown;
  try {
    cursor = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw refused();
  }
  if (!cursorCheckOf(columns).Check(cursor)) throw refused();
  const { _pointsToNextItems: forwards, ...place } = cursor;
  const direction = forwards ? 'next' : 'previous';
  const position = locate(place as Static<Columns>, direction);
  if (position === undefined) throw refused();
  return { position, direction };
}
