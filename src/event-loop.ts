/** Requests would notice longer stretches of calculation. A page takes about five rounds of the event loop. */
const maxStretchMs = 1;

const waiting: (() => void)[] = [];

/** One calculation for each round of the event loop. */
function resumeNext(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(resumeNext);
}

/** @returns to be awaited often in a long calculation: now and then it lets the event loop serve others */
export function createPauses(): () => Promise<void> | undefined {
  let resumedAt = performance.now();
  return () => {
    if (performance.now() - resumedAt < maxStretchMs) return undefined;
    return new Promise(resolve => {
      const resume = () => {
        resumedAt = performance.now();
        resolve();
      };
      if (waiting.push(resume) === 1) setImmediate(resumeNext);
    });
  };
}

/** Does a long calculation step by step. */
export async function runWithPauses<Result>(steps: Generator<void, Result>): Promise<Result> {
  const pauseIfLong = createPauses();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await pauseIfLong();
  }
}
