import { and, eq, isNotNull, lt, type SQL, sql } from 'drizzle-orm';
import { storable } from '../text/storable.ts';
import type { Executor } from './client.ts';
import { notify } from './notifications.ts';
import { updateOrganisation } from './organisations.ts';
import { isInPresentRepository } from './pull-requests.ts';
import { deletedPullRequests, organisations, pullRequests, syncRequests, untrackedPullRequests } from './schema.ts';
import { asTable, hasGithubId, isOneOf, secondsFromNow, sortedForLocking } from './statement.ts';

/**
 * The sweep, for facts that change on GitHub without a webhook: requests refetches of the stored pull requests that were
 * fetched longest ago, as many as its pace allows since the last sweep, at most as many as in an hour, or one. Those in
 * repositories that have left take their turns without a request: stepping over very many would exceed the statement's
 * timeout each time. Runs in a transaction; the caller holds the organisation's comparison.
 *
 * @param pace `perHour`: for this organisation; `minAgeSeconds`: of what was fetched before; `minPauseSeconds`: between
 * two sweeps
 * @returns how many had their turn
 */
export async function sweepPullRequests(
  executor: Executor,
  organisationId: string,
  { perHour, minAgeSeconds, minPauseSeconds }: { perHour: number; minAgeSeconds: number; minPauseSeconds: number },
): Promise<number> {
  const { id, sweptAt } = organisations;
  const [last] = await executor
    .select({ seconds: sql<number>`extract(epoch from now() - ${sweptAt})::float8` })
    .from(organisations)
    .where(and(eq(id, organisationId), lt(sweptAt, secondsFromNow(-minPauseSeconds))));
  const due = (perHour * (last?.seconds ?? 0)) / 3_600;
  const limit = Math.floor(Math.min(due, Math.max(perHour, 1)));
  // Leave `swept_at` alone until enough time has passed for one pull request.
  if (limit === 0) return 0;
  const { fetchedAt } = pullRequests;
  const isOfOrganisation = eq(pullRequests.organisationId, organisationId);
  const oldest = await executor
    .select({ id: pullRequests.id })
    .from(pullRequests)
    .where(and(isOfOrganisation, lt(fetchedAt, secondsFromNow(-minAgeSeconds))))
    .orderBy(fetchedAt)
    .limit(limit)
    .for('update', { skipLocked: true });
  if (oldest.length > 0) {
    const ids = oldest.map(row => row.id);
    const isOldest = and(isOfOrganisation, isOneOf(pullRequests.id, ids));
    // A turn counts as a fetch: otherwise one that GitHub does not show would be requested again and again.
    await executor.update(pullRequests).set({ fetchedAt: sql`now()` }).where(isOldest);
    const isFetched = and(isOldest, isInPresentRepository(organisationId));
    await requestInBackground(
      executor,
      organisationId,
      sql`select github_id, node_id from pull_requests where ${isFetched}`,
    );
  }
  await updateOrganisation(executor, organisationId, { sweptAt: sql`now()` });
  return oldest.length;
}

/** More at once might exceed a statement's timeout. */
export const maxRequestedAtOnce = 10_000;

/** The former name of a label or a milestone that was renamed or deleted on GitHub. */
export type LabelOrMilestone = { label: string } | { milestone: string };

/**
 * Requests refetches of stored pull requests in a repository that have this label or milestone.
 *
 * @param seconds until GitHub is asked
 */
export async function requestRefetchesWith(
  executor: Executor,
  organisationId: string,
  repositoryGithubId: number,
  former: LabelOrMilestone,
  seconds: number,
): Promise<void> {
  const hasIt =
    'label' in former
      ? sql`labels @> array[${storable(former.label)}]`
      : sql`milestone = ${storable(former.milestone)}`;
  type Row = { github_id: string; node_id: string; number: number; has_it: boolean };
  const found: Row[] = [];
  let rows: Row[];
  let after = -1;
  // No index finds them: a step looks at the next numbers, which GitHub gives once in a repository, wanted or not.
  do {
    ({ rows } = await executor.execute<Row>(sql`
      select github_id::text, node_id, number, (${hasIt}) is true as has_it from pull_requests
      where organisation_id = ${organisationId} and number > ${after} and repository_id = (
        select id from repositories
        where organisation_id = ${organisationId} and github_id = ${repositoryGithubId} and left_at is null)
      order by number limit ${maxRequestedAtOnce}`));
    found.push(...rows.filter(row => row.has_it));
    after = rows.at(-1)?.number ?? after;
  } while (rows.length === maxRequestedAtOnce);
  for (let start = 0; start < found.length; start += maxRequestedAtOnce) {
    const some = asTable(found.slice(start, start + maxRequestedAtOnce), 'found', 'github_id bigint, node_id text');
    await requestInBackground(executor, organisationId, sql`select * from ${some}`, { seconds });
  }
}

