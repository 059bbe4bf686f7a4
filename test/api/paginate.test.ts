import fc from 'fast-check';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { type PagedList, type PageQuery, paginate } from '../../src/api/pagination.ts';
import { formatId } from '../../src/ids.ts';

interface Row {
  rank: number;
  id: string;
}

const uuidOf = (name: string) => `01996b8e-3c00-7000-8000-${name.padStart(12, '0')}`;
const idOf = (name: string) => formatId('pr', uuidOf(name));

/** Rows by rank, then by id; a position is a row, or 'start'. */
function listOf(rows: readonly Row[]): PagedList<Row, Row | 'start'> {
  const compare = (one: Row, two: Row) => one.rank - two.rank || (one.id < two.id ? -1 : Number(one.id > two.id));
  const sorted = rows.toSorted(compare);
  return {
    path: '/rows',
    prefix: 'pr',
    sortedBy: 'rank',
    valueOf: ({ rank }) => rank,
    place: (rank, id) => ({ rank, id }),
    locate: (rank, id) => (typeof rank === 'number' ? { rank, id } : undefined),
    start: 'start',
    read: async (direction, from, max) => {
      const after = sorted.filter(row => from === 'start' || compare(row, from) * (direction === 'next' ? 1 : -1) > 0);
      return (direction === 'next' ? after : after.toReversed()).slice(0, max.rows);
    },
    format: ({ id }) => JSON.stringify({ name: id.replace(/^.*-0*(?=.)/, '') }),
  };
}

interface Page {
  data: { name: string }[];
  meta: { path: string; per_page: number; next_cursor: string | null; prev_cursor: string | null };
  links: { first: null; last: null; prev: string | null; next: string | null };
}

/** Gets a page by its URL, as the route does. */
const serve = (rows: readonly Row[]) => async (url: string) => {
  const { searchParams } = new URL(url, 'https://scores.example');
  const [size, cursor] = [searchParams.get('per_page'), searchParams.get('cursor')];
  const query = { ...(size !== null && { per_page: Number(size) }), ...(cursor !== null && { cursor }) };
  const server = { prefix: '', deps: { config: { publicUrl: 'https://scores.example' } } };
  const request = { query, server } as unknown as FastifyRequest<{ Querystring: PageQuery }>;
  return JSON.parse((await paginate(request, listOf(rows))).toString()) as Page;
};

const rowsTo = (count: number): Row[] =>
  Array.from({ length: count }, (_, index) => ({ rank: index, id: uuidOf(`${index}`) }));
const namesOf = ({ data }: Page) => data.map(({ name }) => name);
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (cursor: string | null) => JSON.parse(Buffer.from(cursor ?? '', 'base64url').toString());

test('a page has 15 rows by default, and a link to the next page', async () => {
  const get = serve(rowsTo(20));
  const page = await get('/rows');
  expect(namesOf(page)).toEqual(Array.from({ length: 15 }, (_, index) => `${index}`));
  const cursor = encode({ rank: 14, id: idOf('14'), _pointsToNextItems: true });
  const url = 'https://scores.example/rows';
  expect(page.meta).toEqual({ path: url, per_page: 15, next_cursor: cursor, prev_cursor: null });
  expect(page.links).toEqual({ first: null, last: null, prev: null, next: `${url}?cursor=${cursor}` });
});

test('a page between others links both ways and keeps the page size', async () => {
  const get = serve(rowsTo(9));
  const first = await get('/rows?per_page=3');
  const page = await get(first.links.next ?? '');
  expect(namesOf(page)).toEqual(['3', '4', '5']);
  expect(decode(page.meta.prev_cursor)).toEqual({ rank: 3, id: idOf('3'), _pointsToNextItems: false });
  expect(decode(page.meta.next_cursor)).toEqual({ rank: 5, id: idOf('5'), _pointsToNextItems: true });
  expect(page.links.prev).toBe(`https://scores.example/rows?per_page=3&cursor=${page.meta.prev_cursor}`);
  const back = await get(page.links.prev ?? '');
  expect(namesOf(back)).toEqual(['0', '1', '2']);
  expect([back.links.prev, decode(back.meta.next_cursor).rank]).toEqual([null, 2]);
});

