import { eq } from 'drizzle-orm';
import { expect, test } from 'vitest';
import { renewContentVersion } from '../../../src/database/content-versions.ts';
import { pullRequests } from '../../../src/database/schema.ts';
import { formatId, newId } from '../../../src/ids.ts';
import type { PullRequestBody } from '../../support/client.ts';
import { waitUntilSettled } from '../../support/settled.ts';
import { createToken, insertPullRequests, type Tenant } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';

const world = await startWorld();
const { service, client, newTenant } = world;
const { database } = service;

type Change = { type: 'pull_request'; pull_request: PullRequestBody } | { type: 'deletion'; id: string };
interface Page {
  data: Change[];
  meta: { path: string; per_page: number; next_cursor: string; prev_cursor: null };
  links: { first: null; last: null; prev: null; next: string };
}

const feed = '/2026-12/changes';
const cursorUrl = (cursor: string) => `${feed}?cursor=${cursor}`;
const decode = (cursor: string) => JSON.parse(Buffer.from(cursor, 'base64url').toString());
const encode = (cursor: object) => Buffer.from(JSON.stringify(cursor)).toString('base64url');

async function read(tenant: Tenant, url: string): Promise<Page> {
  const { status, body } = await client.get<Page>(url, tenant.token);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
}

test('an empty page has a cursor, too, and an ETag until something changes', async () => {
  const tenant = await newTenant();
  await waitUntilSettled(database);
  const empty = await read(tenant, feed);
  expect(empty).toMatchObject({ data: [], meta: { per_page: 15, prev_cursor: null }, links: { prev: null } });
  const url = empty.links.next;
  const { etag } = (await client.get(url, tenant.token)).headers;
  const again = await client.get(url, tenant.token, { headers: { 'if-none-match': String(etag) } });
  expect(again).toMatchObject({ status: 304, headers: { etag } });
});

test('a cursor of another list, version or organisation is 400', async () => {
  const tenant = await newTenant();
  const other = await newTenant();
  await insertPullRequests(service, tenant, 3);
  await waitUntilSettled(database);
  const { meta } = await read(tenant, `${feed}?per_page=1`);
  const list = await client.get<Page>('/2026-12/pull-requests?per_page=1', tenant.token);
  const older = await client.get<Page>('/2025-04/pull-requests?per_page=1', tenant.token);
  const own = decode(meta.next_cursor);
  for (const [token, cursor] of [
    [tenant.token, list.body.meta.next_cursor],
    [tenant.token, older.body.meta.next_cursor],
    [other.token, meta.next_cursor],
    [tenant.token, ''],
    [tenant.token, encode({ ...own, transaction: '99999999999999999999' })],
    [tenant.token, encode({ ...own, transaction: -1 })],
    [tenant.token, encode({ ...own, from: 'mem_x' })],
    [tenant.token, encode({ ...own, listed: '' })],
    [tenant.token, encode({ ...own, recorded_at: 1.5 })],
    [tenant.token, encode({ ...own, recorded_at: 1e19 })],
    [tenant.token, encode({ ...own, more: 1 })],
    // The feed goes forwards only.
    [tenant.token, encode({ ...own, _pointsToNextItems: false })],
  ] as const) {
    const { status, body } = await client.get(cursorUrl(cursor), token);
    expect({ status, body }, cursor).toMatchObject({ status: 400, body: { code: 'bad_request', parameter: 'cursor' } });
  }
  for (const path of ['/2026-12/pull-requests', '/2025-04/pull-requests']) {
    expect((await client.get(`${path}?cursor=${meta.next_cursor}`, tenant.token)).status).toBe(400);
  }
});

test('a cursor that can not be continued is 410, and says to start again', async () => {
  const tenant = await newTenant();
  await insertPullRequests(service, tenant, 1);
  await waitUntilSettled(database);
  const own = decode((await read(tenant, feed)).meta.next_cursor);
  for (const cursor of [
    { ...own, database: 'f'.repeat(32) },
    { ...own, recorded_at: own.recorded_at + 1 },
    { ...own, from: formatId('pr', newId()) },
    { ...own, transaction: '9223372036854775807' },
  ]) {
    const { status, body } = await client.get(cursorUrl(encode(cursor)), tenant.token);
    expect({ status, body }).toMatchObject({
      status: 410,
      body: {
        message:
          'Changes after this cursor may be missing here. Start again without a cursor, and drop what does not come again.',
        code: 'cursor_expired',
        parameter: 'cursor',
      },
    });
  }
});

test('following changes needs the scope read', async () => {
  const tenant = await newTenant();
  const token = await createToken(service, tenant.user, ['sync']);
  expect((await client.get(feed, token)).status).toBe(403);
});

test('a listing shows what has changed between two of its pages', async () => {
  const tenant = await newTenant();
  await insertPullRequests(service, tenant, 4);
  await waitUntilSettled(database);
  let url = `${feed}?per_page=1`;
  for (const title of ['First', 'Second', 'Third', 'Fourth']) {
    await database.transaction(async executor => {
      await executor.update(pullRequests).set({ title }).where(eq(pullRequests.organisationId, tenant.organisation.id));
      await renewContentVersion(executor, tenant.organisation.id);
    });
    const { data, links } = await read(tenant, url);
    expect(data).toMatchObject([{ pull_request: { title } }]);
    url = links.next;
  }
});
