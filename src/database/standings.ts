import { and, count, eq, isNotNull, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { isInPresentRepository } from './pull-requests.ts';
import { members, pullRequests, repositories } from './schema.ts';

export interface Period {
  /** Which event's day must fall in the period. */
  by: 'created' | 'merged';
  /** In Unix seconds; undefined for no limit. */
  from: number | undefined;
  /** Exclusive. */
  until: number | undefined;
}

const timeOf = ({ by }: Pick<Period, 'by'>) => (by === 'created' ? pullRequests.createdAt : pullRequests.mergedAt);

/** The pull requests that standings count: those of the period, in repositories that have not left. */
export function isCounted(organisationId: string, { by, from, until }: Period): SQL | undefined {
  const time = timeOf({ by });
  return and(
    isNotNull(time),
    // Not as text: PostgreSQL does not parse the days before the year 1 and after 9999.
    from === undefined ? undefined : sql`${time} >= to_timestamp(${from})`,
    until === undefined ? undefined : sql`${time} < to_timestamp(${until})`,
    isInPresentRepository(organisationId),
  );
}

export interface Total {
  /** The member's or the repository's. */
  id: string;
  name: string;
  /** Set for members only. */
  login?: string;
  leftAt?: Date | null;
  pullRequests: number;
  /** The sum of their stored scores. */
  score: number;
}

/** Totals of all with pull requests that count, sorted as people sort names: by the ICU root collation. */
export function listTotals(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
): Promise<Total[]> {
  const ownerId = of === 'members' ? pullRequests.memberId : pullRequests.repositoryId;
  const totals = executor
    .select({
      ownerId: sql`${ownerId}`.as('owner_id'),
      pullRequests: count().as('pull_requests'),
      score: sql`sum(${pullRequests.score})`.mapWith(Number).as('score'),
    })
    .from(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), isCounted(organisationId, period)))
    .groupBy(ownerId)
    .as('totals');
  const figures = { pullRequests: totals.pullRequests, score: totals.score };
  if (of === 'repositories') {
    const { id, name } = repositories;
    return executor
      .select({ id, name, ...figures })
      .from(totals)
      .innerJoin(repositories, and(eq(repositories.organisationId, organisationId), eq(id, totals.ownerId)))
      .orderBy(sql`${name} collate "und-x-icu"`, id);
  }
  const { id, name, login, leftAt } = members;
  return executor
    .select({ id, name, login, leftAt, ...figures })
    .from(totals)
    .innerJoin(members, and(eq(members.organisationId, organisationId), eq(id, totals.ownerId)))
    .orderBy(sql`coalesce(nullif(${name}, ''), ${login}) collate "und-x-icu"`, login, id);
}

/** The points that each rule gave the pull requests that count, by member or repository, as their breakdowns say. */
export async function listPointsByRule(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
): Promise<{ id: string; name: string; score: number }[]> {
  const ownerId = of === 'members' ? pullRequests.memberId : pullRequests.repositoryId;
  const points = sql`(entry->>'effect')::bigint * case entry->>'action' when 'ADD' then 1 else -1 end`;
  const { rows } = await executor.execute<{ id: string; name: string; score: number }>(sql`
    select ${ownerId} as id, entry->>'name' as name, sum(${points})::float8 as score
    from ${pullRequests} cross join lateral json_array_elements(${pullRequests.scoreBreakdown}) as entry
    where ${and(eq(pullRequests.organisationId, organisationId), isCounted(organisationId, period))}
    group by 1, 2`);
  return rows;
}

/** Totals of one member's pull requests that count, by week, the first week first: `week` is its Monday, UTC. */
export async function listWeeks(
  executor: Executor,
  organisationId: string,
  memberId: string,
  period: Period,
): Promise<{ week: string; pull_requests: number; score: number }[]> {
  const isOfMember = and(eq(pullRequests.organisationId, organisationId), eq(pullRequests.memberId, memberId));
  const { rows } = await executor.execute<{ week: string; pull_requests: number; score: number }>(sql`
    select to_char(date_trunc('week', ${timeOf(period)} at time zone 'UTC'), 'YYYY-MM-DD') as week,
      count(*)::int as pull_requests, sum(${pullRequests.score})::float8 as score
    from ${pullRequests}
    where ${and(isOfMember, isCounted(organisationId, period))}
    group by 1 order by 1`);
  return rows;
}
