/** Logins go from one person to another, and change while nobody looks: what is stored under them is of one person. */
import { expect, test } from 'vitest';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { type SyncTenant, startSyncWorld } from '../sync/support.ts';
import { commandsWith, complaintOf } from './support.ts';

const world = await startSyncWorld();
const { service } = world;
const { run, runJson } = commandsWith({ ...world.shell, LOG_LEVEL: 'silent' });

const runIn = ({ organisation }: SyncTenant, ...command: string[]) =>
  run(...command, '--organisation', organisation.login);
const readList = (tenant: SyncTenant) => runIn(tenant, 'members sync');

async function namesOf(tenant: SyncTenant, { id }: PullRequest) {
  const row = (await tenant.storedPullRequests()).find(({ githubId }) => githubId === id);
  return row && { assignees: row.assignees, mergedBy: row.mergedBy };
}

/** One who left, and who took their login; each has a pull request. */
async function withTakenLogin() {
  const tenant = await world.newTenant();
  const { acme } = tenant;
  const login = `eve-of-${acme.login}`;
  const first = acme.member(login);
  await tenant.sync(acme.repository('web').openPullRequest({ author: first }));
  acme.leave(first);
  await readList(tenant);
  first.login = `gone-of-${acme.login}`;
  const second = acme.member(`new-of-${acme.login}`);
  second.login = login;
  await tenant.sync(acme.repository('web').openPullRequest({ author: second }));
  return { tenant, login };
}

test('what concerns several people is neither erased nor exported at once, but by id', async () => {
  const { tenant, login } = await withTakenLogin();
  for (const command of [
    ['erase', login, '--yes'],
    ['export', login],
  ]) {
    expect((await complaintOf(runIn(tenant, 'member', ...command))).replace(/mem_\w+/g, 'ID')).toContain(
      `Several people have, or had, the login ${login}. Name one by id: ID (left) or ID (a member).`,
    );
  }
  expect(await tenant.storedPullRequests()).toHaveLength(2);
  const { stderr } = await runIn(tenant, 'member export', login);
  const id = /(mem_\w+) \(left\)/.exec(stderr)?.[1] ?? '';
  const options = ['--organisation', tenant.organisation.login];
  const exported = await runJson('member export', id, ...options);
  expect(exported).toMatchObject({ login, members: [{ id }] });
  expect(await runJson('member erase', id, '--yes', ...options)).toMatchObject({ pull_requests: 1 });
  expect(await tenant.storedPullRequests()).toHaveLength(1);
});

test.each([
  ['a member', false],
  ['somebody who has left', true],
])('an erasure and an export of %s know the login that a pull request brought', async (_, hasLeft) => {
  const tenant = await world.newTenant();
  const { acme } = tenant;
  const [author, ada] = [acme.member(`bert-of-${acme.login}`), acme.member(`ruth-of-${acme.login}`)];
  const web = acme.repository('web');
  await tenant.sync(web.openPullRequest({ author: ada }));
  const others = web.openPullRequest({ author, state: 'MERGED', mergedBy: ada, assignees: [ada] });
  await tenant.sync(others);
  if (hasLeft) acme.leave(ada);
  await readList(tenant);
  const former = ada.login;
  ada.login = `lovelace-of-${acme.login}`;
  await tenant.sync(others);
  const options = ['--organisation', tenant.organisation.login];
  const exported = await runJson('member export', former, ...options);
  expect(exported).toMatchObject({ merged: [{ url: others.url }], assigned_to: [{ url: others.url }] });
  await runJson('member erase', former, '--yes', ...options);
  expect(await namesOf(tenant, others)).toEqual({ assignees: [], mergedBy: 'ghost' });
});

test('an erasure leaves the assignments and merges of who has the former login now', async () => {
  const tenant = await world.newTenant();
  const { acme } = tenant;
  const [author, kim] = [acme.member(`bert-of-${acme.login}`), acme.member(`kim-of-${acme.login}`)];
  const web = acme.repository('web');
  const own = web.openPullRequest({ author: kim });
  await tenant.sync(own);
  const former = kim.login;
  kim.login = `kim2-of-${acme.login}`;
  await tenant.sync(own);
  const max = acme.member(`max-of-${acme.login}`);
  max.login = former;
  const others = web.openPullRequest({ author, state: 'MERGED', mergedBy: max, assignees: [max] });
  await tenant.sync(others);
  await readList(tenant);
  await runIn(tenant, 'member erase', kim.login, '--yes');
  const work = createRequestWorker(service, tenant.organisation.id);
  while (await work());
  expect(await namesOf(tenant, others)).toEqual({ assignees: [former], mergedBy: former });
});
