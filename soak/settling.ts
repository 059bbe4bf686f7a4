import { setTimeout as delay } from 'node:timers/promises';
import { type SQL, sql } from 'drizzle-orm';
import type { Executor } from '../src/database/client.ts';
import { isInPresentRepository } from '../src/database/pull-requests.ts';
import { compareOrganisation } from '../src/sync/compare.ts';
import { publishCheckRuns } from '../src/sync/publish-check-runs.ts';
import { earlier } from '../test/support/citus.ts';
import type { Arena } from './arena.ts';
import type { ModelOrganisation, ModelPullRequest } from './model.ts';

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

/** Brings everything to rest, without waiting for real time. What does not come to rest is added to `differences`. */
export function createSettling(arena: Arena, organisations: readonly ModelOrganisation[], differences: string[]) {
  const { executor } = arena.database;
  const all = sql`any(${sql.param(organisations.map(({ id }) => id))}::uuid[])`;

  /** @param look says what is left; undefined: nothing. What is left after too long is a difference */
  async function until(look: (round: number) => Promise<string | undefined>, rounds = Number.POSITIVE_INFINITY) {
    const begin = performance.now();
    for (let round = 0; ; round += 1) {
      const left = await look(round);
      if (left === undefined) return;
      if (round + 1 >= rounds || performance.now() - begin > settleTimeoutMs) return void differences.push(left);
    }
  }

  async function count(rows: SQL): Promise<number> {
    const found = await executor.execute<{ count: number }>(sql`select count(*)::int from ${rows}`);
    return found.rows[0]?.count ?? 0;
  }

  /** Starts GitHub's next hour, with all points. */
  async function beginHour(): Promise<void> {
    const { limit } = arena.github;
    if (limit) limit.remaining = limit.limit;
    await executor.execute(sql`delete from github_limits`);
  }

  /** Requests have waited longer, and wait less. */
  const passFor = (each: Executor, requests: SQL, interval: SQL) =>
    each.execute(sql`
      update sync_requests set due_at = ${earlier('due_at', interval)},
        requested_at = ${earlier('requested_at', interval)}, behind_since = ${earlier('behind_since', interval)}
      where ${requests}`);

  /**
   * Makes due what organisations wait for, and wakes the loops. What is parked stays parked.
   *
   * @param leases whether leases of replicas that may be dead run out, too
   */
  async function passTime(ids: SQL, leases: boolean): Promise<void> {
    await beginHour();
    await arena.database.transaction(async each => {
      if (leases) {
        await each.execute(
          sql`update organisations set sync_leased_until = now() where id = ${ids} and sync_leased_until > now()`,
        );
        await each.execute(sql`update rescore_ranges set leased_until = null where organisation_id = ${ids}`);
      }
      // Each by its own wait, so that none waits less than it must, whatever their order.
      await passFor(each, sql`organisation_id = ${ids} and due_at > now()`, sql`(due_at - now())`);
      await each.execute(sql`select pg_notify('pullscore', 'sync'), pg_notify('pullscore', 'rescore')`);
    });
  }

  /** Waits until no pull request has to be fetched or scored, except for poisoned ones. */
  function rest(poisoned: readonly ModelPullRequest[]): Promise<void> {
    const spared = sql.param(poisoned.map(({ source }) => source.id));
    let before: string | undefined;
    let progressed = performance.now();
    return until(async () => {
      const { rows } = await executor.execute<{ count: number; waiting: number; last: string }>(sql`
        select count(*)::int, (count(*) filter (where due_at > now()))::int as waiting, max(last_error) as last
        from sync_requests where organisation_id = ${all} and github_id <> all(${spared}::bigint[])`);
      const [requests] = rows;
      const ranges = await count(sql`rescore_ranges where organisation_id = ${all}`);
      if (requests?.count === 0 && ranges === 0) return undefined;
      const state = JSON.stringify({ requests, ranges });
      const now = performance.now();
      if (state !== before) progressed = now;
      before = state;
      const isStuck = now - progressed > stuckAfterMs;
      if ((requests?.waiting ?? 0) > 0 || isStuck) await passTime(all, isStuck);
      if (isStuck) progressed = now;
      await delay(30);
      return `nothing settles: ${state}`;
    });
  }

  /** Counts pull requests that the sweep has yet to request, as if its last run was an hour ago. */
  async function unswept(id: string): Promise<number> {
    await executor.execute(sql`update organisations set swept_at = now() - interval '1 hour' where id = ${id}`);
    return count(sql`
      pull_requests where organisation_id = ${id} and fetched_at < now() - interval '1 day'
        and ${isInPresentRepository(id)}`);
  }

  const settling = {
    /** Retries until it succeeds, and lets waits run out. @param what for messages */
    persist: ({ id, github }: ModelOrganisation, what: string, once: () => Promise<boolean>) =>
      until(async () => {
        if (await once()) return undefined;
        await delay(10);
        await passTime(sql`${id}::uuid`, true);
        return `${github.login}: ${what} keeps failing`;
      }),

    async makeDue({ id }: ModelOrganisation): Promise<void> {
      await beginHour();
      await arena.database.transaction(each =>
        each.execute(sql`
          update organisations set comparison_due_at = now(),
            comparison_again_at = ${earlier('comparison_again_at', sql`greatest(interval '0', comparison_due_at - now())`)}
          where id = ${id}`),
      );
    },

    /** Lets days go by, with comparisons that list the members and fetch all that is stored again. */
    async compareWhole(organisation: ModelOrganisation): Promise<void> {
      const { id, github } = organisation;
      await arena.database.transaction(async each => {
        await each.execute(sql`update organisations set members_due_at = now() where id = ${id}`);
        await each.execute(
          sql`update pull_requests set fetched_at = now() - interval '2 days' where organisation_id = ${id}`,
        );
      });
      await unswept(id);
      await until(async () => {
        await settling.makeDue(organisation);
        await settling.compare(organisation, 0);
        return (await unswept(id)) > 0 ? `${github.login}: the sweep does not continue` : undefined;
      });
    },

    /** Lets time go by for requests that wait. */
    pass: (seconds: number) =>
      arena.database.transaction(async each => {
        await passFor(each, sql`organisation_id = ${all}`, sql`make_interval(secs => ${seconds})`);
        await each.execute(sql`select pg_notify('pullscore', 'sync')`);
      }),

    /** Publishes all scores that GitHub does not show yet, as if the minutes between check runs had gone by. */
    publish: ({ id, github }: ModelOrganisation) =>
      until(async turn => {
        await beginHour();
        await executor.execute(
          sql`update check_runs set published_at = now() - interval '1 minute' where organisation_id = ${id}`,
        );
        await executor.execute(
          sql`update check_runs set due_at = now() where organisation_id = ${id} and due_at is not null`,
        );
        await executor.execute(sql`update organisations set checks_due_at = now() where id = ${id}`);
        let hadTurn = true;
        await arena.attempt(turn, async ({ deps }) => {
          hadTurn = await publishCheckRuns(deps, { organisationId: id });
        });
        return hadTurn ? `${github.login}: check runs keep making work` : undefined;
      }, maxRounds),

    /** Completes the organisation's due comparison. */
    compare: (organisation: ModelOrganisation, via: number): Promise<void> =>
      until(async () => {
        const { id, github } = organisation;
        await arena.attempt(via, ({ deps }) => compareOrganisation(deps));
        const { rows } = await executor.execute<{ seconds: number }>(
          sql`select extract(epoch from comparison_due_at - now())::float8 as seconds from organisations where id = ${id}`,
        );
        const seconds = rows[0]?.seconds ?? 0;
        // Its next turn is far off: it has been compared.
        if (seconds > minComparisonSeconds) return undefined;
        // Longer than a lease: it waits. Otherwise another replica is at work, or was killed.
        if (seconds > 11 || (seconds > 0 && seconds < staleLeaseSeconds)) await settling.makeDue(organisation);
        else if (seconds > 0) await delay(30);
        return `${github.login} is not compared with GitHub: due in ${seconds} s`;
      }),

    /**
     * Waits until no pull request has to be fetched or scored, and no organisation compared. Leases and waits run out, as
     * if time went by.
     *
     * @param poisoned pull requests that may wait forever
     */
    settle: (poisoned: readonly ModelPullRequest[]) =>
      // A comparison that finds a renaming makes work; one that takes a login away makes its owner due.
      until(async () => {
        await rest(poisoned);
        if (differences.length > 0) return undefined;
        const { rows } = await executor.execute<{ id: string }>(sql`
          select id from organisations where id = ${all} and webhooks_enabled
            and comparison_due_at < now() + make_interval(secs => ${minComparisonSeconds})`);
        const due = organisations.filter(({ id }) => rows.some(row => row.id === id));
        await Promise.all(due.map(organisation => settling.compare(organisation, 0)));
        return due.length > 0 ? 'nothing settles: comparisons keep making work' : undefined;
      }, maxRounds),
  };
  return settling;
}
