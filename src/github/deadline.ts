import { timeoutError } from './errors.ts';

/**
 * Runs `work`, and rejects with `github_timeout` if it takes longer. If `outer` is aborted first, rejects with its
 * reason, or with `github_timeout` if that is a timeout.
 */
export async function withDeadline<Result>(
  timeoutMs: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const { signal } = controller;
  const timer = setTimeout(() => controller.abort(timeoutError(timeoutMs)), timeoutMs);
  const onOuterAbort = () => {
    const reason: unknown = outer?.reason;
    const isTimeout = reason instanceof DOMException && reason.name === 'TimeoutError';
    controller.abort(isTimeout ? timeoutError(undefined) : reason);
  };
  // Not AbortSignal.any: in Node 20 its signals are kept as long as the outer one.
  outer?.addEventListener('abort', onOuterAbort, { once: true });
  if (outer?.aborted) onOuterAbort();
  try {
    return await new Promise<Result>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      if (signal.aborted) reject(signal.reason);
      else work(signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener('abort', onOuterAbort);
  }
}
