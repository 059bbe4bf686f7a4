/*
 * GitHub answers from replicas that lag behind its webhooks: for seconds after an event, a fetch may find nothing, or
 * the state from before. See https://github.com/octokit/octokit.js/issues/900 and
 * https://github.com/Asana/SGTM/issues/53.
 */

/** Seconds since an answer first came at which GitHub is asked again. A last answer stands after the last of them. */
const looks = [1, 3, 7, 15, 30, 60, 180, 780];

/** An older state that GitHub shows for as long is all that will come: not every payload's time is ever reached. */
const maxStaleSeconds = 30;

/** Answers that keep changing are waited for no longer than this. */
const maxAgeSeconds = 3_600;

/** What a sync request knows of GitHub's answers so far. Times are Unix seconds. */
export interface Expectation {
  /** The floor: `updated_at` as a webhook named it; null if none did. */
  minSourceUpdatedAt: number | null;
  /** Seconds since the latest webhook. */
  age: number;
  /** The last answer below the floor, and for how many seconds GitHub has given the same one. */
  behind: { sourceUpdatedAt: number | null; seconds: number } | undefined;
}

/** @param sourceUpdatedAt of the answer; null if GitHub did not show the pull request */
export const isReached = ({ minSourceUpdatedAt }: Expectation, sourceUpdatedAt: number | null): boolean =>
  sourceUpdatedAt !== null && sourceUpdatedAt >= (minSourceUpdatedAt ?? 0);

/**
 * How long to wait until GitHub is asked again, if its answer is below the floor.
 *
 * @param sourceUpdatedAt of the answer; null if GitHub did not show the pull request
 * @returns seconds; undefined if the answer is to be taken for the truth
 */
export function waitForGithub(
  { minSourceUpdatedAt, age, behind }: Expectation,
  sourceUpdatedAt: number | null,
): number | undefined {
  // No webhook has just spoken of it: it is not there, and has not been for long.
  if (minSourceUpdatedAt === null) return undefined;
  const seconds = behind?.sourceUpdatedAt === sourceUpdatedAt ? behind.seconds : 0;
  if (age > maxAgeSeconds || (sourceUpdatedAt !== null && seconds >= maxStaleSeconds)) return undefined;
  const next = looks.find(look => look > seconds);
  return next === undefined ? undefined : next - seconds;
}
