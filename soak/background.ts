import { setTimeout as delay } from 'node:timers/promises';

/** Works that go on while others are done. */
export function createBackground() {
  const underWay = new Set<Promise<unknown>>();
  return {
    get size() {
      return underWay.size;
    },
    add(work: Promise<unknown>): void {
      const kept = work.finally(() => underWay.delete(kept));
      underWay.add(kept);
    },
    /** Resolves when all are over, also those that are added meanwhile. @throws if one fails */
    async join(): Promise<void> {
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}

/** Does a work again and again, with a pause after each time. @returns ends it, and resolves when the last one is over */
export function repeat(pauseMs: number, work: () => Promise<unknown>): () => Promise<void> {
  let isOver = false;
  const working = (async () => {
    for (; !isOver; await delay(pauseMs)) await work();
  })();
  return () => {
    isOver = true;
    return working;
  };
}
