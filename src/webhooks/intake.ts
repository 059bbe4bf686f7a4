import { createBatcher } from '../batching.ts';
import type { Database } from '../database/client.ts';
import {
  type DeliveryOutcome,
  type PullRequestDelivery,
  takePullRequestDeliveries,
} from '../database/webhook-deliveries.ts';

const limits = { maxUnderWay: 2, maxWaitMs: 250, maxBatchSize: 100 };

/**
 * Records deliveries about pull requests. Those that arrive close together share one statement, because most of a
 * delivery's cost is the commit.
 *
 * @returns a function that resolves when the delivery is durable
 */
export const createIntake = (database: Pick<Database, 'write'>) =>
  createBatcher<PullRequestDelivery, DeliveryOutcome>(limits, deliveries =>
    takePullRequestDeliveries(database, deliveries),
  );
