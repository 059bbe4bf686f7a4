import fc from 'fast-check';
import { githubSteps } from './github-steps.ts';
import type { kind } from './kinds.ts';
import type { Scene } from './play.ts';
import { rules, serviceSteps } from './service-steps.ts';

const kinds: Readonly<Record<string, ReturnType<typeof kind>>> = { ...githubSteps, ...serviceSteps };

export interface Step {
  kind: string;
  via: number;
}

const stepOf = ([name, { parts }]: [string, ReturnType<typeof kind>]): fc.Arbitrary<Step> =>
  fc.record({ kind: fc.constant(name), ...parts, via: fc.nat(2) });

const hour = 3_600;

export const history = fc.record({
  /** Seconds by which GitHub's clock is ahead of ours. */
  clockAhead: fc.constantFrom(0, -hour, hour),
  /** In force from the start. */
  rules,
  steps: fc
    .tuple(
      fc.array(stepOf(['open', githubSteps.open]), { minLength: 1, maxLength: 3 }),
      fc.array(fc.oneof(...Object.entries(kinds).map(each => ({ weight: each[1].weight, arbitrary: stepOf(each) }))), {
        maxLength: 50,
        size: 'max',
      }),
    )
    .map(parts => parts.flat()),
});
export type History = typeof history extends fc.Arbitrary<infer Value> ? Value : never;

export async function take(scene: Scene, step: Step): Promise<void> {
  scene.arena.count(`step ${step.kind}`);
  await kinds[step.kind]?.take(scene, step);
}

function describeStep({ kind: name, ...rest }: Step): string {
  const parts = Object.entries(rest).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return `${name} (${parts.join(', ')})`;
}

export const describeHistory = ({ steps, ...flags }: History): string =>
  [JSON.stringify(flags), ...steps.map((each, index) => `  ${index + 1}. ${describeStep(each)}`)].join('\n');