/**
 * Requests fetches for which nobody waits, and wakes the loop. An existing request only gets a new ticket and GitHub's node
 * id; if it is parked, it is also tried once more, and if GitHub is to be asked later, it waits as well.
 *
 * @param source a statement that gives the columns github_id and node_id
 * @param options `floor`: if it is given, one answer that GitHub does not show the pull request is not believed: it is
 * asked again
 */
export async function requestInBackground(
  executor: Executor,
  organisationId: string,
  source: SQL,
  { seconds = 0, floor = sql`null::timestamptz` }: { seconds?: number; floor?: SQL } = {},
): Promise<void> {
  // GitHub gets its time even if a fetch is waiting already.
  const later = sql`due_at = greatest(sync_requests.due_at, excluded.due_at), behind_since = null`;
  const asBefore = sql`due_at = coalesce(sync_requests.due_at, excluded.due_at)`;
  await executor.execute(sql`
    with source as (${source})
    insert into sync_requests
      (organisation_id, github_id, node_id, ticket, due_at, is_background, min_source_updated_at)
    select ${organisationId}::uuid, github_id, node_id, nextval('tickets'), ${secondsFromNow(seconds)}, true, ${floor}
    from (select * from source order by github_id) as source
    on conflict (organisation_id, github_id) do update
      -- GitHub gave this node id; the other one may be a webhook's. With a new ticket, a fetch that is already under
      -- way does not settle the request.
      set node_id = excluded.node_id, ticket = greatest(sync_requests.ticket, excluded.ticket),
        min_source_updated_at = greatest(sync_requests.min_source_updated_at, excluded.min_source_updated_at),
        ${seconds > 0 ? later : asBefore}`);
  await notify(executor, 'sync');
}

/** What a list on GitHub says of a pull request. */
export interface ListedPullRequest {
  githubId: number;
  nodeId: string;
  /** When it last changed, in Unix seconds. */
  sourceUpdatedAt: number;
}

/**
 * Requests fetches of listed pull requests, up to a page, in the background: an answer older than the list does not
 * settle them. One that is already requested in the listed state or a later one stays as it is.
 *
 * @param options `unlessStored`: leaves out those that are stored, were deleted or are not tracked, in the listed state
 */
export async function requestListed(
  executor: Executor,
  organisationId: string,
  listed: readonly ListedPullRequest[],
  { unlessStored = false }: { unlessStored?: boolean } = {},
): Promise<void> {
  const githubIds = listed.map(({ githubId }) => githubId);
  const known = new Map<number, number>();
  for (const table of [pullRequests, deletedPullRequests, untrackedPullRequests]) {
    if (!unlessStored) break;
    const { githubId, sourceUpdatedAt } = table;
    const rows = await executor
      .select({ githubId, sourceUpdatedAt })
      .from(table)
      .where(hasGithubId(table, organisationId, githubIds));
    for (const row of rows) known.set(row.githubId, row.sourceUpdatedAt ?? 0);
  }
  const { githubId, nodeId, minSourceUpdatedAt, dueAt } = syncRequests;
  const requested = await executor
    .select({ githubId, nodeId, floor: minSourceUpdatedAt })
    .from(syncRequests)
    .where(and(hasGithubId(syncRequests, organisationId, githubIds), isNotNull(dueAt)));
  const nodeIds = new Map(listed.map(each => [each.githubId, each.nodeId]));
  for (const row of requested) {
    // A webhook may have given a wrong node id; GitHub gave this one.
    if (row.nodeId !== nodeIds.get(row.githubId)) known.delete(row.githubId);
    else known.set(row.githubId, Math.max(known.get(row.githubId) ?? 0, row.floor ?? 0));
  }
  // Each once: an upsert can't touch the same row twice.
  const wanted = sortedForLocking(listed).filter(each => (known.get(each.githubId) ?? -1) < each.sourceUpdatedAt);
  if (wanted.length === 0) return;
  const table = asTable(wanted, 'listed', '"githubId" bigint, "nodeId" text, "sourceUpdatedAt" float8');
  const source = sql`select "githubId" as github_id, "nodeId" as node_id, "sourceUpdatedAt" as updated_at from ${table}`;
  await requestInBackground(executor, organisationId, source, { floor: sql`to_timestamp(updated_at)` });
}
