import { timeoutError } from './github-error.ts';

/**
 * Lets only so many pieces of work run at once; the others wait in order.
 *
 * @returns a function that waits for a place, and then runs the work. It throws `github_timeout` if none is free until
 * the deadline, by `performance.now()`
 */
export function createGate(maxUnderWay: number) {
  let underWay = 0;
  const waiting: (() => void)[] = [];

  /** Resolves when another piece of work hands its place over. */
  const place = (deadline: number) =>
    new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        waiting.splice(waiting.indexOf(start), 1);
        reject(timeoutError(undefined));
      };
      const isBounded = Number.isFinite(deadline);
      const timer = isBounded ? setTimeout(giveUp, Math.max(0, deadline - performance.now())) : undefined;
      const start = () => {
        clearTimeout(timer);
        resolve();
      };
      waiting.push(start);
    });

  return async <Result>(work: () => Promise<Result>, deadline = Number.POSITIVE_INFINITY): Promise<Result> => {
    if (underWay < maxUnderWay) underWay += 1;
    else await place(deadline);
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) underWay -= 1;
      else next();
    }
  };
}
