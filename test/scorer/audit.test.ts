import { expect, test } from 'vitest';
import { audit } from '../../src/scorer/plan.ts';
import type { Work } from '../../src/scorer/work.ts';
import { insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';

const world = await startWorld();

test('an audit gives way to other jobs between the changes that it tries of one pull request', async () => {
  const { database, log } = world.service;
  await insertPullRequests(world.service, world, [1_700_000_000]);
  let turns = 0;
  const work = {
    ...{ database, log, isCareful: false, signal: new AbortController().signal },
    turn() {
      turns += 1;
      return undefined;
    },
    progress: () => undefined,
    alive: () => undefined,
  } as Partial<Work> as Work;
  // Each title is one that the audit tries.
  const rules = Array.from({ length: 50 }, (_, index) => rule('1', `title == "title ${index}"`, `Rule ${index}`));
  const ruleset = { definitions: [], rules, reviews: [] };
  await audit(work, { organisationId: world.organisation.id, ruleset });
  expect(turns).toBeGreaterThan(50);
});
