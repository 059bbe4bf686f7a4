/**
 * Lets organisations share a few places: each has one at a time, so none waits for another's queue.
 *
 * @returns a function that does the work when its turn comes, unless its client has left by then
 */
export function createPlaces(places: number) {
  const waiting: { organisationId: string; start: () => void }[] = [];
  const served = new Set<string>();

  function startNext(): void {
    if (served.size >= places) return;
    const index = waiting.findIndex(({ organisationId }) => !served.has(organisationId));
    const [next] = index === -1 ? [] : waiting.splice(index, 1);
    if (next === undefined) return;
    served.add(next.organisationId);
    next.start();
  }

  return async <Result>(organisationId: string, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> => {
    await new Promise<void>(start => {
      waiting.push({ organisationId, start });
      startNext();
    });
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      served.delete(organisationId);
      startNext();
    }
  };
}
