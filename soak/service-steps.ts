/** What happens to the service and around it, and how GitHub fails: until it settles, is healed, or for some requests. */
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { eraseMembers } from '../src/database/erasure.ts';
import { listMembers } from '../src/database/members.ts';
import { getOrganisation, setWebhooksEnabled } from '../src/database/organisations.ts';
import { drawTicket } from '../src/database/tickets.ts';
import { importPullRequests } from '../src/sync/import.ts';
import { publishCheckRuns } from '../src/sync/publish-check-runs.ts';
import { syncMembers } from '../src/sync/sync-members.ts';
import { applyRules } from '../test/support/tenants.ts';
import type { Arena, Replica } from './arena.ts';
import { refresh, remove, removeAmidFetch } from './client-side.ts';
import { kind, ofPullRequest, place } from './kinds.ts';
import { isHere, type ModelOrganisation, type ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { type Choice, movedPlace, poolSize, rulesetOf } from './rules.ts';
import { faultNames, poisonNames } from './troubles.ts';
import { deliver } from './webhooks.ts';

const awaited = fc.boolean();

export const rules = fc.uniqueArray(
  fc.record({
    // The repository's name is the one fact that changes without the pull request.
    place: fc.oneof({ weight: 2, arbitrary: fc.constant(movedPlace) }, { weight: 6, arbitrary: fc.nat(poolSize - 1) }),
    enabled: fc.constantFrom(true, true, true, false),
  }),
  { maxLength: 8, size: 'max', selector: rule => rule.place },
);

export async function putInForce({ arena, own }: Scene, choice: Choice, via: number): Promise<void> {
  const given = rulesetOf(choice);
  await arena.insist(via, ({ deps }) => applyRules(deps, own.id, given));
  const same = JSON.stringify(given) === JSON.stringify(rulesetOf(own.rules));
  if (!same || own.rulesetVersion === 0) own.rulesetVersion += 1;
  own.rules = choice;
}

export async function setWebhooks({ arena, own }: Scene, enabled: boolean, via: number): Promise<void> {
  await arena.insist(via, ({ deps }) => setWebhooksEnabled(deps.database.executor, own.id, enabled));
  own.webhooksEnabled = enabled;
}

const maxImportMs = 20_000;

/** Tries once. @param since in GitHub's seconds; undefined: everything. @returns false if GitHub or the replica failed */
export const importAll = (arena: Arena, { id }: ModelOrganisation, via: number, since?: number): Promise<boolean> =>
  arena.attempt(via, async ({ deps }) => {
    const interrupt = new AbortController();
    // An operator who won't wait stops it and continues later: for GitHub, or for requests that GitHub's limit has put
    // off, which another history may have ended early since.
    const patience = setTimeout(() => interrupt.abort(), maxImportMs);
    try {
      await importPullRequests(deps, await getOrganisation(deps.database.executor, id), {
        since,
        signal: interrupt.signal,
        onProgress: ({ waitingSeconds }) => waitingSeconds !== undefined && interrupt.abort(),
      });
    } finally {
      clearTimeout(patience);
    }
  });

const ownerOf = ({ organisations, own }: Scene, pullRequest: ModelPullRequest) =>
  organisations.find(each => isHere(pullRequest, each)) ?? own;

export const serviceSteps = {
  // Time goes by, on GitHub and here; between two of these, everything on GitHub happens in one second.
  tick: kind(
    62,
    { seconds: fc.constantFrom(1, 2, 3, 59, 60, 61) },
    ({ side, arena, own, mirrors, settling, inBackground }, { seconds, via }) => {
      side.tick(seconds);
      inBackground(arena.attempt(via, ({ deps }) => publishCheckRuns(deps, { organisationId: own.id })));
      for (const mirror of mirrors) inBackground(mirror.follow(via));
      return settling.pass(seconds);
    },
  ),
  // A webhook that was kept is sent, in any order.
  deliver: kind(20, { webhook: place }, (scene, { webhook: index, via }) => {
    const [webhook] = scene.kept.splice(index % Math.max(scene.kept.length, 1), 1);
    return webhook && deliver(scene, webhook, via);
  }),
  // Any one again, with its GUID and its original payload.
  redeliver: kind(20, { webhook: place }, (scene, { webhook: index, via }) => {
    const webhook = scene.webhooks[index % scene.webhooks.length];
    return webhook && deliver(scene, webhook, via);
  }),
  // Waits until GitHub shows the present and no work is left, then checks what is stored.
  settle: kind(31, {}, scene => scene.settle('settled')),
  delete: ofPullRequest(47, { amidFetch: fc.boolean() }, (scene, pullRequest, { amidFetch, via }) =>
    (amidFetch ? removeAmidFetch : remove)(scene, pullRequest, ownerOf(scene, pullRequest), via),
  ),
  refresh: ofPullRequest(39, { awaited }, (scene, pullRequest, step) => {
    const isQuiet = step.awaited && scene.background.size === 0;
    return scene.run(step, refresh(scene, pullRequest, ownerOf(scene, pullRequest), step.via, isQuiet));
  }),
  'apply rules': kind(23, { rules }, (scene, step) => putInForce(scene, step.rules, step.via)),
  webhooks: kind(16, { enabled: fc.boolean() }, async (scene, { enabled, via }) => {
    await scene.comparing;
    await setWebhooks(scene, enabled, via);
    // Looks for missed changes at once.
    if (enabled) scene.inBackground(scene.compareOwn(via));
  }),
  import: kind(8, { awaited }, (scene, step) => {
    const { arena, own, interrupted } = scene;
    const importing = importAll(arena, own, step.via).then(isDone => isDone || interrupted.add(own));
    return scene.run(step, importing);
  }),
  'import recent': kind(8, { awaited }, (scene, step) =>
    scene.run(step, importAll(scene.arena, scene.own, step.via, scene.side.now() - 1)),
  ),
  'sync members': kind(8, { awaited }, ({ arena, own, run }, step) => {
    const sync = async ({ deps }: Replica) => syncMembers(deps, await getOrganisation(deps.database.executor, own.id));
    return run(step, arena.attempt(step.via, sync));
  }),
  compare: kind(23, { awaited }, async (scene, step) => {
    await scene.comparing;
    if (!scene.own.webhooksEnabled) return;
    await scene.settling.makeDue(scene.own);
    await scene.run(step, scene.compareOwn(step.via));
  }),
  kill: kind(8, { after: fc.nat(25) }, ({ arena, inBackground }, { after, via }) =>
    inBackground(delay(after).then(() => arena.kill(via))),
  ),
  // Of Rita, who only reviews, if she is stored.
  erase: kind(8, {}, ({ arena, own, side }, { via }) =>
    arena.insist(via, async ({ deps: { database } }) => {
      const { id } = side.accounts.rita;
      const people = await listMembers(database.executor, own.id, true);
      const person = people.find(({ githubId }) => githubId === id);
      if (person === undefined) return;
      own.erased.set(id, Number.POSITIVE_INFINITY);
      await eraseMembers(database, own.id, [person]);
      own.erased.set(id, await drawTicket(database.executor));
    }),
  ),
  // GraphQL shows the pull request, or its whole repository, that many seconds of GitHub's late: less than the service
  // waits before it believes an older state.
  lag: ofPullRequest(
    56,
    { whole: fc.boolean(), seconds: fc.integer({ min: 1, max: 20 }) },
    ({ side }, { source }, { whole, seconds }) => side.lag(source, whole, seconds),
  ),
  poison: ofPullRequest(14, { poison: fc.constantFrom(...poisonNames) }, ({ troubles }, pullRequest, { poison }) =>
    troubles.poison(pullRequest, poison),
  ),
  heal: kind(7, {}, ({ heal }, { via }) => heal(via)),
  // On all of its pages.
  'break repository': ofPullRequest(7, {}, ({ troubles }, pullRequest) => troubles.breakRepository(pullRequest)),
  // Leaves so many points: a tenth of the hour's is kept for what is urgent.
  'use points up': kind(7, { remaining: fc.constantFrom(0, 3, 400) }, ({ troubles }, { remaining }) =>
    troubles.usePointsUp(remaining),
  ),
  fault: kind(
    28,
    { fault: fc.constantFrom(...faultNames), times: fc.integer({ min: 1, max: 3 }) },
    ({ troubles }, { fault, times }) => troubles.fail(fault, times),
  ),
};
