import { GithubError } from './errors.ts';

/** How many entries are asked for at once: fewer after GitHub has failed on more, then more again. */
export interface PageSize {
  readonly current: number;
  /** `asked` were too many: halves; false if it was one already. */
  shrink(asked: number): boolean;
  /** `asked` went well: doubles after some such successes in a row, if that many were asked for. */
  grow(asked: number): void;
  /** What was too much was one pull request, which is done with: as many as at first. */
  restore(): void;
}

const successesBeforeGrowing = 8;

export function createPageSize(maximum: number): PageSize {
  let current = maximum;
  let successes = 0;
  return {
    get current() {
      return current;
    },
    shrink(asked) {
      successes = 0;
      if (asked <= 1) return false;
      current = Math.min(current, Math.floor(asked / 2));
      return true;
    },
    grow(asked) {
      if (current === maximum || asked < current || ++successes < successesBeforeGrowing) return;
      successes = 0;
      current = Math.min(current * 2, maximum);
    },
    restore() {
      successes = 0;
      current = maximum;
    },
  };
}

/**
 * Makes one request of as many as GitHub lately managed. Where that is too much, repeats it at once with half, down
 * to one; every other error goes to the caller.
 * @param wanted how many there are to ask for.
 * @param request is told how many of them it may ask for.
 */
export async function withPageSize<Result>(
  pageSize: PageSize,
  wanted: number,
  request: (size: number) => Promise<Result>,
): Promise<Result> {
  for (;;) {
    const size = Math.min(pageSize.current, wanted);
    try {
      const result = await request(size);
      pageSize.grow(size);
      return result;
    } catch (error) {
      if (!(error instanceof GithubError && error.tooMuch && pageSize.shrink(size))) throw error;
    }
  }
}
