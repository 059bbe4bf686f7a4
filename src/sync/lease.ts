import { leaseSeconds } from '../database/lease.ts';
import type { Deps } from '../deps.ts';

/**
 * Renews a lease every third of it while the work goes on. A renewal that fails is logged; the work goes on, and another
 * replica may begin the same.
 *
 * @returns what the work returns, once no renewal is under way any more
 */
export async function whileRenewing<Result>(
  renew: () => Promise<unknown>,
  log: Deps['log'],
  work: () => Promise<Result>,
): Promise<Result> {
  // One after the other: each may build on what the one before it stored.
  let renewal: Promise<unknown> = Promise.resolve();
  const timer = setInterval(
    () => {
      renewal = renewal
        .then(renew)
        .catch((error: unknown) =>
          log.warn({ err: error }, 'a lease was not renewed: another replica may do the same work'),
        );
    },
    (leaseSeconds * 1000) / 3,
  );
  try {
    return await work();
  } finally {
    clearInterval(timer);
    await renewal;
  }
}
