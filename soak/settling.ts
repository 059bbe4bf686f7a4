import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { isDatabaseUnavailable } from '../src/database/failures.ts';
import { isInPresentRepository } from '../src/database/pull-requests.ts';
import { type ErrorCode, ServiceError } from '../src/errors.ts';
import { compareOrganisation } from '../src/sync/compare.ts';
import { publishCheckRuns } from '../src/sync/publish-check-runs.ts';
import { earlier } from '../test/support/citus.ts';
import type { Arena, Replica } from './arena.ts';
import type { ModelOrganisation, ModelPullRequest } from './model.ts';

export type Settling = ReturnType<typeof createSettling>;

/** After this time without progress, leases of replicas that may be dead run out. */
const stuckAfterMs = 100;

/** A lease with less time left belongs to a dead replica: a living one would have renewed it. */
const staleLeaseSeconds = 4;

/** Max time to settle. Other work on the machine may take most of it. */
const settleTimeoutMs = 300_000;

/** After this many rounds, comparisons that make each other due count as endless. */
const maxRounds = 50;

/** A compared organisation is due again no sooner than this; one that waits for GitHub is due sooner. */
const minComparisonSeconds = 7_200;

/** The errors that GitHub's faults cause. */
const githubFailures: readonly ErrorCode[] = [
  'github_failed',
  'github_timeout',
  'github_rate_limited',
  'github_credentials',
];

/** Tries once. @returns false if GitHub or the replica failed @throws what neither explains */
export async function attempt(
  arena: Arena,
  via: number,
  work: (replica: Replica) => Promise<unknown>,
): Promise<boolean> {
  try {
    await work(await arena.replica(via));
    return true;
  } catch (error) {
    const isGithubs = error instanceof ServiceError && githubFailures.includes(error.code);
    if (!isGithubs && !isDatabaseUnavailable(error) && (error as Error).name !== 'AbortError') throw error;
    return false;
  }
}