test('a page may have another size than the page that its cursor is from', async () => {
  const get = serve(rowsTo(9));
  const { meta } = await get('/rows?per_page=3');
  expect(namesOf(await get(`/rows?per_page=100&cursor=${meta.next_cursor}`))).toEqual(['3', '4', '5', '6', '7', '8']);
});

test('a page without rows has no links', async () => {
  const pastTheEnd = encode({ rank: 9, id: idOf('9'), _pointsToNextItems: true });
  const beforeTheStart = encode({ rank: -1, id: idOf('0'), _pointsToNextItems: false });
  for (const page of [
    await serve([])('/rows'),
    await serve(rowsTo(2))(`/rows?cursor=${pastTheEnd}`),
    await serve(rowsTo(2))(`/rows?cursor=${beforeTheStart}`),
  ]) {
    expect([page.data, page.links.prev, page.links.next]).toEqual([[], null, null]);
  }
});

test('the pages together have each row once and in order, forwards and backwards', async () => {
  const rows = fc.uniqueArray(fc.record({ rank: fc.nat(3), id: fc.constantFrom(...'12345678').map(uuidOf) }), {
    selector: ({ rank, id }) => `${rank}${id}`,
    minLength: 1,
    maxLength: 12,
  });
  await fc.assert(
    fc.asyncProperty(rows, fc.integer({ min: 1, max: 13 }), async (given, size) => {
      const get = serve(given);
      const all = namesOf(await get('/rows?per_page=100'));
      expect(all).toHaveLength(given.length);
      const pages: Page[] = [];
      for (let url: string | null = `/rows?per_page=${size}`; url !== null; url = pages.at(-1)?.links.next ?? null) {
        pages.push(await get(url));
      }
      expect(pages.flatMap(namesOf)).toEqual(all);
      expect(pages).toHaveLength(Math.ceil(given.length / size));
      const last = pages.at(-1);
      const back = last === undefined ? [] : [last];
      for (let url = last?.links.prev ?? null; url !== null; url = back[0]?.links.prev ?? null) {
        back.unshift(await get(url));
      }
      expect(back.flatMap(namesOf)).toEqual(all);
      expect(back.map(namesOf)).toEqual(pages.map(namesOf));
    }),
  );
});

const place = { rank: 1, id: idOf('1'), _pointsToNextItems: true };
const good = encode(place);

test('a cursor of a place without a row still works', async () => {
  const get = serve(rowsTo(4));
  const page = await get(`/rows?cursor=${encode({ ...place, id: idOf('15') })}`);
  expect(namesOf(page)).toEqual(['2', '3']);
});

test.each([
  ['empty', ''],
  ['not base64url', '%2B%2B%2B'],
  ['padded', `${good}%3D`],
  ['with stray bits', `${good.slice(0, -1)}${good.endsWith('1') ? '2' : '1'}`],
  ['not JSON', Buffer.from('{').toString('base64url')],
  ['not UTF-8', Buffer.from('{"rank":1,"id":"\xff","_pointsToNextItems":true}', 'latin1').toString('base64url')],
  ['with a byte order mark', Buffer.from(`\uFEFF${JSON.stringify(place)}`).toString('base64url')],
  ['null', encode(null)],
  ['a list', encode([1, idOf('1'), true])],
  ['without a column', encode({ id: idOf('1'), _pointsToNextItems: true })],
  ['without an id', encode({ rank: 1, _pointsToNextItems: true })],
  ['without its direction', encode({ rank: 1, id: idOf('1') })],
  ['with a direction of another type', encode({ ...place, _pointsToNextItems: 1 })],
  ['with a column of another type', encode({ ...place, rank: 'one' })],
  ['with an extra key', encode({ ...place, more: 1 })],
  ['of an id that is not valid', encode({ ...place, id: 'nobody' })],
  ['of an id of another type', encode({ ...place, id: [idOf('1')] })],
  ['of an id of another kind', encode({ ...place, id: formatId('mem', uuidOf('1')) })],
])('a cursor that is not valid is refused: %s', async (_, cursor) => {
  await expect(serve(rowsTo(3))(`/rows?cursor=${cursor}`)).rejects.toMatchObject({
    code: 'bad_request',
    text: 'The cursor does not belong to this list. Leave it out to start from the first page.',
  });
});
