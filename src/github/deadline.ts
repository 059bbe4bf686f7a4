import { timeoutError } from './github-error.ts';

/**
 * Runs `work`, and rejects with `github_timeout` if it takes longer.
 *
 * @param deadline the caller's own limit, by `performance.now()`; if it has passed, `work` does not start
 */
export async function withDeadline<Result>(
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<Result>,
  deadline = Number.POSITIVE_INFINITY,
): Promise<Result> {
  const leftMs = deadline - performance.now();
  if (leftMs <= 0) throw timeoutError(undefined);
  const controller = new AbortController();
  const { signal } = controller;
  const abort = () => controller.abort(timeoutError(leftMs < timeoutMs ? undefined : timeoutMs));
  const timer = setTimeout(abort, Math.min(leftMs, timeoutMs));
  try {
    return await new Promise<Result>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      work(signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
  }
}
