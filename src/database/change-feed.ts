import { and, asc, desc, eq, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database } from './client.ts';
import { createPage, isWhole, type PageSize, type PullRequestRow, readPage, rowBytes } from './pull-request-pages.ts';
import { findPullRequestRows, followedFields } from './pull-requests.ts';
import { changes, pullRequests } from './schema.ts';
import { beforeAllIds, createSelection, createStatement, limited, oneRow, placeholder, query } from './statement.ts';

/*
 * The feed of changes. A transaction that changes what clients see of pull requests writes entries into `changes`, and its
 * id into the `changed_by` of these pull requests. So an entry stands for those of its ids that did not change again
 * later, and the feed gives each pull request once, in its present state.
 *
 * Entries are read in the order of their transactions' ids, as far as all transactions with lower ids have ended: whatever
 * is committed from then on has a higher id, so nothing appears before a position that a client has read up to.
 */

/** Where a reader stands: after the pull request `id` of an entry. */
export interface FeedPosition {
  transaction: string;
  fromId: string;
  /** When the entry was recorded, in microseconds: a copy of the database from before may have used the id again. */
  recordedAt: number;
  id: string;
  /** The last pull request that was listed, while a reader that started without a position reads all of them. */
  listedId?: string;
}

/** `row` is undefined for one that was deleted. */
export interface Change {
  id: string;
  row: PullRequestRow | undefined;
}

/** Entries that one step looks through, if the step before found that all of its pull requests have changed again. */
const maxEntries = 1_000;

/** Ranges that one step looks through, each of up to a thousand pull requests, while they have all changed again. */
const maxRanges = 10;

const isOfList = eq(pullRequests.organisationId, placeholder('organisationId'));
const isOfOrganisation = eq(changes.organisationId, placeholder('organisationId'));
const isSettled = sql`${changes.transaction} < pg_snapshot_xmin(pg_current_snapshot())`;
const recordedAt = sql<number>`(extract(epoch from ${changes.recordedAt}) * 1000000)::bigint`;

const latestEntry = limited(
  createSelection(
    'latest_change',
    query
      .select({ transaction: changes.transaction, fromId: changes.fromId, recordedAt, id: changes.untilId })
      .from(changes)
      .where(and(isOfOrganisation, isSettled))
      .orderBy(desc(changes.transaction), desc(changes.fromId)),
  ),
  1,
);

/** An entry without pull requests, before all others: a reader needs one to stand on. */
const addFirstEntry = createStatement(
  'first_change',
  sql`insert into changes (organisation_id, transaction, from_id, until_id)
    values (${placeholder('organisationId')}, '0', ${placeholder('id')}, ${placeholder('id')}) on conflict do nothing`,
);

const listedPage = createPage(
  'pull_requests_by_id',
  sql`select * from ${pullRequests} where ${isOfList} and ${pullRequests.id} > ${placeholder('listedId')}`,
  [asc(pullRequests.id)],
  followedFields,
);

/** A step's pull requests, and its last entry: once without one if it has none. */
const createStep = (limit: number, entryLimit = limit) => {
  const position = sql`${placeholder('transaction')}::xid8, ${placeholder('fromId')}::uuid, ${placeholder('id')}::uuid`;
  const entries = sql`(
    select *, lead(from_id) over (order by transaction, from_id) is null as is_last
    from (
      select *, count(*) filter (where from_id <> until_id) over (order by transaction, from_id rows unbounded preceding) as ranges
      from (
        select *, ${recordedAt} as recorded from changes
        where ${and(isOfOrganisation, isSettled)} and (transaction, from_id, until_id) > (${position})
        order by transaction, from_id limit ${sql.raw(String(entryLimit))}
      ) as next
    ) as counted
    where ranges <= ${maxRanges}
  ) as entries`;
  // A range may have been read in part.
  const firstId = sql`case when (transaction, from_id) = (${placeholder('transaction')}::xid8, ${placeholder('fromId')}::uuid)
    then ${placeholder('id')}::uuid else from_id end`;
  const changed = sql`lateral (
    select id, ${rowBytes} as bytes from pull_requests
    where pull_requests.organisation_id = ${placeholder('organisationId')} and id >= ${firstId} and id <= until_id
      and changed_by = transaction and (transaction, from_id, id) > (${position})
    order by id limit ${limit}
  ) as changed on not is_deletion`;
  return limited(
    createSelection(
      `changes_in_${entryLimit}`,
      query
        .select({
          transaction: sql<string>`transaction`,
          fromId: sql<string>`from_id`,
          untilId: sql<string>`until_id`,
          isDeletion: sql<boolean>`is_deletion`,
          recordedAt: sql<number>`recorded`,
          id: sql<string | null>`changed.id`,
          bytes: sql<number | null>`changed.bytes`,
        })
        .from(sql`${entries} left join ${changed}`)
        .where(sql`changed.id is not null or is_deletion or is_last`)
        .orderBy(sql`transaction, from_id, changed.id`),
    ),
    limit,
  );
};
const steps = new Map<number, ReturnType<typeof createStep>>();
const longStep = createStep(100, maxEntries);

const entryAt = createSelection(
  'change_entry',
  query
    .select({ transaction: changes.transaction })
    .from(changes)
    .where(
      and(
        isOfOrganisation,
        sql`${changes.transaction} = ${placeholder('transaction')}::xid8`,
        eq(changes.fromId, placeholder('fromId')),
        sql`${recordedAt} = ${placeholder('recordedAt')}`,
      ),
    ),
);

