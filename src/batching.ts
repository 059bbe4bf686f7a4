import DataLoader from 'dataloader';

export interface BatchLimits {
  /** Batches under way at once; what comes meanwhile shares the next one. */
  maxUnderWay: number;
  /** Milliseconds that a batch waits for those under way, which may hang, before it goes out beside them. */
  maxWaitMs: number;
  maxBatchSize: number;
}

/**
 * Shares work among what comes close together. What comes alone does not wait.
 *
 * @param work done once a batch, in the order of coming; one result for each, or the error that its caller gets
 * @returns a function that resolves with the result of its own item
 */
export function createBatcher<Item, Result>(
  { maxUnderWay, maxWaitMs, maxBatchSize }: BatchLimits,
  work: (items: readonly Item[]) => Promise<ArrayLike<Result | Error>>,
): (item: Item) => Promise<Result> {
  let underWay = 0;
  const waiting: (() => void)[] = [];

  const loader = new DataLoader<Item, Result>(
    async items => {
      try {
        return await work(items);
      } finally {
        underWay -= 1;
        waiting.shift()?.();
      }
    },
    {
      cache: false,
      maxBatchSize,
      batchScheduleFn: run => {
        const start = () => {
          clearTimeout(timeout);
          const place = waiting.indexOf(start);
          if (place !== -1) waiting.splice(place, 1);
          underWay += 1;
          // What comes in the same turn of the event loop joins in.
          setImmediate(run);
        };
        const timeout = setTimeout(start, maxWaitMs);
        if (underWay < maxUnderWay) start();
        else waiting.push(start);
      },
    },
  );
  return item => loader.load(item);
}
