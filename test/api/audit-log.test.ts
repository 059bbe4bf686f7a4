import { afterAll, beforeAll, expect, test } from 'vitest';
import { listAuditEvents } from '../../src/database/audit-log.ts';
import { formatId, newId } from '../../src/ids.ts';
import type { PageBody, PullRequestBody } from '../support/client.ts';
import { type Scene, startScene } from '../support/scene.ts';
import { createTenant } from '../support/tenants.ts';

let scene: Scene;
beforeAll(async () => {
  scene = await startScene();
  scene.acme.member('ada');
});
afterAll(() => scene.close());

test('syncs and deletions are recorded once, with the user, the pull request and the request', async () => {
  const { client, token, service, user, organisation } = scene;
  scene.web.addPullRequest();
  await scene.import();
  const { body } = await client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', token);
  const [{ id = '', url = '' } = {}] = body.data;
  const path = `/2025-04/pull-requests/${id}`;
  const replies = [await client.put(`${path}/sync`, token), await client.delete(path, token)];
  expect(replies.map(({ status }) => status)).toEqual([200, 200]);
  const failed = [
    await client.delete(path, token),
    await client.put(`${path}/sync`, token),
    await client.delete(`/2025-04/pull-requests/${formatId('pr', newId())}`, token),
    await client.delete(path, (await createTenant(service)).token),
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
    })),
  );
});