const identityOfDatabase = createSelection(
  'database_identity',
  query
    .select({
      // The name of the file that is written begins with the timeline, a new one from the first moment after a failover.
      identity: sql<string>`md5(concat_ws(' ', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8),
        pg_database.oid, 'changes'::regclass::oid))`,
    })
    .from(sql`pg_control_system(), pg_database`)
    .where(sql`datname = current_database()`),
);

/** PostgreSQL reads a file for it. A failover within this time is as one a moment later. */
const maxIdentityAgeMs = 2_000;
const identities = new WeakMap<Database, { readAt: number; identity: Promise<string> }>();

/** Of the database that issues the transactions' ids. */
function readIdentity(database: Database): Promise<string> {
  const known = identities.get(database);
  const now = performance.now();
  if (known !== undefined && now - known.readAt < maxIdentityAgeMs) return known.identity;
  const identity = database.read(identityOfDatabase, {}).then(rows => oneRow(rows).identity);
  identity.catch(() => identities.delete(database));
  identities.set(database, { readAt: now, identity });
  return identity;
}

/** Before all pull requests. What changes from now on comes after them, again if they were read already. */
async function startReading(database: Database, organisationId: string): Promise<FeedPosition> {
  for (;;) {
    const [latest] = await database.read(latestEntry, { organisationId });
    if (latest !== undefined) return { ...latest, recordedAt: Number(latest.recordedAt), listedId: beforeAllIds };
    await database.write(addFirstEntry, { organisationId, id: newId() });
  }
}

interface Step {
  changes: Change[];
  /** After them. */
  position: FeedPosition;
  isEnd: boolean;
}

/** Some of all pull requests, in the order of their ids. */
async function readListed(
  database: Database,
  organisationId: string,
  { listedId, ...entry }: FeedPosition,
  size: PageSize,
): Promise<Step> {
  // One more than the page has: it may be the one that does not fit.
  const withNext = { ...size, rows: size.rows + 1 };
  const rows = await readPage(database, listedPage, { organisationId, listedId }, withNext);
  const page = rows.slice(0, size.rows).filter(isWhole);
  const last = page.at(-1);
  return {
    changes: page.map(row => ({ id: row.id, row })),
    position: last === undefined ? entry : { ...entry, listedId: last.id },
    isEnd: false,
  };
}

/** What the next entries stand for. */
async function readLogged(
  database: Database,
  organisationId: string,
  from: FeedPosition,
  { rows: limit, bytes: maxBytes }: PageSize,
  isFirst: boolean,
): Promise<Step> {
  const step = steps.get(limit) ?? createStep(limit);
  steps.set(limit, step);
  const all = await database.readStep(isFirst ? step : longStep, { organisationId, ...from });
  let bytes = 0;
  const keys = all.slice(0, limit).filter((key, index) => {
    bytes += Number(key.bytes ?? 0);
    return index === 0 || bytes <= maxBytes;
  });
  const ids = keys.flatMap(({ id }) => id ?? []);
  const rows = ids.length === 0 ? new Map() : await findPullRequestRows(database, organisationId, ids);
  const found = keys.flatMap(({ id, isDeletion, fromId }): Change[] => {
    if (isDeletion === 't') return [{ id: fromId, row: undefined }];
    // One that was deleted meanwhile comes as a deletion later.
    return id !== null && rows.has(id) ? [{ id, row: rows.get(id) }] : [];
  });
  const last = keys.at(-1);
  if (last === undefined) return { changes: [], position: from, isEnd: true };
  const { transaction, fromId, recordedAt, untilId } = last;
  const position = { transaction, fromId, recordedAt: Number(recordedAt), id: last.id ?? untilId };
  return { changes: found, position, isEnd: false };
}

/**
 * What has changed since the position, oldest first, and the position after that. Without one, it starts with all pull
 * requests. Nothing at all means that the reader knows everything.
 *
 * @param known the position and its database, as an earlier call returned them
 * @returns undefined if the reader must start again: the database is another one, or a copy from before, or entries after
 * the position may have been pruned
 */
export async function readChanges(
  database: Database,
  organisationId: string,
  known: { position: FeedPosition; database: string } | undefined,
  size: PageSize,
): Promise<{ changes: Change[]; position: FeedPosition; database: string } | undefined> {
  const findEntry = (of: FeedPosition) => database.read(entryAt, { organisationId, ...of });
  let position = known?.position ?? (await startReading(database, organisationId));
  // With a list that goes on, when it is asked for does not matter.
  const whileListed = known?.position.listedId === undefined ? undefined : findEntry(known.position);
  whileListed?.catch(() => undefined);
  let step: Step | undefined;
  do {
    const read = position.listedId === undefined ? readLogged : readListed;
    step = await read(database, organisationId, position, size, step === undefined);
    position = step.position;
  } while (step.changes.length === 0 && !step.isEnd);
  const identity = await readIdentity(database);
  if (known !== undefined) {
    // Asked for last: entries that were pruned before this read were pruned together with the one before them.
    const isListed = position.listedId !== undefined;
    const [entry] = await ((isListed && whileListed) || findEntry(known.position));
    if (entry === undefined || known.database !== identity) return undefined;
  }
  return { changes: step.changes, position, database: identity };
}
