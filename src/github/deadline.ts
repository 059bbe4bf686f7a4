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
  const { promise: ended, reject } = promiseWithReject();
  const end = (reason: unknown) => {
    reject(reason);
    controller.abort(reason);
  };
  const timer = setTimeout(() => end(timeoutError(timeoutMs)), timeoutMs);
  const onOuterAbort = () => {
    const reason: unknown = outer?.reason;
    end(reason instanceof DOMException && reason.name === 'TimeoutError' ? timeoutError(undefined) : reason);
  };
  // Not AbortSignal.any: in Node 20 its signals are kept as long as the outer one.
  outer?.addEventListener('abort', onOuterAbort, { once: true });
  if (outer?.aborted) onOuterAbort();
  try {
    return await Promise.race([ended, controller.signal.aborted ? ended : work(controller.signal)]);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener('abort', onOuterAbort);
  }
}

function promiseWithReject() {
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<never>((_, rejectPromise) => {
    reject = rejectPromise;
  });
  // If it loses the race, nobody handles its rejection.
  promise.catch(() => {});
  return { promise, reject };
}
