import type { ServiceError } from '../errors.ts';
import { errorOfFailures, GithubError, type GraphqlFailure } from './errors.ts';
import {
  type FetchedPullRequest,
  isComplete,
  type ListedPullRequest,
  readListedPullRequest,
  readPullRequest,
} from './pull-request.ts';
import { count, flag, Misfit, optionalText, text } from './reading.ts';

/*
 * What a reply says of what was asked for. GitHub may give a part of it, and name in `errors`, by path, what failed.
 */

export type FetchResult =
  | { status: 'found'; pullRequest: FetchedPullRequest }
  /** GitHub does not show it to these credentials: deleted, or out of reach. */
  | { status: 'gone' }
  /** It is there, but did not come whole; the others of the same request did. */
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
  const own = failures.filter(failure => failure.path.length >= path.length && startsWith(failure.path, path));
  if (own.length > 0) {
    const gone = node === null && own.every(failure => failure.type === 'NOT_FOUND');
    return gone ? { status: 'gone' } : { status: 'failed', error: errorOfFailures(own, subject, credentials) };
  }
  // What failed around it may have kept back any part of it.
  const around = failures.filter(failure => failure.path.length < path.length && startsWith(path, failure.path));
  if (around.length > 0 && !isComplete(node)) {
    return { status: 'failed', error: errorOfFailures(around, subject, credentials) };
  }
  if (node === null || node === undefined) return { status: 'gone' };
  try {
    return { status: 'found', pullRequest: readPullRequest(node) };
  } catch (error) {
    return { status: 'failed', error: misfitError(error, subject) };
  }
}

/** What a query's one root field answered: null where GitHub does not show it. */
export function answerAt(data: object, name: string, subject: string): unknown {
  if (!Object.hasOwn(data, name)) throw misfitError(new Misfit(`${name} is missing`), subject);
  return (data as Record<string, unknown>)[name];
}

/** @throws Misfit where the page, or the way to the next one, makes no sense */
export function readPageInfo(holder: unknown, connection: string, after: string | null) {
  const totalCount = count(holder, `${connection}.totalCount`);
  const hasNextPage = flag(holder, `${connection}.pageInfo.hasNextPage`);
  const endCursor = optionalText(holder, `${connection}.pageInfo.endCursor`);
  if (hasNextPage && (endCursor === null || endCursor === after)) throw new Misfit('endCursor leads nowhere');
  return { totalCount, hasNextPage, endCursor };
}

/** None where GitHub does not even name it. */
export function readListed(node: unknown): ListedPullRequest[] {
  try {
    return [readListedPullRequest(node)];
  } catch (error) {
    if (error instanceof Misfit) return [];
    throw error;
  }
}

/** Undefined where not even that came. */
export function nodeIdOf(node: unknown): string | undefined {
  try {
    return text(node, 'id');
  } catch {
    return undefined;
  }
}

/** @throws what is no {@link Misfit} as it is */
export function misfitError(error: unknown, subject: string): ServiceError {
  if (!(error instanceof Misfit)) throw error;
  const message = `GitHub's reply about ${subject} makes no sense: ${error.message}; try again later`;
  return new GithubError('github_failed', message, { cause: error });
}

/** @throws GithubError where `reading` finds what GitHub does not document */
export function read<Result>(subject: string, reading: () => Result): Result {
  try {
    return reading();
  } catch (error) {
    throw misfitError(error, subject);
  }
}
