import { expect } from 'vitest';

function measure<Result>(run: () => Result): { result: Result; ms: number } {
  const before = process.cpuUsage();
  const result = run();
  const { user, system } = process.cpuUsage(before);
  return { result, ms: (user + system) / 1000 };
}

/** A fixed calculation, and the milliseconds that it takes on a usual machine. */
const calculation = {
  ms: 4.5,
  run: () => {
    let value = 1;
    for (let step = 0; step < 2_000_000; step++) value = (Math.imul(value, 1_664_525) + (step % 7)) | 0;
    return value;
  },
};

/** 1 on a usual machine, or a faster one; 2 on one that is half as fast, now. */
const slowness = () => Math.max(1, Math.min(...[1, 2, 3].map(() => measure(calculation.run).ms)) / calculation.ms);

/**
 * Fails if a run takes more milliseconds of processor time on a usual machine, which other processes do not affect. A run
 * is slow only if it is slow every time, so a slow one is repeated, unless it takes ten seconds.
 *
 * @returns what it gives
 */
export function within<Result>(limitMs: number, run: () => Result): Result {
  for (let attempt = 1; ; attempt++) {
    const { result, ms } = measure(run);
    // The calculation takes longer than most runs.
    const usualMs = ms < limitMs ? ms : ms / slowness();
    if (attempt === 10 || ms > 10_000) expect(usualMs).toBeLessThan(limitMs);
    if (usualMs < limitMs) return result;
  }
}

/** Of the quickest of a few runs. */
export const quickestMs = (run: () => unknown) => Math.min(...[1, 2, 3].map(() => measure(run).ms));
