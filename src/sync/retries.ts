import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../errors.ts';
import { isDisturbance } from '../github/errors.ts';

/** Tries in all if GitHub fails for a short time. */
const maxTries = 5;

/**
 * Tries again what GitHub does not answer: after a rate limit once it ends, and after disturbances with growing waits.
 *
 * @param onWait called before each wait, with its seconds and the reason
 * @param signal ends a wait
 */
export async function withRetries<Result>(
  work: () => Promise<Result>,
  onWait: (seconds: number, reason: string) => void,
  signal: AbortSignal | undefined,
): Promise<Result> {
  for (let failures = 0; ; ) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const limited = error.code === 'github_rate_limited';
      if (!limited) failures += 1;
      if (!limited && (!isDisturbance(error) || failures === maxTries)) throw error;
      const seconds = limited ? (error.retryAfter ?? 60) : 2 ** failures;
      onWait(seconds, error.text);
      await delay(seconds * 1000, undefined, signal === undefined ? {} : { signal });
    }
  }
}
