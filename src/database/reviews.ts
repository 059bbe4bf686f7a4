import { type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { formatId } from '../ids.ts';
import { pullRequests } from './schema.ts';

/*
 * What pull requests store about people who reviewed them: lists in JSON, whose entries name members by `member`. The
 * lists are written out by hand, because PostgreSQL would write the texts in them in other words.
 */

const { reviewers, reviewScores } = pullRequests;

const parametersOf = (memberIds: readonly string[]) => {
  const ids = memberIds.map(id => formatId('mem', id));
  return { ids: sql`${sql.param(ids)}::text[]`, patterns: sql`${sql.param(ids.map(id => `%"${id}"%`))}::text[]` };
};

const mentions = (column: PgColumn, memberIds: readonly string[]) =>
  sql`${column}::text like any(${parametersOf(memberIds).patterns})`;

/** Pull requests that one of these members reviewed. @param memberIds without prefix */
export const isReviewedBy = (memberIds: readonly string[]): SQL =>
  sql`(${mentions(reviewers, memberIds)} or ${mentions(reviewScores, memberIds)})`;

/** The list's entry about one of these members; null without one. */
const entryOf = (column: PgColumn, memberIds: readonly string[]) =>
  sql`(select entry from json_array_elements(${column}) as entry
    where entry->>'member' = any(${parametersOf(memberIds).ids}) limit 1)`;

/** The facts of their review, and what rules gave for it. */
export const reviewOf = (memberIds: readonly string[]) =>
  sql`'review', ${entryOf(reviewers, memberIds)}, 'points', ${entryOf(reviewScores, memberIds)}`;

const without = (column: PgColumn, memberIds: readonly string[]) =>
  sql`(select '[' || coalesce(string_agg(entry::text, ',' order by place), '') || ']'
    from json_array_elements(${column}) with ordinality as entries (entry, place)
    where (entry->>'member' = any(${parametersOf(memberIds).ids})) is not true)`;

/** What becomes of a pull request that these members shall not have reviewed. */
export const withoutReviewsOf = (memberIds: readonly string[]) => ({
  reviewers: sql`${without(reviewers, memberIds)}::json`,
  reviewScores: sql`nullif(${without(reviewScores, memberIds)}, '[]')::json`,
  // Clients see scores, not facts.
  changedBy: sql`case when ${mentions(reviewScores, memberIds)} then pg_current_xact_id()
    else ${pullRequests.changedBy} end`,
});
