import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { saveMembers } from '../../src/database/members.ts';
import { addUser } from '../../src/database/users.ts';
import { formatId, newId } from '../../src/ids.ts';
import type { PageBody, PullRequestBody } from '../support/client.ts';
import { insertPullRequests, type Tenant } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const { service, client, newTenant } = await startWorld();

type Page = PageBody<PullRequestBody>;
type Direction = 'next' | 'prev';
const listUrl = '/2025-04/pull-requests';

async function getPage(tenant: Tenant, url: string): Promise<Page> {
  const { status, body } = await client.get<Page>(url, tenant.token);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
}

/** Follows the links in one direction to the end. @param between runs after each page */
async function follow(tenant: Tenant, url: string, direction: Direction, between = async (): Promise<void> => {}) {
  const pages: Page[] = [];
  for (let next: string | null = url; next !== null; next = pages.at(-1)?.links[direction] ?? null) {
    pages.push(await getPage(tenant, next));
    await between();
    expect(pages.length, 'paging ends').toBeLessThan(2_000);
  }
  return pages;
}

const idsOf = (pages: readonly Page[]) => pages.flatMap(page => page.data.map(({ id }) => id));
const decode = (cursor: string | null | undefined) => JSON.parse(Buffer.from(cursor ?? '', 'base64url').toString());
const encode = (cursor: unknown) => Buffer.from(JSON.stringify(cursor)).toString('base64url');
const chunk = <Item>(items: readonly Item[], size: number) =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, page) => items.slice(page * size, (page + 1) * size));

/** Ids in the expected order: latest first, ties by id. */
const listed = (rows: readonly { uuid: string; createdAt: number }[]) =>
  rows
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.uuid < b.uuid ? 1 : -1))
    .map(({ uuid }) => formatId('pr', uuid));

async function insert(tenant: Tenant, createdAt: readonly number[]) {
  const uuids = await insertPullRequests(service, tenant, createdAt);
  return uuids.map((uuid, index) => ({ uuid, createdAt: createdAt[index] ?? 0 }));
}

test('a page has 15 items by default, absolute links, and cursors in the format of Laravel', async () => {
  const tenant = await newTenant();
  const rows = await insert(
    tenant,
    Array.from({ length: 31 }, (_, index) => 1_700_000_000 + index),
  );
  const all = listed(rows);
  const first = await getPage(tenant, listUrl);
  expect(first.data.map(({ id }) => id)).toEqual(all.slice(0, 15));
  expect(first.meta).toEqual({
    path: 'http://localhost:80/2025-04/pull-requests',
    per_page: 15,
    next_cursor: expect.any(String),
    prev_cursor: null,
  });
  expect(decode(first.meta.next_cursor)).toEqual({
    created_at: first.data.at(-1)?.created_at,
    id: all[14],
    _pointsToNextItems: true,
  });
  expect(first.meta.next_cursor).toMatch(/^[\w-]+$/);
  expect(first.links).toEqual({
    first: null,
    last: null,
    prev: null,
    next: `http://localhost:80/2025-04/pull-requests?cursor=${first.meta.next_cursor}`,
  });

  const second = await getPage(tenant, first.links.next ?? '');
  expect(second.data.map(({ id }) => id)).toEqual(all.slice(15, 30));
  expect(decode(second.meta.prev_cursor)).toEqual({
    created_at: second.data[0]?.created_at,
    id: all[15],
    _pointsToNextItems: false,
  });
  const last = await getPage(tenant, second.links.next ?? '');
  expect(last.data.map(({ id }) => id)).toEqual(all.slice(30));
  expect([last.meta.next_cursor, last.links.next]).toEqual([null, null]);
  const back = await getPage(tenant, second.links.prev ?? '');
  expect(back).toEqual({ ...first, meta: back.meta, links: back.links });
  expect([back.meta.prev_cursor, back.links.prev]).toEqual([null, null]);
  expect(decode(back.meta.next_cursor)).toEqual(decode(first.meta.next_cursor));
});

