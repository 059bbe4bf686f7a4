import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { PageBody, PullRequestBody } from '../support/client.ts';
import { closing, startReplica } from '../support/service.ts';
import { addTrigger } from '../support/trigger.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
let id: string;
beforeAll(async () => {
  world.acme.member('ada');
  world.web.addPullRequest({ title: 'Before' });
  await world.import();
  const { body } = await world.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', world.token);
  id = body.data[0]?.id ?? '';
});

const execute = (statement: string) => world.service.database.executor.execute(sql.raw(statement));

/** One more service, with new connections. */
async function startClient(url = world.service.database.url) {
  const { github } = world;
  const replica = closing(await startReplica(url, { GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN: github.token }));
  return replica.client;
}

const unavailable = {
  status: 503,
  headers: { 'retry-after': '1' },
  body: { message: 'The database is not available. Try again shortly.' },
};
const path = () => `/2025-04/pull-requests/${id}`;
const stored = async () =>
  (await world.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', world.token)).body.data;

describe('the service', () => {
  test('serves reads from a read-only database, as after a failover; writes get 503 and change nothing', async () => {
    const name = new URL(world.service.database.url).pathname.slice(1);
    const set = (value: string) => execute(`alter database ${name} set default_transaction_read_only = ${value}`);
    await set('on');
    onTestFinished(async () => void (await set('off')));
    const client = await startClient();
    const before = await stored();
    world.web.pullRequests[0]?.edit({ title: 'After' });
    expect((await client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', world.token)).body.data).toEqual(
      before,
    );
    expect(await client.put(`${path()}/sync`, world.token)).toMatchObject(unavailable);
    expect(await client.delete(path(), world.token)).toMatchObject(unavailable);
    expect(await stored()).toEqual(before);
    await set('off');
    const after = await startClient();
    expect(await after.put(`${path()}/sync`, world.token)).toMatchObject({
      status: 200,
      body: { data: { title: 'After' } },
    });
  });

  test('answers 503, not 401, while the database refuses connections', async () => {
    const role = `limited_${randomUUID().slice(0, 8)}`;
    await execute(`create role ${role} login password 'of the tests' connection limit 0`);
    await execute(`grant all on all tables in schema public to ${role}`);
    await execute(`grant all on all sequences in schema public to ${role}`);
    const url = new URL(world.service.database.url);
    url.username = role;
    url.password = 'of the tests';
    onTestFinished(async () => {
      await execute(`drop owned by ${role}`);
      await execute(`drop role ${role}`);
    });
    const client = await startClient(url.href);
    expect(await client.get('/2025-04/pull-requests', world.token)).toMatchObject(unavailable);
    expect(await client.put(`${path()}/sync`, world.token)).toMatchObject(unavailable);
    expect(await client.delete(path(), world.token)).toMatchObject(unavailable);
    await execute(`alter role ${role} connection limit 10`);
    expect((await client.get('/2025-04/pull-requests', world.token)).status).toBe(200);
    expect((await client.put(`${path()}/sync`, world.token)).status).toBe(200);
  });

  test('serves reads while the disk of the database is full; writes get 503 and change nothing', async () => {
    await addTrigger(
      world.service.database.executor,
      'before insert or update or delete on pull_requests for each row',
      "raise exception 'could not extend file' using errcode = '53100'",
    );
    const before = await stored();
    world.web.pullRequests[0]?.edit({ title: 'Once there is room' });
    expect(await world.client.put(`${path()}/sync`, world.token)).toMatchObject(unavailable);
    expect(await world.client.delete(path(), world.token)).toMatchObject(unavailable);
    expect(await stored()).toEqual(before);
  });
});
