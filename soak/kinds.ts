/** How a kind of step is written down: how often it comes, what chance decides about it, and what is done. */
import fc from 'fast-check';
import type { ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';

export type Arbitraries<Parts> = { [Name in keyof Parts]: fc.Arbitrary<Parts[Name]> };

/** An index into what exists when the step is taken, modulo its length: shortened histories stay valid. */
export const place = fc.nat(11);
/** Much happens to one of them, so that fetches and changes of the same pull request meet. */
export const favourite = fc.oneof(fc.constant(0), place);

export const at = <Item>(items: readonly Item[], index: number): Item | undefined => items[index % items.length];

/** @param weight how often steps are of this kind, compared with others */
export const kind = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  take: (scene: Scene, step: Parts) => unknown,
) => ({
  weight,
  parts: parts as Readonly<Record<string, fc.Arbitrary<unknown>>>,
  take: take as (scene: Scene, step: object) => unknown,
});

/** A kind of step about a pull request, whether GitHub shows it or not. */
export const ofPullRequest = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  take: (scene: Scene, pullRequest: ModelPullRequest, step: Parts) => unknown,
) =>
  kind(weight, { ...parts, pullRequest: favourite }, (scene, step) => {
    const pullRequest = at(scene.model.pullRequests, step.pullRequest);
    return pullRequest && take(scene, pullRequest, step as unknown as Parts);
  });
