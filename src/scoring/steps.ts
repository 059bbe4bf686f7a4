/** Work in steps, between which others can go first. */
export type Steps<Result> = Generator<void, Result>;

/** Without a pause. */
export function runToEnd<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}