test('a page that holds the last item has no next page', async () => {
  const tenant = await newTenant();
  await insert(
    tenant,
    Array.from({ length: 15 }, () => 1_700_000_000),
  );
  expect((await getPage(tenant, listUrl)).links.next).toBeNull();
  expect((await getPage(tenant, `${listUrl}?per_page=14`)).links.next).not.toBeNull();
});

test('a page of a given size links to pages of that size, without unknown parameters', async () => {
  const tenant = await newTenant();
  await insert(
    tenant,
    Array.from({ length: 5 }, () => 1_700_000_000),
  );
  const page = await getPage(tenant, `${listUrl}?page=9&per_page=2&per_page%5B%5D=7&__proto__=1&x`);
  expect(page.meta.per_page).toBe(2);
  expect(page.links.next).toBe(`http://localhost:80/2025-04/pull-requests?per_page=2&cursor=${page.meta.next_cursor}`);
  expect(new URL((await getPage(tenant, page.links.next ?? '')).links.prev ?? '').search).toMatch(/^\?per_page=2&cur/);
});

test('a page may have another size than the page that its cursor is from', async () => {
  const tenant = await newTenant();
  const all = listed(
    await insert(
      tenant,
      Array.from({ length: 9 }, (_, index) => 1_700_000_000 + (index % 2)),
    ),
  );
  const { meta } = await getPage(tenant, `${listUrl}?per_page=3`);
  const page = await getPage(tenant, `${listUrl}?cursor=${meta.next_cursor}&per_page=100`);
  expect(page.data.map(({ id }) => id)).toEqual(all.slice(3));
});

test('a page continues after the place of an item that is gone', async () => {
  const tenant = await newTenant();
  const rows = await insert(
    tenant,
    Array.from({ length: 6 }, () => 1_700_000_000),
  );
  const all = listed(rows);
  const { links } = await getPage(tenant, `${listUrl}?per_page=2`);
  await client.delete(`${listUrl}/${all[1]}`, tenant.token);
  const next = await getPage(tenant, links.next ?? '');
  expect(next.data.map(({ id }) => id)).toEqual(all.slice(2, 4));
  const atTheEnd = encode({ created_at: 0, id: formatId('pr', newId()), _pointsToNextItems: true });
  expect(await getPage(tenant, `${listUrl}?cursor=${atTheEnd}`)).toMatchObject({
    data: [],
    meta: { next_cursor: null, prev_cursor: null },
  });
});

test('paging through 1,000 pull requests from one second shows each once, forwards and backwards', async () => {
  const tenant = await newTenant();
  const all = listed(
    await insert(
      tenant,
      Array.from({ length: 1_000 }, () => 1_700_000_000),
    ),
  );
  for (const perPage of [100, 7]) {
    const pages = await follow(tenant, `${listUrl}?per_page=${perPage}`, 'next');
    expect(pages.map(page => page.data.map(({ id }) => id))).toEqual(chunk(all, perPage));
  }
  const last = (await follow(tenant, `${listUrl}?per_page=100`, 'next')).at(-1);
  const back = await follow(tenant, last?.links.prev ?? '', 'prev');
  expect(idsOf(back.toReversed())).toEqual(all.slice(0, 900));
});

const seconds = fc.array(fc.integer({ min: 1_700_000_000, max: 1_700_000_003 }), { maxLength: 40 });
const size = fc.integer({ min: 1, max: 12 });

