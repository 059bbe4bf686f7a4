import { and, asc, eq, lt, sql } from 'drizzle-orm';
import { type Facts, factsOf } from '../scoring/facts.ts';
import type { Executor } from './client.ts';
import { pullRequests, repositories } from './schema.ts';

/** An organisation with scores of an older ruleset than the one in force. */
export async function findOutdatedOrganisation(executor: Executor): Promise<string | undefined> {
  const { rows } = await executor.execute<{ id: string }>(sql`
    select id from organisations where exists (
      select from pull_requests
      where organisation_id = organisations.id and pull_requests.ruleset_version < organisations.ruleset_version
    ) order by random() limit 1`);
  return rows[0]?.id;
}

export interface OutdatedPullRequest {
  id: string;
  score: number;
  facts: Facts;
}

/** Locks up to `limit` pull requests whose score is older than the version, passing over those that others hold. */
export async function lockOutdated(
  executor: Executor,
  organisationId: string,
  rulesetVersion: number,
  limit: number,
): Promise<OutdatedPullRequest[]> {
  const rows = await executor
    .select({ pullRequest: pullRequests, repository: repositories.name })
    .from(pullRequests)
    .innerJoin(
      repositories,
      and(eq(repositories.organisationId, pullRequests.organisationId), eq(repositories.id, pullRequests.repositoryId)),
    )
    .where(and(eq(pullRequests.organisationId, organisationId), lt(pullRequests.rulesetVersion, rulesetVersion)))
    .orderBy(asc(pullRequests.rulesetVersion))
    .limit(limit)
    .for('update', { of: pullRequests, skipLocked: true });
  return rows.map(({ pullRequest, repository }) => ({
    id: pullRequest.id,
    score: pullRequest.score,
    facts: factsOf({ ...pullRequest, repository }),
  }));
}

/** Writes the new scores of one batch and records those that changed. */
export async function saveScores(
  executor: Executor,
  organisationId: string,
  rulesetVersion: number,
  scores: readonly { id: string; score: number; breakdown: string }[],
): Promise<void> {
  const column = (values: (string | number)[]) => sql.param(values);
  await executor.execute(sql`
    with scores as (
      select * from unnest(${column(scores.map(({ id }) => id))}::uuid[],
        ${column(scores.map(({ score }) => score))}::int[],
        ${column(scores.map(({ breakdown }) => breakdown))}::text[]) as scores (id, score, breakdown)
    ), before as (
      select id, score from pull_requests where organisation_id = ${organisationId} and id in (select id from scores)
    ), saved as (
      update pull_requests
      set score = scores.score, score_breakdown = scores.breakdown::json, ruleset_version = ${rulesetVersion}
      from scores where organisation_id = ${organisationId} and pull_requests.id = scores.id
      returning pull_requests.id, pull_requests.score
    )
    insert into score_changes (organisation_id, pull_request_id, from_score, to_score, cause, ruleset_version)
    select ${organisationId}, id, before.score, saved.score, 'ruleset', ${rulesetVersion}
    from before join saved using (id) where before.score <> saved.score`);
}

/** How many scores are older than the ruleset in force, of how many. */
export async function countOutdated(
  executor: Executor,
  organisationId: string,
): Promise<{ outdated: number; total: number }> {
  const { rows } = await executor.execute<{ outdated: number; total: number }>(sql`
    select count(*) filter (where pull_requests.ruleset_version < organisations.ruleset_version)::int as outdated,
      count(*)::int as total
    from organisations join pull_requests on organisation_id = organisations.id
    where organisations.id = ${organisationId}`);
  return rows[0] ?? { outdated: 0, total: 0 };
}
