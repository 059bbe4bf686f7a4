import DataLoader from 'dataloader';

/**
 * Groups items that arrive close together into one piece of work. A single item does not wait.
 *
 * @param limits `maxUnderWay`: while so many batches are under way, the next one is filled; it starts if it is full.
 *   `maxWaitMs`: those under way may hang, so after this time it starts anyway
 * @param work called once per batch, with the items in order of arrival; returns a result or an error for each item
 * @returns a function that resolves with the result of its own item
 */
export function createBatcher<Item, Result>(
  { maxUnderWay, maxBatchSize, maxWaitMs }: { maxUnderWay: number; maxBatchSize: number; maxWaitMs: number },
  work: (items: readonly Item[]) => Promise<ArrayLike<Result | Error>>,
): (item: Item) => Promise<Result> {
  let underWay = 0;
  /** Starts the batch that is being filled. */
  let startNext: (() => void) | undefined;

  const loader = new DataLoader<Item, Result>(
    async items => {
      try {
        return await work(items);
      } finally {
        underWay -= 1;
        if (underWay < maxUnderWay) startNext?.();
      }
    },
    {
      cache: false,
      maxBatchSize,
      batchScheduleFn: run => {
        // The batch before this one is full.
        startNext?.();
        startNext = () => {
          clearTimeout(timeout);
          startNext = undefined;
          underWay += 1;
          // Items from the same turn of the event loop join the batch.
          setImmediate(run);
        };
        const timeout = setTimeout(startNext, maxWaitMs);
        if (underWay < maxUnderWay) startNext();
      },
    },
  );
  return item => loader.load(item);
}
