import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { saveMembers } from '../../../src/database/members.ts';
import { formatId, newId } from '../../../src/ids.ts';
import { idsOf, type PageBody } from '../../support/client.ts';
import { createRandom } from '../../support/random.ts';
import { insertMembers, insertPullRequests } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';

const { service, executor, client, newTenant } = await startWorld();
// Days are those of UTC, wherever the database is.
await executor.execute(
  sql.raw(`alter database "${new URL(service.database.url).pathname.slice(1)}" set timezone = 'Pacific/Kiritimati'`),
);

type Page = PageBody<object>;
type Sort = 'created' | 'updated' | 'merged';

const path = '/2026-12/pull-requests';
const states = ['closed', 'draft', 'merged', 'open'];
/** The 1st of January 2026. */
const start = 1_767_225_600;
const day = 86_400;
/** Around the ends of days, with many pull requests in one second. */
const moments = [0, 1, day - 1, day, day + 1, 2 * day - 1, 2 * day, 3 * day].map(offset => start + offset);

const tenant = await newTenant();
const { token, organisation } = tenant;
const repositories = ['acme/web', 'acme/Api', 'acme/docs'];
const random = createRandom(40);
const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)] as Item;
const created = Array.from({ length: 300 }, () => pick(moments));
const uuids = await insertPullRequests(service, tenant, created);
const logins = ['grace', 'ada', 'lin'];
const profiles = logins.map((login, index) => ({ githubId: index + 1, login, name: login, photoUrl: '' }));
const memberIds = [...(await saveMembers(executor, organisation.id, 1, profiles)).values()];
const members = memberIds.map(id => formatId('mem', id));
for (const [index, name] of repositories.entries()) {
  await executor.execute(sql`
    insert into repositories (organisation_id, id, github_id, node_id, name)
    values (${organisation.id}, ${newId()}, ${index + 1}, ${`R_${index + 1}`}, ${name}) on conflict do nothing`);
}
/** With the UUIDs of member and pull request, and Unix seconds. */
const values = uuids.map((id, index) => {
  const state = pick(states);
  return {
    id,
    state,
    repository: pick(repositories),
    member: pick(memberIds),
    created_at: created[index] ?? 0,
    updated_at: pick(moments),
    merged_at: state === 'merged' ? pick(moments) : null,
    // Numbers repeat in different repositories.
    number: index % 50,
  };
});
await executor.execute(sql`
  update pull_requests set state = v.state, repository_id = repositories.id, member_id = v.member,
    source_updated_at = to_timestamp(v.updated_at), merged_at = to_timestamp(v.merged_at),
    closed_at = to_timestamp(v.merged_at), number = v.number
  from json_to_recordset(${JSON.stringify(values)})
    as v (id uuid, state text, repository text, member uuid, updated_at float8, merged_at float8, number int), repositories
  where pull_requests.organisation_id = ${organisation.id} and repositories.organisation_id = ${organisation.id}
    and pull_requests.id = v.id and repositories.name = v.repository`);
const rows = values.map(row => ({ ...row, id: formatId('pr', row.id), member: formatId('mem', row.member) }));

interface Filter {
  states?: string[];
  repositories?: string[];
  member?: number;
  number?: number;
  sort: Sort;
  since?: number;
  until?: number;
  perPage: number;
}

function expected({ states: wanted, repositories: names, member, number, sort, since, until }: Filter): string[] {
  const timeOf = (row: (typeof rows)[number]) => row[`${sort}_at`];
  return rows
    .filter(row => timeOf(row) !== null)
    .filter(row => wanted === undefined || wanted.includes(row.state))
    .filter(row => names === undefined || names.some(name => name.toLowerCase() === row.repository.toLowerCase()))
    .filter(row => member === undefined || row.member === members[member])
    .filter(row => number === undefined || row.number === number)
    .filter(row => (timeOf(row) ?? 0) >= (since ?? 0) && (timeOf(row) ?? 0) <= (until ?? Number.POSITIVE_INFINITY))
    .toSorted((a, b) => (timeOf(b) ?? 0) - (timeOf(a) ?? 0) || (a.id < b.id ? 1 : -1))
    .map(({ id }) => id);
}

