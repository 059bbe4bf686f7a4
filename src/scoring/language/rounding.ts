/** How values become effects and scores: 32-bit signed integers. */
export const scoreLimits = { minimum: -(2 ** 31), maximum: 2 ** 31 - 1 } as const;
const { minimum, maximum } = scoreLimits;

/** Rounds to the nearest integer, halves away from zero; `Math.round` would turn −0.5 into −0. */
export function roundHalfAway(value: number): number {
  return value < 0 ? -Math.round(-value) : Math.round(value);
}

/** The value rounded, or 0 if it is absent or out of range. */
export function effectOf(value: number): number {
  const effect = roundHalfAway(value);
  return effect >= minimum && effect <= maximum ? effect : 0;
}

/** Limits a sum of effects to the range of scores. */
export const clampScore = (sum: number): number => Math.min(Math.max(sum, minimum), maximum);
