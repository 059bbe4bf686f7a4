import { and, asc, desc, eq, type SQL, Subquery, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Database } from './client.ts';
import { byteStrings, fields, isOfOrganisation, sharedFields } from './pull-requests.ts';
import { pullRequests } from './schema.ts';
import { afterAllIds, createSelection, limited, placeholder, query, type RowOf } from './statement.ts';

export type Direction = 'next' | 'previous';

/** The most that a page has. Bytes are those of descriptions, breakdowns and reviews. */
export interface PageSize {
  rows: number;
  bytes: number;
}

/** A hundred rows without longer texts have 890,000 bytes at most. */
const maxShortBytes = { body: 5_600, scores: 3_300 };

/** Up to this, a page of short texts is small enough for a short read. */
const maxShortRows = 26;

const { id, body, scoreBreakdown, reviewScores } = pullRequests;
// The size as it is stored, compressed, costs nothing.
const isSmall = (column: PgColumn) => sql`coalesce(pg_column_size(${column}), 0) <= 2048`;
const bytesOf = (column: PgColumn) => sql`coalesce(octet_length(${column}::text), 0)`;

const textWhere = (condition: SQL, text: PgColumn) => sql<string | null>`case when ${condition} then ${text} end`;

/** How a page's bytes are counted, and its texts chosen. */
function createTexts({ withReviews }: { withReviews: boolean }) {
  const scores = withReviews ? [scoreBreakdown, reviewScores] : [scoreBreakdown];
  const choose = (isChosen: { body: SQL; scores: SQL }) => ({
    body: textWhere(isChosen.body, body),
    scoreBreakdown: textWhere(isChosen.scores, scoreBreakdown),
    ...(withReviews && { reviewScores: textWhere(isChosen.scores, reviewScores) }),
  });
  const scoreBytes = sql.join(scores.map(bytesOf), sql` + `);
  const isOnPage = sql`rows_beyond = 0`;
  return {
    bytes: sql<number>`octet_length(${body}) + ${scoreBytes}`,
    /** Longer texts are null. */
    short: choose({
      body: sql`octet_length(${body}) <= ${maxShortBytes.body}`,
      scores: sql`${sql.join(scores.map(isSmall), sql` and `)} and ${scoreBytes} <= ${maxShortBytes.scores}`,
    }),
    /** Texts are null in the row after the page's last one: they are not read from storage. */
    long: choose({ body: isOnPage, scores: isOnPage }),
  };
}

const texts = createTexts({ withReviews: true });
const sharedTexts = createTexts({ withReviews: false });

/** As the newest version counts the bytes of a pull request. */
export const rowBytes = texts.bytes;

/** The times by which a list can be sorted, latest first. */
export const sortTimes = {
  created: pullRequests.createdAt,
  updated: pullRequests.sourceUpdatedAt,
  merged: pullRequests.mergedAt,
};
export type Sort = keyof typeof sortTimes;

export const sorting = (sort: Sort, direction: Direction) => {
  const time = sortTimes[sort];
  const [isPast, order] = direction === 'next' ? [sql`<`, desc] : [sql`>`, asc];
  return {
    isPast: sql`(${time}, ${id}) ${isPast} (to_timestamp(${placeholder('time')}), ${placeholder('id')})`,
    order: [order(time), order(id)],
  };
};

/**
 * @param rows selects the list's rows, at least those of the page
 * @param shown the fields to read
 */
export function createPage(name: string, rows: SQL, order: readonly SQL[], shown: typeof sharedFields = fields) {
  // A caller that asks for fewer fields sees rows with fewer: see `SharedRow`.
  const all = shown as typeof fields;
  const { bytes, short, long } = shown === sharedFields ? sharedTexts : texts;
  const source = (of: SQL) => new Subquery<string, Record<string, unknown>>(of, {}, 'pull_requests');
  const upToHere = sql`(order by ${sql.join([...order], sql`, `)} rows unbounded preceding)`;
  // A first row over the maximum counts as the maximum: it is always on the page. PostgreSQL stops reading at the second
  // row beyond, because a count can't fall.
  const withRowsBeyond = sql`
    select *, count(*) filter (where bytes > ${placeholder('maxBytes')}::int) over ${upToHere} as rows_beyond
    from (
      select *, sum(least(${bytes}, ${placeholder('maxBytes')}::int)) over ${upToHere} as bytes
      from (${rows}) as pull_requests
    ) as pull_requests`;
  return {
    short: createSelection(
      name,
      query
        .select({ ...all, ...short })
        .from(source(rows))
        .orderBy(...order),
      byteStrings,
    ),
    long: createSelection(
      `${name}_long`,
      query
        .select({ ...all, ...long })
        .from(source(withRowsBeyond))
        .where(sql`rows_beyond <= 1`)
        .orderBy(...order),
      byteStrings,
    ),
  };
}

export type Page = ReturnType<typeof createPage>;

/** Without a body or breakdown, it only shows that the list goes on. */
export type PullRequestRow = RowOf<Page['short']>;

/** With the fields of every version. */
export type SharedRow = Pick<PullRequestRow, keyof typeof sharedFields>;

export const isWhole = (row: SharedRow) => row.body !== null && row.scoreBreakdown !== null;

/** `time` in Unix seconds, or infinite. */
export type PullRequestPosition = { time: number; id: string };

/** Comes before every pull request, so that the first page needs no statement of its own. */
export const beforeAllPullRequests: PullRequestPosition = { time: Infinity, id: afterAllIds };

/**
 * Latest first; towards the previous page in reverse. If there are more rows than fit a page, the last one may not be
 * whole; at least one is.
 *
 * The sum of bytes is only asked for if a row is long: with it in every statement, 3 to 5% fewer pages a second are read.
 * A page of short texts also skips the queue of steps: if all pages queued, even 8 at a time, 8% fewer would be read.
 *
 * @param statementLimit how many rows to read at most, if that is more
 */
export async function readPage(
  database: Database,
  { short, long }: Page,
  keys: Readonly<Record<string, unknown>>,
  { rows: limit, bytes: maxBytes }: PageSize,
  statementLimit = limit,
): Promise<PullRequestRow[]> {
  const values = { ...keys, maxBytes };
  const isShort = statementLimit <= maxShortRows;
  let rows = await database[isShort ? 'read' : 'readStep'](limited(short, statementLimit), values);
  if (!rows.slice(0, limit - 1).every(isWhole)) rows = await database.readStep(limited(long, statementLimit), values);
  return rows.slice(0, limit);
}

/** Of an organisation or a member, by creation. */
const createWholeList = (list: 'organisation' | 'member', direction: Direction) => {
  const { isPast, order } = sorting('created', direction);
  const isOfMember = list === 'member' ? eq(pullRequests.memberId, placeholder('memberId')) : undefined;
  const rows = sql`select * from ${pullRequests} where ${and(isOfOrganisation, isOfMember, isPast)}`;
  return createPage(`pull_requests_of_${list}_${direction}`, rows, order, sharedFields);
};

const wholeLists = {
  organisation: {
    next: createWholeList('organisation', 'next'),
    previous: createWholeList('organisation', 'previous'),
  },
  member: { next: createWholeList('member', 'next'), previous: createWholeList('member', 'previous') },
};

export function readPullRequestPage(
  database: Database,
  { organisationId, memberId }: { organisationId: string; memberId?: string },
  direction: Direction,
  from: PullRequestPosition,
  size: PageSize,
): Promise<SharedRow[]> {
  const page = wholeLists[memberId === undefined ? 'organisation' : 'member'][direction];
  return readPage(database, page, { organisationId, memberId, ...from }, size);
}
