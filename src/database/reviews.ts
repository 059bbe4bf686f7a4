import { type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { formatId } from '../ids.ts';
import { pullRequests } from './schema.ts';

/*
 * What pull requests store about people who reviewed them: lists in JSON, whose entries name members by `member`. The
 * lists are written out by hand, because PostgreSQL would write the texts in them in other words.
 */

const { reviewers, reviewScores } = pullRequests;

const mentions = (column: PgColumn, memberId: string) =>
  sql`${column}::text like ${`%"${formatId('mem', memberId)}"%`}`;

/** Pull requests that the member reviewed. @param memberId without prefix */
export const isReviewedBy = (memberId: string): SQL =>
  sql`(${mentions(reviewers, memberId)} or ${mentions(reviewScores, memberId)})`;

/** The list's entry about the member; null without one. */
const entryOf = (column: PgColumn, memberId: string) =>
  sql`(select entry from json_array_elements(${column}) as entry
    where entry->>'member' = ${formatId('mem', memberId)} limit 1)`;

/** The facts of their review, and what rules gave for it. */
export const reviewOf = (memberId: string) =>
  sql`'review', ${entryOf(reviewers, memberId)}, 'points', ${entryOf(reviewScores, memberId)}`;

const without = (column: PgColumn, memberId: string) =>
  sql`(select '[' || coalesce(string_agg(entry::text, ',' order by place), '') || ']'
    from json_array_elements(${column}) with ordinality as entries (entry, place)
    where entry->>'member' is distinct from ${formatId('mem', memberId)})`;

/** What becomes of a pull request that the member shall not have reviewed. */
export const withoutReviewsOf = (memberId: string) => ({
  reviewers: sql`${without(reviewers, memberId)}::json`,
  reviewScores: sql`nullif(${without(reviewScores, memberId)}, '[]')::json`,
  // Clients see scores, not facts.
  changedBy: sql`case when ${mentions(reviewScores, memberId)} then pg_current_xact_id()
    else ${pullRequests.changedBy} end`,
});
