import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import type { Database } from '../src/database/client.ts';
import { webhookDeliveries } from '../src/database/schema.ts';
import { type Installation, print } from './installation.ts';
import type { Traffic } from './traffic.ts';

const maxShownLosses = 50;

/** Max time to finish all work after the last kill. */
const maxDoneMs = 120_000;

/** Counted reasons, the commonest first. */
export const listCounted = (counted: ReadonlyMap<string, number>) =>
  [...counted].sort(([, a], [, b]) => b - a).map(([what, times]) => `  ${times} × ${what}`);

/**
 * Waits until all work is done, and prints what became of it.
 *
 * @returns whether webhooks were acknowledged, the loops finished, nothing was lost and no replica ended by itself
 */
export async function reportOutcome({ database, replicas }: Installation, traffic: Traffic): Promise<boolean> {
  await Promise.all(replicas.map(replica => replica.ready()));
  const doneMs = await timeUntilDone(database);
  const losses = await findLosses(database, traffic);
  const ends = replicas.flatMap(replica => replica.ends);
  const { sent, acknowledged, redelivered, heldBack, refused } = traffic;
  print(
    [
      `webhooks sent: ${sent}, redelivered: ${redelivered}, held back: ${heldBack}, acknowledged: ${acknowledged.size}`,
      'not acknowledged:',
      ...listCounted(refused),
      doneMs === undefined
        ? 'The loops did not finish their work.'
        : `all work done after ${(doneMs / 1000).toFixed(1)} s`,
      ...ends,
      `lost: ${losses.length}`,
      ...losses.slice(0, maxShownLosses).map(loss => `  ${loss}`),
    ].join('\n'),
  );
  return acknowledged.size > 0 && doneMs !== undefined && losses.length === 0 && ends.length === 0;
}

/** Milliseconds until no work is left; undefined if that takes too long. */
async function timeUntilDone({ executor }: Database): Promise<number | undefined> {
  for (const begin = performance.now(); performance.now() - begin < maxDoneMs; await delay(200)) {
    const { rows } = await executor.execute<{ waiting: number }>(sql`
      select (select count(*) from sync_requests)::int
        + (select count(*) from webhook_deliveries where state = 'pending')::int as waiting`);
    if (rows[0]?.waiting === 0) return performance.now() - begin;
  }
  return undefined;
}

/** How what is stored differs from the acknowledged deliveries, one line each. */
async function findLosses({ executor }: Database, { acknowledged, subjects }: Traffic): Promise<string[]> {
  const losses: string[] = [];
  const { guid: ofGuid, state: ofState } = webhookDeliveries;
  const deliveries = await executor.select({ guid: ofGuid, state: ofState }).from(webhookDeliveries);
  const states = new Map(deliveries.map(({ guid, state }) => [guid, state]));
  for (const [guid, { pullRequest }] of acknowledged) {
    const state = states.get(guid);
    if (state !== 'applied') losses.push(`delivery ${guid} of ${pullRequest.url} is ${state ?? 'not there'}`);
  }

  const { rows } = await executor.execute<{ github_id: string; title: string; additions: number; right: boolean }>(sql`
    select github_id, title, additions,
      score = additions / 3 - case when state = 'closed' then 5 else 0 end as right from pull_requests`);
  const stored = new Map(rows.map(row => [Number(row.github_id), row]));
  for (const { pullRequest, version, acknowledged: oldest } of subjects) {
    if (oldest === 0) continue;
    const { id, url } = pullRequest;
    const row = stored.get(id);
    if (row === undefined) {
      losses.push(`${url} is missing, and version ${oldest} was acknowledged`);
      continue;
    }
    const own = row.additions;
    if (own < oldest || own > version) {
      losses.push(`${url} is stored at version ${own}; ${oldest} was acknowledged, GitHub is at ${version}`);
    }
    if (row.title !== `Change ${own}`) losses.push(`${url} mixes two versions: ${row.title}, ${own}`);
    if (!row.right) losses.push(`${url} has a wrong score`);
  }

  // Keys forbid doubled rows; nothing but the service's care forbids these.
  const chains = await executor.execute<{ what: string }>(sql`
    select 'score changes with a gap or a double: ' || pull_request_id as what from (
      select pull_request_id, from_score, lag(to_score) over (partition by pull_request_id order by id) as before
      from score_changes
    ) as chain where from_score is distinct from before
    union all
    select 'score without the change that made it: ' || id from pull_requests where score is distinct from (
      select to_score from score_changes where pull_request_id = pull_requests.id order by score_changes.id desc limit 1
    )`);
  return [...losses, ...chains.rows.map(({ what }) => what)];
}
