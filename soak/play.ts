import { setTimeout as delay } from 'node:timers/promises';
import { eq, sql } from 'drizzle-orm';
import { eraseMembers } from '../src/database/erasure.ts';
import { listMembers } from '../src/database/members.ts';
import { organisations } from '../src/database/schema.ts';
import { publishCheckRuns } from '../src/sync/publish-check-runs.ts';
import type { Organisation as GithubOrganisation } from '../test/support/github/organisation.ts';
import { createTenant } from '../test/support/tenants.ts';
import type { Arena } from './arena.ts';
import { createClientSide } from './client-side.ts';
import { compare, compareCheckRuns, type Stage } from './compare.ts';
import { type Announcement, createGithubSide } from './github-side.ts';
import { createMirror } from './mirror.ts';
import { createModel, isHere, type ModelOrganisation, type ModelPullRequest, organisationOf } from './model.ts';
import { createServiceSide, type Webhook, webhookOf } from './service-side.ts';
import { attempt, createSettling } from './settling.ts';
import type { History, ServiceStep, Step } from './steps.ts';
import { createTroubles } from './troubles.ts';

/** Each history has its own organisations and logins, so that many can be played at once. */
let played = 0;

/** @returns how what is stored differs from the model; nothing if all is well */
export async function play(arena: Arena, { clockAhead, rules, steps }: History): Promise<string[]> {
  const { github, database } = arena;
  played += 1;
  const side = createGithubSide(github, `${played}`, Math.floor(Date.now() / 1000) + clockAhead);
  const own = await addTenant(arena, side.middle);
  const [small, large] = [await addTenant(arena, side.small), await addTenant(arena, side.large)];
  const organisations = [own, small, large];
  const model = createModel(organisations);
  model.record([], side.repositories);
  const differences: string[] = [];
  const settling = createSettling(arena, differences);
  const service = createServiceSide(arena, model, settling, differences);
  const client = createClientSide(arena, differences);
  // On a cluster, the feed of changes may leave some out.
  const mirrors = process.env.TEST_CITUS_WORKERS ? [] : organisations.map(each => createMirror(arena, each));
  const webhooks: Webhook[] = [];
  const kept: Webhook[] = [];
  const background = new Set<Promise<void>>();
  /** An interrupted import continues where it was: only the next one reads what it had passed. */
  const interrupted = new Set<ModelOrganisation>();
  const troubles = createTroubles(github, model, side.repositories);

  const inBackground = (work: Promise<unknown>) => {
    const done = work
      .catch(error => void differences.push(`a step in the background failed: ${error}`))
      .then(() => void background.delete(done));
    background.add(done);
  };
  const joinBackground = async () => {
    while (background.size > 0) await Promise.all(background);
  };

  async function announce(announcement: Announcement, { fate, via }: { fate: string; via: number }): Promise<void> {
    const webhook = webhookOf(announcement, organisations);
    webhooks.push(webhook);
    arena.count(`webhooks ${fate}`);
    if (fate === 'kept') kept.push(webhook);
    if (fate === 'sent') await service.deliver(webhook, via);
    if (fate === 'doubled') {
      // Nobody knows which of them is first.
      webhook.tries += 1;
      await Promise.all([service.deliver(webhook, via), service.deliver(webhook, via + 1)]);
    }
  }

  const importAll = async (organisation: ModelOrganisation, via: number) => {
    const done = await service.importAll(organisation, via);
    if (!done) interrupted.add(organisation);
    return done;
  };

  /** One after the other: if a comparison is due, another request only makes it sooner. */
  let comparing = Promise.resolve();
  /** @param begin makes it due */
  const compareOwn = async (via: number, begin: () => Promise<void>) => {
    await begin();
    comparing = settling.compare(own, via);
  };

  /** Comes to rest, but for poisoned pull requests, and compares what is stored. */
  async function settle(stage: Stage): Promise<void> {
    side.catchUp();
    troubles.settle();
    await joinBackground();
    await settling.settle(organisations, troubles.poisoned);
    for (const organisation of organisations) {
      differences.push(...(await compare(database, model, organisation, stage, troubles.poisoned)));
    }
    for (const mirror of mirrors) differences.push(...(await mirror.compare()));
  }

  /** Waits for the work if the step says so; otherwise, it goes on in the background. */
  async function run({ awaited }: { awaited: boolean }, work: Promise<unknown>): Promise<void> {
    if (awaited) await work;
    else inBackground(work);
  }

  async function takeOnService(step: Exclude<ServiceStep, { pullRequest: number }>, via: number): Promise<void> {
    switch (step.kind) {
      case 'tick':
        side.tick(step.seconds);
        inBackground(attempt(arena, via, ({ deps }) => publishCheckRuns(deps, { organisationId: own.id })));
        for (const mirror of mirrors) inBackground(mirror.follow(via));
        return settling.pass(organisations, step.seconds);
      case 'deliver': {
        const [webhook] = kept.splice(step.webhook % Math.max(kept.length, 1), 1);
        return webhook && service.deliver(webhook, via);
      }
      case 'redeliver': {
        const webhook = webhooks[step.webhook % webhooks.length];
        return webhook && service.deliver(webhook, via);
      }
      case 'apply rules':
        return service.applyRules(own, step.rules, via);
      case 'erase':
        return service.erase(own, side.rita, via);
      case 'webhooks':
        await comparing;
        if (!step.enabled) return service.setWebhooks(own, false, via);
        // Looks for missed changes at once.
        await compareOwn(via, () => service.setWebhooks(own, true, via));
        return inBackground(comparing);
      case 'import':
        return run(step, importAll(own, via));
      case 'import recent':
        return run(step, service.importAll(own, via, side.now() - 1));
      case 'compare':
        await comparing;
        if (!own.webhooksEnabled) return;
        await compareOwn(via, () => settling.makeDue(own));
        return run(step, comparing);
      case 'sync members':
        return run(step, service.syncMembers(own, via));
      case 'kill':
        return inBackground(delay(step.after).then(() => arena.kill(via)));
      case 'heal':
        return heal(via);
      case 'use points up':
        return troubles.usePointsUp(step.remaining);
      case 'fault':
        return troubles.fail(step.fault, step.times);
      case 'settle':
        return settle('settled');
    }
  }

  async function takeOnPullRequest(
    pullRequest: ModelPullRequest,
    step: Extract<ServiceStep, { pullRequest: number }>,
    via: number,
  ): Promise<void> {
    const organisation = organisations.find(each => isHere(pullRequest, each)) ?? own;
    switch (step.kind) {
      case 'delete':
        return step.amidFetch
          ? client.removeAmidFetch(pullRequest, organisation, via)
          : client.remove(pullRequest, organisation, via);
      case 'refresh':
        return run(step, client.refresh(pullRequest, organisation, via, step.awaited && background.size === 0));
      case 'lag':
        return side.lag(pullRequest.source, step.whole, step.seconds);
      case 'poison':
        return troubles.poison(pullRequest, step.poison);
      case 'break repository':
        return troubles.breakRepository(pullRequest);
    }
  }

  /** Once GitHub works again, the operator retries what was parked. */
  async function heal(via: number): Promise<void> {
    troubles.heal();
    for (const organisation of organisations) await service.retry(organisation, via);
  }

  async function take(step: Step): Promise<void> {
    arena.count(`step ${step.kind}`);
    if ('fate' in step) {
      const announcement = side.take(step, model);
      return announcement && announce(announcement, step);
    }
    if (!('pullRequest' in step)) return takeOnService(step, step.via);
    const pullRequest = model.pullRequests[step.pullRequest % model.pullRequests.length];
    return pullRequest && takeOnPullRequest(pullRequest, step, step.via);
  }

  /** Delivers everything outstanding, settles GitHub, and looks for what no webhook announced. */
  async function end(): Promise<void> {
    troubles.end();
    side.catchUp();
    for (const webhook of kept.reverse()) await service.deliver(webhook, 0);
    await joinBackground();
    await comparing;
    await heal(0);
    await settle('settled');
    if (!own.webhooksEnabled) await service.setWebhooks(own, true, 0);
    await Promise.all(organisations.map(settling.compareWhole));
    await settle('compared');
    await Promise.all(organisations.map(each => service.importWhole(each, interrupted.has(each))));
    await settle('imported');
    for (const organisation of organisations) {
      await settling.publish(organisation);
      differences.push(...(await compareCheckRuns(database, model, organisation)));
    }
    await eraseAuthor();
    for (const mirror of mirrors) differences.push(...(await mirror.compare()));
    arena.tally.pullRequests += model.pullRequests.length;
  }

  /** With all of their pull requests: the model ends here. */
  async function eraseAuthor(): Promise<void> {
    const [author] = await listMembers(database.executor, own.id, true);
    if (author !== undefined) await eraseMembers(database, own.id, [author]);
  }

  try {
    await service.applyRules(own, rules, 0);
    for (const step of steps) {
      await take(step);
      if (differences.length > 0) break;
    }
    if (differences.length === 0) await end();
  } finally {
    troubles.end();
    await joinBackground();
    await arena.forget(organisations.map(({ id }) => id));
  }
  arena.tally.histories += 1;
  return differences;
}

async function addTenant({ database }: Arena, github: GithubOrganisation): Promise<ModelOrganisation> {
  const { organisation, token } = await createTenant({ database }, { ...github, githubId: github.id });
  // Compared only when the history says so.
  await database.executor
    .update(organisations)
    .set({ comparisonDueAt: sql`now() + interval '10 days'`, checksDueAt: sql`now()` })
    .where(eq(organisations.id, organisation.id));
  return organisationOf(github, organisation.id, token);
}
