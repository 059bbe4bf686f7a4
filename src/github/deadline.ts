import { timeoutError } from './errors.ts';

/**
 * Runs `work` and settles after `milliseconds` at the latest, whatever `work` does: with `github_timeout`, or with the
 * reason of `outer` where that was aborted first for anything but a time limit.
 */
export async function withDeadline<Result>(
  milliseconds: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const { promise: ended, reject } = promiseWithReject();
  const end = (reason: unknown) => {
    reject(reason);
    controller.abort(reason);
  };
  const timer = setTimeout(() => end(timeoutError(milliseconds)), milliseconds);
  const onOuterAbort = () => {
    const reason: unknown = outer?.reason;
    end(reason instanceof DOMException && reason.name === 'TimeoutError' ? timeoutError(undefined) : reason);
  };
  // Not AbortSignal.any: under Node 20 it keeps what it made for as long as the outer signal lives.
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
  // It may lose the race and be rejected with nobody listening.
  promise.catch(() => {});
  return { promise, reject };
}
