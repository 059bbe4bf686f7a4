import { and, asc, eq, gt, isNull, like, ne, or, type SQL, sql } from 'drizzle-orm';
import { requestInBackground } from './background-requests.ts';
import { recordChanges } from './change-log.ts';
import type { Database, Executor } from './client.ts';
import { renewContentVersion } from './content-versions.ts';
import { addErased, finishErased, readErased } from './erased-people.ts';
import { findMembers, listMembers, type Member } from './members.ts';
import { lockOrganisation, updateOrganisation } from './organisations.ts';
import { deletePullRequests, isInPresentRepository } from './pull-requests.ts';
import { requestRescoring } from './rescore-ranges.ts';
import { isReviewedBy, withoutReviewsOf } from './reviews.ts';
import {
  accessTokens,
  changes,
  deletedPullRequests,
  erasedPeople,
  githubLimits,
  members,
  organisations,
  pullRequests,
  repositories,
  rescoreRanges,
  scoreChanges,
  syncRequests,
  untrackedPullRequests,
  users,
  webhookDeliveries,
} from './schema.ts';
import { isOneOf } from './statement.ts';
import { endSyncRequests } from './sync-requests.ts';
import { drawTicket } from './tickets.ts';

/*
 * Removes what operators ask for. It is a level, like all else: the first transaction says what must go, and nobody sees
 * it from then on. Large tables are emptied in steps, because one statement for all rows would exceed its timeout and
 * hold up webhooks. What an interrupted command leaves is done when the organisation is pruned.
 */

const stepSize = 2_000;

/** Its tables, in an order in which no row loses what it refers to. The others are small, and go with the organisation. */
const largeTables = [
  syncRequests,
  webhookDeliveries,
  scoreChanges,
  pullRequests,
  members,
  repositories,
  changes,
  untrackedPullRequests,
  deletedPullRequests,
];

/** How much is stored for an organisation. */
export async function countRemoved(executor: Executor, id: string) {
  const count = (table: typeof pullRequests | typeof members | typeof users) =>
    executor.$count(table, eq(table.organisationId, id));
  return { pullRequests: await count(pullRequests), members: await count(members), users: await count(users) };
}

/**
 * Begins to remove an organisation: no token is valid any more, webhooks are ignored, and whatever is being saved for it
 * is either complete before this or never saved. Runs in a transaction.
 */
export async function beginRemoval(executor: Executor, id: string): Promise<void> {
  await lockOrganisation(executor, id, 'exclusive');
  await executor.delete(accessTokens).where(eq(accessTokens.organisationId, id));
  await executor.delete(rescoreRanges).where(eq(rescoreRanges.organisationId, id));
  await updateOrganisation(executor, id, { removedAt: sql`now()`, webhooksEnabled: false, pruneDueAt: sql`now()` });
}

/**
 * Deletes all that is stored for an organisation whose removal has begun, except its audit events. Several that do so
 * at once share the rows.
 *
 * @param onStep called with the number of rows that a step has deleted
 */
export async function finishRemoval(database: Database, id: string, onStep?: (deleted: number) => void): Promise<void> {
  for (const table of largeTables) {
    const isOfOrganisation = eq(table.organisationId, id);
    for (;;) {
      const { rowCount } = await database.transaction(executor => {
        // By the rows' places: a step then costs the same however many rows there are.
        const step = executor
          .select({ ctid: sql`ctid` })
          .from(table)
          .where(isOfOrganisation)
          .limit(stepSize)
          .for('update', { skipLocked: true });
        return executor.delete(table).where(and(isOfOrganisation, sql`ctid = any(array${step})`));
      });
      if ((rowCount ?? 0) === 0) break;
      onStep?.(rowCount ?? 0);
    }
  }
  await database.transaction(async executor => {
    await executor.delete(githubLimits).where(like(githubLimits.credential, `%:${id}`));
    // The rest goes with it.
    await executor.delete(organisations).where(eq(organisations.id, id));
  });
}

/**
 * Erases what is stored about a person: the profile, pull requests with their scores, assignments, and reviews with theirs;
 * what they merged then shows `ghost`. From the first transaction on, nothing about them is saved.
 *
 * @param record runs in the first transaction
 * @returns how many of their pull requests it deleted; `assignments`, `reviews`: pull requests of others that they were
 * assigned to, and that they reviewed
 */
