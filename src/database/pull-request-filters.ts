import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { PullRequestState } from '../pull-request.ts';
import type { Database } from './client.ts';
import {
  createPage,
  type Direction,
  type Page,
  type PageSize,
  type PullRequestPosition,
  type PullRequestRow,
  readPage,
  type Sort,
  sorting,
  sortTimes,
} from './pull-request-pages.ts';
import { isOfOrganisation } from './pull-requests.ts';
import { pullRequests, repositories } from './schema.ts';
import { createSelection, placeholder, query } from './statement.ts';

/*
 * Lists with filters. A statement first finds the keys of a page, in indexes alone, and then reads its rows by their keys.
 * One index has each state in the order of time. If several states or repositories are wanted, the first keys of each are
 * merged; so a list costs the same whether all rows match or none.
 *
 * An index of a member has their pull requests in the order of time, and its entries name state and repository. Skipping
 * those that don't match takes PostgreSQL 18 about 40 ns for each, so that a member may have a million.
 */

export interface PullRequestFilter {
  states: readonly PullRequestState[];
  repositoryIds?: readonly string[] | undefined;
  memberId?: string | undefined;
  /** Only with repositories. */
  number?: number | undefined;
  sort: Sort;
  /** The first and the last second of the time by which the list is sorted; infinite if there is none. */
  since: number;
  until: number;
}

type Shape = 'all' | 'repositories' | 'member' | 'member_in_repositories' | 'number';

function shapeOf({ repositoryIds, memberId, number }: PullRequestFilter): Shape {
  if (number !== undefined) return 'number';
  if (memberId === undefined) return repositoryIds === undefined ? 'all' : 'repositories';
  return repositoryIds === undefined ? 'member' : 'member_in_repositories';
}

const { id, state, repositoryId, memberId } = pullRequests;

const isOneOfStates = sql`${state} = any(${placeholder('states')}::text[])`;
const isInRepositories = sql`${repositoryId} = any(${placeholder('repositoryIds')}::uuid[])`;
const isOfMember = eq(memberId, placeholder('memberId'));

/** Of the list's first pull requests: id and time. */
function findKeys(shape: Shape, sort: Sort, direction: Direction, limit: number): SQL {
  const time = sortTimes[sort];
  const { isPast, order } = sorting(sort, direction);
  const bound = sql`to_timestamp(${placeholder('bound')})`;
  const isOnThisSide = and(isPast, direction === 'next' ? sql`${time} >= ${bound}` : sql`${time} <= ${bound}`);
  const inOrder = sql`order by ${sql.join(order, sql`, `)} limit ${sql.raw(String(limit))}`;
  const keysWhere = (...conditions: SQL[]) =>
    sql`select ${id}, ${time} as time from ${pullRequests}
      where ${and(isOfOrganisation, ...conditions, isOnThisSide)} ${inOrder}`;
  if (shape === 'number') {
    // Materialised: otherwise PostgreSQL may follow an index in the order of time to the end.
    return sql`with pull_requests as materialized (
        select * from ${pullRequests}
        where ${and(isOfOrganisation, isInRepositories, eq(pullRequests.number, placeholder('number')))}
      )
      ${keysWhere(isOneOfStates, sql`${memberId} = coalesce(${placeholder('memberId')}, ${memberId})`)}`;
  }
  if (shape === 'member') return keysWhere(isOfMember, isOneOfStates);
  if (shape === 'member_in_repositories') return keysWhere(isOfMember, isOneOfStates, isInRepositories);
  const states = sql`unnest(${placeholder('states')}::text[]) as wanted_states (state)`;
  const isOfState = sql`${state} = wanted_states.state`;
  const [wanted, keys] =
    shape === 'all'
      ? [states, keysWhere(isOfState)]
      : [
          sql`${states} cross join unnest(${placeholder('repositoryIds')}::uuid[]) as wanted_repositories (id)`,
          keysWhere(sql`${repositoryId} = wanted_repositories.id`, isOfState),
        ];
  const step = direction === 'next' ? sql`desc` : sql`asc`;
  return sql`select found.* from ${wanted} cross join lateral (${keys}) as found
    order by found.time ${step}, found.id ${step} limit ${sql.raw(String(limit))}`;
}

/** A statement has one of these limits: a connection keeps the plan of each statement. */
const limits = [16, 26, 101];

const pages = new Map<string, Page>();

function pageOf(shape: Shape, sort: Sort, direction: Direction, limit: number): Page {
  const name = `pull_requests_${shape}_by_${sort}_${direction}`;
  const known = pages.get(`${name}_${limit}`);
  if (known !== undefined) return known;
  // Nothing but a lateral join makes PostgreSQL look up each key, whatever it believes about the table.
  const rows = sql`select pull_requests.* from (${findKeys(shape, sort, direction, limit)}) as keys
    cross join lateral (
      select * from ${pullRequests} where ${isOfOrganisation} and ${id} = keys.id offset 0
    ) as pull_requests`;
  const page = createPage(name, rows, sorting(sort, direction).order);
  pages.set(`${name}_${limit}`, page);
  return page;
}

/** As `readPullRequestPage` does, of a list with a filter. */
export function readFilteredPage(
  database: Database,
  organisationId: string,
  filter: PullRequestFilter,
  direction: Direction,
  from: PullRequestPosition,
  size: PageSize,
): Promise<PullRequestRow[]> {
  const { states, repositoryIds, memberId = null, number, sort, since, until } = filter;
  const maxRows = limits.find(each => each >= size.rows) ?? size.rows;
  const bound = direction === 'next' ? since : until;
  const values = { organisationId, states, repositoryIds, memberId, number, bound, ...from };
  return readPage(database, pageOf(shapeOf(filter), sort, direction, maxRows), values, size, maxRows);
}

const repositoriesOfNames = createSelection(
  'repositories_of_names',
  query
    .select({ id: repositories.id })
    .from(repositories)
    .where(
      and(
        eq(repositories.organisationId, placeholder('organisationId')),
        sql`lower(${repositories.name}) = any(${placeholder('names')}::text[])`,
      ),
    ),
);

/** Ids of the repositories of these names, `owner/name` in any case. */
export async function findRepositoryIds(
  database: Database,
  organisationId: string,
  names: readonly string[],
): Promise<string[]> {
  const wanted = names.map(name => name.toLowerCase());
  return (await database.read(repositoriesOfNames, { organisationId, names: wanted })).map(row => row.id);
}