test('paging through rows of very different sizes shows each once, in pages below 1 MB or of one row', async () => {
  const tenant = await newTenant();
  const rows = await insert(
    tenant,
    Array.from({ length: 60 }, (_, index) => 1_700_000_000 + (index >> 1)),
  );
  // Most are short; every fifth has 200 KB, some of it in the breakdown, which compresses well; one has 3 MB.
  await service.database.executor.execute(sql`
      update pull_requests set body = repeat('é', case when number % 5 = 0 then 50000 else number * 7 end),
        score_breakdown = json_build_array(json_build_object('name', repeat('n', case
          when number = 30 then 3000000 when number % 5 = 0 then 100000 else number * 70 end),
          'action', 'ADD', 'effect', 1, 'expression', 'true'))
      where organisation_id = ${tenant.organisation.id}`);
  const all = listed(rows);
  const { body } = await client.get<Page>(`${listUrl}?per_page=1`, tenant.token);
  const ofMember = `${new URL(body.data[0]?.links.member ?? '').pathname}/pull-requests`;
  for (const url of [listUrl, ofMember]) {
    for (const perPage of [100, 30, 7, 1]) {
      const pages = await follow(tenant, `${url}?per_page=${perPage}`, 'next');
      const end = pages.at(-1);
      const backwards = end?.links.prev ? await follow(tenant, end.links.prev, 'prev') : [];
      expect(idsOf(pages)).toEqual(all);
      expect(idsOf([...(end ? [end] : []), ...backwards].toReversed())).toEqual(all);
      for (const page of [...pages, ...backwards]) {
        expect(page.data.length).toBeGreaterThan(0);
        expect(page.meta.per_page).toBe(perPage);
        const isShort = Buffer.byteLength(JSON.stringify(page)) < 1_000_000;
        expect(isShort || page.data.length === 1, `${page.data.length} on a page`).toBe(true);
      }
      const large = pages.find(page => page.data[0]?.number === 30 || page.data.length === 1);
      expect(large?.data[0]?.score_breakdown[0]?.name).toMatch(/^n+$/);
    }
  }
});

test('paging shows what a sorted array shows, forwards and backwards', async () => {
  await fc.assert(
    fc.asyncProperty(seconds, size, async (createdAt, perPage) => {
      const tenant = await newTenant();
      const all = listed(await insert(tenant, createdAt));
      const forwards = await follow(tenant, `${listUrl}?per_page=${perPage}`, 'next');
      expect(forwards.map(page => page.data.map(({ id }) => id))).toEqual(all.length ? chunk(all, perPage) : [[]]);
      const start = forwards.at(-1);
      const back = await follow(tenant, start?.links.prev ?? `${listUrl}?per_page=${perPage}`, 'prev');
      const before = all.slice(0, Math.floor((all.length - 1) / perPage) * perPage);
      if (start?.links.prev) {
        expect(back.map(page => page.data.map(({ id }) => id))).toEqual(chunk(before, perPage).toReversed());
        for (const page of back) expect(page.links.next).not.toBeNull();
      }
    }),
    { numRuns: 25 },
  );
});

test('paging shows each item that exists throughout exactly once, while others come and go', async () => {
  const changes = fc.array(
    fc.record({
      add: fc.array(fc.integer({ min: 1_699_999_999, max: 1_700_000_004 }), { maxLength: 4 }),
      remove: fc.nat(),
    }),
    { minLength: 5, maxLength: 10 },
  );
  await fc.assert(
    fc.asyncProperty(
      seconds,
      size,
      changes,
      fc.constantFrom('next' as const, 'prev' as const),
      async (createdAt, perPage, script, direction) => {
        const tenant = await newTenant();
        const rows = await insert(tenant, createdAt);
        const begin = `${listUrl}?per_page=${perPage}`;
        const end = encode({ created_at: 0, id: formatId('pr', newId()), _pointsToNextItems: false });
        const removed = new Set<string>();
        let step = 0;
        const shown = idsOf(
          await follow(tenant, direction === 'next' ? begin : `${begin}&cursor=${end}`, direction, async () => {
            const change = script[step];
            step += 1;
            if (change === undefined) return;
            await insert(tenant, change.add);
            const victim = rows[change.remove % Math.max(1, rows.length)];
            if (victim === undefined) return;
            removed.add(formatId('pr', victim.uuid));
            await service.database.executor.execute(sql`delete from pull_requests where id = ${victim.uuid}`);
          }),
        );
        expect(new Set(shown).size).toBe(shown.length);
        const throughout = listed(rows).filter(id => !removed.has(id));
        const kept = shown.filter(id => throughout.includes(id)).toSorted();
        expect(kept).toEqual(throughout.toSorted());
      },
    ),
    { numRuns: 20 },
  );
});