const dayOf = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10);

/** @param asDays whether bounds that are ends of days are written so */
function urlOf(filter: Filter, asDays = false, ofMember = false): string {
  const { sort, since, until, member } = filter;
  const parameters = new URLSearchParams({ per_page: String(filter.perPage) });
  const set = (name: string, value: string | number | undefined) => {
    if (value !== undefined) parameters.set(name, String(value));
  };
  set('state', filter.states?.join(','));
  set('repository', filter.repositories?.join(','));
  set('number', filter.number);
  set(`${sort}_since`, since !== undefined && asDays && since % day === 0 ? dayOf(since) : since);
  set(`${sort}_until`, until !== undefined && asDays && (until + 1) % day === 0 ? dayOf(until) : until);
  set('sort', since === undefined && until === undefined ? sort : undefined);
  if (member !== undefined && !ofMember) set('member', members[member]);
  const list = member !== undefined && ofMember ? `/2026-12/members/${members[member]}/pull-requests` : path;
  return `${list}?${parameters}`;
}

async function getPage(url: string): Promise<Page> {
  const { status, body } = await client.get<Page>(url, token);
  expect(status, `${url} → ${JSON.stringify(body)}`).toBe(200);
  return body;
}

/** The status if the client has the page already. */
const statusWithTag = async (url: string, { headers }: { headers: Record<string, unknown> }, token: string) =>
  (await client.get(url, token, { headers: { 'if-none-match': String(headers.etag) } })).status;

async function expectList(filter: Filter, url = urlOf(filter)): Promise<void> {
  const all = expected(filter);
  const pages = await client.pages(url, token);
  expect(idsOf(pages), url).toEqual(all);
  const last = pages.at(-1);
  const back = last?.links.prev ? await client.pages(last.links.prev, token, 'prev') : [];
  expect(idsOf([...(last ? [last] : []), ...back].toReversed()), `${url}, backwards`).toEqual(all);
}

const filters = fc
  .record(
    {
      states: fc.subarray(states, { minLength: 1 }),
      repositories: fc.subarray([...repositories, 'ACME/WEB', 'acme/unknown'], { minLength: 1 }),
      member: fc.nat(2),
      number: fc.integer({ min: 1, max: 60 }),
      sort: fc.constantFrom<Sort[]>('created', 'updated', 'merged'),
      since: fc.constantFrom(...moments),
      until: fc.constantFrom(...moments),
      perPage: fc.constantFrom(15, 40, 100),
    },
    { requiredKeys: ['sort', 'perPage'] },
  )
  .map(({ number, ...filter }): Filter => {
    const { since, until, repositories: names } = filter;
    if (since !== undefined && until !== undefined && since > until)
      Object.assign(filter, { since: until, until: since });
    return number !== undefined && names?.length === 1 ? { ...filter, number } : filter;
  });

test('random combinations of filters show what a filtered and sorted array shows, forwards and backwards', async () => {
  await fc.assert(
    fc.asyncProperty(filters, fc.boolean(), fc.boolean(), (filter, asDays, ofMember) =>
      expectList(filter, urlOf(filter, asDays, ofMember)),
    ),
    { numRuns: 60 },
  );
});

