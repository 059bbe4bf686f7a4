import createClient from 'openapi-fetch';
import { beforeAll, expect, test } from 'vitest';
import type { components, paths } from '../../openapi/client.d.ts';
import { addUser } from '../../src/database/users.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';

/*
 * A client as its developer would write it. It compiles under `strict` without a cast: `npm run check` holds that.
 */

type Schemas = components['schemas'];

const world = await startWorld();
let baseUrl: string;
beforeAll(async () => {
  baseUrl = await world.service.app.listen({ port: 0, host: '127.0.0.1' });
  const rob = world.acme.member('rob');
  for (let number = 0; number < 7; number += 1) {
    world.web.addPullRequest({ author: world.acme.member(number < 4 ? 'ada' : 'bert') });
  }
  world.web.addPullRequest({ author: rob });
  await world.import();
  await world.applyRules([rule('3', 'true', 'Any')]);
  for (const name of ['Bea', 'Cleo', 'Dee']) {
    await addUser(world.service.database.executor, {
      organisationId: world.organisation.id,
      name,
      email: `${name}@acme.example`,
      photoUrl: 'https://photos.example/user',
    });
  }
});

const client = (token = world.token) => createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

interface Page<Item> {
  data: readonly Item[];
  meta: Schemas['PageMeta'];
  links: Schemas['PageLinks'];
}

/** Every item of a list with pages of two. */
async function walk<Item>(
  readPage: (query: { cursor?: string; per_page: number }) => Promise<{ data?: Page<Item>; error?: Schemas['Error'] }>,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | null | undefined;
  do {
    const { data, error } = await readPage({ per_page: 2, ...(cursor && { cursor }) });
    if (data === undefined) throw new Error(error?.message);
    items.push(...data.data);
    cursor = data.meta.next_cursor;
  } while (cursor !== null);
  return items;
}

const numberOf = ({ number }: Schemas['PullRequest']) => number;

test('the generated client walks every page of every list', async () => {
  const { GET } = client();
  const all = await walk(query => GET('/2025-04/pull-requests', { params: { query } }));
  expect(new Set(all.map(numberOf)).size).toBe(8);
  const states: readonly Schemas['PullRequestState'][] = all.map(({ state }) => state);
  expect(new Set(states)).toEqual(new Set(['open']));

  const { data: members } = await GET('/2025-04/members');
  expect(members?.data.map(({ name }) => name).toSorted()).toEqual(['ada', 'bert', 'rob']);
  const ofMembers = await Promise.all(
    (members?.data ?? []).map(({ id: member }) =>
      walk(query => GET('/2025-04/members/{member}/pull-requests', { params: { path: { member }, query } })),
    ),
  );
  expect(ofMembers.flat().map(numberOf).toSorted()).toEqual(all.map(numberOf).toSorted());

  const users = await walk(query => GET('/2025-04/users', { params: { query } }));
  expect(users.map(({ name }) => name).toSorted()).toEqual(['Ada Lovelace', 'Bea', 'Cleo', 'Dee']);
  const { data: rules } = await GET('/2025-04/rules');
  expect(rules?.data.map(({ name }) => name)).toEqual(['Any']);
});

test('the generated client reads, syncs and deletes a pull request, and gets errors as values', async () => {
  const { GET, PUT, DELETE } = client();
  const { data: account } = await GET('/2025-04/account');
  expect(account?.data.name).toBe('Ada Lovelace');
  const { data: page } = await GET('/2025-04/pull-requests');
  const id = page?.data[0]?.id ?? '';
  const params = { path: { pullRequest: id } };
  const { data: synced } = await PUT('/2025-04/pull-requests/{pullRequest}/sync', { params });
  const [entry] = synced?.data.score_breakdown ?? [];
  expect(entry?.action).toBe('ADD' satisfies Schemas['RuleEffectAction']);
  const { data: deleted } = await DELETE('/2025-04/pull-requests/{pullRequest}', { params });
  expect(deleted).toEqual({ id, object: 'pull_request', deleted: true });
  const { error, response } = await PUT('/2025-04/pull-requests/{pullRequest}/sync', { params });
  expect([response.status, error?.message]).toEqual([404, 'There is no pull request with this id.']);
  expect((await client('ps_none').GET('/2025-04/account')).error?.message).toBe(
    'Unauthenticated. Send a valid token in the header Authorization: Bearer TOKEN.',
  );
});
