import { and, eq, inArray, like, type SQL, sql } from 'drizzle-orm';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';
import type { Database, Executor } from './client.ts';
import { renewContentVersion } from './content-versions.ts';
import type { Member } from './members.ts';
import { lockOrganisation, updateOrganisation } from './organisations.ts';
import { deletePullRequests } from './pull-requests.ts';
import { requestRescoring } from './rescoring.ts';
import {
  accessTokens,
  deletedPullRequests,
  githubLimits,
  members,
  organisations,
  pullRequests,
  scoreChanges,
  syncRequests,
  untrackedPullRequests,
  users,
  webhookDeliveries,
} from './schema.ts';
import { isOneOf } from './statement.ts';
import { drawTicket } from './tickets.ts';

/*
 * Removes what operators ask for. Large tables are emptied in steps: one statement for all rows would exceed its
 * timeout and hold up webhooks. If it is interrupted, run the command again.
 */

const stepSize = 2_000;

/** @returns how many rows it deleted */
async function deleteInSteps(
  { executor }: Pick<Database, 'executor'>,
  table: PgTable & { organisationId: PgColumn },
  organisationId: string,
): Promise<number> {
  const isOfOrganisation = eq(table.organisationId, organisationId);
  for (let deleted = 0; ; ) {
    // By the rows' places: a step then costs the same however many rows there are.
    const step = executor.select({ ctid: sql`ctid` }).from(table).where(isOfOrganisation).limit(stepSize);
    const { rowCount } = await executor.delete(table).where(and(isOfOrganisation, sql`ctid = any(array${step})`));
    deleted += rowCount ?? 0;
    if ((rowCount ?? 0) === 0) return deleted;
  }
}

/**
 * Removes an organisation and all that is stored for it, except its audit events.
 *
 * @param record runs in the last transaction, before the organisation is gone
 * @returns how many there were
 */
export async function removeOrganisation(
  database: Database,
  id: string,
  record: (executor: Executor) => Promise<void>,
) {
  const { executor } = database;
  const [memberCount, userCount] = await Promise.all([
    executor.$count(members, eq(members.organisationId, id)),
    executor.$count(users, eq(users.organisationId, id)),
  ]);
  // Nobody sees it half removed, and no replica starts anything new for it.
  await executor.delete(accessTokens).where(eq(accessTokens.organisationId, id));
  await updateOrganisation(executor, id, { webhooksEnabled: false, syncLeasedUntil: sql`'infinity'` });
  await deleteInSteps(database, syncRequests, id);
  await deleteInSteps(database, webhookDeliveries, id);
  await deleteInSteps(database, scoreChanges, id);
  const pullRequestCount = await deleteInSteps(database, pullRequests, id);
  await deleteInSteps(database, untrackedPullRequests, id);
  await deleteInSteps(database, deletedPullRequests, id);
  await database.transaction(async transaction => {
    await lockOrganisation(transaction, id, 'exclusive');
    await record(transaction);
    await transaction.delete(githubLimits).where(like(githubLimits.credential, `%:${id}`));
    // The rest goes with it.
    await transaction.delete(organisations).where(eq(organisations.id, id));
  });
  return { pullRequests: pullRequestCount, members: memberCount, users: userCount };
}

export interface ErasedMember {
  /** False if GitHub listed them as a member last: then the next comparison adds them again. */
  hadLeft: boolean;
  pullRequests: number;
  /** Pull requests of others that they were assigned to. */
  assignments: number;
}

/**
 * Erases what is stored about a person: profile, pull requests with their scores, and assignments; what they merged then
 * shows `ghost`. Tombstones, which name only GitHub's ids, keep their pull requests away until these change on
 * GitHub.
 *
 * @param people all who have the login
 * @param record runs in the last transaction
 */
