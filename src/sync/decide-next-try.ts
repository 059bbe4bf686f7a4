import { isDatabaseUnavailable } from '../database/driver-errors.ts';
import type { Decision, SyncRequest } from '../database/sync-requests.ts';
import { ServiceError } from '../errors.ts';

/*
 * GitHub answers from replicas that lag behind its webhooks: for seconds after an event, a fetch may find nothing, or
 * the state from before. See https://github.com/octokit/octokit.js/issues/900 and
 * https://github.com/Asana/SGTM/issues/53.
 */

/**
 * How long until GitHub surely shows every change of a moment. Until then it may answer a comparison, too, from before the
 * event that asked for it.
 */
export const settlingSeconds = 60;

/**
 * A label's new name and a comment's deletion do not change `updated_at`, so no floor shows whether an answer is older:
 * GitHub gets some time to catch up.
 */
export const catchUpSeconds = 15;

/** The earliest next try of a failing pull request that a webhook names. */
export const minRetrySeconds = 60;

/** When GitHub is asked again, in seconds since its answer first came. After the last one the answer is believed. */
const retryAfterSeconds = [1, 3, 7, 15, 30, 60, 180, 780];

/** After this, an older state is believed: GitHub never shows some of the times that payloads name. */
const maxStaleSeconds = 30;

/** After this, an answer is believed even if answers keep changing. */
const maxAgeSeconds = 3_600;

/** Seconds to wait after the first, second, … failure in a row; the last one from then on. */
const waitSeconds = [5, 30, 120, 600, 3600];

/** Failures that are not a request's own count only up to this: a long outage of GitHub does not use up its tries. */
const maxSharedFailures = waitSeconds.length;

/** Failures in a row that park a request; they take three hours or more. */
const maxFailures = 8;

/** GitHub's answer about the pull request of a request, or why there is none. */
export type Answer =
  | { readonly status: 'found'; readonly githubId: number; readonly sourceUpdatedAt: number }
  | { readonly status: 'gone' }
  | Failure;

export interface Failure {
  readonly status: 'failed';
  readonly error: Error;
  /**
   * `entry`: GitHub named the pull request in its reply. `batch`: one of those fetched together, or their number, made
   * the request fail. `service`: none of them did, but a limit, a refusal, or a database that is gone.
   */
  readonly cause: 'entry' | 'batch' | 'service';
  /** How many were fetched together, and whether GitHub showed any of them. */
  readonly batchSize: number;
  readonly hasShownOthers: boolean;
}

/** Whether others that were fetched with it, or their number, may have caused its failure. */
export const isShared = (answer: Answer | undefined): boolean =>
  answer?.status === 'failed' && answer.cause === 'batch' && answer.batchSize > 1;

/** What is fetched together next: half of the candidates, an isolated request, or all others. */
export function chooseBatch(requests: readonly SyncRequest[]): readonly SyncRequest[] {
  const candidates = requests.filter(({ isCandidate }) => isCandidate);
  if (candidates.length > 0) return candidates.slice(0, Math.ceil(candidates.length / 2));
  return requests[0]?.isIsolated ? requests.slice(0, 1) : requests.filter(({ isIsolated }) => !isIsolated);
}

/**
 * What becomes of a request after an answer.
 *
 * @param chance from 0 to 1, at random: so that replicas and requests do not come back all at once
 */
export function decide(request: SyncRequest, answer: Answer, chance: number): Decision {
  if (answer.status === 'failed') return decideFailure(request, answer, chance);
  // The webhook gave the node id of another pull request.
  if (answer.status === 'found' && answer.githubId !== request.githubId) return { kind: 'gone' };
  const sourceUpdatedAt = answer.status === 'found' ? answer.sourceUpdatedAt : null;
  if (sourceUpdatedAt !== null && sourceUpdatedAt >= (request.minSourceUpdatedAt ?? 0)) return { kind: 'done' };
  const seconds = secondsToWait(request, sourceUpdatedAt);
  if (seconds !== undefined) return { kind: 'wait', seconds, sourceUpdatedAt };
  return { kind: sourceUpdatedAt === null ? 'gone' : 'stale' };
}

function decideFailure(request: SyncRequest, failure: Failure, chance: number): Decision {
  const { error, cause } = failure;
  const hasShownOthers = failure.hasShownOthers || request.hasShownOthers;
  // If GitHub serves none at all, smaller batches find nothing.
  if (isShared(failure) && (hasShownOthers || !request.isSetAside)) return { kind: 'split' };
  const isOwn = hasShownOthers && cause !== 'service';
  // While GitHub serves none, one that failed alone joins the others again: each may be the one.
  const isIsolated = cause === 'batch' ? isOwn || request.isCandidate : request.isIsolated;
  const { seconds, attempts } = nextTry(request, error, { isOwn }, chance);
  if (seconds === null) return { kind: 'parked', seconds, attempts, reason: reasonOf(error), isIsolated };
  // Background work that stops at the reserve of points has not failed.
  const isReserve = isRateLimited(error) && request.isBackground;
  return { kind: 'retry', seconds, attempts, reason: isReserve ? null : reasonOf(error), isIsolated };
}

/** How long to wait for an answer above the floor; undefined if this one is believed. */
function secondsToWait(
  { minSourceUpdatedAt, age, behindSourceUpdatedAt, behindSeconds }: SyncRequest,
  sourceUpdatedAt: number | null,
): number | undefined {
  // GitHub has not just named it: there is nothing to wait for.
  if (minSourceUpdatedAt === null) return undefined;
  const seconds = behindSourceUpdatedAt === sourceUpdatedAt ? (behindSeconds ?? 0) : 0;
  if (age > maxAgeSeconds || (sourceUpdatedAt !== null && seconds >= maxStaleSeconds)) return undefined;
  const next = retryAfterSeconds.find(after => after > seconds);
  return next === undefined ? undefined : next - seconds;
}

/**
 * When to try again what failed; `seconds` is null if it is parked. Each waits by its own failures: a new one does not
 * wait longer because old ones failed with it.
 *
 * @param isOwn what failed causes the failure itself: if it goes on, it is parked
 */
export function nextTry(
  { attempts }: { readonly attempts: number },
  error: unknown,
  { isOwn }: { isOwn: boolean },
  chance: number,
): { seconds: number | null; attempts: number } {
  // No request is tried again before GitHub allows it.
  if (isRateLimited(error)) return { seconds: (error.retryAfter ?? 60) * (1 + chance * 0.02), attempts };
  const jitter = 0.8 + 0.4 * chance;
  if (isDatabaseUnavailable(error)) return { seconds: jitter, attempts };
  const failures = attempts + 1;
  if (isOwn && failures >= maxFailures) return { seconds: null, attempts: failures };
  const seconds = (waitSeconds[Math.min(failures, waitSeconds.length) - 1] ?? 5) * jitter;
  return { seconds, attempts: isOwn || failures <= maxSharedFailures ? failures : attempts };
}

/** What operators are told. */
export const reasonOf = (error: unknown): string => {
  if (error instanceof ServiceError) return error.text;
  return isDatabaseUnavailable(error)
    ? 'The database was not available.'
    : 'Internal error; see the log of the service.';
};

const isRateLimited = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.code === 'github_rate_limited';
