import { type Static, Type } from '@sinclair/typebox';
import type { PullRequestFilter } from '../../database/pull-request-filters.ts';
import type { Sort } from '../../database/pull-request-pages.ts';
import { badRequest } from '../../errors.ts';
import { type PullRequestState, pullRequestStates } from '../../pull-request.ts';
import { messageOfWrongOrder } from '../../reports/period.ts';
import { maxUnixSeconds, startOfDay } from '../../text/times.ts';
import { PageQuery } from '../pagination.ts';

const maxRepositories = 100;

const sorts = ['created', 'updated', 'merged'] as const satisfies readonly Sort[];

const Bound = (description: string) =>
  Type.Optional(
    Type.String({
      description: `${description}: Unix seconds, or a day in UTC as \`2026-01-31\`. The list is then sorted by this time`,
    }),
  );

const ranges = {
  created_since: Bound('Those created then or later'),
  created_until: Bound('Those created then or earlier'),
  updated_since: Bound('Those last updated on GitHub then or later'),
  updated_until: Bound('Those last updated on GitHub then or earlier'),
  merged_since: Bound('Those merged then or later'),
  merged_until: Bound('Those merged then or earlier'),
};
type RangeName = keyof typeof ranges;

const states = [...pullRequestStates].sort();

export const MemberPullRequestsQuery = Type.Object({
  ...PageQuery.properties,
  state: Type.Optional(
    Type.String({ description: `Those in one of these states, separated by commas: ${states.join(', ')}` }),
  ),
  repository: Type.Optional(
    Type.String({
      description:
        `Those in one of these repositories, \`owner/name\`, separated by commas, up to ${maxRepositories}. Case does not ` +
        'matter. A name that is not known, as of a repository without pull requests, matches nothing',
    }),
  ),
  number: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 2 ** 31 - 1,
      description: 'The one with this number; needs exactly one `repository`',
    }),
  ),
  ...ranges,
  sort: Type.Optional(
    Type.String({
      enum: sorts,
      description:
        'Latest first, by this time. Without it, by the time of the range that is given, else by creation. `merged` lists ' +
        'merged pull requests only',
    }),
  ),
});

export const PullRequestsQuery = Type.Object({
  ...MemberPullRequestsQuery.properties,
  member: Type.Optional(Type.String({ description: 'Those created by the member with this id' })),
});

export type FilterQuery = Static<typeof PullRequestsQuery>;

/** The filter in a query, with names of repositories in place of their ids. */
export type Filter = Omit<PullRequestFilter, 'repositoryIds' | 'memberId'> & {
  repositories: readonly string[] | undefined;
};

/** @throws ServiceError `bad_request` */
export function readFilter(query: FilterQuery): Filter {
  const repositories = query.repository === undefined ? undefined : readRepositories(query.repository);
  if (query.number !== undefined && repositories?.length !== 1) {
    throw refused('number', 'number needs exactly one repository.');
  }
  const sort = readSort(query);
  const since = readBound(query, `${sort}_since`) ?? -Infinity;
  const until = readBound(query, `${sort}_until`) ?? Infinity;
  if (since > until)
    throw refused(`${sort}_since`, messageOfWrongOrder(query[`${sort}_since`], query[`${sort}_until`]));
  const wanted = query.state === undefined ? states : readStates(query.state);
  return {
    states: sort === 'merged' ? wanted.filter(state => state === 'merged') : wanted,
    repositories,
    number: query.number,
    sort,
    since,
    until,
  };
}

const refused = (parameter: keyof FilterQuery, message: string) => badRequest(message, undefined, { parameter });

/** Each once, in one order. */
const partsOf = (text: string) => [...new Set(text.split(','))].sort();

function readStates(text: string): PullRequestState[] {
  const parts = partsOf(text);
  const found = states.filter(state => parts.includes(state));
  if (found.length < parts.length)
    throw refused('state', `state must be of ${states.join(', ')}, separated by commas.`);
  return found;
}

function readRepositories(text: string): string[] {
  const names = partsOf(text.toLowerCase());
  if (names.length > maxRepositories) throw refused('repository', `repository takes up to ${maxRepositories} names.`);
  if (!names.every(name => /^[\w.-]+\/[\w.-]+$/.test(name))) {
    throw refused('repository', 'repository must be owner/name, or several of them, separated by commas.');
  }
  return names;
}

/** A range is served by the index in the order of its time: it can only be of the time by which the list is sorted. */
function readSort(query: FilterQuery): Sort {
  const given = (Object.keys(ranges) as RangeName[]).filter(name => query[name] !== undefined);
  const timeOf = (name: RangeName) => sorts.find(each => name.startsWith(each)) ?? 'created';
  const [first] = given;
  const wanted = query.sort ?? (first === undefined ? 'created' : timeOf(first));
  const sort = sorts.find(each => each === wanted);
  if (sort === undefined) throw refused('sort', `sort must be ${sorts.slice(0, -1).join(', ')} or ${sorts.at(-1)}.`);
  const other = given.find(name => timeOf(name) !== sort);
  if (other === undefined) return sort;
  throw refused(
    other,
    query.sort === undefined
      ? `${first} and ${other} can't be given together: a list has a range of one time.`
      : `${other} needs sort=${timeOf(other)}: a range is of the time by which the list is sorted.`,
  );
}

/** In Unix seconds. */
function readBound(query: FilterQuery, name: RangeName): number | undefined {
  const text = query[name];
  if (text === undefined) return undefined;
  const start = startOfDay(text);
  if (start !== undefined && start >= 0) return name.endsWith('_until') ? start + 86_399 : start;
  const seconds = /^(0|[1-9]\d{0,11})$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
  if (seconds <= maxUnixSeconds) return seconds;
  throw refused(name, `${name} must be Unix seconds or a day, such as 2026-01-31.`);
}
