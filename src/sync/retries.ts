import { isDatabaseUnavailable } from '../database/failures.ts';
import type { Organisation } from '../database/organisations.ts';
import { type Deferral, deferSyncRequests, type SyncRequest } from '../database/sync-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';

/** Seconds to wait after the first, second, … failure in a row; the last one from then on. */
const waitSeconds = [5, 30, 120, 600, 3600];

/** Failures that are not a request's own count only up to this: a long outage of GitHub does not use up its tries. */
export const maxSharedFailures = waitSeconds.length;

/** Failures in a row that park a request; they take three hours or more. */
const maxFailures = 8;

/** For operators. */
export const reasonOf = (error: unknown): string => {
  if (error instanceof ServiceError) return error.text;
  return isDatabaseUnavailable(error)
    ? 'The database was not available.'
    : 'Internal error; see the log of the service.';
};

const isRateLimited = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.code === 'github_rate_limited';

/**
 * When to try again what failed with an error; `seconds` is null if it is parked. Each waits by its own failures: a new
 * one does not wait longer because old ones failed with it.
 *
 * @param isOwn what failed causes the failure itself: if it goes on, it is parked
 */
export function planNextTry(error: unknown, { isOwn }: { isOwn: boolean }) {
  const isRefused = isRateLimited(error);
  const isOutage = isDatabaseUnavailable(error);
  const waitOf = (failures: number) => {
    if (isRefused) return error.retryAfter ?? 60;
    return isOutage ? 1 : (waitSeconds[Math.min(failures, waitSeconds.length) - 1] ?? 5);
  };
  // Jitter keeps replicas and requests from coming back all at once. None comes back before GitHub allows it.
  const jitter = isRefused ? 1 + Math.random() * 0.02 : 0.8 + 0.4 * Math.random();
  return ({ attempts }: { attempts: number }) => {
    const failures = attempts + 1;
    const isCounted = !isRefused && !isOutage && (isOwn || failures <= maxSharedFailures);
    const isParked = isCounted && isOwn && failures >= maxFailures;
    return { seconds: isParked ? null : waitOf(failures) * jitter, attempts: isCounted ? failures : attempts };
  };
}

/**
 * Puts off requests that failed, or parks them.
 *
 * @param isOwn the requests themselves cause the failure: if it goes on, they are parked
 */
export async function deferRequests(
  { deps, organisation }: { readonly deps: Deps; readonly organisation: Organisation },
  requests: readonly SyncRequest[],
  error: unknown,
  { isOwn }: { isOwn: boolean },
): Promise<void> {
  if (requests.length === 0) return;
  const { database, log } = deps;
  const isRefused = isRateLimited(error);
  // Background work that stops at the reserve of points has not failed.
  const isReserve = isRefused && requests.every(({ isBackground }) => isBackground);
  const reason = reasonOf(error);
  const nextTry = planNextTry(error, { isOwn });
  const deferrals = requests.map((request): Deferral => ({ request, ...nextTry(request) }));
  await deferSyncRequests(database, organisation.id, deferrals, isReserve ? null : reason);
  for (const { request, seconds, attempts } of deferrals) {
    if (seconds !== null) continue;
    log.error(
      { organisation: organisation.login, nodeId: request.nodeId, attempts, reason },
      'a pull request is parked: it is tried again when it next changes, by a sweep, or by pullscore webhooks retry',
    );
  }
  const again = deferrals.flatMap(({ seconds }) => seconds ?? []);
  if (again.length === 0) return;
  log[isReserve ? 'debug' : 'warn'](
    { organisation: organisation.login, requests: again.length, seconds: Math.round(Math.min(...again)), reason },
    'pull requests were not synced and are tried again',
  );
}
