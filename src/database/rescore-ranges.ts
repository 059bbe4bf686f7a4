import { createHash } from 'node:crypto';
import { and, eq, gt, gte, isNull, lt, lte, not, or, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { newId } from '../ids.ts';
import { type Executor, queryText, type TextRow } from './client.ts';
import type { FactsReader } from './facts.ts';
import { notify } from './notifications.ts';
import { areRulesSuspended, lockOrganisation } from './organisations.ts';
import { organisations, pullRequests, rescoreRanges } from './schema.ts';
import { afterAllIds, beforeAllIds, secondsFromNow } from './statement.ts';
import { drawTicket } from './tickets.ts';

/*
 * Ranges of ids in `rescore_ranges` must be scored again. A worker leases a range, scores it outside of any transaction,
 * and deletes it in the one that saves the scores. If the rules or a name change meanwhile, all ranges are replaced.
 */

/** Pull requests that are read, scored and saved together. */
const batchSize = 1_000;

/** Pull requests in a small first step: under costly rules, a worker's time is over after a few. */
const smallStepSize = 50;

/** Steps of pull requests whose facts may be large. Each may have 700 KB, whatever the ones before it have. */
const largeFacts = { firstStepSize: 100, maxStepSize: 200, maxCharacters: 16_000_000 };

/** How many large ones to read after these. */
function nextStepSize(rows: readonly TextRow[]): number {
  const characters = rows.reduce((sum, row) => row.reduce((ofRow, text) => ofRow + (text?.length ?? 0), sum), 0);
  const fitting = Math.floor((largeFacts.maxCharacters / characters) * rows.length);
  return Math.max(1, Math.min(largeFacts.maxStepSize, fitting));
}

/** In place of a longer breakdown its digest is read: a thousand breakdowns may have hundreds of megabytes. */
const maxReadBytes = 2_000;

const textOrDigest = (column: PgColumn) =>
  sql`case when octet_length(${column}::text) > ${maxReadBytes} then md5(${column}::text) else ${column}::text end`;

/** Whether a text is the one that a step has read, or of which it has read the digest. */
export const isAsRead = (text: string | null, read: string | null): boolean =>
  text === null || read === null || Buffer.byteLength(text) <= maxReadBytes
    ? text === read
    : createHash('md5').update(text).digest('hex') === read;

/** Batches that a worker leases at once. */
const leaseSize = 4;

/** Batches that are split off the remainder at once. */
const splitSize = 20;

/**
 * Marks every score of the organisation as stale. Runs in the transaction of the change behind it, and waits for
 * workers that save or split, because it would not see what they are about to write.
 *
 * @param reason.urlsStale repositories were renamed: the addresses of their pull requests must follow
 */
export async function requestRescoring(
  executor: Executor,
  organisationId: string,
  { urlsStale = false }: { urlsStale?: boolean } = {},
): Promise<void> {
  await lockOrganisation(executor, organisationId, 'exclusive');
  const replaced = await executor
    .delete(rescoreRanges)
    .where(eq(rescoreRanges.organisationId, organisationId))
    .returning({ urlsStale: rescoreRanges.urlsStale });
  await executor.insert(rescoreRanges).values({
    organisationId,
    fromId: beforeAllIds,
    isBatch: false,
    urlsStale: urlsStale || replaced.some(range => range.urlsStale),
    ticket: await drawTicket(executor),
  });
  await notify(executor, 'rescore');
}

/** Not leased to another worker. */
const isFree = or(isNull(rescoreRanges.leasedUntil), lte(rescoreRanges.leasedUntil, sql`now()`));

/** An organisation with stale scores that nobody is working on, chosen at random. */
export async function findOutdatedOrganisation(executor: Executor): Promise<string | undefined> {
  const outdated = await executor
    .selectDistinct({ id: rescoreRanges.organisationId })
    .from(rescoreRanges)
    .innerJoin(organisations, eq(organisations.id, rescoreRanges.organisationId))
    .where(and(isFree, not(areRulesSuspended)));
  return outdated[Math.floor(Math.random() * outdated.length)]?.id;
}

export type RescoreRange = Pick<typeof rescoreRanges.$inferSelect, 'id' | 'fromId' | 'untilId' | 'urlsStale'>;

/** Leases some batches that no other worker scores, in the order in which pull requests are locked. */
export async function leaseRanges(
  executor: Executor,
  organisationId: string,
  leaseSeconds: number,
): Promise<RescoreRange[]> {
  const { id, fromId, untilId, urlsStale } = rescoreRanges;
  const isOfOrganisation = eq(rescoreRanges.organisationId, organisationId);
  const free = executor
    .select({ fromId })
    .from(rescoreRanges)
    .where(and(isOfOrganisation, rescoreRanges.isBatch, isFree))
    .limit(leaseSize)
    .for('update', { skipLocked: true });
  const ranges = await executor
    .update(rescoreRanges)
    .set({ leasedUntil: secondsFromNow(leaseSeconds) })
    // The array is built once. With `in`, some plans run the subquery for each row, each time with other rows.
    .where(and(isOfOrganisation, sql`${fromId} = any(array${free})`))
    .returning({ id, fromId, untilId, urlsStale });
  return ranges.sort((a, b) => (a.fromId < b.fromId ? -1 : 1));
}

/**
 * Removes a range that was scored, in the transaction that saves the scores.
 *
 * @param restFromId the first pull request that was not scored: from it on, the range stays
 * @returns false if the scores must be discarded: the range was requested again, or another worker has scored it
 */
export async function finishRange(
  executor: Executor,
  organisationId: string,
  { id, fromId }: RescoreRange,
  restFromId: string | undefined,
): Promise<boolean> {
  const isRange = and(
    eq(rescoreRanges.organisationId, organisationId),
    eq(rescoreRanges.fromId, fromId),
    eq(rescoreRanges.id, id),
  );
  const { rowCount } =
    restFromId === undefined
      ? await executor.delete(rescoreRanges).where(isRange)
      : await executor.update(rescoreRanges).set({ id: newId(), fromId: restFromId, leasedUntil: null }).where(isRange);
  return rowCount === 1;
}

/** Splits batches off the remainder, if there is one; waits for others that do the same. Runs in a transaction. */
export async function splitRemainder(executor: Executor, organisationId: string): Promise<void> {
  await lockOrganisation(executor, organisationId, 'shared');
  const [remainder] = await executor
    .select()
    .from(rescoreRanges)
    .where(and(eq(rescoreRanges.organisationId, organisationId), eq(rescoreRanges.isBatch, false)))
    .limit(1)
    .for('update');
  if (remainder === undefined) return;
  const { rows } = await executor.execute<{ id: string }>(sql`
    select id from (
      select id, row_number() over (order by id) as number from (
        select id from pull_requests where organisation_id = ${organisationId} and id >= ${remainder.fromId}
        order by id limit ${batchSize * splitSize + 1}
      ) as nearest
    ) as numbered where number > 1 and (number - 1) % ${sql.raw(String(batchSize))} = 0 order by id`);
  const ends = rows.map(row => row.id);
  const hasRemainder = ends.length === splitSize;
  await executor
    .delete(rescoreRanges)
    .where(and(eq(rescoreRanges.organisationId, organisationId), eq(rescoreRanges.fromId, remainder.fromId)));
  const starts = [remainder.fromId, ...ends];
  await executor.insert(rescoreRanges).values(
    starts.map((fromId, index) => ({
      organisationId,
      fromId,
      untilId: ends[index] ?? null,
      isBatch: !(hasRemainder && index === splitSize),
      urlsStale: remainder.urlsStale,
      ticket: remainder.ticket,
    })),
  );
}

/**
 * Reads the range's pull requests in steps, in the order of their ids.
 *
 * @param reader of the facts that the ruleset reads
 * @returns steps, each of which can be iterated once
 */
export async function* readRange(
  executor: Executor,
  organisationId: string,
  { fromId, untilId }: Pick<RescoreRange, 'fromId' | 'untilId'>,
  reader: FactsReader,
  { startsSmall = false }: { startsSmall?: boolean } = {},
) {
  const { id, score, scoreBreakdown, reviewScores, fetchTicket } = pullRequests;
  const columns = [id, score, textOrDigest(scoreBreakdown), textOrDigest(reviewScores), fetchTicket];
  const isOfRange = and(eq(pullRequests.organisationId, organisationId), lt(id, untilId ?? afterAllIds));
  type Row = readonly [
    ...[id: string, score: string, breakdown: string, reviewScores: string | null, fetchTicket: string],
    ...TextRow,
  ];
  // One by one: the facts of a thousand take much memory.
  function* readRows(rows: readonly Row[]) {
    for (const row of rows) {
      const [id, score, breakdown, reviewScores, fetchTicket] = row;
      const facts = reader.read(row, columns.length);
      yield { id, score: Number(score), breakdown, reviewScores, fetchTicket, facts };
    }
  }
  let isAhead = gte(id, fromId);
  const firstStepSize = reader.isLarge ? largeFacts.firstStepSize : batchSize;
  for (let limit = startsSmall ? smallStepSize : firstStepSize; ; ) {
    const selection = reader.select(columns, and(isOfRange, isAhead), { order: id, limit });
    const rows = await queryText<Row>(executor.$client, selection);
    yield readRows(rows);
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return;
    isAhead = gt(id, last[0]);
    limit = reader.isLarge ? nextStepSize(rows) : batchSize;
  }
}

/**
 * Puts the repositories' present names into the addresses of the range's pull requests.
 *
 * @returns ids of those that it changed
 */
export async function followRepositoryNames(
  executor: Executor,
  organisationId: string,
  { fromId, untilId }: Pick<RescoreRange, 'fromId' | 'untilId'>,
): Promise<string[]> {
  const present = sql`substring(url from '^(https?://.+/)[^/]+/[^/]+/pull/[0-9]+$')
    || repositories.name || '/pull/' || number`;
  const { rows } = await executor.execute<{ id: string }>(sql`
    update pull_requests set url = ${present}, changed_by = pg_current_xact_id() from repositories
    where pull_requests.organisation_id = ${organisationId}
      and pull_requests.id >= ${fromId} and pull_requests.id < ${untilId ?? afterAllIds}
      and repositories.organisation_id = ${organisationId} and repositories.id = repository_id and url <> ${present}
    returning pull_requests.id`);
  return rows.map(({ id }) => id);
}

export interface NewScore {
  id: string;
  fetchTicket: string;
  from: number;
  score: number;
  breakdown: string;
  reviewScores: string | null;
}

/**
 * Saves the new scores and records those that changed. Skips a pull request that was fetched since it was read: its
 * score is new already.
 */
export async function saveScores(
  executor: Executor,
  organisationId: string,
  rulesetVersion: number,
  scores: readonly NewScore[],
): Promise<void> {
  if (scores.length === 0) return;
  // As text: arrays of JavaScript numbers take the driver twice the time of the whole statement.
  const list = (values: (string | number)[]) => `{${values.join(',')}}`;
  const hasReviews = scores.some(({ reviewScores }) => reviewScores !== null);
  await executor.$client.query({
    text: `with scores as (
        select * from unnest($3::uuid[], $4::bigint[], $5::int[], $6::int[], string_to_array($7, E'\\n'),
            string_to_array($8, E'\\n', '')) as scores (id, fetch_ticket, from_score, score, breakdown, reviews)
      ), saved as (
        update pull_requests
        set score = scores.score, score_breakdown = scores.breakdown::json, review_scores = scores.reviews::json,
          ruleset_version = $2, changed_by = pg_current_xact_id()
        from scores
        where organisation_id = $1 and pull_requests.id = scores.id
          and pull_requests.fetch_ticket = scores.fetch_ticket
        returning pull_requests.id, scores.from_score, scores.score
      )
      insert into score_changes (organisation_id, pull_request_id, from_score, to_score, cause, ruleset_version)
      select $1, id, from_score, score, 'ruleset', $2 from saved where from_score <> score`,
    values: [
      organisationId,
      rulesetVersion,
      list(scores.map(({ id }) => id)),
      list(scores.map(({ fetchTicket }) => fetchTicket)),
      list(scores.map(({ from }) => from)),
      list(scores.map(({ score }) => score)),
      scores.map(({ breakdown }) => breakdown).join('\n'),
      hasReviews ? scores.map(({ reviewScores }) => reviewScores ?? '').join('\n') : null,
    ],
  });
}