/** Brings everything to rest, without waiting for real time. What does not come to rest is added to `differences`. */
export function createSettling(arena: Arena, differences: string[]) {
  const { executor } = arena.database;

  /** Retries until it succeeds, and lets waits run out. @param what for messages */
  async function persist({ id, github }: ModelOrganisation, what: string, once: () => Promise<boolean>): Promise<void> {
    for (const begin = performance.now(); !(await once()); await passTime([id], true)) {
      if (performance.now() - begin > settleTimeoutMs) {
        differences.push(`${github.login}: ${what} keeps failing`);
        return;
      }
      await delay(10);
    }
  }

  /** Starts GitHub's next hour, with all points. */
  async function beginHour(): Promise<void> {
    const { limit } = arena.github;
    if (limit) limit.remaining = limit.limit;
    await executor.execute(sql`delete from github_limits`);
  }

  /**
   * Makes due what these organisations wait for, and wakes the loops. What is parked stays parked.
   *
   * @param leases whether leases of replicas that may be dead run out, too
   */
  async function passTime(ids: readonly string[], leases: boolean): Promise<void> {
    await beginHour();
    // Each by its own wait, so that none waits less than it must, whatever their order.
    const left = sql`(due_at - now())`;
    const given = sql`any(${sql.param(ids)}::uuid[])`;
    await arena.database.transaction(async each => {
      if (leases) {
        await each.execute(
          sql`update organisations set sync_leased_until = now() where id = ${given} and sync_leased_until > now()`,
        );
        await each.execute(sql`update rescore_ranges set leased_until = null where organisation_id = ${given}`);
      }
      await each.execute(sql`
        update sync_requests set due_at = now(), requested_at = ${earlier('requested_at', left)},
          behind_since = ${earlier('behind_since', left)}
        where organisation_id = ${given} and due_at > now()`);
      await each.execute(sql`select pg_notify('pullscore', 'sync'), pg_notify('pullscore', 'rescore')`);
    });
  }

  async function makeDue({ id }: ModelOrganisation): Promise<void> {
    await beginHour();
    await arena.database.transaction(each =>
      each.execute(sql`
        update organisations set comparison_due_at = now(),
          comparison_again_at = ${earlier('comparison_again_at', sql`greatest(interval '0', comparison_due_at - now())`)}
        where id = ${id}`),
    );
  }

  /** Counts pull requests that the sweep has yet to request, as if its last run was an hour ago. */
  async function unswept(id: string): Promise<number> {
    await executor.execute(sql`update organisations set swept_at = now() - interval '1 hour' where id = ${id}`);
    const { rows } = await executor.execute<{ count: number }>(sql`
      select count(*)::int from pull_requests
      where organisation_id = ${id} and fetched_at < now() - interval '1 day' and ${isInPresentRepository(id)}`);
    return rows[0]?.count ?? 0;
  }

  const settling = {
    persist,

    makeDue,

    /** Lets days go by, with comparisons that list the members and fetch all that is stored again. */
    async compareWhole(organisation: ModelOrganisation): Promise<void> {
      const { id } = organisation;
      await arena.database.transaction(async each => {
        await each.execute(sql`update organisations set members_due_at = now() where id = ${id}`);
        await each.execute(
          sql`update pull_requests set fetched_at = now() - interval '2 days' where organisation_id = ${id}`,
        );
      });
      const begin = performance.now();
      await unswept(id);
      do {
        if (performance.now() - begin > settleTimeoutMs) {
          differences.push(`${organisation.github.login}: the sweep does not continue`);
          return;
        }
        await makeDue(organisation);
        await settling.compare(organisation, 0);
      } while ((await unswept(id)) > 0);
    },

    /** Lets time go by for requests that wait. */
    async pass(organisations: readonly ModelOrganisation[], seconds: number): Promise<void> {
      const ids = organisations.map(({ id }) => id);
      const interval = sql`make_interval(secs => ${seconds})`;
      await arena.database.transaction(async each => {
        await each.execute(sql`
          update sync_requests set due_at = ${earlier('due_at', interval)},
            requested_at = ${earlier('requested_at', interval)}, behind_since = ${earlier('behind_since', interval)}
          where organisation_id = any(${sql.param(ids)}::uuid[])`);
        await each.execute(sql`select pg_notify('pullscore', 'sync')`);
      });
    },

    /** Publishes all scores that GitHub does not show yet, as if the minutes between check runs had gone by. */
    async publish({ id, github }: ModelOrganisation): Promise<void> {
      for (let turns = 0; turns < maxRounds; turns += 1) {
        await beginHour();
        await executor.execute(
          sql`update check_runs set published_at = now() - interval '1 minute' where organisation_id = ${id}`,
        );
        await executor.execute(
          sql`update check_runs set due_at = now() where organisation_id = ${id} and due_at is not null`,
        );
        await executor.execute(sql`update organisations set checks_due_at = now() where id = ${id}`);
        let hadTurn = true;
        await attempt(arena, turns, async ({ deps }) => {
          hadTurn = await publishCheckRuns(deps, { organisationId: id });
        });
        if (!hadTurn) return;
      }
      differences.push(`${github.login}: check runs keep making work`);
    },

    /** Completes the organisation's due comparison. */
    async compare(organisation: ModelOrganisation, via: number): Promise<void> {
      const { id, github } = organisation;
      for (const begin = performance.now(); ; ) {
        await attempt(arena, via, ({ deps }) => compareOrganisation(deps));
        const { rows } = await executor.execute<{ seconds: number }>(
          sql`select extract(epoch from comparison_due_at - now())::float8 as seconds from organisations where id = ${id}`,
        );
        const seconds = rows[0]?.seconds ?? 0;
        // Its next turn is far off: it has been compared.
        if (seconds > minComparisonSeconds) return;
        if (performance.now() - begin > settleTimeoutMs) {
          differences.push(`${github.login} is not compared with GitHub: due in ${seconds} s`);
          return;
        }
        // Longer than a lease: it waits. Otherwise another replica is at work, or was killed.
        if (seconds > 11 || (seconds > 0 && seconds < staleLeaseSeconds)) await makeDue(organisation);
        else if (seconds > 0) await delay(30);
      }
    },

    /**
     * Waits until no pull request has to be fetched or scored, and no organisation compared. Leases and waits run out, as
     * if time went by.
     *
     * @param poisoned pull requests that may wait forever
     */
    async settle(organisations: readonly ModelOrganisation[], poisoned: ReadonlySet<ModelPullRequest>): Promise<void> {
      const ids = organisations.map(({ id }) => id);
      // A comparison that finds a renaming makes work; one that takes a login away makes its owner due.
      for (let round = 0; round < maxRounds; round += 1) {
        if (!(await rest(ids, poisoned)) || differences.length > 0) return;
        const { rows } = await executor.execute<{ id: string }>(sql`
          select id from organisations where id = any(${sql.param(ids)}::uuid[]) and webhooks_enabled
            and comparison_due_at < now() + make_interval(secs => ${minComparisonSeconds})`);
        if (rows.length === 0) return;
        const due = organisations.filter(({ id }) => rows.some(row => row.id === id));
        await Promise.all(due.map(organisation => settling.compare(organisation, 0)));
      }
      differences.push('nothing settles: comparisons keep making work');
    },
  };

  /** Waits until no pull request has to be fetched or scored, except for poisoned ones; false if that never happens. */
  async function rest(ids: readonly string[], poisoned: ReadonlySet<ModelPullRequest>): Promise<boolean> {
    const spared = [...poisoned].map(({ source }) => source.id);
    const begin = performance.now();
    let progressed = begin;
    for (let before = ''; ; ) {
      const { rows: requests } = await executor.execute<{ count: number; waiting: number; last: string }>(sql`
        select count(*)::int, (count(*) filter (where due_at > now()))::int as waiting, max(last_error) as last
        from sync_requests
        where organisation_id = any(${sql.param(ids)}::uuid[]) and github_id <> all(${sql.param(spared)}::bigint[])`);
      const { rows: ranges } = await executor.execute<{ count: number }>(
        sql`select count(*)::int from rescore_ranges where organisation_id = any(${sql.param(ids)}::uuid[])`,
      );
      const state = { requests: requests[0], ranges: ranges[0] };
      if (state.requests?.count === 0 && state.ranges?.count === 0) return true;
      const now = performance.now();
      if (now - begin > settleTimeoutMs) {
        differences.push(`nothing settles: ${JSON.stringify(state)}`);
        return false;
      }
      if (JSON.stringify(state) !== before) progressed = now;
      before = JSON.stringify(state);
      const isStuck = now - progressed > stuckAfterMs;
      if ((state.requests?.waiting ?? 0) > 0 || isStuck) await passTime(ids, isStuck);
      if (isStuck) progressed = now;
      await delay(30);
    }
  }

  return settling;
}
