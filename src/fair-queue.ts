/**
 * Lets only so much work run at once; the rest waits in order. Each owner has one place at a time, so none waits for
 * another's queue.
 *
 * @returns a function that does the work when its turn comes, unless its signal is aborted by then
 */
export function createFairQueue(places: number) {
  const waiting: { owner: string | symbol; start: () => void }[] = [];
  const served = new Set<string | symbol>();

  function startNext(): void {
    if (served.size >= places) return;
    const index = waiting.findIndex(({ owner }) => !served.has(owner));
    const [next] = index === -1 ? [] : waiting.splice(index, 1);
    if (next === undefined) return;
    served.add(next.owner);
    next.start();
  }

  return async <Result>(
    owner: string | symbol,
    signal: AbortSignal | undefined,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    await new Promise<void>(start => {
      waiting.push({ owner, start });
      startNext();
    });
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      served.delete(owner);
      startNext();
    }
  };
}
