import type { ServiceError } from '../errors.ts';
import { UnexpectedReply } from './decode.ts';
import { errorOfFailures, GithubError, type GraphqlFailure } from './errors.ts';
import { type ListedRepository, readListedRepository } from './organisation.ts';
import { type FetchedPullRequest, isComplete, readPullRequest } from './pull-request.ts';

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
  const own = failures.filter(failure => startsWith(failure.path, path));
  if (own.length > 0) {
    const gone = node === null && own.every(failure => failure.type === 'NOT_FOUND');
    return gone ? { status: 'gone' } : { status: 'failed', error: errorOfFailures(own, subject, credentials) };
  }
  // What failed around it may have kept back any part of it.
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

/** What a query's one root field answered: null if GitHub does not show it. */
export function answerAt(data: object, name: string, subject: string): unknown {
  if (!Object.hasOwn(data, name)) throw unexpectedReplyError(new UnexpectedReply(`${name} is missing`), subject);
  return (data as Record<string, unknown>)[name];
}

/** Whether a failure is about one of the repositories of a page. */
export const isOfEdge = ({ path }: GraphqlFailure): boolean =>
  startsWith(path, ['node', 'repositories', 'edges']) && typeof path[3] === 'number';

/**
 * The repositories of a page, and why others did not come whole. What GitHub does not show is in neither.
 *
 * @param failures those of {@link isOfEdge}
 * @param words for messages: what was asked for, and the variables that hold the credentials
 */
export function readListedRepositories(
  edges: readonly unknown[],
  failures: readonly GraphqlFailure[],
  { subject, credentials }: { subject: string; credentials: string },
): { items: ListedRepository[]; failed: GithubError[] } {
  const items: ListedRepository[] = [];
  const failed: GithubError[] = [];
  edges.forEach((edge, index) => {
    const own = failures.filter(({ path, type }) => path[3] === index && type !== 'NOT_FOUND');
    if (own.length > 0) {
      failed.push(errorOfFailures(own, subject, credentials));
      return;
    }
    if (edge === null) return;
    try {
      const repository = readListedRepository(edge);
      if (repository !== undefined) items.push(repository);
    } catch (error) {
      failed.push(unexpectedReplyError(error, subject));
    }
  });
  return { items, failed };
}

/** @throws what is no {@link UnexpectedReply} as it is */
export function unexpectedReplyError(error: unknown, subject: string): GithubError {
  if (!(error instanceof UnexpectedReply)) throw error;
  const message = `GitHub's reply about ${subject} makes no sense: ${error.message}.`;
  return new GithubError('github_failed', message, { action: 'Try again later.', cause: error });
}

/** @throws GithubError if `reading` finds what GitHub does not document */
export function read<Result>(subject: string, reading: () => Result): Result {
  try {
    return reading();
  } catch (error) {
    throw unexpectedReplyError(error, subject);
  }
}