const single: [string, Omit<Filter, 'perPage'>][] = [
  ['no filter', { sort: 'created' }],
  ['the latest updates', { sort: 'updated' }],
  ['the latest merges', { sort: 'merged' }],
  ['one state', { sort: 'created', states: ['draft'] }],
  ['states that exclude merged ones, by merge', { sort: 'merged', states: ['open', 'draft'] }],
  ['one repository', { sort: 'created', repositories: ['acme/api'] }],
  ['several repositories', { sort: 'updated', repositories: ['acme/web', 'acme/docs'] }],
  ['an unknown repository', { sort: 'created', repositories: ['other/web'] }],
  ['a member', { sort: 'created', member: 1 }],
  ['a member in a repository', { sort: 'merged', member: 1, repositories: ['acme/docs'] }],
  ['a number', { sort: 'created', repositories: ['acme/web'], number: 7 }],
  ['one second', { sort: 'created', since: start + day, until: start + day }],
  ['nothing that early', { sort: 'updated', until: start - 1 }],
];
test.each(single)('a list shows what was asked for, in pages of 15: %s', async (_, filter) => {
  await expectList({ ...filter, perPage: 15 });
});

test('a pull request has its repository, author, labels, base and times, in a list and by its id', async () => {
  const other = await newTenant();
  const [uuid = ''] = await insertPullRequests(service, other, [1]);
  await executor.execute(sql`
    update pull_requests set state = 'merged', labels = array['größe "L"', '日本', ''], base = 'größe',
      source_updated_at = to_timestamp(5), merged_at = to_timestamp(4), closed_at = to_timestamp(3), ruleset_version = 7
    where id = ${uuid}`);
  const url = `${path}/${formatId('pr', uuid)}`;
  const { body } = await client.get<{ data: object }>(url, other.token);
  const self = `http://localhost:80${url}`;
  expect(body.data).toMatchObject({
    repository: 'acme/web',
    author: 'grace',
    labels: ['größe "L"', '日本', ''],
    base: 'größe',
    created_at: 1,
    updated_at: 5,
    merged_at: 4,
    closed_at: 3,
    ruleset_version: 7,
    links: { self, explanation: `${self}/explanation`, scores: `${self}/scores` },
  });
  expect((await client.get<Page>(path, other.token)).body.data).toEqual([body.data]);
});

const december = '2026-12-01';
type Refusal = [query: string, parameter: string, message: string];
const refusals: Refusal[] = [
  ...['', 'open,', 'OPEN'].map(
    refusalOf('state', 'state must be of closed, draft, merged, open, separated by commas.'),
  ),
  ['state=open&state=closed', 'state', 'state may be given only once.'],
  ...['', 'score'].map(refusalOf('sort', 'sort must be created, updated or merged.')),
  ['sort=created&sort=created', 'sort', 'sort may be given only once.'],
  ...['', 'web', 'acme/web,', 'acme/w%00'].map(
    refusalOf('repository', 'repository must be owner/name, or several of them, separated by commas.'),
  ),
  [`repository=${numbered(101)}`, 'repository', 'repository takes up to 100 names.'],
  ['number=7', 'number', 'number needs exactly one repository.'],
  ['number=7&repository=acme/web,acme/docs', 'number', 'number needs exactly one repository.'],
  ...['0', '', '2147483648']
    .map(number => `${number}&repository=acme/web`)
    .map(refusalOf('number', 'number must be a whole number from 1 to 2147483647.')),
  ...['', 'yesterday', '2026-02-30', '2026-1-1', '1969-12-31', '-1', '1.5', '1e9', '007', '253402300800', '%00'].map(
    refusalOf('created_since', 'created_since must be Unix seconds or a day, such as 2026-01-31.'),
  ),
  ['merged_until=x', 'merged_until', 'merged_until must be Unix seconds or a day, such as 2026-01-31.'],
  ['created_since=2&created_until=1', 'created_since', 'The period begins after it ends: since 2 until 1.'],
  [
    `updated_since=${december}&updated_until=2026-11-30`,
    'updated_since',
    `The period begins after it ends: since ${december} until 2026-11-30.`,
  ],
  [
    'created_since=1&merged_until=2',
    'merged_until',
    "created_since and merged_until can't be given together: a list has a range of one time.",
  ],
  [
    'sort=created&updated_since=1',
    'updated_since',
    'updated_since needs sort=updated: a range is of the time by which the list is sorted.',
  ],
  ['created_after=1', 'created_after', 'created_after is not a known parameter'],
  ['stat=open', 'stat', 'stat is not a known parameter; did you mean `state`?'],
];
function refusalOf(parameter: string, message: string) {
  return (value: string): Refusal => [`${parameter}=${value}`, parameter, message];
}
function numbered(count: number): string {
  return Array.from({ length: count }, (_, index) => `acme/${index}`).join(',');
}

