import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { type Installation, print } from './installation.ts';
import type { Subject, Traffic } from './traffic.ts';

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
export async function reportOutcome({ server, replicas }: Installation, traffic: Traffic): Promise<boolean> {
  await Promise.all(replicas.map(replica => replica.ready()));
  const doneMs = await timeUntilDone(server.url);
  const losses = await findLosses(server.url, traffic);
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

async function withClient<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 30_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    // Not awaited: if the connection breaks meanwhile, it may never end.
    client.end().catch(() => undefined);
  }
}

/** Milliseconds until no work is left; undefined if that takes too long. */
async function timeUntilDone(url: string): Promise<number | undefined> {
  const begin = performance.now();
  return withClient(url, async client => {
    while (performance.now() - begin < maxDoneMs) {
      const { rows } = await client.query<{ waiting: number }>(
        `select (select count(*) from sync_requests)::int
          + (select count(*) from webhook_deliveries where state = 'pending')::int as waiting`,
      );
      if (rows[0]?.waiting === 0) return performance.now() - begin;
      await delay(200);
    }
    return undefined;
  });
}

/** How what is stored differs from the acknowledged deliveries, one line each. */
async function findLosses(url: string, { acknowledged, subjects }: Traffic): Promise<string[]> {
  return withClient(url, async client => {
    const losses: string[] = [];
    const deliveries = await client.query<{ guid: string; state: string }>(
      'select guid, state from webhook_deliveries',
    );
    const states = new Map(deliveries.rows.map(({ guid, state }) => [guid, state]));
    for (const [guid, subject] of acknowledged) {
      const state = states.get(guid);
      if (state !== 'applied') losses.push(`delivery ${guid} of ${nameOf(subject)} is ${state ?? 'not there'}`);
    }

    const pullRequests = await client.query<{ github_id: string; title: string; additions: number; right: boolean }>(
      `select github_id, title, additions,
        score = additions / 3 - case when state = 'closed' then 5 else 0 end as right from pull_requests`,
    );
    const stored = new Map(pullRequests.rows.map(row => [Number(row.github_id), row]));
    for (const subject of subjects) {
      const { pullRequest, version } = subject;
      if (subject.acknowledged === 0) continue;
      const row = stored.get(pullRequest.id);
      if (row === undefined) {
        losses.push(`${nameOf(subject)} is missing, and version ${subject.acknowledged} was acknowledged`);
        continue;
      }
      const own = row.additions;
      if (own < subject.acknowledged || own > version) {
        losses.push(
          `${nameOf(subject)} is stored at version ${own}; ${subject.acknowledged} was acknowledged, GitHub is at ${version}`,
        );
      }
      if (row.title !== `Change ${own}`) losses.push(`${nameOf(subject)} mixes two versions: ${row.title}, ${own}`);
      if (!row.right) losses.push(`${nameOf(subject)} has a wrong score`);
    }

    // Keys forbid doubled rows; nothing but the service's care forbids these.
    const checks: [string, string][] = [
      [
        'score changes with a gap or a double',
        `select pull_request_id as what from (
          select pull_request_id, from_score, lag(to_score) over (partition by pull_request_id order by id) as before
          from score_changes
        ) as chain where from_score is distinct from before`,
      ],
      [
        'score without the change that made it',
        `select id as what from pull_requests where score is distinct from (
          select to_score from score_changes where pull_request_id = pull_requests.id order by score_changes.id desc limit 1
        )`,
      ],
    ];
    for (const [what, statement] of checks) {
      const { rows } = await client.query<{ what: string }>(statement);
      for (const row of rows) losses.push(`${what}: ${row.what}`);
    }
    return losses;
  });
}

const nameOf = ({ pullRequest }: Subject): string => pullRequest.url;
