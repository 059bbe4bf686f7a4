import { and, asc, desc, eq, gt, isNull, lte, or, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { isInRepository, type StoredPullRequest } from './pull-requests.ts';
import { organisations, pullRequests, repositories, rescoreRanges, scoreChanges } from './schema.ts';

/*
 * Pull requests to be explained. An operator may name one without its organisation; a request never does.
 */

export type ExplainablePullRequest = Awaited<ReturnType<typeof findPullRequests>>[number];

/**
 * Pull requests with this id or this page. There may be several of a page, in two organisations.
 *
 * @param wanted `repository` is `owner/name`, in any case
 * @param organisationId undefined: in all organisations
 */
export async function findPullRequests(
  executor: Executor,
  wanted: { id: string } | { repository: string; number: number },
  organisationId: string | undefined,
) {
  const isWanted =
    'id' in wanted
      ? eq(pullRequests.id, wanted.id)
      : and(sql`lower(${repositories.name}) = lower(${wanted.repository})`, eq(pullRequests.number, wanted.number));
  const found = await executor
    .select({
      pullRequest: pullRequests,
      repository: repositories.name,
      repositoryLeftAt: repositories.leftAt,
      repositoryIgnoredBecause: repositories.ignoredBecause,
      organisation: organisations,
    })
    .from(organisations)
    .innerJoin(pullRequests, eq(pullRequests.organisationId, organisations.id))
    .innerJoin(repositories, isInRepository)
    .where(and(isWanted, organisationId === undefined ? undefined : eq(organisations.id, organisationId)))
    .orderBy(
      asc(organisations.login),
      desc(isNull(repositories.leftAt)),
      desc(repositories.fetchTicket),
      asc(pullRequests.id),
    );
  // A repository that has left keeps its name. Until it is marked, the higher ticket shows which one has the name now.
  return found.filter(({ organisation }, index) => organisation.id !== found[index - 1]?.organisation.id);
}

/** Whether the score has yet to be recalculated: by other rules, or with the new name of its repository. */
export async function isScoreStale(
  executor: Executor,
  organisationId: string,
  { id, fetchTicket }: Pick<StoredPullRequest, 'id' | 'fetchTicket'>,
): Promise<boolean> {
  const { fromId, untilId, ticket } = rescoreRanges;
  const covers = and(lte(fromId, id), or(isNull(untilId), gt(untilId, id)), gt(ticket, fetchTicket));
  return (await executor.$count(rescoreRanges, and(eq(rescoreRanges.organisationId, organisationId), covers))) > 0;
}

/** Old changes are kept by month, so there are fewer, unless it changes all day. */
const maxScoreChanges = 1_000;

/** The changes of a pull request's score, latest first. */
export function listScoreChanges(executor: Executor, organisationId: string, pullRequestId: string) {
  return executor
    .select()
    .from(scoreChanges)
    .where(and(eq(scoreChanges.organisationId, organisationId), eq(scoreChanges.pullRequestId, pullRequestId)))
    .orderBy(desc(scoreChanges.id))
    .limit(maxScoreChanges);
}
