import { and, eq, isNull, not, or, type SQL, sql } from 'drizzle-orm';
import { maxRequestedAtOnce, requestInBackground } from './background-requests.ts';
import type { Executor } from './client.ts';
import { createRemoveByGithubId } from './rows-by-github-id.ts';
import { members, untrackedPullRequests } from './schema.ts';
import { hasGithubId, isOneOf, sortedForLocking } from './statement.ts';

/*
 * Pull requests that were fetched but not kept, because their author was not a member, or their repository belonged to
 * another owner or was ignored. Rows are written in the order of their keys, to avoid deadlocks.
 */

/** @param options `awaitsRepository`: they come back with their repository, not with their author */
export async function rememberUntracked(
  executor: Executor,
  organisationId: string,
  pullRequests: readonly Omit<typeof untrackedPullRequests.$inferSelect, 'organisationId' | 'awaitsRepository'>[],
  { awaitsRepository = false } = {},
): Promise<void> {
  if (pullRequests.length === 0) return;
  const known = untrackedPullRequests;
  await executor
    .insert(known)
    .values(sortedForLocking(pullRequests).map(each => ({ ...each, organisationId, awaitsRepository })))
    .onConflictDoUpdate({
      target: [known.organisationId, known.githubId],
      set: {
        nodeId: sql`excluded.node_id`,
        authorGithubId: sql`excluded.author_github_id`,
        sourceUpdatedAt: sql`greatest(${known.sourceUpdatedAt}, excluded.source_updated_at)`,
        awaitsRepository,
      },
      setWhere: sql`(${known.nodeId}, ${known.authorGithubId}, ${known.sourceUpdatedAt}, ${known.awaitsRepository})
        is distinct from (
          excluded.node_id, excluded.author_github_id, excluded.source_updated_at, excluded.awaits_repository)`,
    });
}

export const forgetUntracked = createRemoveByGithubId(untrackedPullRequests);

/**
 * Requests syncs of the pull requests of people who are members now, up to {@link maxRequestedAtOnce}, and wakes the loop.
 * A fetch from before they were members does not settle them. Runs in a transaction.
 *
 * @param authorGithubIds undefined means all authors
 * @returns whether there may be more
 */
export async function requestUntrackedOfMembers(
  executor: Executor,
  organisationId: string,
  authorGithubIds?: readonly number[],
): Promise<boolean> {
  if (authorGithubIds?.length === 0) return false;
  const present = await executor
    .select({ githubId: members.githubId })
    .from(members)
    .where(
      and(
        eq(members.organisationId, organisationId),
        isNull(members.leftAt),
        authorGithubIds && isOneOf(members.githubId, authorGithubIds),
      ),
    );
  const memberIds = present.map(row => row.githubId);
  const { authorGithubId, awaitsRepository } = untrackedPullRequests;
  const isOfMembers = and(isOneOf(authorGithubId, memberIds), not(awaitsRepository));
  return requestUntracked(executor, organisationId, isOfMembers);
}

/** Does the same for those whose repository was not tracked: it may be one that is tracked now. */
export const requestUntrackedByRepository = (executor: Executor, organisationId: string): Promise<boolean> =>
  // The release before stores them without an author instead.
  requestUntracked(
    executor,
    organisationId,
    or(untrackedPullRequests.awaitsRepository, isNull(untrackedPullRequests.authorGithubId)),
  );

/** The lowest floor: any state settles the request, but GitHub is asked for a while before the pull request counts as gone. */
const anyTime = sql`to_timestamp(0)`;

/** The next call takes those that another transaction saves just now. */
async function requestUntracked(
  executor: Executor,
  organisationId: string,
  condition: SQL | undefined,
): Promise<boolean> {
  const { githubId } = untrackedPullRequests;
  const held = await executor
    .select({ githubId })
    .from(untrackedPullRequests)
    .where(and(eq(untrackedPullRequests.organisationId, organisationId), condition))
    .orderBy(githubId)
    .limit(maxRequestedAtOnce)
    .for('update');
  if (held.length === 0) return false;
  const heldIds = held.map(row => row.githubId);
  const moved = sql`delete from ${untrackedPullRequests}
    where ${hasGithubId(untrackedPullRequests, organisationId, heldIds)} returning github_id, node_id`;
  await requestInBackground(executor, organisationId, moved, { floor: anyTime });
  return held.length === maxRequestedAtOnce;
}
