import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eq, sql } from 'drizzle-orm';
import { generateAccessToken, hashAccessToken } from '../src/access-token.ts';
import { addAccessToken } from '../src/database/access-tokens.ts';
import { addOrganisation } from '../src/database/organisations.ts';
import { organisations } from '../src/database/schema.ts';
import { addUser } from '../src/database/users.ts';
import { type Fault, type GithubStandInRequest, htmlError, secondaryLimit } from '../test/support/github/faults.ts';
import type { Organisation as GithubOrganisation } from '../test/support/github/organisation.ts';
import type { Arena } from './arena.ts';
import { createClientSide } from './client-side.ts';
import { compare, type Stage } from './compare.ts';
import { createGithubSide, type Told } from './github-side.ts';
import { createModel, isHere, type ModelOrganisation, organisationOf } from './model.ts';
import { createServiceSide, isRenaming, type Webhook } from './service-side.ts';
import type { FaultName, GithubStep, History, ServiceStep, Step } from './steps.ts';
import { count, type Tally } from './tally.ts';

/** Organisations and logins are a history's own, so that many can be played at once. */
let played = 0;

/** @returns how what is stored differs from the model; nothing where all is well */
export async function play(
  arena: Arena,
  { otherTracked, clockAhead, rules, steps }: History,
  tally: Tally,
): Promise<string[]> {
  const { github, database } = arena;
  played += 1;
  // An hour's points, which histories are not to run out of: that GitHub refuses is a step of its own.
  if (github.limit !== null) github.limit.remaining = github.limit.limit;
  const side = createGithubSide(github, `${played}`, Math.floor(Date.now() / 1000) + clockAhead);
  const { acme, other } = side;
  const own = await addTenant(arena, acme);
  const organisations = otherTracked ? [own, await addTenant(arena, other)] : [own];
  const model = createModel(organisations);
  model.record([], side.repositories);
  const differences: string[] = [];
  const service = createServiceSide(arena, tally, differences);
  const client = createClientSide(arena, tally, differences);
  const webhooks: Webhook[] = [];
  const kept: Webhook[] = [];
  const takeAway: (() => void)[] = [];
  const background = new Set<Promise<void>>();
  /** An import that was broken off goes on where it was: what it had passed is read by the one after. */
  const interrupted = new Set<ModelOrganisation>();
  const isOwn = ({ variables: { id, repository, ids } }: GithubStandInRequest) =>
    id === acme.nodeId ||
    id === other.nodeId ||
    side.repositories.some(({ nodeId }) => nodeId === repository) ||
    (Array.isArray(ids) && model.pullRequests.some(({ source }) => ids.includes(source.nodeId)));

  // Answers that are overtaken: of every three, one comes late, and tells of what was.
  for (const milliseconds of [10, 40, 120]) {
    const when = (request: GithubStandInRequest) => isOwn(request) && Math.random() < 0.13;
    takeAway.push(github.fault({ kind: 'late', milliseconds }, { times: Number.POSITIVE_INFINITY, when }));
  }

  const inBackground = (work: Promise<unknown>) => {
    const all = work.then(
      () => undefined,
      error => {
        differences.push(`a step in the background failed: ${error}`);
      },
    );
    const done = all.finally(() => background.delete(done));
    background.add(done);
  };
  const joinBackground = async () => {
    while (background.size > 0) await Promise.all(background);
  };

  async function tell({ event, pullRequest }: Told, { fate, via }: { fate: string; via: number }): Promise<void> {
    const { organization } = event.payload as { organization?: { id: number } };
    const organisation = organisations.find(each => each.github.id === organization?.id);
    const webhook: Webhook = { guid: randomUUID(), event, organisation, pullRequest, tries: 0 };
    webhooks.push(webhook);
    if (organisation !== undefined && isRenaming(event)) organisation.isRenamingTold = false;
    count(tally, `webhooks ${fate}`);
    if (fate === 'kept') kept.push(webhook);
    if (fate === 'sent') await service.deliver(webhook, via);
    if (fate === 'doubled') {
      // Which of them is the first, nobody knows.
      webhook.tries += 1;
      await Promise.all([service.deliver(webhook, via), service.deliver(webhook, via + 1)]);
    }
  }

  const importAll = async (organisation: ModelOrganisation, via: number) => {
    const done = await service.importAll(organisation, via);
    if (!done) interrupted.add(organisation);
    return done;
  };

  /** One after the other: where one is due, another is only made sooner. */
  let reconciling = Promise.resolve();
  /** @param begin makes it due */
  const reconcile = async (organisation: ModelOrganisation, via: number, begin: () => Promise<void>) => {
    await begin();
    reconciling = service.reconcile(organisation, via);
  };
  const compareNow = (organisation: ModelOrganisation, via: number) =>
    reconcile(organisation, via, () => service.makeDue(organisation));
  /** Has what was missed looked for at once. */
  const enableWebhooks = (organisation: ModelOrganisation, via: number) =>
    reconcile(organisation, via, () => service.setWebhooks(organisation, true, via));

  async function look(stage: Stage): Promise<void> {
    for (const organisation of organisations) {
      const found = await compare(database, model, organisation, stage);
      differences.push(...found);
      tally.comparisons += 1;
    }
  }

  async function settle(stage: Stage): Promise<void> {
    await joinBackground();
    await service.settle(organisations);
    await look(stage);
  }

  async function serve(step: ServiceStep & { via: number }): Promise<void> {
    const { via } = step;
    switch (step.kind) {
      case 'tick':
        side.tick(step.seconds);
        return;
      case 'deliver': {
        const [webhook] = kept.splice(step.webhook % Math.max(kept.length, 1), 1);
        if (webhook !== undefined) await service.deliver(webhook, via);
        return;
      }
      case 'redeliver': {
        const webhook = webhooks[step.webhook % webhooks.length];
        if (webhook !== undefined) await service.deliver(webhook, via);
        return;
      }
      case 'delete':
      case 'refresh': {
        const pullRequest = model.pullRequests[step.pullRequest % model.pullRequests.length];
        if (pullRequest === undefined) return;
        const organisation = organisations.find(each => isHere(pullRequest, each)) ?? own;
        if (step.kind === 'delete') {
          return step.amidFetch
            ? client.removeAmidFetch(pullRequest, organisation, via)
            : client.remove(pullRequest, organisation, via);
        }
        const isQuiet = step.awaited && background.size === 0;
        const done = client.refresh(pullRequest, organisation, via, isQuiet);
        return step.awaited ? done : inBackground(done);
      }
      case 'apply rules':
        return service.applyRules(own, step.rules, via);
      case 'webhooks':
        await reconciling;
        if (!step.enabled) return service.setWebhooks(own, false, via);
        await enableWebhooks(own, via);
        return inBackground(reconciling);
      case 'import recent':
      case 'import': {
        const done = step.kind === 'import' ? importAll(own, via) : service.importAll(own, via, side.now() - 1);
        if (!step.awaited) return inBackground(done);
        await done;
        return;
      }
      case 'compare': {
        await reconciling;
        if (!own.webhooksEnabled) return;
        await compareNow(own, via);
        return step.awaited ? reconciling : inBackground(reconciling);
      }
      case 'sync members': {
        const done = service.syncMembers(own, via);
        if (!step.awaited) return inBackground(done);
        await done;
        return;
      }
      case 'kill':
        inBackground(delay(step.after).then(() => arena.kill(via)));
        return;
      case 'fault':
        takeAway.push(
          github.fault(
            faultOf(
              step.fault,
              model.pullRequests.map(({ source }) => source.nodeId),
            ),
            { times: step.times, when: isOwn },
          ),
        );
        return;
      case 'settle':
        return settle('settled');
    }
  }

  async function take(step: Step): Promise<void> {
    count(tally, `step ${step.kind}`);
    if (!('fate' in step)) return serve(step);
    const told = side.take(step as GithubStep, model);
    if (told !== undefined) await tell(told, step);
  }

  /** Everything that is still to come comes, GitHub fails no longer, and what nobody told of is looked for. */
  async function end(): Promise<void> {
    for (const remove of takeAway) remove();
    for (const webhook of kept.reverse()) await service.deliver(webhook, 0);
    await joinBackground();
    await reconciling;
    await settle('settled');
    for (const organisation of organisations) {
      await (organisation.webhooksEnabled ? compareNow(organisation, 0) : enableWebhooks(organisation, 0));
      await reconciling;
    }
    await settle('compared');
    for (const organisation of organisations) {
      await service.readAll(organisation, interrupted.has(organisation) ? 2 : 1);
    }
    await settle('imported');
    tally.pullRequests += model.pullRequests.length;
  }

  try {
    await service.applyRules(own, rules, 0);
    for (const step of steps) {
      await take(step);
      if (differences.length > 0) break;
    }
    if (differences.length === 0) await end();
  } finally {
    for (const remove of takeAway) remove();
    await joinBackground();
    await arena.forget(organisations.map(({ id }) => id));
  }
  tally.histories += 1;
  return differences;
}

