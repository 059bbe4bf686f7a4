import { and, asc, desc, eq, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database } from './client.ts';
import { findPullRequestRows, type WholePullRequestRow } from './pull-requests.ts';
import { changes, pullRequests } from './schema.ts';
import { createSelection, createStatement, limited, placeholder, query } from './statement.ts';

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
  row: WholePullRequestRow | undefined;
}

/** Bytes of descriptions and breakdowns on a page. With all else, the page stays below a megabyte. */
const maxPageBytes = 900_000;

/** Ranges that one step looks through, each of up to a thousand pull requests, while they have all changed again. */
const maxRanges = 10;

const beforeAllIds = '00000000-0000-0000-0000-000000000000';

const isOfOrganisation = eq(changes.organisationId, placeholder('organisationId'));
const isSettled = sql`${changes.transaction} < pg_snapshot_xmin(pg_current_snapshot())`;
const recordedAt = sql<number>`(extract(epoch from ${changes.recordedAt}) * 1000000)::bigint`;
const bytes = sql<number>`octet_length(${pullRequests.body}) + octet_length(${pullRequests.scoreBreakdown}::text)`;

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

const listed = createSelection(
  'pull_requests_by_id',
  query
    .select({ id: pullRequests.id, bytes })
    .from(pullRequests)
    .where(
      and(
        eq(pullRequests.organisationId, placeholder('organisationId')),
        sql`${pullRequests.id} > ${placeholder('listedId')}`,
      ),
    )
    .orderBy(asc(pullRequests.id)),
);

/** All but the limit: a step's entries, each with its pull requests, or once without. */
const createStep = (limit: number) => {
  const position = sql`${placeholder('transaction')}::xid8, ${placeholder('fromId')}::uuid, ${placeholder('id')}::uuid`;
  const entries = sql`(
    select *, count(*) filter (where from_id <> until_id) over (order by transaction, from_id rows unbounded preceding) as ranges
    from (
      select *, ${recordedAt} as recorded from changes
      where ${and(isOfOrganisation, isSettled)} and (transaction, from_id, until_id) > (${position})
      order by transaction, from_id limit ${limit}
    ) as next
  ) as entries`;
  // A range may have been read in part.
  const firstId = sql`case when (transaction, from_id) = (${placeholder('transaction')}::xid8, ${placeholder('fromId')}::uuid)
    then ${placeholder('id')}::uuid else from_id end`;
  const changed = sql`lateral (
    select id, ${bytes} as bytes from pull_requests
    where pull_requests.organisation_id = ${placeholder('organisationId')} and id >= ${firstId} and id <= until_id
      and changed_by = transaction and (transaction, from_id, id) > (${position})
    order by id limit ${limit}
  ) as changed on not is_deletion`;
  return limited(
    createSelection(
      'changes',
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
        .where(sql`ranges <= ${maxRanges}`)
        .orderBy(sql`transaction, from_id, changed.id`),
    ),
    limit,
  );
};
const steps = new Map<number, ReturnType<typeof createStep>>();

/** The database that issues the ids, and whether the entry is there. */
const standing = createSelection(
  'change_standing',
  query
    .select({
      database: sql<string>`md5(concat_ws(' ', system_identifier, timeline_id, pg_database.oid, 'changes'::regclass::oid))`,
      hasEntry: sql<boolean>`exists (select 1 from changes where ${isOfOrganisation}
        and transaction = ${placeholder('transaction')}::xid8 and from_id = ${placeholder('fromId')}
        and ${recordedAt} = ${placeholder('recordedAt')})`,
    })
    .from(sql`pg_control_system(), pg_control_checkpoint(), pg_database`)
    .where(sql`datname = current_database()`),
);

/** Before all pull requests. What changes from now on comes after them, again if they were read already. */
async function startReading(database: Database, organisationId: string): Promise<FeedPosition> {
  for (;;) {
    const [latest] = await database.read(latestEntry, { organisationId });
    if (latest !== undefined) return { ...latest, recordedAt: Number(latest.recordedAt), listedId: beforeAllIds };
    await database.write(addFirstEntry, { organisationId, id: newId() });
  }
}

interface Key {
  /** Null: there is nothing before `position` that did not change again. */
  id: string | null;
  isDeletion: boolean;
  bytes: number;
  /** After it. */
  position: FeedPosition;
}

async function readKeys(database: Database, organisationId: string, from: FeedPosition, limit: number): Promise<Key[]> {
  const { listedId, ...position } = from;
  if (listedId !== undefined) {
    const rows = await database.readStep(limited(listed, limit), { organisationId, listedId });
    if (rows.length === 0) return [{ id: null, isDeletion: false, bytes: 0, position }];
    return rows.map(row => ({
      id: row.id,
      isDeletion: false,
      bytes: Number(row.bytes),
      position: { ...position, listedId: row.id },
    }));
  }
  const step = steps.get(limit) ?? createStep(limit);
  steps.set(limit, step);
  const rows = await database.readStep(step, { organisationId, ...position });
  return rows.map(({ id, isDeletion, untilId, bytes, transaction, fromId, recordedAt }) => ({
    id: isDeletion === 't' ? fromId : id,
    isDeletion: isDeletion === 't',
    bytes: Number(bytes ?? 0),
    position: { transaction, fromId, recordedAt: Number(recordedAt), id: id ?? untilId },
  }));
}

/** The first of them whose texts fit a page; at least one. */
function fittingPage(keys: readonly Key[]): Key[] {
  let sum = 0;
  return keys.filter(({ bytes }, index) => {
    sum += bytes;
    return index === 0 || sum <= maxPageBytes;
  });
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
  limit: number,
): Promise<{ changes: Change[]; position: FeedPosition; database: string } | undefined> {
  let position = known?.position ?? (await startReading(database, organisationId));
  const found: Change[] = [];
  for (;;) {
    const keys = fittingPage(await readKeys(database, organisationId, position, limit));
    const ids = keys.flatMap(({ id, isDeletion }) => (id === null || isDeletion ? [] : [id]));
    const rows = ids.length === 0 ? new Map() : await findPullRequestRows(database, organisationId, ids);
    for (const { id, isDeletion } of keys) {
      // One that was deleted meanwhile comes as a deletion later.
      if (id !== null && (isDeletion || rows.has(id))) found.push({ id, row: rows.get(id) });
    }
    position = keys.at(-1)?.position ?? position;
    if (keys.length === 0 || found.length > 0) break;
  }
  // Asked for last: entries that were pruned before this read were pruned together with the one before them.
  const asked = known?.position ?? position;
  const [now] = await database.read(standing, { organisationId, ...asked });
  if (now === undefined) throw new Error('PostgreSQL does not know the current database');
  if (known !== undefined && (now.hasEntry !== 't' || known.database !== now.database)) return undefined;
  return { changes: found, position, database: now.database };
}
