import type { Logger } from 'pino';
import type { Executor } from '../database/client.ts';
import { type Lease, moveLease } from '../database/lease.ts';

/**
 * Seconds that the other replicas leave claimed work alone. A killed replica's work must be done within ten: what is left
 * is for a loop to notice, and for the work itself on a busy machine.
 */
export const leaseSeconds = 6;

/**
 * Renews a lease every third of its time while the work goes on. A failed renewal is logged and does not
 * stop the work: another replica may then start the same work. Resolves after the last renewal has ended.
 */
export async function whileRenewing(
  executor: Executor,
  lease: Lease,
  log: Logger,
  work: () => Promise<void>,
): Promise<void> {
  // One after the other: each builds on what the previous one stored.
  let renewal: Promise<unknown> = Promise.resolve();
  const timer = setInterval(
    () => {
      renewal = renewal
        .then(() => moveLease(executor, lease))
        .catch((error: unknown) =>
          log.warn({ err: error }, 'a lease was not renewed: another replica may do the same work'),
        );
    },
    (lease.seconds * 1000) / 3,
  );
  try {
    await work();
  } finally {
    clearInterval(timer);
    await renewal;
  }
}
