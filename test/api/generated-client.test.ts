import createClient from 'openapi-fetch';
import { expect, test } from 'vitest';
import type { components, paths } from '../../openapi/client.d.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';

/*
 * A client as its developer would write it. It compiles under `strict` without a cast: `npm run check` holds that.
 */

type Schemas = components['schemas'];

const world = await startWorld();

test('the generated client walks pages, syncs and deletes a pull request, and gets errors as values', async () => {
  const baseUrl = await world.service.app.listen({ port: 0, host: '127.0.0.1' });
  const client = (token = world.token) =>
    createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
  for (let number = 0; number < 3; number += 1) world.web.addPullRequest({ author: world.acme.member('ada') });
  await world.applyRules([rule('3', 'true', 'Any')]);
  await world.import();

  const { GET, PUT, DELETE } = client();
  const all: Schemas['PullRequest'][] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { per_page: 2, ...(cursor && { cursor }) };
    const { data, error } = await GET('/2025-04/pull-requests', { params: { query } });
    if (data === undefined) throw new Error(error.message);
    all.push(...data.data);
    cursor = data.meta.next_cursor;
  }
  const states: readonly Schemas['PullRequestState'][] = all.map(({ state }) => state);
  expect(states).toEqual(['open', 'open', 'open']);

  const { data: members } = await GET('/2025-04/members');
  expect(members?.data.map(({ name }) => name)).toEqual(['ada']);
  const id = all[0]?.id ?? '';
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
