import { sql } from 'drizzle-orm';
import { expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import type { Database } from '../../src/database/client.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import type { MemberBody } from '../support/client.ts';
import { createLatch } from '../support/github/faults.ts';
import { listen } from '../support/raw-http.ts';
import { closing } from '../support/service.ts';
import { insertMembers } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();

const list = async (token = world.token) => {
  const { status, body } = await world.client.get<{ data: MemberBody[] }>('/2025-04/members', token);
  expect(status).toBe(200);
  return body.data;
};

test('members are listed latest first, ties by id, without an envelope', async () => {
  const { acme, service, organisation, client, token } = world;
  for (let index = 0; index < 20; index += 1) acme.member(`member-${index}`);
  await syncMembers(service, organisation);
  await service.database.executor.execute(sql`update members set created_at =
      to_timestamp(1700000000 + (github_id % 3)) where login like 'member-%'`);
  const { body } = await client.get<{ data: MemberBody[] }>('/2025-04/members', token);
  expect(Object.keys(body)).toEqual(['data']);
  const key = ({ created_at, id }: MemberBody) => `${created_at} ${id}`;
  expect(body.data.map(key)).toEqual(body.data.map(key).toSorted().toReversed());
  expect(new Set(body.data.map(({ created_at }) => created_at)).size).toBeGreaterThanOrEqual(3);
  expect(body.data.filter(({ name }) => name.startsWith('member-'))).toHaveLength(20);
});

/** An organisation with so many, most of whom have joined at the same time. */
async function newOrganisation(count: number) {
  const tenant = await world.newTenant();
  await insertMembers(world.service, tenant, count);
  return tenant;
}

test.each([99, 100, 101, 1_201])('the members of an organisation with %i are each listed once', async count => {
  const listed = await list((await newOrganisation(count)).token);
  expect(new Set(listed.map(({ name }) => name)).size).toBe(count);
  expect(listed).toHaveLength(count);
  const places = listed.map(({ name }) => Number(name.slice('Member '.length)) % 3);
  expect(places).toEqual(places.toSorted((a, b) => b - a));
});

test('members are read in steps of a hundred, each of which is sent before the next is read', async () => {
  const { token } = await newOrganisation(250);
  const { database } = world.service;
  const [asked, answered] = [createLatch(), createLatch()];
  const steps: number[] = [];
  const readStep: Database['readStep'] = async (selection, values) => {
    if (steps.length > 0) {
      asked.release();
      await answered.released;
    }
    const rows = await database.readStep(selection, values);
    steps.push(rows.length);
    return rows;
  };
  const app = closing(await buildApp({ ...world.service, database: { ...database, readStep } }));
  const reply = await fetch(`http://127.0.0.1:${await listen(app)}/2025-04/members`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(10_000),
  });
  let body = '';
  for await (const text of reply.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    body += text;
    if (body.match(/"mem_/g)?.length !== 100 || !body.endsWith('}}')) continue;
    await asked.released;
    expect(steps).toEqual([100]);
    answered.release();
  }
  expect(JSON.parse(body).data).toHaveLength(250);
  expect(steps).toEqual([100, 100, 50]);
});

test('the creation time of a member is rounded down to the second', async () => {
  await world.service.database.executor.execute('update members set created_at = to_timestamp(1700000000.9)');
  expect(new Set((await list()).map(({ created_at }) => created_at))).toEqual(new Set([1_700_000_000]));
});

test('a member who has left is not in the list, but can still be read by id', async () => {
  const { acme, service, organisation, client, token } = world;
  const leaver = acme.member('leaver', { name: 'Leah Verne' });
  await syncMembers(service, organisation);
  const before = (await list()).find(({ name }) => name === 'Leah Verne');
  acme.leave(leaver);
  await syncMembers(service, organisation);
  expect((await list()).map(({ name }) => name)).not.toContain('Leah Verne');
  const alone = await client.get<{ data: MemberBody }>(`/2025-04/members/${before?.id}`, token);
  expect(alone.body.data).toEqual(before);
  expect((await client.get(`/2025-04/members/${before?.id}/pull-requests`, token)).status).toBe(200);
});
