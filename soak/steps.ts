import fc from 'fast-check';
import { githubSteps, open } from './github-steps.ts';
import type { kind } from './kinds.ts';
import type { Scene } from './play.ts';
import { rules, serviceSteps } from './service-steps.ts';

type Kind = ReturnType<typeof kind>;

const kinds: Readonly<Record<string, Kind>> = { ...githubSteps, ...serviceSteps };

const stepOf = ([name, { parts }]: [string, Kind]): fc.Arbitrary<{ kind: string }> =>
  fc.record({ kind: fc.constant(name), ...parts });

const hour = 3_600;

export const history = fc.record({
  /** Seconds by which GitHub's clock is ahead of ours. */
  clockAhead: fc.constantFrom(0, -hour, hour),
  /** In force from the start. */
  rules,
  steps: fc
    .tuple(
      fc.array(stepOf(['open', open]), { minLength: 1, maxLength: 3 }),
      fc.array(fc.oneof(...Object.entries(kinds).map(each => ({ weight: each[1].weight, arbitrary: stepOf(each) }))), {
        maxLength: 50,
        size: 'max',
      }),
    )
    .map(parts => parts.flat()),
});
export type History = typeof history extends fc.Arbitrary<infer Value> ? Value : never;

export const take = (scene: Scene, step: History['steps'][number]) => kinds[step.kind]?.take(scene, step);

export const describeHistory = ({ steps, ...flags }: History): string =>
  [flags, ...steps].map(each => JSON.stringify(each)).join('\n  ');