test('paging through users with equal names shows each once, forwards and backwards', async () => {
  const tenant = await newTenant();
  const { organisation } = tenant;
  const names = Array.from({ length: 40 }, (_, index) => ['Ada', 'ada', 'Ádá', '', 'Zoë "\u{1F600}"'][index % 5] ?? '');
  for (const [index, name] of names.entries()) {
    const email = `user-${index}@acme.example`;
    await addUser(service.database.executor, { organisationId: organisation.id, name, email, photoUrl: '' });
  }
  const pages = await follow(tenant, '/2025-04/users?per_page=3', 'next');
  expect(new Set(idsOf(pages)).size).toBe(41);
  expect(idsOf(pages)).toHaveLength(41);
  expect(decode(pages[0]?.meta.next_cursor)).toEqual({
    name: '',
    id: pages[0]?.data[2]?.id,
    _pointsToNextItems: true,
  });
  const back = await follow(tenant, pages.at(-1)?.links.prev ?? '', 'prev');
  expect(idsOf(back.toReversed())).toEqual(idsOf(pages).slice(0, 39));
});

describe('cursors and page sizes that are refused', () => {
  const id = 'pr_01h455vb4pex5vsknk084sn02q';
  const whole = { created_at: 1_700_000_000, id, _pointsToNextItems: true };
  const valid = encode(whole);
  let tenant: Tenant;
  beforeAll(async () => {
    tenant = await newTenant();
    expect((await client.get(`${listUrl}?cursor=${valid}`, tenant.token)).status).toBe(200);
  });

  const raw = (text: string) => Buffer.from(text, 'latin1').toString('base64url');
  const cursors: [string, string][] = [
    ['no base64', '!!!'],
    ['with a letter flipped', `f${valid.slice(1)}`],
    ['standard base64', Buffer.from('{"created_at":1,"id":"??>>??"}').toString('base64')],
    ['with __proto__', raw(`{"__proto__":1,${JSON.stringify(whole).slice(1)}`)],
    ['of the users', encode({ name: 'Ada', id: 'usr_01h455vb4pex5vsknk084sn02q', _pointsToNextItems: true })],
    ['with an id of another kind', encode({ ...whole, id: id.replace('pr', 'mem') })],
    ['with an id past 128 bits', encode({ ...whole, id: 'pr_8zzzzzzzzzzzzzzzzzzzzzzzzz' })],
    ['with an id that is not a UUID of any version', encode({ ...whole, id: 'pr_01h455vb4p0x5vsknk084sn02q' })],
    ['with an id in capitals', encode({ ...whole, id: id.toUpperCase().replace('PR', 'pr') })],
    ['with a UUID', encode({ ...whole, id: '01890a5d-ac96-774b-bcce-b302099a8057' })],
    ['with 2^63 seconds', encode({ ...whole, created_at: 2 ** 63 })],
    ['in the year 275760', encode({ ...whole, created_at: 8_640_000_000_000 })],
    ['with negative seconds', encode({ ...whole, created_at: -1 })],
    ['with half a second', encode({ ...whole, created_at: 1.5 })],
    ['with NaN', raw(`{"created_at":NaN,"id":"${id}","_pointsToNextItems":true}`)],
    ['with 1e999', raw(`{"created_at":1e999,"id":"${id}","_pointsToNextItems":true}`)],
    ['with infinity as text', encode({ ...whole, created_at: 'infinity' })],
    ['with the time as text', encode({ ...whole, created_at: '1700000000' })],
    ['nested 1,000 deep', raw('['.repeat(1_000))],
    ['9,000 characters', 'a'.repeat(9_000)],
    ['percent signs', '%25%00'],
    ['broken percent signs', '%E0%A4%A'],
  ];
  test.each(cursors)('a cursor that is not valid gets 400 and the reason: %s', async (_, cursor) => {
    const { status, body } = await client.get(`${listUrl}?cursor=${cursor}`, tenant.token);
    expect([status, body.message]).toEqual([
      400,
      'The cursor does not belong to this list. Leave it out to start from the first page.',
    ]);
  });

  test('a cursor given twice gets 400 and the reason', async () => {
    const { status, body } = await client.get(`${listUrl}?cursor=${valid}&cursor=${valid}`, tenant.token);
    expect([status, body.message]).toEqual([400, 'cursor may be given only once.']);
  });

  test('a cursor of another list of pull requests gets 400', async () => {
    await insertPullRequests(service, tenant, [1, 2, 3]);
    const { executor } = service.database;
    const profiles = ['grace', 'ada'].map((login, index) => ({
      githubId: index + 1,
      login,
      name: login,
      photoUrl: '',
    }));
    const ids = await saveMembers(executor, tenant.organisation.id, 1, profiles);
    const [first, second] = [1, 2].map(githubId => formatId('mem', ids.get(githubId) ?? ''));
    const listOf = (member: string | undefined) => `/2025-04/members/${member}/pull-requests`;
    const page = await getPage(tenant, `${listOf(first)}?per_page=1`);
    const own = page.meta.next_cursor;
    const all = (await getPage(tenant, `${listUrl}?per_page=1`)).meta.next_cursor;
    for (const [url, cursor, status] of [
      [listOf(first), own, 200],
      [listUrl, own, 400],
      [listOf(second), own, 400],
      [listOf(first), all, 400],
    ]) {
      const reply = await client.get(`${url}?cursor=${cursor}`, tenant.token);
      expect([url, reply.status]).toEqual([url, status]);
    }
  });

  test("the list of users refuses a pull request's cursor and a name with NUL, but no odd name", async () => {
    const names = ['a\u0000b', 5, null].map(name =>
      encode({ name, id: 'usr_01h455vb4pex5vsknk084sn02q', _pointsToNextItems: true }),
    );
    for (const cursor of [valid, ...names]) {
      expect((await client.get(`/2025-04/users?cursor=${cursor}`, tenant.token)).status).toBe(400);
    }
    const odd = ['\ud800', '\udc00x', "'; --", '\u0001', '\uffff'].map(name =>
      encode({ name, id: 'usr_01h455vb4pex5vsknk084sn02q', _pointsToNextItems: false }),
    );
    for (const cursor of odd) {
      expect((await client.get(`/2025-04/users?cursor=${cursor}`, tenant.token)).status).toBe(200);
    }
  });

  test('a cursor with a changed byte gets 400, or 200 if it is a valid position again', async () => {
    const bytes = fc.record({ at: fc.nat(JSON.stringify(whole).length - 1), to: fc.integer({ min: 0, max: 255 }) });
    await fc.assert(
      fc.asyncProperty(bytes, async ({ at, to }) => {
        const changed = Buffer.from(JSON.stringify(whole));
        changed[at] = to;
        const { status } = await client.get(`${listUrl}?cursor=${changed.toString('base64url')}`, tenant.token);
        expect([200, 400]).toContain(status);
      }),
      { numRuns: 150 },
    );
  });

  const sizes = [
    '0',
    '-1',
    '101',
    '1e2',
    '0x10',
    '1.5',
    '1.0',
    '',
    '%20',
    '%2B5',
    '05',
    'ten',
    'NaN',
    '١',
    '99999999999999999999',
    '15%00',
  ];
  test.each(sizes)('per_page=%s gets 400 and the reason', async text => {
    for (const path of [listUrl, '/2025-04/users']) {
      const { status, body } = await client.get(`${path}?per_page=${text}`, tenant.token);
      expect([status, body.message]).toEqual([400, 'per_page must be a whole number from 1 to 100.']);
    }
  });
});
