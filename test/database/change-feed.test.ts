import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { readChanges } from '../../src/database/change-feed.ts';
import { recordChanges } from '../../src/database/change-log.ts';
import { connectDatabase, type Database, type Executor } from '../../src/database/client.ts';
import { copyDatabase } from '../../src/database/copy.ts';
import { isDatabaseUnavailable } from '../../src/database/driver-errors.ts';
import { joinEmbeddedDatabase } from '../../src/database/embedded-server.ts';
import { migrateDatabase } from '../../src/database/migrations.ts';
import { removePullRequest } from '../../src/sync/remove-pull-request.ts';
import { query } from '../support/database-server.ts';
import { createLatch } from '../support/github/faults.ts';
import { createHome, removeHome } from '../support/home.ts';
import { closing, createDatabase, startService } from '../support/service.ts';
import { waitUntilSettled } from '../support/settled.ts';
import { createTenant, insertPullRequests } from '../support/tenants.ts';

const service = await startService();
afterAll(() => service.close());
const { database } = service;
let organisationId: string;
let ids: string[];

type Place = Awaited<ReturnType<typeof readChanges>>;

const read = (place?: Place, rows = 100, from: Database = database) =>
  readChanges(from, organisationId, place, { rows, bytes: 900_000 });

/** To the end. @returns what came, and where the reader then stands */
async function readToEnd(place?: Place, limit = 100) {
  await waitUntilSettled(database);
  return readOn(place, limit);
}

async function readOn(place?: Place, limit = 100) {
  const came: string[] = [];
  for (;;) {
    const page = await read(place, limit);
    if (page === undefined) throw new Error('the reader must start again');
    if (page.changes.length === 0) return { came, place: page };
    came.push(...page.changes.map(({ id, row }) => (row === undefined ? `${id} deleted` : id)));
    place = page;
  }
}

const update = (executor: Executor, changed: readonly string[]) =>
  executor.execute(sql`
    update pull_requests set title = title || '!', changed_by = pg_current_xact_id()
    where organisation_id = ${organisationId} and id = any(${sql.param([...changed])}::uuid[])`);

const change = (...changed: string[]) =>
  database.transaction(async executor => {
    await update(executor, changed);
    await recordChanges(executor, organisationId, changed);
  });

const changeRange = (changed: readonly string[]) =>
  database.transaction(async executor => {
    await update(executor, changed);
    await recordChanges(executor, organisationId, changed, { isRange: true });
  });

const add = (count: number) => insertPullRequests(service, { organisation: { id: organisationId } as never }, count);

beforeEach(async () => {
  const { organisation } = await createTenant(service);
  organisationId = organisation.id;
  ids = (await add(5)).sort();
});

test('a reader without a position gets all pull requests, and from then on what has changed', async () => {
  const first = await readToEnd(undefined, 2);
  expect(first.came).toEqual(ids);
  expect((await readToEnd(first.place)).came).toEqual([]);
  await change(ids[3] as string);
  await change(ids[1] as string);
  const next = await readToEnd(first.place);
  expect(next.came).toEqual([ids[3], ids[1]]);
  expect((await readToEnd(next.place)).came).toEqual([]);
});

test('two transactions that end in the reverse order lose nothing', async () => {
  const { place } = await readToEnd();
  const [begun, ending] = [createLatch(), createLatch()];
  const first = database.transaction(async executor => {
    await update(executor, [ids[0] as string]);
    await recordChanges(executor, organisationId, [ids[0] as string]);
    begun.release();
    await ending.released;
  });
  await begun.released;
  await change(ids[1] as string);
  const meanwhile = await readOn(place);
  expect(meanwhile.came).toEqual([]);
  // One that starts now lists the second change, and must not miss the first.
  const fresh = await readOn();
  ending.release();
  await first;
  expect((await readToEnd(meanwhile.place)).came).toEqual([ids[0], ids[1]]);
  expect((await readToEnd(fresh.place)).came).toContain(ids[0]);
});

test('a change during the first reading comes at its end, also of what was read before', async () => {
  const page = await read(undefined, 2);
  await change(ids[0] as string);
  await change(ids[4] as string);
  const gone = ids[1] as string;
  await removePullRequest(database, organisationId, gone, { name: 'a client', requestId: null });
  const { came } = await readToEnd(page, 2);
  expect(came).toEqual([ids[2], ids[3], ids[4], ids[0], ids[4], `${gone} deleted`]);
});