export async function eraseMember(
  database: Database,
  organisationId: string,
  { id, githubId }: Member,
  record?: (executor: Executor) => Promise<void>,
) {
  const { assignees, memberId, mergedBy } = pullRequests;
  const known = await database.transaction(async executor => {
    // No save that began before this ends after it.
    await lockOrganisation(executor, organisationId, 'exclusive');
    await record?.(executor);
    await addErased(executor, organisationId, githubId);
    // With the logins that a save has shown meanwhile.
    return (await findMembers(executor, organisationId, [githubId])).get(githubId);
  });
  const erased = await inSteps(database, organisationId, eq(memberId, id), async (executor, step) => {
    const deleted = await deletePullRequests(executor, organisationId, step, await drawTicket(executor));
    const ended = deleted.map(({ githubId }) => githubId);
    await endSyncRequests(executor, organisationId, ended);
  });
  const change = (
    condition: SQL,
    values: { assignees: SQL } | { mergedBy: string } | ReturnType<typeof withoutReviewsOf>,
    { refetches = false } = {},
  ) =>
    inSteps(database, organisationId, condition, async (executor, step) => {
      const isInStep = and(eq(pullRequests.organisationId, organisationId), isOneOf(pullRequests.id, step));
      const changed = await executor
        .update(pullRequests)
        .set(values)
        .where(isInStep)
        .returning({ id: pullRequests.id, isShown: sql<boolean>`${pullRequests.changedBy} = pg_current_xact_id()` });
      const shown = changed.filter(({ isShown }) => isShown).map(({ id }) => id);
      await recordChanges(executor, organisationId, shown);
      if (refetches) {
        const isFetched = and(isInStep, isInPresentRepository(organisationId));
        const source = sql`select github_id, node_id from pull_requests where ${isFetched}`;
        await requestInBackground(executor, organisationId, source);
      }
      // Also if no score depends on it: one that is being calculated from what was stored before must not be saved.
      await requestRescoring(executor, organisationId);
    });
  let assignments = 0;
  const logins = known === undefined ? [] : [known.login, ...known.formerLogins];
  for (const login of new Set(logins)) {
    // Somebody else may have it now, or have had it before: GitHub tells which of them is meant.
    const hasIt = and(
      eq(members.organisationId, organisationId),
      or(eq(members.login, login), sql`${members.formerLogins} @> array[${login}]`),
      ne(members.id, id),
    );
    const options = { refetches: (await database.executor.$count(members, hasIt)) > 0 };
    const isAssigned = sql`${assignees} @> array[${login}]`;
    assignments += await change(isAssigned, { assignees: sql`array_remove(${assignees}, ${login})` }, options);
    await change(eq(mergedBy, login), { mergedBy: 'ghost' }, options);
  }
  const reviews = await change(isReviewedBy(id), withoutReviewsOf(id));
  await database.transaction(async executor => {
    await lockOrganisation(executor, organisationId, 'exclusive');
    const { organisationId: organisation, authorGithubId } = untrackedPullRequests;
    await executor
      .delete(untrackedPullRequests)
      .where(and(eq(organisation, organisationId), eq(authorGithubId, githubId)));
    await executor.delete(members).where(and(eq(members.organisationId, organisationId), eq(members.id, id)));
    await finishErased(executor, organisationId, githubId);
    await renewContentVersion(executor, organisationId);
  });
  return { pullRequests: erased, assignments, reviews };
}

/** Members whose erasure was begun and not finished. */
export async function findHalfErased(executor: Executor, organisationId: string): Promise<Member[]> {
  const isUnfinished = and(eq(erasedPeople.organisationId, organisationId), isNull(erasedPeople.finishedAt));
  if ((await executor.$count(erasedPeople, isUnfinished)) === 0) return [];
  const isHalfErased = await readErased(executor, organisationId, { unfinished: true });
  return (await listMembers(executor, organisationId, true)).filter(({ githubId }) => isHalfErased(githubId));
}

/**
 * Changes the pull requests that fulfil the condition in steps, each in a transaction of its own.
 *
 * @param change is given the ids of those of the step
 * @returns how many it has changed
 */
async function inSteps(
  database: Database,
  organisationId: string,
  condition: SQL,
  change: (executor: Executor, ids: readonly string[]) => Promise<void>,
): Promise<number> {
  const { id, organisationId: organisation } = pullRequests;
  let total = 0;
  let last: string | undefined;
  do {
    // No index finds who reviewed a pull request: a step looks at the next ones, wanted or not.
    const isNext = and(eq(organisation, organisationId), last === undefined ? undefined : gt(id, last));
    const isWanted = sql<boolean>`(${condition}) is true`;
    const [changed, end] = await database.transaction(async executor => {
      await lockOrganisation(executor, organisationId, 'exclusive');
      const step = await executor
        .select({ id, isWanted })
        .from(pullRequests)
        .where(isNext)
        .orderBy(asc(id))
        .limit(stepSize);
      const ids = step.flatMap(row => (row.isWanted ? row.id : []));
      if (ids.length > 0) {
        await change(executor, ids);
        await renewContentVersion(executor, organisationId);
      }
      return [ids.length, step.at(-1)?.id] as const;
    });
    total += changed;
    last = end;
  } while (last !== undefined);
  return total;
}
