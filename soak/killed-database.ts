import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { RuleDefinition } from '../src/scoring/rule.ts';
import type { Subject, Traffic } from './traffic.ts';

/** Max time to finish all work after the last kill. */
const levelTimeoutMs = 120_000;
/** Leased work that is not resumed by then counts as never resumed. */
const leaseTimeoutMs = 30_000;

/** {@link findLosses} computes the same in SQL. */
export const scoringRules: readonly RuleDefinition[] = [
  {
    name: 'Size',
    description: '',
    is_enabled: true,
    logic: [{ expression: 'additions > 0', effect: { action: 'ADD', value: 'per(additions, 3)' } }],
  },
  {
    name: 'Given up',
    description: '',
    is_enabled: true,
    logic: [{ expression: 'state == "closed"', effect: { action: 'SUBTRACT', value: '5' } }],
  },
];

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

/**
 * Measures how long it takes until the fetching that is leased at this moment goes on: the lease is renewed, taken over
 * or ended.
 *
 * @param circumstances.counts false once PostgreSQL was killed, which causes other delays
 * @param circumstances.isServed false while no replica is running
 * @returns milliseconds, without the time in which no replica was running; undefined if nothing was leased, or it doesn't
 * count
 */
export async function watchLease(
  url: string,
  { counts, isServed }: { counts(): boolean; isServed(): boolean },
): Promise<number | undefined> {
  const begin = performance.now();
  let unserved = 0;
  try {
    return await withClient(url, async client => {
      const { rows } = await client.query<{ until: string }>(
        'select sync_leased_until::text as until from organisations where sync_leased_until > now()',
      );
      if (rows[0] === undefined) return undefined;
      for (let isHeld = true; isHeld && performance.now() - begin < leaseTimeoutMs; ) {
        const looked = performance.now();
        await delay(100);
        if (!counts()) return undefined;
        if (!isServed()) unserved += performance.now() - looked;
        const unchanged = await client.query(
          `select from organisations where sync_leased_until = $1::timestamptz
            and exists (select from sync_requests where due_at <= now())`,
          [rows[0].until],
        );
        isHeld = unchanged.rows.length > 0;
      }
      return performance.now() - begin - unserved;
    });
  } catch {
    // PostgreSQL was killed during the query.
    return undefined;
  }
}

/** Milliseconds until no work is left; undefined if that takes too long. */
export async function timeUntilLevel(url: string): Promise<number | undefined> {
  const begin = performance.now();
  return withClient(url, async client => {
    while (performance.now() - begin < levelTimeoutMs) {
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
export async function findLosses(url: string, { acknowledged, subjects }: Traffic): Promise<string[]> {
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
      if (pullRequest === undefined) continue;
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

    const checks: [string, string][] = [
      ['pull request doubled', 'select github_id as what from pull_requests group by 1 having count(*) > 1'],
      ['member doubled', 'select github_id as what from members group by 1 having count(*) > 1'],
      ['repository doubled', 'select github_id as what from repositories group by 1 having count(*) > 1'],
      ['delivery doubled', 'select guid as what from webhook_deliveries group by 1 having count(*) > 1'],
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

const nameOf = ({ pullRequest, member }: Subject): string => pullRequest?.url ?? `member ${member?.login}`;
