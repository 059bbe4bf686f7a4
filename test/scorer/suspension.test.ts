import { and, eq } from 'drizzle-orm';
import { expect, onTestFinished, test } from 'vitest';
import { getUsableVersion } from '../../src/database/organisations.ts';
import { suspendRules } from '../../src/database/rules.ts';
import { rulesets } from '../../src/database/schema.ts';
import { publishCheckRuns } from '../../src/sync/check-runs.ts';
import { rescoreBatch } from '../../src/sync/rescore.ts';
import { runHere, runJson } from '../commands/support.ts';
import { type Scene, startScene } from '../support/scene.ts';
import { rule } from '../sync/support.ts';
import { post } from '../webhooks/support.ts';

const entry = 'rule "Slow", entry 2,';
const sentence = `The rules in force are suspended: ${entry} takes too much time or memory. Stored scores stay; nothing is synced.`;

/** With one scored pull request, and rules that were suspended after that. */
async function startSuspended(): Promise<Scene> {
  const scene = await startScene();
  onTestFinished(() => scene.close());
  await scene.applyRules([rule('1', 'true', 'Slow')]);
  scene.web.openPullRequest({ author: scene.acme.member('ada') });
  await scene.import();
  await scene.workOff();
  await scene.service.database.transaction(executor => suspendRules(executor, scene.organisation.id, 1, entry));
  return scene;
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

test('suspending rules of before leaves those that are in force suspended', async () => {
  const { organisation, service, ...scene } = await startSuspended();
  await scene.applyRules([rule('2', 'true', 'Quick')]);
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

test('while rules are suspended stored scores stay and nothing is scored; other rules go on with what waits', async () => {
  const scene = await startSuspended();
  const { client, organisation, service, token } = scene;
  const list = async () =>
    (await client.get<{ data: { id: string; score: number }[] }>('/2025-04/pull-requests', token)).body.data;
  const before = await list();
  expect(before).toMatchObject([{ score: 1 }]);
  const sync = () => client.put(`/2025-04/pull-requests/${before[0]?.id}/sync`, token);
  expect(await sync()).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('The rules in force are suspended: they take too much time or memory.') },
  });
  await expect(scene.import()).rejects.toMatchObject({ code: 'rules_suspended' });
  const opened = scene.web.openPullRequest({ author: scene.acme.member('ada') }).open();
  expect(await post(service, opened)).toMatchObject({ status: 202 });
  expect(await scene.workOff()).toBe(0);
  expect(await rescoreBatch(service)).toBe(0);
  expect(await publishCheckRuns(service)).toBe(false);
  expect(await list()).toEqual(before);

  await scene.applyRules([rule('2', 'true', 'Quick')]);
  while ((await rescoreBatch(service, organisation.id)) > 0);
  expect(await list()).toMatchObject([{ score: 2 }]);
  expect(await scene.workOff()).toBe(1);
  expect(await list()).toMatchObject([{ score: 2 }, { score: 2 }]);
  expect((await sync()).status).toBe(200);
});
