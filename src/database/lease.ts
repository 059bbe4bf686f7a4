import type { Logger } from 'pino';

/** How long the other replicas leave claimed work alone. A lease is renewed while the work goes on. */
export const leaseSeconds = 8;

/**
 * Renews a lease every third of {@link leaseSeconds} while the work goes on. A failed renewal is logged and does not
 * stop the work: another replica may then start the same work.
 *
 * @returns the result of the work, after the last renewal has ended
 */
export async function whileRenewing<Result>(
  renew: () => Promise<unknown>,
  log: Logger,
  work: () => Promise<Result>,
): Promise<Result> {
  // One after the other: each may build on what the previous one stored.
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
