import { expect, test } from 'vitest';
import { getUsableVersion } from '../../src/database/organisations.ts';
import { getRuleset, suspendRules } from '../../src/database/rules.ts';
import { publishCheckRuns } from '../../src/sync/publish-check-runs.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { runHere, runJson } from '../commands/support.ts';
import { rescoreBatch } from '../support/rescore.ts';
import { applyRules } from '../support/tenants.ts';
import { startWorld, type World } from '../support/world.ts';
import { rule } from '../sync/support.ts';
import { post } from '../webhooks/support.ts';

const entry = 'rule "Slow", entry 2';
const sentence = `The rules in force are suspended: ${entry} takes too much time or memory. Stored scores stay; nothing is synced.`;

const shared = await startWorld();
const { service } = shared;

const suspend = ({ id }: { id: string }, version: number) =>
  service.database.transaction(executor => suspendRules(executor, id, version, entry));

const expectSuspended = async ({ id }: { id: string }) =>
  expect(getUsableVersion(service.database.executor, id)).rejects.toMatchObject({ code: 'rules_suspended' });

/** With one scored pull request, and rules that were suspended after that. */
async function startSuspended(): Promise<World> {
  const world = await startWorld();
  await world.applyRules([rule('1', 'true', 'Slow')]);
  world.web.openPullRequest({ author: world.acme.member('ada') });
  await world.import();
  await world.workOff();
  await world.service.database.transaction(executor => suspendRules(executor, world.organisation.id, 1, entry));
  return world;
}

test('suspended rules are shown by doctor, webhooks status, rules history, the audit log and /metrics', async () => {
  const { service } = await startSuspended();
  const environment = { DATABASE_URL: service.database.url };
  const acme = ['--organisation', 'acme'];
  const { stdout: doctor } = await runHere(environment, 'doctor', ...acme);
  expect(doctor.replace(/\s+/g, ' ')).toContain(sentence);
  expect(await runJson(environment, 'webhooks', 'status', ...acme)).toMatchObject({ rules_suspended_by: entry });
  expect((await runHere(environment, 'webhooks', 'status', ...acme)).stdout).toContain(sentence);
  expect(await runJson(environment, 'rules', 'history', ...acme)).toMatchObject([
    { version: 1, suspended_at: expect.any(Number), suspension: entry },
  ]);
  expect((await runHere(environment, 'rules', 'history', ...acme)).stdout).toContain('1 (in force) (suspended)');
  const log = await runJson<object[]>(environment, 'audit-log', ...acme);
  expect(log).toContainEqual(expect.objectContaining({ action: 'rules.suspend', actor: 'pullscore', subject: entry }));
  const { body } = await service.app.inject('/metrics');
  expect(body).toContain('pullscore_suspended_rules 1');
});

test('suspending earlier rules leaves those in force suspended', async () => {
  const { organisation } = await shared.newTenant();
  for (const value of ['1', '2']) await applyRules(service, organisation.id, { rules: [rule(value)] });
  for (const version of [2, 1]) await suspend(organisation, version);
  await expectSuspended(organisation);
});

test('suspended rules stay so in a file whose comments alone differ', async () => {
  const { organisation } = await shared.newTenant();
  const rules = [rule('1')];
  await applyRules(service, organisation.id, { rules });
  await suspend(organisation, 1);
  const { version } = await applyRules(service, organisation.id, { rules, source: '# why' });
  expect(version).toBe(2);
  await expectSuspended(organisation);
  expect(await getRuleset(service.database.executor, organisation.id, 2)).toMatchObject({ suspension: entry });
});

test('suspended rules score nothing and stored scores stay, until new rules score what waits', async () => {
  const world = await startSuspended();
  const { client, organisation, service, token } = world;
  const list = async () =>
    (await client.get<{ data: { id: string; score: number }[] }>('/2025-04/pull-requests', token)).body.data;
  const before = await list();
  expect(before).toMatchObject([{ score: 1 }]);
  const sync = () => client.put(`/2025-04/pull-requests/${before[0]?.id}/sync`, token);
  expect(await sync()).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('The rules in force are suspended: they take too much time or memory.') },
  });
  await expect(world.import()).rejects.toMatchObject({ code: 'rules_suspended' });
  const opened = world.web.openPullRequest({ author: world.acme.member('ada') }).open();
  expect(await post(service, opened)).toMatchObject({ status: 202 });
  expect(await world.workOff()).toBe(0);
  expect(await rescoreBatch(service)).toBe(0);
  expect(await publishCheckRuns(service)).toBe(false);
  expect(await list()).toEqual(before);

  await world.applyRules([rule('2', 'true', 'Quick')]);
  while ((await rescoreBatch(service, organisation.id)) > 0);
  expect(await list()).toMatchObject([{ score: 2 }]);
  expect(await world.workOff()).toBe(1);
  expect(await list()).toMatchObject([{ score: 2 }, { score: 2 }]);
  expect((await sync()).status).toBe(200);
});

test('a plan runs no suspended rules, which would end its process, too', async () => {
  const { organisation, service } = await startSuspended();
  const ruleset = { definitions: [], reviews: [], rules: [rule('2', 'true', 'Slow')] };
  const input = { organisationId: organisation.id, ruleset, withAudit: true };
  const { changes, result } = await service.scorer.run('plan', input);
  expect(changes.changed).toMatchObject([{ name: 'Slow', parts: ['logic'] }]);
  expect(result.scores).toMatchObject({ before: { sum: 0 }, after: { sum: 2 } });
  expect(result.rules).toMatchObject([{ before: { valid: false, points: 0 }, after: { valid: true, points: 2 } }]);
});

test('points for reviews stay in standings while rules without them are suspended', async () => {
  const { acme, client, organisation, token, web } = shared;
  const [ada, bob] = [acme.member('ada'), acme.member('bob')];
  await applyRules(service, organisation.id, {
    reviews: [rule('6', 'true', 'Review')],
    rules: [rule('1', 'true', 'Opened')],
  });
  await syncMembers(service, organisation);
  web.openPullRequest({ author: ada }).review(bob, 'APPROVED');
  await shared.import();
  await shared.workOff();
  await shared.applyRules([rule('2', 'true', 'Slow')]);
  await suspend(organisation, 2);
  const { body } = await client.get('/2026-12/standings', token);
  expect(body).toMatchObject({ data: { score: 1, review_score: 6, total: 7, outdated: 1 } });
});
