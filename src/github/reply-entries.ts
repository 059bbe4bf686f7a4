import type { ServiceError } from '../errors.ts';
import { UnexpectedReply } from './decode.ts';
import { errorOfFailures, type GithubError, type GraphqlFailure, githubFailed } from './github-error.ts';
import { type FetchedPullRequest, isComplete, readPullRequest } from './pull-request.ts';

/*
 * Reads the entries of replies. GitHub may return some of them, and name in `errors`, by path, what failed.
 */

export type FetchResult =
  | { status: 'found'; pullRequest: FetchedPullRequest }
  /** GitHub does not show it to these credentials: it is deleted, or not accessible. */
  | { status: 'gone' }
  /** GitHub did not return all of it; others of the same request are not affected. */
  | { status: 'failed'; error: ServiceError };

type Path = (string | number)[];

const startsWith = (path: Path, start: Path) => start.every((step, depth) => step === path[depth]);

/**
 * What GitHub returned for the entry at `path` of a list, or why it did not.
 *
 * @param words for messages: what was asked for, and the variables that hold the credentials
 */
export function readEntry(
  node: unknown,
  path: Path,
  failures: readonly GraphqlFailure[],
  words: { subject: string; credentials: string },
): FetchResult {
  const { subject, credentials } = words;
  const own = failures.filter(failure => startsWith(failure.path, path));
  if (own.length > 0) {
    const gone = node === null && own.every(failure => failure.type === 'NOT_FOUND');
    return gone ? { status: 'gone' } : { status: 'failed', error: errorOfFailures(own, subject, credentials) };
  }
  // A failure further up may have removed any part of it.
  const around = failures.filter(failure => startsWith(path, failure.path));
  if (around.length > 0 && !isComplete(node)) {
    return { status: 'failed', error: errorOfFailures(around, subject, credentials) };
  }
  if (node === null || node === undefined) return { status: 'gone' };
  try {
    return { status: 'found', pullRequest: readPullRequest(node) };
  } catch (error) {
    return { status: 'failed', error: unexpectedReplyError(error, subject) };
  }
}

/** The value of a query's only field: null if GitHub does not show it. */
export function answerAt(data: object, name: string, subject: string): unknown {
  if (!Object.hasOwn(data, name)) throw unexpectedReplyError(new UnexpectedReply(`${name} is missing`), subject);
  return (data as Record<string, unknown>)[name];
}

/** Whether a failure concerns a single entry of a page. */
const isOf =
  (list: string, entries: string) =>
  ({ path }: GraphqlFailure): boolean =>
    startsWith(path, ['node', list, entries]) && typeof path[3] === 'number';
export const isOfPullRequest = isOf('pullRequests', 'nodes');
export const isOfEdge = isOf('repositories', 'edges');

/**
 * The entries of a page, and why others are missing. Those that GitHub does not show are in neither list.
 *
 * @param failures those of {@link isOfEdge} or {@link isOfPullRequest}
 * @param readItem returns undefined for an entry that GitHub does not show
 */
export function readPage<Item>(
  entries: readonly unknown[],
  failures: readonly GraphqlFailure[],
  readItem: (entry: unknown) => Item | undefined,
  { subject, credentials }: { subject: string; credentials: string },
) {
  const items: Item[] = [];
  const failed: GithubError[] = [];
  entries.forEach((entry, index) => {
    // A failure of a repository's latest pull request is not its own.
    const own = failures.filter(({ path, type }) => path[3] === index && type !== 'NOT_FOUND' && path[6] !== 'nodes');
    if (own.length > 0) {
      failed.push(errorOfFailures(own, subject, credentials));
      return;
    }
    if (entry === null) return;
    try {
      const item = readItem(entry);
      if (item !== undefined) items.push(item);
    } catch (error) {
      failed.push(unexpectedReplyError(error, subject));
    }
  });
  return { items, failed };
}

/** Throws again what is not an {@link UnexpectedReply}. */
export function unexpectedReplyError(error: unknown, subject: string, action = 'Try again later.'): GithubError {
  if (!(error instanceof UnexpectedReply)) throw error;
  return githubFailed(`GitHub's reply about ${subject} is not valid: ${error.message}.`, action, { cause: error });
}

/** @throws GithubError if `decode` throws an {@link UnexpectedReply} */
export function read<Result>(subject: string, decode: () => Result): Result {
  try {
    return decode();
  } catch (error) {
    throw unexpectedReplyError(error, subject);
  }
}
