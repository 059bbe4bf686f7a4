import type { SyncRequest } from '../database/sync-requests.ts';

/*
 * GitHub answers from replicas that lag behind its webhooks: for seconds after an event, a fetch may find nothing, or
 * the state from before. See https://github.com/octokit/octokit.js/issues/900 and
 * https://github.com/Asana/SGTM/issues/53.
 */

/** When GitHub is asked again, in seconds since its answer first came. After the last one the answer is believed. */
const retryAfterSeconds = [1, 3, 7, 15, 30, 60, 180, 780];

/** After this, an older state is believed: GitHub never shows some of the times that payloads name. */
const maxStaleSeconds = 30;

/** After this, no more waiting for answers that keep changing. */
const maxAgeSeconds = 3_600;

/** What a sync request knows about GitHub's answers so far. */
type Expectation = Pick<SyncRequest, 'minSourceUpdatedAt' | 'age' | 'behindSourceUpdatedAt' | 'behindSeconds'>;

/** @param sourceUpdatedAt of the answer; null if GitHub did not show the pull request */
export const isReached = ({ minSourceUpdatedAt }: Expectation, sourceUpdatedAt: number | null): boolean =>
  sourceUpdatedAt !== null && sourceUpdatedAt >= (minSourceUpdatedAt ?? 0);

/**
 * How long to wait before asking GitHub again, if its answer is below the floor.
 *
 * @param sourceUpdatedAt of the answer; null if GitHub did not show the pull request
 * @returns seconds; undefined if the answer is believed
 */
export function waitForGithub(
  { minSourceUpdatedAt, age, behindSourceUpdatedAt, behindSeconds }: Expectation,
  sourceUpdatedAt: number | null,
): number | undefined {
  // GitHub has not just named it: there is nothing to wait for.
  if (minSourceUpdatedAt === null) return undefined;
  const seconds = behindSourceUpdatedAt === sourceUpdatedAt ? (behindSeconds ?? 0) : 0;
  if (age > maxAgeSeconds || (sourceUpdatedAt !== null && seconds >= maxStaleSeconds)) return undefined;
  const next = retryAfterSeconds.find(after => after > seconds);
  return next === undefined ? undefined : next - seconds;
}