test.each(refusals)('a list refuses ?%s, and blames %s', async (query, parameter, message) => {
  const { status, body } = await client.get(`${path}?${query}`, token);
  expect([status, body]).toEqual([
    400,
    { message: expect.stringContaining(message), code: 'bad_request', request_id: expect.any(String), parameter },
  ]);
});

test('ten thousand values are refused, or count once', async () => {
  const many = Array.from({ length: 10_000 }, () => 'open').join(',');
  expect(await getPage(`${path}?state=${many}`)).toMatchObject({ data: (await getPage(`${path}?state=open`)).data });
  for (const [query, parameter] of [
    [`repository=${numbered(10_000)}`, 'repository'],
    [Array.from({ length: 10_000 }, () => 'sort=created').join('&'), 'sort'],
    [Array.from({ length: 10_000 }, (_, index) => `x${index}=1`).join('&'), /^x\d+$/],
  ]) {
    const { status, body } = await client.get(`${path}?${query}`, token);
    expect([status, body]).toMatchObject([400, { code: 'bad_request', parameter }]);
  }
});

test('a hundred repositories are taken', async () => {
  expect((await getPage(`${path}?repository=${numbered(100)}`)).data).toEqual([]);
});

test('an unknown or malformed member gets 404, one of another organisation 403, and the error names the parameter', async () => {
  const other = await newTenant();
  const stranger = await saveMembers(executor, other.organisation.id, 1, [
    { githubId: 1, login: 'eve', name: 'Eve', photoUrl: '' },
  ]);
  for (const [member, status] of [
    [formatId('mem', newId()), 404],
    [formatId('mem', stranger.get(1) ?? ''), 403],
    ['', 404],
    ['grace', 404],
  ]) {
    const reply = await client.get(`${path}?member=${member}`, token);
    expect([member, reply.status, reply.body]).toMatchObject([member, status, { parameter: 'member' }]);
    const inPath = await client.get<object>(`/2026-12/members/${member}`, token);
    expect(inPath.body).not.toHaveProperty('parameter');
  }
  const { status, body } = await client.get(`/2026-12/members/${members[0]}/pull-requests?member=${members[0]}`, token);
  expect([status, body]).toMatchObject([400, { parameter: 'member' }]);
});

test('a pull request that is unknown gets 404, one of another organisation 403', async () => {
  const [uuid = ''] = await insertPullRequests(service, await newTenant(), [1]);
  const statusOf = async (id: string) => (await client.get(`${path}/${id}`, token)).status;
  expect(await statusOf(formatId('pr', uuid))).toBe(403);
  for (const id of [formatId('pr', newId()), formatId('mem', uuid), uuid, 'x'.repeat(5_000), '%00']) {
    expect([id, await statusOf(id)]).toEqual([id, 404]);
  }
});

