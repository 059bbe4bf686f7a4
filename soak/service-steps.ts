/** What happens to the service and around it, and how GitHub lags and fails. */
import { setTimeout as delay } from 'node:timers/promises';
import { eq } from 'drizzle-orm';
import fc from 'fast-check';
import { pullRequests } from '../src/database/schema.ts';
import { drawTicket } from '../src/database/tickets.ts';
import { formatId } from '../src/ids.ts';
import { applyRules } from '../test/support/tenants.ts';
import { faultNames } from './github-side.ts';
import { type Arbitraries, at, favourite, kind, place } from './kinds.ts';
import { isLagging, type ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { ruleNames, rulesetOf } from './rules.ts';
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

/** The stored row, and what a replica answers to a client about it. */
async function findStored({ arena, tenant }: Scene, { source }: ModelPullRequest) {
  const [row] = await arena.database.executor
    .select({ id: pullRequests.id, sourceUpdatedAt: pullRequests.sourceUpdatedAt })
    .from(pullRequests)
    .where(eq(pullRequests.githubId, source.id));
  if (row === undefined) return undefined;
  const url = `/2025-04/pull-requests/${formatId('pr', row.id)}`;
  return {
    ...row,
    call: async (method: 'DELETE' | 'PUT', action = '') =>
      (await arena.replica()).client.send(method, url + action, tenant.token),
  };
}

/** Retries until there is an answer. */
async function remove(scene: Scene, pullRequest: ModelPullRequest): Promise<void> {
  const stored = await findStored(scene, pullRequest);
  if (stored === undefined) return;
  const ticket = await drawTicket(scene.arena.database.executor);
  let reply = await stored.call('DELETE');
  while (reply.status === 503) reply = await stored.call('DELETE');
  // 404: an earlier try deleted it, and its answer was lost.
  if (![200, 404].includes(reply.status)) {
    scene.differences.push(`deleting ${pullRequest.name} was answered ${reply.status} ${reply.body.message}`);
    return;
  }
  pullRequest.formerIds.add(stored.id);
  pullRequest.deleted = { from: stored.sourceUpdatedAt, until: pullRequest.source.updatedAt, ticket };
  pullRequest.seen = undefined;
  pullRequest.acknowledged = undefined;
}

/** The reply means that what GitHub showed at the time of the request, or later, is stored. */
async function refresh(scene: Scene, pullRequest: ModelPullRequest): Promise<void> {
  const { name, source, versions, formerIds } = pullRequest;
  const stored = await findStored(scene, pullRequest);
  if (stored === undefined) return;
  const before = versions.length - 1;
  const wasLagging = isLagging(source);
  const { status, body } = await stored.call('PUT', '/sync');
  if (![200, 404, 502, 503, 504].includes(status)) {
    scene.differences.push(`refreshing ${name} was answered ${status} ${body.message}`);
  }
  // While GraphQL lags, the answer may be any older state.
  if (status !== 200 || wasLagging || formerIds.has(stored.id)) return;
  pullRequest.seen = { id: stored.id, version: Math.max(before, pullRequest.seen?.version ?? 0) };
}

/** About a pull request, whether GitHub shows it or not. */
const ofPullRequest = <Parts extends object>(
  name: string,
  weight: number,
  parts: Arbitraries<Parts>,
  take: (scene: Scene, pullRequest: ModelPullRequest, step: Parts) => unknown,
) =>
  kind(name, weight, { ...parts, pullRequest: favourite }, (scene, step) => {
    const pullRequest = at(scene.model.pullRequests, step.pullRequest);
    return pullRequest && take(scene, pullRequest, step as unknown as Parts);
  });

export const serviceSteps = [
  // Time goes by, on GitHub and here; between two of these, everything on GitHub happens in one second.
  kind(
    'tick',
    62,
    { seconds: fc.constantFrom(1, 2, 3, 59, 60, 61) },
    ({ side, mirror, settling, inBackground }, { seconds }) => {
      side.tick(seconds);
      if (mirror !== undefined) inBackground(mirror.follow());
      return settling.pass(seconds);
    },
  ),
  // A webhook that was kept is sent, in any order.
  kind('deliver', 20, { webhook: place }, (scene, { webhook: index }) => {
    const [webhook] = scene.kept.splice(index % Math.max(scene.kept.length, 1), 1);
    return webhook && deliver(scene, webhook);
  }),
  // Any one again, with its GUID and its original payload.
  kind('redeliver', 20, { webhook: place }, (scene, { webhook: index }) => {
    const webhook = scene.webhooks[index % scene.webhooks.length];
    return webhook && deliver(scene, webhook);
  }),
  // Waits until GitHub shows the present and no work is left, then checks what is stored.
  kind('settle', 31, {}, scene => scene.settle('settled')),
  ofPullRequest('delete', 47, {}, remove),
  ofPullRequest('refresh', 39, { awaited }, (scene, pullRequest, step) => scene.run(step, refresh(scene, pullRequest))),
  kind('apply rules', 23, { rules }, (scene, step) => putInForce(scene, step.rules)),
  kind('compare', 31, { awaited }, async (scene, step) => {
    await scene.comparing;
    await scene.settling.makeDue();
    scene.comparing = scene.settling.compare();
    await scene.run(step, scene.comparing);
  }),
  kind('kill', 8, { replica: fc.nat(2), after: fc.nat(25) }, ({ arena, inBackground }, { replica, after }) =>
    inBackground(delay(after).then(() => arena.kill(replica))),
  ),
  // GraphQL shows the pull request, or its whole repository, that many seconds of GitHub's late: less than the service
  // waits before it believes an older state.
  ofPullRequest(
    'lag',
    56,
    { whole: fc.boolean(), seconds: fc.integer({ min: 1, max: 20 }) },
    ({ side }, { source }, { whole, seconds }) => side.lag(source, whole, seconds),
  ),
  kind(
    'fault',
    28,
    { fault: fc.constantFrom(...faultNames), times: fc.integer({ min: 1, max: 3 }) },
    ({ troubles }, { fault, times }) => troubles.fail(fault, times),
  ),
];