async function addTenant({ database: { executor } }: Arena, github: GithubOrganisation): Promise<ModelOrganisation> {
  const { login, id: githubId, nodeId, avatarUrl: photoUrl } = github;
  const organisation = await addOrganisation(executor, { login, githubId, nodeId, name: login, photoUrl });
  const user =
    organisation &&
    (await addUser(executor, { organisationId: organisation.id, name: 'Ada', email: 'ada@example.com', photoUrl: '' }));
  if (organisation === undefined || user === undefined) throw new Error(`${login} is there already`);
  // It is compared when the history says so.
  await executor
    .update(organisations)
    .set({ reconcileDueAt: sql`now() + interval '10 days'` })
    .where(eq(organisations.id, organisation.id));
  const token = generateAccessToken();
  await addAccessToken(executor, {
    organisationId: organisation.id,
    userId: user.id,
    name: '',
    tokenHash: hashAccessToken(token),
    scopes: ['read', 'sync', 'delete'],
    expiresAt: null,
  });
  return organisationOf(github, organisation.id, token);
}

function faultOf(name: FaultName, nodeIds: string[]): Fault {
  switch (name) {
    case '500':
      return { kind: 'reply', status: 500, body: '' };
    case '502':
      return htmlError(502);
    case 'html 503':
      return htmlError(503);
    case 'rate limit':
      return secondaryLimit('1');
    case 'reset':
      return { kind: 'reset' };
    case 'truncate':
      return { kind: 'truncate' };
    case 'delay':
      return { kind: 'delay', milliseconds: 15 };
    case 'broken':
      return { kind: 'broken', nodeIds };
    case 'broken field':
      return { kind: 'broken', nodeIds, field: 'files' };
  }
}
