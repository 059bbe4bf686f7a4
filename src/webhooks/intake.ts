import DataLoader from 'dataloader';
import type { Database } from '../database/client.ts';
import {
  type DeliveryOutcome,
  type PullRequestDelivery,
  takePullRequestDeliveries,
} from '../database/webhook-deliveries.ts';

/** Statements under way at once; what comes meanwhile shares the next one, and its commit. */
const mostStatements = 2;

const mostDeliveries = 100;

/** Milliseconds that a statement which hangs holds up the next one. */
const longestWait = 250;

/**
 * Records deliveries about pull requests, those that come close together in one statement: most of what a delivery
 * costs is the commit. One that comes alone does not wait.
 *
 * @returns a function that resolves when the delivery is durable
 */
export function createIntake(database: Pick<Database, 'write'>) {
  let statements = 0;
  const waiting: (() => void)[] = [];

  const intake = new DataLoader<PullRequestDelivery, DeliveryOutcome>(
    async deliveries => {
      try {
        return await takePullRequestDeliveries(database, deliveries);
      } finally {
        statements -= 1;
        waiting.shift()?.();
      }
    },
    {
      cache: false,
      maxBatchSize: mostDeliveries,
      batchScheduleFn: run => {
        const start = () => {
          clearTimeout(timeout);
          const place = waiting.indexOf(start);
          if (place !== -1) waiting.splice(place, 1);
          statements += 1;
          // The deliveries of the same turn of the event loop join in.
          setImmediate(run);
        };
        const timeout = setTimeout(start, longestWait);
        if (statements < mostStatements) start();
        else waiting.push(start);
      },
    },
  );
  return (delivery: PullRequestDelivery): Promise<DeliveryOutcome> => intake.load(delivery);
}
