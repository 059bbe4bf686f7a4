import { and, count, eq, isNotNull, type SQL, sql } from 'drizzle-orm';
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

const points = sql`(entry->>'effect')::bigint * case entry->>'action' when 'ADD' then 1 else -1 end`;

/**
 * The points that each rule gave the pull requests that count, by member or repository, as their breakdowns say.
 *
 * @param memberId the only member; undefined for all
 */
export async function listPointsByRule(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
  memberId: string | undefined,
): Promise<{ id: string; name: string; score: number }[]> {
  const ownerId = of === 'members' ? pullRequests.memberId : pullRequests.repositoryId;
  const isOfMember = memberId === undefined ? undefined : eq(pullRequests.memberId, memberId);
  // Many breakdowns are alike. Each is parsed once: parsing takes longer than reading and counting them.
  const { rows } = await executor.execute<{ id: string; name: string; score: number }>(sql`
    with counted as materialized (
      select ${ownerId} as id, ${pullRequests.scoreBreakdown}::text as breakdown, count(*) as pull_requests
      from ${pullRequests}
      where ${and(eq(pullRequests.organisationId, organisationId), isOfMember, isCounted(organisationId, period))}
      group by 1, 2
    ), parsed as materialized (
      select breakdown, entry->>'name' as name, ${points} as points
      from (select distinct breakdown from counted) as breakdowns
        cross join lateral json_array_elements(breakdown::json) as entry
    )
    select id, name, sum(pull_requests * points)::float8 as score from counted join parsed using (breakdown)
    group by 1, 2`);
  return rows;
}

export type ReviewPoints = {
  /** The reviewer's, or the repository's. */
  id: string;
  /** The rule that gave or took the points; null for all points. */
  rule: string | null;
  /** How many reviews; 0 with a rule. */
  reviews: number;
  score: number;
};

/**
 * The points for reviews by members, of the pull requests that count, by reviewer or repository.
 *
 * @param options `withRules`: also what each rule gave and took
 */
export async function listReviewPoints(
  executor: Executor,
  organisationId: string,
  of: 'members' | 'repositories',
  period: Period,
  { withRules }: { withRules: boolean },
): Promise<ReviewPoints[]> {
  const ownerId = of === 'members' ? sql`member` : sql`${pullRequests.repositoryId}::text`;
  const columns = withRules ? sql`member text, score bigint, breakdown text` : sql`member text, score bigint`;
  // Many reviews are alike, and the breakdown of these is parsed once.
  const breakdown = withRules ? sql`breakdown` : sql`null::text`;
  const byRule = sql`
    union all
    select id, entry->>'name', 0, sum(reviews * ${points})::float8
    from given cross join lateral json_array_elements(breakdown::json) as entry
    group by 1, 2`;
  const { rows } = await executor.execute<ReviewPoints>(sql`
    with given as materialized (
      select ${ownerId} as id, ${breakdown} as breakdown, count(*) as reviews, sum(review.score) as score
      from ${pullRequests} cross join lateral json_to_recordset(${pullRequests.reviewScores}) as review (${columns})
      where ${and(
        eq(pullRequests.organisationId, organisationId),
        isNotNull(pullRequests.reviewScores),
        isCounted(organisationId, period),
      )} and member is not null
      group by 1, 2
    )
    select id, null as rule, sum(reviews)::float8 as reviews, sum(score)::float8 as score from given group by 1
    ${withRules ? byRule : sql``}`);
  return of === 'repositories' ? rows : rows.map(row => ({ ...row, id: parseId('mem', row.id) ?? '' }));
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
    from ${pullRequests} cross join lateral json_to_recordset(${pullRequests.reviewScores})
      as review (member text, score bigint)
    where ${isOfOrganisation} and strpos(${pullRequests.reviewScores}::text, ${member}) > 0 and review.member = ${member}`;
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
