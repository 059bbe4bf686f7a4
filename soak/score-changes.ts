import { sql } from 'drizzle-orm';
import type { Executor } from '../src/database/client.ts';

/** What is wrong with the history of scores, which is a chain of changes: keys forbid doubled rows, but none of this. */
export async function findBrokenChains(executor: Pick<Executor, 'execute'>, organisationId: string): Promise<string[]> {
  const { rows } = await executor.execute<{ what: string }>(sql`
    with chain as (
      select pull_request_id, from_score, to_score, lag(to_score) over same as before, lead(id) over same as next
      from score_changes where organisation_id = ${organisationId}
      window same as (partition by pull_request_id order by id)
    )
    select 'score changes with a gap, a double or no change: ' || pull_request_id as what
    from chain where from_score is distinct from before or from_score = to_score
    union all
    select 'a score that differs from its last change: ' || coalesce(id, pull_request_id)
    from (select * from chain where next is null) as last
    full join (select id, score from pull_requests where organisation_id = ${organisationId}) as stored
      on id = pull_request_id
    where score is distinct from to_score`);
  return rows.map(({ what }) => what);
}
