import type { ServiceError } from '../errors.ts';
import { errorOfFailures, GithubError, type GraphqlFailure } from './errors.ts';
import { type ListedRepository, readRepository } from './organisation.ts';
import {
  type FetchedPullRequest,
  isComplete,
  type ListedPullRequest,
  readListedPullRequest,
  readPullRequest,
} from './pull-request.ts';
import { count, entries, flag, Misfit, optionalText, present, text } from './reading.ts';

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
  answer: object,
  failures: readonly GraphqlFailure[],
  { subject, credentials }: { subject: string; credentials: string },
): { items: ListedRepository[]; failed: GithubError[] } {
  const items: ListedRepository[] = [];
  const failed: GithubError[] = [];
  entries(answer, 'repositories.edges').forEach((edge, index) => {
    const own = failures.filter(({ path, type }) => path[3] === index && type !== 'NOT_FOUND');
    if (own.length > 0) {
      failed.push(errorOfFailures(own, subject, credentials));
      return;
    }
    if (!present(edge, 'node')) return;
    try {
      items.push({ ...readRepository((edge as { node: unknown }).node), cursor: text(edge, 'cursor') });
    } catch (error) {
      failed.push(misfitError(error, subject));
    }
  });
  return { items, failed };
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
export function misfitError(error: unknown, subject: string): GithubError {
  if (!(error instanceof Misfit)) throw error;
  const message = `GitHub's reply about ${subject} makes no sense: ${error.message}.`;
  return new GithubError('github_failed', message, { action: 'Try again later.', cause: error });
}

/** @throws GithubError where `reading` finds what GitHub does not document */
export function read<Result>(subject: string, reading: () => Result): Result {
  try {
    return reading();
  } catch (error) {
    throw misfitError(error, subject);
  }
}
