import { and, asc, desc, eq, gt, isNull, lte, ne, or, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { isInRepository } from './pull-requests.ts';
import { organisations, pullRequests, repositories, rescoreRanges, scoreChanges } from './schema.ts';

/*
 * Queries of `explain`. An operator names a pull request without its organisation, so they search all of them.
 */

export type ExplainablePullRequest = Awaited<ReturnType<typeof selectPullRequests>>[number];
export type ScoreChange = Awaited<ReturnType<typeof listScoreChanges>>[number];

function selectPullRequests(executor: Executor, condition: SQL | undefined) {
  return executor
    .select({
      pullRequest: pullRequests,
      repository: repositories.name,
      repositoryLeftAt: repositories.leftAt,
      organisation: {
        id: organisations.id,
        login: organisations.login,
        rulesetVersion: organisations.rulesetVersion,
      },
    })
    .from(organisations)
    .innerJoin(pullRequests, eq(pullRequests.organisationId, organisations.id))
    .innerJoin(repositories, isInRepository)
    .where(condition)
    .orderBy(
      asc(organisations.login),
      desc(isNull(repositories.leftAt)),
      desc(repositories.fetchTicket),
      asc(pullRequests.id),
    );
}

export async function findPullRequestAnywhere(
  executor: Executor,
  id: string,
): Promise<ExplainablePullRequest | undefined> {
  const [found] = await selectPullRequests(executor, eq(pullRequests.id, id));
  return found;
}

/**
 * Pull requests with this page. There may be several, in two organisations.
 *
 * @param repository `owner/name`, in any case
 * @param url in lower case; undefined for the repository's present name only
 */
export async function findPullRequestsOfPage(
  executor: Executor,
  { repository, number, url }: { repository: string; number: number; url: string | undefined },
): Promise<ExplainablePullRequest[]> {
  const isNamed = sql`lower(${repositories.name}) = lower(${repository})`;
  const hasNumber = eq(pullRequests.number, number);
  const named = await selectPullRequests(executor, and(isNamed, hasNumber));
  // A repository that has left keeps its name here. Until it is marked so, the one that took the name is known by its
  // ticket: it was confirmed later.
  const present = named.filter(({ organisation }, index) => organisation.id !== named[index - 1]?.organisation.id);
  if (present.length > 0 || url === undefined) return present;
  // After a repository is renamed, addresses follow with a delay. One repository at a time: there is no index on
  // addresses, and one statement for all repositories could time out.
  const found: ExplainablePullRequest[] = [];
  for (const { organisationId, id } of await executor
    .select({ organisationId: repositories.organisationId, id: repositories.id })
    .from(repositories)
    .where(ne(sql`lower(${repositories.name})`, repository.toLowerCase()))) {
    const isOf = and(eq(pullRequests.organisationId, organisationId), eq(pullRequests.repositoryId, id));
    found.push(...(await selectPullRequests(executor, and(isOf, hasNumber, eq(sql`lower(${pullRequests.url})`, url)))));
  }
  return found;
}

/** Whether the score has yet to be recalculated under the rules in force. */
export async function isScoreStale(
  executor: Executor,
  organisationId: string,
  pullRequestId: string,
): Promise<boolean> {
  const { fromId, untilId } = rescoreRanges;
  const covers = and(lte(fromId, pullRequestId), or(isNull(untilId), gt(untilId, pullRequestId)));
  const ranges = await executor
    .select({ fromId })
    .from(rescoreRanges)
    .where(and(eq(rescoreRanges.organisationId, organisationId), covers))
    .limit(1);
  return ranges.length > 0;
}

/** So many changes of each pull request are kept one by one; earlier ones are folded, one row a month. */
export const keptChanges = 20;

/** The changes of a pull request's score, earliest first. */
export function listScoreChanges(executor: Executor, organisationId: string, pullRequestId: string) {
  return executor
    .select({
      changedAt: scoreChanges.changedAt,
      fromScore: scoreChanges.fromScore,
      toScore: scoreChanges.toScore,
      cause: scoreChanges.cause,
      rulesetVersion: scoreChanges.rulesetVersion,
      changes: scoreChanges.changes,
    })
    .from(scoreChanges)
    .where(and(eq(scoreChanges.organisationId, organisationId), eq(scoreChanges.pullRequestId, pullRequestId)))
    .orderBy(asc(scoreChanges.id));
}
