import { setTimeout as delay } from 'node:timers/promises';
import { type SQL, sql } from 'drizzle-orm';
import { retrySyncRequests } from '../src/database/backlog.ts';
import type { Executor } from '../src/database/client.ts';
import { isInPresentRepository } from '../src/database/pull-requests.ts';
import { compareOrganisation } from '../src/sync/compare.ts';
import { earlier } from '../test/support/citus.ts';
import type { Arena } from './arena.ts';

/** After this time without progress, leases of replicas that may be dead run out. */
const stuckAfterMs = 300;

/** A lease with less time left belongs to a dead replica: a living one would have renewed it. */
const staleLeaseSeconds = 4;

/** Max time to settle. Other work on the machine may take most of it. */
const settleTimeoutMs = 300_000;

/** A compared organisation is due again no sooner than this; one that waits for GitHub is due sooner. */
const minComparisonSeconds = 7_200;

/** Brings everything to rest, without waiting for real time. What does not come to rest is added to `differences`. */
export function createSettling(arena: Arena, id: string, differences: string[]) {
  // Deadlocks with the service's own statements make a transaction try again.
  const { executor, transaction } = arena.database;

  /** @param look says what is left; undefined: nothing. What is left after too long is a difference */
  async function until(look: () => Promise<string | undefined>) {
    for (const begin = performance.now(); ; ) {
      const left = await look();
      if (left === undefined) return;
      if (performance.now() - begin > settleTimeoutMs) return void differences.push(left);
    }
  }

  async function readOne<Row extends Record<string, unknown>>(query: SQL): Promise<Row> {
    const [row] = (await executor.execute(query)).rows;
    return row as Row;
  }

  /** GitHub's limits are over. */
  const beginHour = () => executor.execute(sql`delete from github_limits`);

  /** Requests have waited longer, and wait less. */
  const passFor = (each: Executor, interval: SQL, condition = sql`true`) =>
    each.execute(sql`
      update sync_requests set due_at = ${earlier('due_at', interval)},
        requested_at = ${earlier('requested_at', interval)}, behind_since = ${earlier('behind_since', interval)}
      where organisation_id = ${id} and ${condition}`);

  /**
   * Makes due what the organisation waits for, and wakes the loops. An operator retries what is parked.
   *
   * @param leases whether leases of replicas that may be dead run out, too
   */
  async function passTime(leases: boolean): Promise<void> {
    await beginHour();
    await transaction(async each => {
      if (leases) {
        await each.execute(
          sql`update organisations set sync_leased_until = now() where id = ${id} and sync_leased_until > now()`,
        );
        await each.execute(sql`update rescore_ranges set leased_until = null where organisation_id = ${id}`);
        await retrySyncRequests(each, id);
      }
      // Each by its own wait, so that none waits less than it must, whatever their order.
      await passFor(each, sql`(due_at - now())`, sql`due_at > now()`);
      await each.execute(sql`select pg_notify('pullscore', 'sync'), pg_notify('pullscore', 'rescore')`);
    });
  }

  /** Waits until no pull request has to be fetched or scored. */
  function rest(): Promise<void> {
    let before: string | undefined;
    let progressed = performance.now();
    return until(async () => {
      const left = await readOne<{ requests: number; waiting: number; last: string; ranges: number }>(sql`
        select count(*)::int as requests, (count(*) filter (where due_at > now()))::int as waiting,
          max(last_error) as last, (select count(*)::int from rescore_ranges where organisation_id = ${id}) as ranges
        from sync_requests where organisation_id = ${id}`);
      if (left.requests === 0 && left.ranges === 0) return undefined;
      const state = JSON.stringify(left);
      const now = performance.now();
      if (state !== before) progressed = now;
      before = state;
      const isStuck = now - progressed > stuckAfterMs;
      if (left.waiting > 0 || isStuck) await passTime(isStuck);
      if (isStuck) progressed = now;
      await delay(50);
      return `nothing settles: ${state}`;
    });
  }

  /** Counts pull requests that the sweep has yet to request, as if its last run was an hour ago. */
  async function unswept(): Promise<number> {
    await executor.execute(sql`update organisations set swept_at = now() - interval '1 hour' where id = ${id}`);
    const { count } = await readOne<{ count: number }>(sql`
      select count(*)::int from pull_requests where organisation_id = ${id} and fetched_at < now() - interval '1 day'
        and ${isInPresentRepository(id)}`);
    return count;
  }

  const endLease = () =>
    executor.execute(sql`update organisations set comparison_leased_until = now() where id = ${id}`);

  const settling = {
    async makeDue(): Promise<void> {
      await beginHour();
      await transaction(each =>
        each.execute(sql`
          update organisations set comparison_due_at = now(),
            comparison_again_at = ${earlier('comparison_again_at', sql`greatest(interval '0', comparison_due_at - now())`)}
          where id = ${id}`),
      );
    },

    /** Lets days go by, with comparisons that list the members and fetch all that is stored again. */
    async compareWhole(): Promise<void> {
      await transaction(async each => {
        await each.execute(sql`update organisations set members_due_at = now() where id = ${id}`);
        await each.execute(
          sql`update pull_requests set fetched_at = now() - interval '2 days' where organisation_id = ${id}`,
        );
      });
      await unswept();
      await until(async () => {
        await settling.makeDue();
        await settling.compare();
        return (await unswept()) > 0 ? 'the sweep does not continue' : undefined;
      });
    },

    /** Lets time go by for requests that wait. */
    pass: (seconds: number) =>
      transaction(async each => {
        await passFor(each, sql`make_interval(secs => ${seconds})`);
        await each.execute(sql`select pg_notify('pullscore', 'sync')`);
      }),

    /** Completes the organisation's due comparison. */
    compare: (): Promise<void> =>
      until(async () => {
        await arena.attempt(service => compareOrganisation(service));
        const { seconds, leaseSeconds } = await readOne<{ seconds: number; leaseSeconds: number | null }>(sql`
          select extract(epoch from comparison_due_at - now())::float8 as seconds, (
            extract(epoch from nullif(comparison_leased_until, 'epoch') - now())
          )::float8 as "leaseSeconds" from organisations where id = ${id}`);
        // Its next turn is far off: it has been compared.
        if (leaseSeconds === null && seconds > minComparisonSeconds) return undefined;
        // It waits. Otherwise another replica is at work, or was killed.
        if (leaseSeconds === null && seconds > 0) await settling.makeDue();
        else if (leaseSeconds !== null && leaseSeconds < staleLeaseSeconds) await endLease();
        else if (leaseSeconds !== null) await delay(50);
        return `it is not compared with GitHub: due in ${seconds} s`;
      }),

    /**
     * Waits until no pull request has to be fetched or scored, and the organisation need not be compared. Leases and
     * waits run out, as if time went by.
     */
    settle: () =>
      // A comparison that finds a renaming makes work.
      until(async () => {
        await rest();
        if (differences.length > 0) return undefined;
        const { isDue } = await readOne<{ isDue: boolean }>(sql`
          select comparison_due_at < now() + make_interval(secs => ${minComparisonSeconds})
            or comparison_leased_until > 'epoch' as "isDue"
          from organisations where id = ${id}`);
        if (!isDue) return undefined;
        await settling.compare();
        return 'nothing settles: comparisons keep making work';
      }),
  };
  return settling;
}
