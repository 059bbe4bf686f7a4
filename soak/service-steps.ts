/** What happens to the service and around it, and how GitHub lags and fails. */
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { applyRules } from '../test/support/tenants.ts';
import { refresh, remove } from './client-side.ts';
import { kind, ofPullRequest, place } from './kinds.ts';
import type { Scene } from './play.ts';
import { ruleNames, rulesetOf } from './rules.ts';
import { faultNames } from './troubles.ts';
import { deliver } from './webhooks.ts';

const awaited = fc.boolean();

export const rules = fc.shuffledSubarray(ruleNames, { maxLength: 8 });

export async function putInForce({ arena, tenant, model }: Scene, names: readonly string[]): Promise<void> {
  const given = rulesetOf(names);
  // Again if the replica was killed: an earlier try may have applied them.
  while (!(await arena.attempt(service => applyRules(service, tenant.organisation.id, given))));
  const same = JSON.stringify(given) === JSON.stringify(rulesetOf(model.rules));
  if (!same || model.rulesetVersion === 0) model.rulesetVersion += 1;
  model.rules = names;
}

export const serviceSteps = {
  // Time goes by, on GitHub and here; between two of these, everything on GitHub happens in one second.
  tick: kind(
    62,
    { seconds: fc.constantFrom(1, 2, 3, 59, 60, 61) },
    ({ side, mirror, settling, inBackground }, { seconds }) => {
      side.tick(seconds);
      if (mirror !== undefined) inBackground(mirror.follow());
      return settling.pass(seconds);
    },
  ),
  // A webhook that was kept is sent, in any order.
  deliver: kind(20, { webhook: place }, (scene, { webhook: index }) => {
    const [webhook] = scene.kept.splice(index % Math.max(scene.kept.length, 1), 1);
    return webhook && deliver(scene, webhook);
  }),
  // Any one again, with its GUID and its original payload.
  redeliver: kind(20, { webhook: place }, (scene, { webhook: index }) => {
    const webhook = scene.webhooks[index % scene.webhooks.length];
    return webhook && deliver(scene, webhook);
  }),
  // Waits until GitHub shows the present and no work is left, then checks what is stored.
  settle: kind(31, {}, scene => scene.settle('settled')),
  delete: ofPullRequest(47, {}, remove),
  refresh: ofPullRequest(39, { awaited }, (scene, pullRequest, step) => scene.run(step, refresh(scene, pullRequest))),
  'apply rules': kind(23, { rules }, (scene, step) => putInForce(scene, step.rules)),
  compare: kind(31, { awaited }, async (scene, step) => {
    await scene.comparing;
    await scene.settling.makeDue();
    await scene.run(step, scene.compareOnce());
  }),
  kill: kind(8, { replica: fc.nat(2), after: fc.nat(25) }, ({ arena, inBackground }, { replica, after }) =>
    inBackground(delay(after).then(() => arena.kill(replica))),
  ),
  // GraphQL shows the pull request, or its whole repository, that many seconds of GitHub's late: less than the service
  // waits before it believes an older state.
  lag: ofPullRequest(
    56,
    { whole: fc.boolean(), seconds: fc.integer({ min: 1, max: 20 }) },
    ({ side }, { source }, { whole, seconds }) => side.lag(source, whole, seconds),
  ),
  fault: kind(
    28,
    { fault: fc.constantFrom(...faultNames), times: fc.integer({ min: 1, max: 3 }) },
    ({ troubles }, { fault, times }) => troubles.fail(fault, times),
  ),
};