test('a reader passes thousands of entries of what has changed again in a few steps', async () => {
  const { place } = await readToEnd();
  await database.executor.execute(sql`
    insert into changes (organisation_id, transaction, from_id, until_id)
    select ${organisationId}::uuid, pg_current_xact_id(), id, id
    from (select gen_random_uuid() as id from generate_series(1, 2500)) as ids`);
  await change(ids[0] as string);
  await change(ids[1] as string);
  await waitUntilSettled(database);
  let steps = 0;
  const counting: Database = {
    ...database,
    readStep: (selection, values) => {
      steps += 1;
      return database.readStep(selection, values);
    },
  };
  const found = await read(place, 1, counting);
  expect(found?.changes.map(({ id }) => id)).toEqual([ids[0]]);
  expect(steps).toBeLessThan(10);
  expect((await readToEnd(found)).came).toEqual([ids[1]]);
});

test('a range comes in pages, each pull request once, unless it changes again', async () => {
  const { place } = await readToEnd();
  const more = (await add(40)).sort();
  const all = [...ids, ...more].sort();
  await changeRange(all);
  await change(all[30] as string);
  await waitUntilSettled(database);
  const page = await read(place, 7);
  expect(page?.changes.map(({ id }) => id)).toEqual(all.slice(0, 7));
  await change(all[3] as string, all[20] as string);
  const rest = all.slice(7).filter(id => id !== all[30] && id !== all[20]);
  expect((await readToEnd(page, 7)).came).toEqual([...rest, all[30], all[3], all[20]]);
});

test('only the end of the feed is empty: entries whose pull requests have all changed again are passed', async () => {
  const { place } = await readToEnd();
  for (let time = 0; time < 30; time += 1) await changeRange(ids);
  for (let time = 0; time < 10; time += 1) for (const id of ids) await change(id);
  await waitUntilSettled(database);
  expect((await read(place, 3))?.changes.map(({ id }) => id)).toEqual(ids.slice(0, 3));
  expect((await readToEnd(place, 3)).came).toEqual(ids);
});

test('a page of long texts ends below a megabyte', async () => {
  const { place } = await readToEnd();
  await database.executor.execute(sql`
    update pull_requests set body = repeat('x', 250000) where organisation_id = ${organisationId}`);
  await changeRange(ids);
  await waitUntilSettled(database);
  for (const start of [undefined, place]) {
    const page = await read(start);
    expect(page?.changes.map(({ id }) => id)).toEqual(ids.slice(0, 3));
    expect((await readToEnd(page)).came).toEqual(ids.slice(3));
  }
});

test('a reader starts again in another database, or in a copy from before its position', async () => {
  const { place: before } = await readToEnd();
  await change(ids[0] as string);
  const { place } = await readToEnd(before);
  const other = await createDatabase();
  await copyDatabase(database.url, other.url);
  const moved = connectDatabase(other.url, service.log);
  try {
    expect(await read(place, 1, moved)).toBeUndefined();
    expect(await read(undefined, 1, moved)).toBeDefined();
  } finally {
    await moved.close();
    await other.drop();
  }
  // As in a copy: what came after `before` is gone, and its transaction's id is used again.
  await database.executor.execute(sql`
    update changes set recorded_at = '2026-01-01'
    where organisation_id = ${organisationId} and transaction = ${place?.position.transaction}::xid8`);
  expect(await read(place)).toBeUndefined();
  expect(await read(before)).toBeDefined();
  await database.executor.execute(sql`
    delete from changes
    where organisation_id = ${organisationId} and transaction = ${place?.position.transaction}::xid8`);
  expect(await read(place)).toBeUndefined();
  expect(await read(before)).toBeDefined();
});

test('a standby gives no changes, and once it is promoted its readers start again', async () => {
  const home = createHome('standby');
  onTestFinished(() => removeHome(home));
  const primary = await joinEmbeddedDatabase({ home });
  await migrateDatabase(primary.url);
  const connect = () => closing(connectDatabase(primary.url, service.log));
  const { organisation } = await createTenant({ database: connect() });
  organisationId = organisation.id;
  const place = await read(undefined, 1, connect());
  expect(await read(place, 1, connect())).toEqual(place);
  // It starts again from all that was written, as a standby that has all of it.
  await primary.leave();
  writeFileSync(join(primary.dataDirectory, 'standby.signal'), '');
  const joining = joinEmbeddedDatabase({ home });
  onTestFinished(async () => (await joining).leave());
  await vi.waitFor(() => query(primary.url, 'select'), { timeout: 20_000 });
  const error = await read(place, 1, connect()).catch(failure => failure);
  expect([error.message, isDatabaseUnavailable(error)]).toEqual(['recovery is in progress', true]);
  await query(primary.url, 'select pg_promote()');
  await joining;
  expect(await read(place, 1, connect())).toBeUndefined();
  expect(await read(undefined, 1, connect())).toBeDefined();
});
