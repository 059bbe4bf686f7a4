import { eq, sql } from 'drizzle-orm';
import fc from 'fast-check';
import { organisations } from '../src/database/schema.ts';
import { createTenant } from '../test/support/tenants.ts';
import type { Arena } from './arena.ts';
import { createBackground } from './background.ts';
import { compare, type Stage } from './compare.ts';
import { createGithubSide, createTroubles } from './github-side.ts';
import { githubSteps, open } from './github-steps.ts';
import { createMirror } from './mirror.ts';
import { createModel } from './model.ts';
import { putInForce, rules, serviceSteps } from './service-steps.ts';
import { createSettling } from './settling.ts';
import { deliver, type Webhook } from './webhooks.ts';

export const history = fc.record({
  /** Seconds by which GitHub's clock is ahead of ours: an hour, if it is not right. */
  clockAhead: fc.constantFrom(0, -3_600, 3_600),
  /** In force from the start. */
  rules,
  steps: fc
    .tuple(
      fc.array(open.arbitrary, { minLength: 1, maxLength: 3 }),
      fc.array(fc.oneof(open, ...githubSteps, ...serviceSteps), { maxLength: 50, size: 'max' }),
    )
    .map(parts => parts.flat()),
});
export type History = typeof history extends fc.Arbitrary<infer Value> ? Value : never;

export const describeHistory = ({ steps, ...flags }: History): string =>
  [flags, ...steps].map(each => JSON.stringify(each)).join('\n  ');

/** Each history has its own organisation and logins, so that many can be played at once. */
let played = 0;

/** What the steps of one history change. */
export type Scene = Awaited<ReturnType<typeof createScene>>;

async function createScene(arena: Arena, clockAhead: number) {
  const { github, database } = arena;
  played += 1;
  const side = createGithubSide(github, `${played}`, Math.floor(Date.now() / 1000) + clockAhead);
  const { acme } = side;
  const tenant = await createTenant({ database }, { ...acme, githubId: acme.id });
  const { id } = tenant.organisation;
  // Compared only when the history says so.
  await database.executor
    .update(organisations)
    .set({ comparisonDueAt: sql`now() + interval '10 days'` })
    .where(eq(organisations.id, id));
  const model = createModel(acme);
  const differences: string[] = [];
  const settling = createSettling(arena, id, differences);
  const background = createBackground();

  const scene = {
    arena,
    side,
    tenant,
    model,
    differences,
    settling,
    troubles: createTroubles(github, model, side),
    // On a cluster, the feed of changes may leave some out.
    mirror: process.env.TEST_CITUS_WORKERS ? undefined : createMirror(arena, tenant.token, differences),
    webhooks: [] as Webhook[],
    /** Webhooks that are not sent yet. */
    kept: [] as Webhook[],
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
    async settle(stage: Stage): Promise<void> {
      side.catchUp();
      await background.join();
      await settling.settle();
      await compare(scene, stage);
      await scene.mirror?.compare();
    },
  };
  return scene;
}

/** @returns how what is stored differs from the model; nothing if all is well */
export async function play(arena: Arena, { clockAhead, rules, steps }: History): Promise<string[]> {
  const scene = await createScene(arena, clockAhead);
  const { differences, troubles } = scene;
  try {
    await putInForce(scene, rules);
    for (const step of steps) {
      await step.take(scene);
      if (differences.length > 0) return differences;
    }
    // All that is outstanding is delivered, and then, what no webhook announced is looked for.
    troubles.end();
    for (const webhook of scene.kept.reverse()) await deliver(scene, webhook);
    await scene.settle('settled');
    await scene.settling.compareWhole();
    await scene.settle('compared');
  } finally {
    troubles.end();
    await scene.background.join();
  }
  return differences;
}