export async function eraseMembers(
  database: Database,
  organisationId: string,
  people: readonly Member[],
  record: (executor: Executor) => Promise<void>,
): Promise<ErasedMember> {
  const ids = people.map(({ id }) => id);
  const { assignees, mergedBy } = pullRequests;
  const erase = (executor: Executor) => erasePullRequests(executor, organisationId, ids);
  const erased = await inSteps(database, organisationId, erase);
  let assignments = 0;
  for (const login of new Set(people.map(person => person.login))) {
    assignments += await inSteps(database, organisationId, executor =>
      changePullRequests(executor, organisationId, sql`${assignees} @> array[${login}]`, {
        assignees: sql`array_remove(${assignees}, ${login})`,
      }),
    );
    await inSteps(database, organisationId, executor =>
      changePullRequests(executor, organisationId, eq(mergedBy, login), { mergedBy: 'ghost' }),
    );
  }
  const savedMeanwhile = await database.transaction(async executor => {
    await lockOrganisation(executor, organisationId, 'exclusive');
    const last = await erase(executor);
    const authorIds = people.map(({ githubId }) => githubId);
    await executor
      .delete(untrackedPullRequests)
      .where(
        and(
          eq(untrackedPullRequests.organisationId, organisationId),
          inArray(untrackedPullRequests.authorGithubId, authorIds),
        ),
      );
    await executor.delete(members).where(and(eq(members.organisationId, organisationId), inArray(members.id, ids)));
    await record(executor);
    await renewContentVersion(executor, organisationId);
    return last;
  });
  const hadLeft = people.every(({ leftAt }) => leftAt !== null);
  return { hadLeft, pullRequests: erased + savedMeanwhile, assignments };
}

/**
 * Repeats a step, each time in a transaction of its own, until it changes nothing.
 *
 * @param step returns how many rows it changed
 * @returns how many rows in all
 */
async function inSteps(
  database: Database,
  organisationId: string,
  step: (executor: Executor) => Promise<number>,
): Promise<number> {
  for (let total = 0; ; ) {
    const changed = await database.transaction(async executor => {
      await lockOrganisation(executor, organisationId, 'exclusive');
      const count = await step(executor);
      if (count > 0) await renewContentVersion(executor, organisationId);
      return count;
    });
    total += changed;
    if (changed === 0) return total;
  }
}

/** Changes a step of pull requests, whose scores are then out of date. */
async function changePullRequests(
  executor: Executor,
  organisationId: string,
  condition: SQL,
  values: { assignees: SQL } | { mergedBy: string },
): Promise<number> {
  const isOfOrganisation = eq(pullRequests.organisationId, organisationId);
  const { id } = pullRequests;
  const step = await executor.select({ id }).from(pullRequests).where(and(isOfOrganisation, condition)).limit(stepSize);
  if (step.length === 0) return 0;
  const ids = step.map(row => row.id);
  await executor
    .update(pullRequests)
    .set(values)
    .where(and(isOfOrganisation, isOneOf(id, ids)));
  await requestRescoring(executor, organisationId);
  return step.length;
}

/** @returns how many: at most a step */
async function erasePullRequests(
  executor: Executor,
  organisationId: string,
  memberIds: readonly string[],
): Promise<number> {
  const { id, memberId } = pullRequests;
  const isTheirs = and(eq(pullRequests.organisationId, organisationId), inArray(memberId, [...memberIds]));
  const step = await executor.select({ id }).from(pullRequests).where(isTheirs).limit(stepSize);
  if (step.length === 0) return 0;
  const ids = step.map(row => row.id);
  const ticket = await drawTicket(executor);
  const deleted = await deletePullRequests(executor, organisationId, isOneOf(id, ids), ticket);
  const githubIds = deleted.map(({ githubId }) => githubId);
  await executor
    .delete(syncRequests)
    .where(and(eq(syncRequests.organisationId, organisationId), inArray(syncRequests.githubId, githubIds)));
  const { organisationId: organisation, pullRequestGithubId, state } = webhookDeliveries;
  await executor
    .update(webhookDeliveries)
    .set({ state: 'applied', appliedAt: sql`now()` })
    .where(and(eq(organisation, organisationId), inArray(pullRequestGithubId, githubIds), eq(state, 'pending')));
  return githubIds.length;
}
