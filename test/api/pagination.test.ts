import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatId, newId } from '../../src/ids.ts';
import { idsOf, type PageBody, type PullRequestBody } from '../support/client.ts';
import { insertPullRequests, type Tenant } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const { service, executor, client, newTenant } = await startWorld();

type Page = PageBody<PullRequestBody>;
const listUrl = '/2025-04/pull-requests';

const encode = (cursor: unknown) => Buffer.from(JSON.stringify(cursor)).toString('base64url');

/** Ids in the expected order: latest first, ties by id. */
const listed = (rows: readonly { uuid: string; createdAt: number }[]) =>
  rows
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.uuid < b.uuid ? 1 : -1))
    .map(({ uuid }) => formatId('pr', uuid));

async function insert(tenant: Tenant, createdAt: readonly number[]) {
  const uuids = await insertPullRequests(service, tenant, createdAt);
  return uuids.map((uuid, index) => ({ uuid, createdAt: createdAt[index] ?? 0 }));
}

const seconds = fc.array(fc.integer({ min: 1_700_000_000, max: 1_700_000_003 }), { maxLength: 40 });
const size = fc.integer({ min: 1, max: 12 });

test('paging through rows of very different sizes shows each once, in pages below 1 MB or of one row', async () => {
  const tenant = await newTenant();
  const createdAt = Array.from({ length: 60 }, (_, index) => 1_700_000_000 + (index >> 1));
  const rows = await insert(tenant, createdAt);
  // Most are short; every fifth has 200 KB, some of it in the breakdown, which compresses well; one has 3 MB.
  await executor.execute(sql`
      update pull_requests set body = repeat('é', case when number % 5 = 0 then 50000 else number * 7 end),
        score_breakdown = json_build_array(json_build_object('name', repeat('n', case
          when number = 30 then 3000000 when number % 5 = 0 then 100000 else number * 70 end),
          'action', 'ADD', 'effect', 1, 'expression', 'true'))
      where organisation_id = ${tenant.organisation.id}`);
  const all = listed(rows);
  const { body } = await client.get<Page>(`${listUrl}?per_page=1`, tenant.token);
  const ofMember = `${new URL(body.data[0]?.links.member ?? '').pathname}/pull-requests`;
  for (const [url, perPage] of [
    [listUrl, 100],
    [listUrl, 7],
    [ofMember, 100],
  ] as const) {
    const pages = await client.pages<PullRequestBody>(`${url}?per_page=${perPage}`, tenant.token);
    const end = pages.at(-1);
    const backwards = end?.links.prev ? await client.pages<PullRequestBody>(end.links.prev, tenant.token, 'prev') : [];
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
        const steps = script.values();
        const change = async () => {
          const { value } = steps.next();
          if (value === undefined) return;
          await insert(tenant, value.add);
          const victim = rows[value.remove % Math.max(1, rows.length)];
          if (victim === undefined) return;
          removed.add(formatId('pr', victim.uuid));
          await executor.execute(sql`delete from pull_requests where id = ${victim.uuid}`);
        };
        const url = direction === 'next' ? begin : `${begin}&cursor=${end}`;
        const shown = idsOf(await client.pages(url, tenant.token, direction, change));
        expect(new Set(shown).size).toBe(shown.length);
        const throughout = listed(rows).filter(id => !removed.has(id));
        const kept = shown.filter(id => throughout.includes(id)).toSorted();
        expect(kept).toEqual(throughout.toSorted());
      },
    ),
    { numRuns: 20 },
  );
});

describe('cursors and page sizes that are refused', async () => {
  const id = 'pr_01h455vb4pex5vsknk084sn02q';
  const user = { id: 'usr_01h455vb4pex5vsknk084sn02q' };
  const whole = { created_at: 1_700_000_000, id, _pointsToNextItems: true };
  const valid = encode(whole);
  const { token } = await newTenant();
  expect((await client.get(`${listUrl}?cursor=${valid}`, token)).status).toBe(200);

  const raw = (text: string) => Buffer.from(text, 'latin1').toString('base64url');
  const cursors: [string, string][] = [
    ['with __proto__', raw(`{"__proto__":1,${JSON.stringify(whole).slice(1)}`)],
    ['of the users', encode({ ...user, name: 'Ada', _pointsToNextItems: true })],
    ['with an id of another kind', encode({ ...whole, id: id.replace('pr', 'mem') })],
    ['with an id that is not a UUID of any version', encode({ ...whole, id: 'pr_01h455vb4p0x5vsknk084sn02q' })],
    ['with 2^63 seconds', encode({ ...whole, created_at: 2 ** 63 })],
    ['in the year 275760', encode({ ...whole, created_at: 8_640_000_000_000 })],
    ['with negative seconds', encode({ ...whole, created_at: -1 })],
    ['with half a second', encode({ ...whole, created_at: 1.5 })],
    ['with NaN', raw(`{"created_at":NaN,"id":"${id}","_pointsToNextItems":true}`)],
    ['with 1e999', raw(`{"created_at":1e999,"id":"${id}","_pointsToNextItems":true}`)],
    ['with infinity as text', encode({ ...whole, created_at: 'infinity' })],
    ['with the time as text', encode({ ...whole, created_at: '1700000000' })],
    ['broken percent signs', '%E0%A4%A'],
  ];
  test.each(cursors)('a cursor that is not valid gets 400 and the reason: %s', async (_, cursor) => {
    const { status, body } = await client.get(`${listUrl}?cursor=${cursor}`, token);
    expect([status, body.message]).toEqual([
      400,
      'The cursor does not belong to this list. Leave it out to start from the first page.',
    ]);
  });

  test("the list of users refuses a pull request's cursor and a name with NUL, but no odd name", async () => {
    const statusAt = async (cursor: string) => (await client.get(`/2025-04/users?cursor=${cursor}`, token)).status;
    const at = (name: unknown, isNext: boolean) => encode({ ...user, name, _pointsToNextItems: isNext });
    for (const name of ['a\u0000b', 5, null]) expect(await statusAt(at(name, true))).toBe(400);
    expect(await statusAt(valid)).toBe(400);
    const odd = ['\ud800', '\udc00x', "'; --", '\u0001', '\uffff'];
    for (const name of odd) expect(await statusAt(at(name, false))).toBe(200);
  });

  test('a cursor with a changed byte gets 400, or 200 if it is a valid position again', async () => {
    const bytes = fc.record({ at: fc.nat(JSON.stringify(whole).length - 1), to: fc.integer({ min: 0, max: 255 }) });
    await fc.assert(
      fc.asyncProperty(bytes, async ({ at, to }) => {
        const changed = Buffer.from(JSON.stringify(whole));
        changed[at] = to;
        const { status } = await client.get(`${listUrl}?cursor=${changed.toString('base64url')}`, token);
        expect([200, 400]).toContain(status);
      }),
      { numRuns: 150 },
    );
  });

  test.each(['-1', '0x10', '1.5', '1.0', '%20', '%2B5', '05', 'ten', '١', '99999999999999999999', '15%00'])(
    'per_page=%s gets 400 and the reason',
    async text => {
      const { status, body } = await client.get(`${listUrl}?per_page=${text}`, token);
      expect([status, body.message]).toEqual([400, 'per_page must be a whole number from 1 to 100.']);
    },
  );
});
