import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { countOutdated } from '../../src/database/backlog.ts';
import { getUsableVersion } from '../../src/database/organisations.ts';
import { ServiceError } from '../../src/errors.ts';
import { createScorer } from '../../src/scorer/scorer.ts';
import { requireBuild } from '../commands/support.ts';
import { rescoreBatch } from '../support/rescore.ts';
import { scorersOf } from '../support/scorer.ts';
import { rule, startSyncWorld } from '../sync/support.ts';

test('re-scoring and a plan finish correctly, and no rules are suspended, whenever their processes are killed', async () => {
  requireBuild();
  const world = await startSyncWorld();
  const tenant = await world.newTenant();
  const { database, log } = world.service;
  const { id: organisationId } = tenant;
  await tenant.newStored(2_000);
  await tenant.apply(rule('additions'));
  const scorer = createScorer(database, log, { environment: {} });
  onTestFinished(() => scorer.close());
  const deps = { ...world.service, scorer };

  // Each time a little later: while they start, load rules, score, plan and save.
  let kills = 0;
  const killNext = () => {
    for (const pid of scorersOf()) process.kill(pid, 'SIGKILL');
    kills += 1;
    if (kills < 25) killing = setTimeout(killNext, kills * 20);
  };
  let killing = setTimeout(killNext, 20);
  onTestFinished(() => clearTimeout(killing));

  /** Until it is done: a job fails if its process ended three times. */
  const insist = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof ServiceError && error.code === 'overloaded')) throw error;
      }
    }
  };
  const ruleset = { definitions: [], reviews: [], rules: [rule('additions + 1')] };
  const plan = insist(() => scorer.run('plan', { organisationId, ruleset, withAudit: true }));
  while (kills < 25 || (await countOutdated(database.executor, organisationId)) > 0) {
    const scored = await insist(() => rescoreBatch(deps, organisationId));
    if (scored === 0) await delay(20);
  }

  const scores = (await tenant.storedPullRequests()).map(({ score }) => score);
  expect(scores).toEqual(Array.from({ length: 2_000 }, () => 3));
  const changes = await tenant.scoreHistory();
  expect(changes.filter(change => change === '0 → 3 (ruleset, 1)')).toHaveLength(2_000);
  expect(await plan).toMatchObject({ result: { pull_requests: { total: 2_000, raised: 2_000 } } });
  // It would throw if they were suspended.
  expect(await getUsableVersion(database.executor, organisationId)).toBe(1);
}, 180_000);
