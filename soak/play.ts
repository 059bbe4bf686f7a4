import { eq, sql } from 'drizzle-orm';
import { retrySyncRequests } from '../src/database/backlog.ts';
import { retryCheckRuns } from '../src/database/check-runs.ts';
import { eraseMembers } from '../src/database/erasure.ts';
import { listMembers } from '../src/database/members.ts';
import { organisations as organisationTable } from '../src/database/schema.ts';
import type { Organisation as GithubOrganisation } from '../test/support/github/organisation.ts';
import { createTenant } from '../test/support/tenants.ts';
import type { Arena } from './arena.ts';
import { createBackground } from './background.ts';
import { compare, compareCheckRuns, type Stage } from './compare.ts';
import { createGithubSide } from './github-side.ts';
import { createMirror } from './mirror.ts';
import { createModel, type ModelOrganisation, organisationOf } from './model.ts';
import { importAll, putInForce, setWebhooks } from './service-steps.ts';
import { createSettling } from './settling.ts';
import { type History, take } from './steps.ts';
import { createTroubles } from './troubles.ts';
import { deliver, type Webhook } from './webhooks.ts';

/** Each history has its own organisations and logins, so that many can be played at once. */
let played = 0;

/** What the steps of one history change. */
export type Scene = Awaited<ReturnType<typeof createScene>>;

async function createScene(arena: Arena, clockAhead: number) {
  const { github } = arena;
  played += 1;
  const side = createGithubSide(github, `${played}`, Math.floor(Date.now() / 1000) + clockAhead);
  const own = await addTenant(arena, side.middle);
  const organisations = [own, await addTenant(arena, side.small), await addTenant(arena, side.large)];
  const model = createModel(organisations);
  model.record([], side.repositories);
  const differences: string[] = [];
  const settling = createSettling(arena, organisations, differences);
  const troubles = createTroubles(github, model, side.repositories);
  // On a cluster, the feed of changes may leave some out.
  const mirrors = process.env.TEST_CITUS_WORKERS ? [] : organisations.map(each => createMirror(arena, each));
  const background = createBackground();

  const scene = {
    arena,
    side,
    own,
    organisations,
    model,
    differences,
    settling,
    troubles,
    mirrors,
    webhooks: [] as Webhook[],
    /** Webhooks that are not sent yet. */
    kept: [] as Webhook[],
    /** An interrupted import continues where it was: only the next one reads what it had passed. */
    interrupted: new Set<ModelOrganisation>(),
    background,
    inBackground: (work: Promise<unknown>) =>
      background.add(work.catch(error => void differences.push(`a step in the background failed: ${error}`))),
    /** Waits for the work if the step says so; otherwise, it goes on in the background. */
    async run({ awaited }: { awaited: boolean }, work: Promise<unknown>): Promise<void> {
      if (awaited) await work;
      else scene.inBackground(work);
    },
    /** One after the other: if a comparison is due, another request only makes it sooner. */
    comparing: Promise.resolve(),
    /** Once it is due. */
    compareOwn(via: number): Promise<void> {
      scene.comparing = settling.compare(own, via);
      return scene.comparing;
    },
    /** Once GitHub works again, the operator retries what was parked. */
    async heal(via: number): Promise<void> {
      troubles.heal();
      for (const { id } of organisations) {
        await arena.insist(via, ({ deps }) =>
          deps.database.transaction(async executor => {
            await retrySyncRequests(executor, id);
            await retryCheckRuns(executor, id);
          }),
        );
      }
    },
    /** Comes to rest, but for poisoned pull requests, and compares what is stored. */
    async settle(stage: Stage): Promise<void> {
      side.catchUp();
      troubles.settle();
      await scene.background.join();
      await settling.settle([...troubles.poisoned.keys()]);
      for (const organisation of organisations) await compare(scene, organisation, stage);
      for (const mirror of mirrors) differences.push(...(await mirror.compare()));
    },
  };
  return scene;
}

/** Completes an import, then another if the first continued an interrupted one, which skips what it has read. */
async function importWhole({ arena, interrupted, settling }: Scene, organisation: ModelOrganisation): Promise<void> {
  for (let times = interrupted.has(organisation) ? 2 : 1; times > 0; times -= 1) {
    await settling.persist(organisation, 'an import', () => importAll(arena, organisation, 0));
  }
}

/** Delivers everything outstanding, settles GitHub, and looks for what no webhook announced. */
async function end(scene: Scene): Promise<void> {
  const { arena, side, own, organisations, model, differences, settling, mirrors } = scene;
  const { database, tally } = arena;
  scene.troubles.end();
  side.catchUp();
  for (const webhook of scene.kept.reverse()) await deliver(scene, webhook, 0);
  await scene.background.join();
  await scene.comparing;
  await scene.heal(0);
  await scene.settle('settled');
  if (!own.webhooksEnabled) await setWebhooks(scene, true, 0);
  await Promise.all(organisations.map(settling.compareWhole));
  await scene.settle('compared');
  await Promise.all(organisations.map(each => importWhole(scene, each)));
  await scene.settle('imported');
  for (const organisation of organisations) {
    await settling.publish(organisation);
    await compareCheckRuns(scene, organisation);
  }
  // With all of their pull requests: the model ends here.
  const [author] = await listMembers(database.executor, own.id, true);
  if (author !== undefined) await eraseMembers(database, own.id, [author]);
  for (const mirror of mirrors) differences.push(...(await mirror.compare()));
  tally.pullRequests += model.pullRequests.length;
}

/** @returns how what is stored differs from the model; nothing if all is well */
export async function play(arena: Arena, { clockAhead, rules, steps }: History): Promise<string[]> {
  const scene = await createScene(arena, clockAhead);
  const { differences, organisations, troubles } = scene;
  try {
    await putInForce(scene, rules, 0);
    for (const step of steps) {
      await take(scene, step);
      if (differences.length > 0) break;
    }
    if (differences.length === 0) await end(scene);
  } finally {
    troubles.end();
    await scene.background.join();
    await arena.forget(organisations.map(({ id }) => id));
  }
  arena.tally.histories += 1;
  return differences;
}

async function addTenant({ database }: Arena, github: GithubOrganisation): Promise<ModelOrganisation> {
  const { organisation, token } = await createTenant({ database }, { ...github, githubId: github.id });
  // Compared only when the history says so.
  await database.executor
    .update(organisationTable)
    .set({ comparisonDueAt: sql`now() + interval '10 days'`, checksDueAt: sql`now()` })
    .where(eq(organisationTable.id, organisation.id));
  return organisationOf(github, organisation.id, token);
}
