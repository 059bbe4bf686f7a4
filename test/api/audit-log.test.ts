import { expect, test } from 'vitest';
import { listAuditEvents } from '../../src/database/audit-log.ts';
import { formatId, newId } from '../../src/ids.ts';
import type { PullRequestBody } from '../support/client.ts';
import { htmlError } from '../support/github/faults.ts';
import { createToken } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
world.acme.member('ada');

/** A new pull request, as it is listed. */
async function storedPullRequest(): Promise<PullRequestBody> {
  const source = world.web.addPullRequest();
  await world.import();
  return world.find(source);
}

test('syncs and deletions are recorded once, with the user, the pull request and the request', async () => {
  const { client, token, service, user, organisation } = world;
  const { id, url } = await storedPullRequest();
  const path = `/2025-04/pull-requests/${id}`;
  const replies = [await client.put(`${path}/sync`, token), await client.delete(path, token)];
  expect(replies.map(({ status }) => status)).toEqual([200, 200]);
  const failed = [
    await client.delete(path, token),
    await client.put(`${path}/sync`, token),
    await client.delete(`/2025-04/pull-requests/${formatId('pr', newId())}`, token),
    await client.delete(path, (await world.newTenant()).token),
    await client.delete(path, undefined),
  ];
  expect(failed.map(({ status }) => status)).toEqual([404, 404, 404, 404, 401]);
  const events = await listAuditEvents(service.database.executor, { login: 'ACME' });
  expect(events).toEqual(
    [
      ['pull_request.sync', id],
      // Afterwards nothing says which page had the id.
      ['pull_request.delete', `${url} (${id})`],
    ].map(([action, subject], index) => ({
      organisationId: organisation.id,
      id: expect.any(Number),
      happenedAt: expect.any(Date),
      organisation: 'acme',
      actor: user.email,
      action,
      subject,
      requestId: replies[index]?.headers['x-request-id'],
      count: 1,
    })),
  );
});

test('a sync that fails is not recorded', async () => {
  const { client, token, service } = world;
  const { id } = await storedPullRequest();
  const sync = () => client.put(`/2025-04/pull-requests/${id}/sync`, token);
  world.github.fault(htmlError(502));
  expect((await sync()).status).toBe(502);
  world.github.fault({ kind: 'hold', until: client.delete(`/2025-04/pull-requests/${id}`, token) });
  expect((await sync()).status).toBe(404);
  const events = await listAuditEvents(service.database.executor, { login: 'acme' });
  expect(events?.filter(({ subject }) => subject.includes(id)).map(({ action }) => action)).toEqual([
    'pull_request.delete',
  ]);
});

test('many syncs of a pull request with one token are recorded in one row a minute, with their count', async () => {
  const { client, token, service, user } = world;
  const [first, second] = [await storedPullRequest(), await storedPullRequest()];
  const other = await createToken(service, user);
  const sync = async ({ id }: PullRequestBody, bearer: string) =>
    (await client.put(`/2025-04/pull-requests/${id}/sync`, bearer)).status;
  const minuteOf = () => Math.floor(Date.now() / 60_000);
  const begin = minuteOf();
  const statuses = [await sync(first, other), await sync(second, token)];
  statuses.push(...(await Promise.all(Array.from({ length: 20 }, () => sync(first, token)))));
  const minutes = minuteOf() - begin + 1;
  expect(new Set(statuses)).toEqual(new Set([200]));
  const events = (await listAuditEvents(service.database.executor, { login: 'acme' })) ?? [];
  const countsOf = ({ id }: PullRequestBody) =>
    events.filter(({ subject }) => subject === id).map(({ count }) => count);
  const counts = countsOf(first);
  expect(counts.reduce((sum, count) => sum + count)).toBe(21);
  expect(counts).toContain(1);
  expect(counts.length).toBeLessThanOrEqual(minutes + 1);
  expect(countsOf(second)).toEqual([1]);
});
