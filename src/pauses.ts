import { setImmediate as nextRound } from 'node:timers/promises';

/** Requests would notice longer stretches of calculation. */
const maxStretchMs = 3;

/** @returns to be awaited often in a long calculation: now and then it lets the event loop serve others */
export function createPauses(): () => Promise<void> | undefined {
  let resumedAt = performance.now();
  return () => {
    if (performance.now() - resumedAt < maxStretchMs) return undefined;
    return nextRound().then(() => {
      resumedAt = performance.now();
    });
  };
}