test('a cursor belongs to its list, filters, sort and version', async () => {
  const queries = [
    'per_page=2',
    'per_page=2&sort=updated',
    'per_page=2&state=merged',
    'per_page=2&state=merged,open',
    'per_page=2&repository=acme/web',
    `per_page=2&member=${members[0]}`,
    'per_page=2&created_since=1',
    'per_page=2&merged_until=2027-01-01',
  ];
  const lists = [
    ...queries.map(query => `${path}?${query}`),
    `/2026-12/members/${members[0]}/pull-requests?per_page=2`,
    `/2026-12/members/${members[1]}/pull-requests?per_page=2`,
    '/2025-04/pull-requests?per_page=2',
    `/2025-04/members/${members[0]}/pull-requests?per_page=2`,
    `/2025-04/members/${members[1]}/pull-requests?per_page=2`,
    '/2026-12/members?per_page=2',
  ];
  const cursors = await Promise.all(lists.map(async list => (await getPage(list)).meta.next_cursor));
  for (const [index, list] of lists.entries()) {
    for (const [other, cursor] of cursors.entries()) {
      const { status } = await client.get(`${list}&cursor=${cursor}`, token);
      expect([list, other, status]).toEqual([list, other, other === index ? 200 : 400]);
    }
  }
  // The same filter in other words.
  const [cursor] = (await getPage(`${path}?state=open,merged,open&per_page=2`)).links.next?.match(/[^=]+$/) ?? [];
  expect((await client.get(`${path}?state=merged,open&cursor=${cursor}`, token)).status).toBe(200);
});

test('a cursor outside the range of its list gets 400', async () => {
  const url = `${path}?created_since=${start}&created_until=${start + day}&per_page=2`;
  const { meta } = await getPage(url);
  const cursor = JSON.parse(Buffer.from(meta.next_cursor ?? '', 'base64url').toString());
  for (const [created_at, status] of [
    [start, 200],
    [start + day, 200],
    [start - 1, 400],
    [start + day + 1, 400],
    [-1, 400],
    [1.5, 400],
    ['x', 400],
  ]) {
    const text = Buffer.from(JSON.stringify({ ...cursor, created_at })).toString('base64url');
    expect([created_at, (await client.get(`${url}&cursor=${text}`, token)).status]).toEqual([created_at, status]);
  }
});

test('links keep the filters, and a page that did not change is 304', async () => {
  const page = await client.get<Page>(`${path}?repository=acme/web,acme/docs&state=open&per_page=3`, token);
  const next = new URL(page.body.links.next ?? '');
  expect(Object.fromEntries(next.searchParams)).toEqual({
    repository: 'acme/web,acme/docs',
    state: 'open',
    per_page: '3',
    cursor: page.body.meta.next_cursor,
  });
  expect(await statusWithTag(`${path}?repository=acme/web,acme/docs&state=open&per_page=3`, page, token)).toBe(304);
});

describe('members', () => {
  type Members = PageBody<{ id: string }>;

  test('are listed in pages, latest first, without those who have left', async () => {
    const other = await newTenant();
    await insertMembers(service, other, 40);
    await executor.execute(sql`update members set left_at = to_timestamp(5)
      where organisation_id = ${other.organisation.id} and login in ('member-3', 'member-4')`);
    const { rows: stored } = await executor.execute<{ id: string }>(sql`
      select id from members where organisation_id = ${other.organisation.id} and left_at is null
      order by created_at desc, id desc`);
    const all = stored.map(({ id }) => formatId('mem', id));
    const pages = await client.pages('/2026-12/members?per_page=7', other.token);
    expect(idsOf(pages)).toEqual(all);
    const back = await client.pages(pages.at(-1)?.links.prev ?? '', other.token, 'prev');
    expect(idsOf(back.toReversed())).toEqual(all.slice(0, all.length - 3));

    const left = await client.get<Members>('/2026-12/members?login=MEMBER-3', other.token);
    expect(left.body.data).toMatchObject([{ login: 'member-3', left_at: 5 }]);
    expect(await statusWithTag('/2026-12/members?login=MEMBER-3', left, other.token)).toBe(304);
    expect((await client.get<Members>('/2026-12/members?login=nobody', other.token)).body.data).toEqual([]);
  });

  const queries = ['login=', 'login=a%00', 'login=a&login=b', 'logn=a', 'per_page=0', 'cursor=x'];
  test.each(queries)('refuse ?%s', async query => {
    expect((await client.get(`/2026-12/members?${query}`, token)).status).toBe(400);
  });
});
