import { and, count, eq, inArray, isNotNull, type SQL, sql } from 'drizzle-orm';
import { formatId, parseId } from '../ids.ts';
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

/**
 * Totals of all with pull requests that count, sorted as people sort names: by the ICU root collation.
 *
 * @param options `withIdle`: also of those without
 */
export function listTotals(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
  { withIdle }: { withIdle: boolean },
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
  const figures = {
    pullRequests: sql`coalesce(${totals.pullRequests}, 0)`.mapWith(Number),
    score: sql`coalesce(${totals.score}, 0)`.mapWith(Number),
  };
  const isListed = withIdle ? undefined : isNotNull(totals.pullRequests);
  if (of === 'repositories') {
    const { id, name } = repositories;
    return executor
      .select({ id, name, ...figures })
      .from(repositories)
      .leftJoin(totals, eq(id, totals.ownerId))
      .where(and(eq(repositories.organisationId, organisationId), isListed))
      .orderBy(sql`${name} collate "und-x-icu"`, id);
  }
  const { id, name, login, leftAt } = members;
  return executor
    .select({ id, name, login, leftAt, ...figures })
    .from(members)
    .leftJoin(totals, eq(id, totals.ownerId))
    .where(and(eq(members.organisationId, organisationId), isListed))
    .orderBy(sql`coalesce(nullif(${name}, ''), ${login}) collate "und-x-icu"`, login, id);
}

export type ReviewPoints = {
  /** The reviewer's, or the repository's. */
  id: string;
  reviews: number;
  score: number;
};

/** Reviews by members of the pull requests that count: with the id of their member as it is public. */
const ofReviews = (columns: SQL, organisationId: string, period: Period) => sql`
  from ${pullRequests} cross join lateral json_to_recordset(${pullRequests.reviewScores}) as review (${columns})
  where ${and(
    eq(pullRequests.organisationId, organisationId),
    isNotNull(pullRequests.reviewScores),
    isCounted(organisationId, period),
  )} and member is not null`;

/** The points for reviews by members, of the pull requests that count, by reviewer or repository. */
export async function listReviewPoints(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
): Promise<ReviewPoints[]> {
  const { rows } = await executor.execute<ReviewPoints>(sql`
    select ${of === 'members' ? sql`member` : pullRequests.repositoryId} as id,
      count(*)::float8 as reviews, sum(review.score)::float8 as score
    ${ofReviews(sql`member text, score bigint`, organisationId, period)} group by 1`);
  return of === 'repositories' ? rows : rows.map(row => ({ ...row, id: parseId('mem', row.id) ?? '' }));
}

export type RulePoints = {
  /** The member's or the repository's; null for all together. */
  id: string | null;
  name: string;
  score: number;
};

/** What points take besides the name of their rule, about. */
const pointsBytes = 60;

/**
 * The points that each rule gave and took, as breakdowns say: by member or repository, and all together.
 *
 * @param ids whose, in their order
 * @param options `withReviews`: points for reviews count, too; `maxBytes`: what names and points may take
 * @returns `fitting`: how many of `ids` have theirs; those of the others are left out
 */
export async function listPointsByRule(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
  ids: readonly string[],
  { withReviews, maxBytes }: { withReviews: boolean; maxBytes: number },
): Promise<{ points: RulePoints[]; fitting: number }> {
  const ownerId = of === 'members' ? pullRequests.memberId : pullRequests.repositoryId;
  const isOfOne = ids.length === 1 ? inArray(ownerId, [...ids]) : undefined;
  const publicIds = ids.map(id => formatId(of === 'members' ? 'mem' : 'repo', id));
  const reviewed = sql`
    union all
    select place, breakdown, count(*)
    from (
      select ${of === 'members' ? sql`member` : pullRequests.repositoryId} as owner, breakdown
      ${ofReviews(sql`member text, breakdown text`, organisationId, period)}
    ) as reviews join owners on ${of === 'members' ? sql`public_id` : sql`id`} = owner
    group by 1, 2`;
  // Many breakdowns are alike. Each is parsed once: parsing takes longer than reading and counting them.
  const { rows } = await executor.execute<RulePoints & { fitting: number | null }>(sql`
    with owners as (
      select * from unnest(${sql.param(ids)}::uuid[], ${sql.param(publicIds)}::text[]) with ordinality as owner (id, public_id, place)
    ), counted as materialized (
      select place, ${pullRequests.scoreBreakdown}::text as breakdown, count(*) as times
      from ${pullRequests} join owners on owners.id = ${ownerId}
      where ${and(eq(pullRequests.organisationId, organisationId), isOfOne, isCounted(organisationId, period))}
      group by 1, 2
      ${withReviews ? reviewed : sql``}
    ), parsed as materialized (
      select breakdown, entry->>'name' as name,
        (entry->>'effect')::bigint * case entry->>'action' when 'ADD' then 1 else -1 end as points
      from (select distinct breakdown from counted) as breakdowns
        cross join lateral json_array_elements(breakdown::json) as entry
    ), by_owner as materialized (
      select place, name, sum(times * points)::float8 as score,
        sum(octet_length(name) + ${pointsBytes}::int) over (order by place) as bytes
      from counted join parsed using (breakdown)
      group by place, name
    ), bound as (
      select min(place)::int - 1 as fitting from by_owner where bytes > ${maxBytes}::bigint
    )
    select id, name, score, fitting
    from by_owner join owners using (place) cross join bound
    where bytes <= ${maxBytes}::bigint
    union all
    select null, name, sum(score), fitting from by_owner cross join bound group by name, fitting`);
  return { points: rows, fitting: rows[0]?.fitting ?? ids.length };
}

export type Week = {
  /** Its Monday, UTC, such as 2026-11-23. */
  week: string;
  pull_requests: number;
  score: number;
  reviews: number;
  review_score: number;
  total: number;
};

/**
 * Totals of one member's pull requests that count, by week, the first week first.
 *
 * @param options `withReviews`: also of the member's reviews, by the week of what was reviewed
 */
export async function listWeeks(
  executor: Executor,
  organisationId: string,
  memberId: string,
  period: Period,
  { withReviews }: { withReviews: boolean },
): Promise<Week[]> {
  const time = timeOf(period);
  const isOfOrganisation = and(eq(pullRequests.organisationId, organisationId), isCounted(organisationId, period));
  const member = formatId('mem', memberId);
  // What does not have the member's id anywhere is not parsed.
  const given = sql`
    union all
    select ${time}, 0, 0, 1, review.score
    ${ofReviews(sql`member text, score bigint`, organisationId, period)}
      and strpos(${pullRequests.reviewScores}::text, ${member}) > 0 and review.member = ${member}`;
  const { rows } = await executor.execute<Week>(sql`
    select to_char(date_trunc('week', time at time zone 'UTC'), 'YYYY-MM-DD') as week,
      sum(pull_requests)::float8 as pull_requests, sum(score)::float8 as score,
      sum(reviews)::float8 as reviews, sum(review_score)::float8 as review_score,
      sum(score + review_score)::float8 as total
    from (
      select ${time}, 1, ${pullRequests.score}::bigint, 0, 0::bigint
      from ${pullRequests}
      where ${and(isOfOrganisation, eq(pullRequests.memberId, memberId))}
      ${withReviews ? given : sql``}
    ) as counted (time, pull_requests, score, reviews, review_score)
    group by 1 order by 1`);
  return rows;
}
