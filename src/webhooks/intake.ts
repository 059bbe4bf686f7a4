import { createBatcher } from '../batching.ts';
import type { Database } from '../database/client.ts';
import {
  type DeliveryOutcome,
  type PullRequestDelivery,
  takePullRequestDeliveries,
} from '../database/webhook-deliveries.ts';

const limits = { maxUnderWay: 2, maxWaitMs: 250, maxBatchSize: 100 };

/**
 * Records deliveries about pull requests, those that come close together in one statement: most of what a delivery
 * costs is the commit.
 *
 * @returns a function that resolves when the delivery is durable
 */
export const createIntake = (database: Pick<Database, 'write'>) =>
  createBatcher<PullRequestDelivery, DeliveryOutcome>(limits, deliveries =>
    takePullRequestDeliveries(database, deliveries),
  );
