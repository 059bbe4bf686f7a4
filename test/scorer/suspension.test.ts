import { and, eq } from 'drizzle-orm';
import { expect, test } from 'vitest';
import { getUsableVersion } from '../../src/database/organisations.ts';
import { getRuleset, suspendRules } from '../../src/database/rules.ts';
import { rulesets } from '../../src/database/schema.ts';
import { publishCheckRuns } from '../../src/sync/publish-check-runs.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { runHere, runJson } from '../commands/support.ts';
import { rescoreBatch } from '../support/rescore.ts';
import { applyRules } from '../support/tenants.ts';
import { startWorld, type World } from '../support/world.ts';
import { rule } from '../sync/support.ts';
import { post } from '../webhooks/support.ts';

const entry = 'rule "Slow", entry 2,';
const sentence = `The rules in force are suspended: ${entry} takes too much time or memory. Stored scores stay; nothing is synced.`;

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
  const { organisation, service, ...world } = await startSuspended();
  await world.applyRules([rule('2', 'true', 'Quick')]);
  const suspend = (version: number) =>
    service.database.transaction(executor => suspendRules(executor, organisation.id, version, entry));
  await suspend(2);
  await service.database.executor
    .update(rulesets)
    .set({ suspendedAt: null })
    .where(and(eq(rulesets.organisationId, organisation.id), eq(rulesets.version, 1)));
  await suspend(1);
  await expect(getUsableVersion(service.database.executor, organisation.id)).rejects.toMatchObject({
    code: 'rules_suspended',
  });
});

test('suspended rules stay so in a file whose comments alone differ', async () => {
  const { organisation, service } = await startSuspended();
  const rules = [rule('1', 'true', 'Slow')];
  const { version } = await applyRules(service, organisation.id, { rules, source: '# why' });
  expect(version).toBe(2);
  await expect(getUsableVersion(service.database.executor, organisation.id)).rejects.toMatchObject({
    code: 'rules_suspended',
  });
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

test('points for reviews stay in standings while rules without them are suspended', async () => {
  const world = await startWorld();
  const { acme, client, organisation, service, token, web } = world;
  const [ada, bob] = [acme.member('ada'), acme.member('bob')];
  await applyRules(service, organisation.id, {
    reviews: [rule('6', 'true', 'Review')],
    rules: [rule('1', 'true', 'Opened')],
  });
  await syncMembers(service, organisation);
  web.openPullRequest({ author: ada }).review(bob, 'APPROVED');
  await world.import();
  await world.workOff();
  await world.applyRules([rule('2', 'true', 'Slow')]);
  await service.database.transaction(executor => suspendRules(executor, organisation.id, 2, entry));
  const { body } = await client.get('/2026-12/standings', token);
  expect(body).toMatchObject({ data: { score: 1, review_score: 6, total: 7, outdated: 1 } });
});
