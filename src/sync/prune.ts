import type { Database } from '../database/client.ts';
import { eraseMember, findHalfErased, finishRemoval } from '../database/erasure.ts';
import { moveLease, takeLease } from '../database/lease.ts';
import { deleteOldRows, foldScoreChanges, type Retention } from '../database/old-rows.ts';
import { isBeingRemoved } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { leaseSeconds, whileRenewing } from './renew-lease.ts';

/** How long until an organisation is pruned again, and if it failed. */
const intervalSeconds = 3_600;
const retrySeconds = 60;

const retention: Retention = {
  /** GitHub redelivers those of the last three days. */
  deliveries: '8 days',
  /** Operators see them meanwhile. */
  pendingDeliveries: '90 days',
  /** Clients can request syncs without end. */
  syncEvents: '90 days',
  auditEvents: '3 years',
  /** A client that has not read for longer starts again. */
  changes: '30 days',
  limits: '1 hour',
};

/** How many changes of each pull request are kept individually; earlier ones are folded, one row a month. */
export const keptChanges = 20;

/** Steps of 500 pull requests in a turn: more than a million a day. */
const maxFoldSteps = 100;

/**
 * Deletes and folds what one organisation no longer needs, in short steps, and finishes what an interrupted removal of
 * the organisation or of a person has left. One replica at a time does so.
 *
 * @param signal ends the turn after the step under way
 * @returns whether an organisation was due
 */
export async function pruneOrganisation({ database, log }: Deps, signal?: AbortSignal): Promise<boolean> {
  const { executor } = database;
  const pruning = await takeLease(executor, 'pruneDueAt', leaseSeconds);
  if (pruning === undefined) return false;
  const { organisationId } = pruning;
  let wait = retrySeconds;
  /** For what is made of transactions: none begins once this must stop. */
  const stoppable: Database = {
    ...database,
    transaction(work, options) {
      signal?.throwIfAborted();
      return database.transaction(work, options);
    },
  };
  try {
    await whileRenewing(executor, pruning, log, async () => {
      if (await isBeingRemoved(executor, organisationId)) return finishRemoval(stoppable, organisationId);
      for (const member of await findHalfErased(executor, organisationId)) {
        await eraseMember(stoppable, organisationId, member);
      }
      await deleteOldRows(executor, organisationId, retention, signal);
      for (let steps = 0; steps < maxFoldSteps && !signal?.aborted; steps += 1) {
        if (!(await foldScoreChanges(database, organisationId, keptChanges))) break;
      }
    }).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
    });
    wait = signal?.aborted ? 0 : intervalSeconds;
  } finally {
    await moveLease(executor, pruning, wait);
  }
  return true;
}
