/** How a kind of step is written down: how often it comes, what chance decides about it, and what is done. */
import fc from 'fast-check';
import type { Scene } from './play.ts';

export type Arbitraries<Parts> = { [Name in keyof Parts]: fc.Arbitrary<Parts[Name]> };

/** An index into what exists when the step is taken, modulo its length: shortened histories stay valid. */
export const place = fc.nat(11);
/** Much happens to one of them, so that fetches and changes of the same pull request meet. */
export const favourite = fc.oneof(fc.constant(0), place);

export const at = <Item>(items: readonly Item[], index: number): Item | undefined => items[index % items.length];

/** What is done in a history. What chance has decided about it is beside it, to be printed. */
export interface Step {
  kind: string;
  take(scene: Scene): unknown;
}

/** @param weight how often steps are of this kind, compared with others */
export const kind = <Parts extends object>(
  name: string,
  weight: number,
  parts: Arbitraries<Parts>,
  take: (scene: Scene, step: Parts) => unknown,
) => ({
  weight,
  arbitrary: fc
    .record(parts)
    .map((step): Step => ({ kind: name, ...step, take: scene => take(scene, step as unknown as Parts) })),
});
