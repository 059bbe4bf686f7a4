import DataLoader from 'dataloader';

/** How long a batch waits for running ones, which may hang, before it starts anyway. */
const maxWaitMs = 250;

/**
 * Groups items that arrive close together into one piece of work. A single item does not wait.
 *
 * @param limits `maxUnderWay`: batches under way at once; later items share the next one
 * @param work called once per batch, with the items in order of arrival; returns a result or an error for each item
 * @returns a function that resolves with the result of its own item
 */
export function createBatcher<Item, Result>(
  { maxUnderWay, maxBatchSize }: { maxUnderWay: number; maxBatchSize: number },
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
          // Items from the same turn of the event loop join the batch.
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
