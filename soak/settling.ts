import { setTimeout as delay } from 'node:timers/promises';
import { type SQL, sql } from 'drizzle-orm';
import { isDatabaseUnavailable } from '../src/database/failures.ts';
import { type ErrorCode, ServiceError } from '../src/errors.ts';
import { reconcileOrganisation } from '../src/sync/reconcile.ts';
import type { Arena, Replica } from './arena.ts';
import type { ModelOrganisation, ModelPullRequest } from './model.ts';

/** What becomes of everything in time, without waiting for it. What does not come is written to `differences`. */
export interface Settling {
  /** Tries on until it succeeds, while waits run out. @param what for messages */
  persist(organisation: ModelOrganisation, what: string, once: () => Promise<boolean>): Promise<void>;
  /** Sees a comparison of the organisation through, which is due. */
  reconcile(organisation: ModelOrganisation, via: number): Promise<void>;
  makeDue(organisation: ModelOrganisation): Promise<void>;
  /** Days go by, with comparisons that list the members and have all that is stored fetched again. */
  compareWhole(organisation: ModelOrganisation): Promise<void>;
  /**
   * Until no pull request waits to be fetched or scored, and no organisation to be compared. Leases and waits run out,
   * as if time went by.
   *
   * @param poisoned pull requests that may wait for good
   */
  settle(organisations: readonly ModelOrganisation[], poisoned: ReadonlySet<ModelPullRequest>): Promise<void>;
  /** So much time goes by: for requests that wait. */
  pass(organisations: readonly ModelOrganisation[], seconds: number): Promise<void>;
}

/** Milliseconds without progress after which leases of replicas that may be dead are let run out. */
const patience = 100;

/** Seconds that are left of a lease which a living replica would have renewed. */
const staleLease = 4;

/** Milliseconds after which it is given up that anything settles. */
const maxPatience = 90_000;

/** Rounds after which comparisons that keep making each other due are taken to do so for good. */
const maxRounds = 50;

/** Seconds after which an organisation that was compared is due again at the earliest; one that waits for GitHub is due sooner. */
const nextComparison = 7_200;

/** What faults of GitHub's come to. */
const githubFailures: readonly ErrorCode[] = [
  'github_failed',
  'github_timeout',
  'github_rate_limited',
  'github_credentials',
];

/** Once. @returns false if GitHub or the replica failed @throws what neither explains */
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

export function createSettling(arena: Arena, differences: string[]): Settling {
  const { executor } = arena.database;

  async function persist({ id, github }: ModelOrganisation, what: string, once: () => Promise<boolean>): Promise<void> {
    for (const begin = performance.now(); !(await once()); await passTime([id], true)) {
      if (performance.now() - begin > maxPatience) {
        differences.push(`${github.login}: ${what} fails for good`);
        return;
      }
      await delay(10);
    }
  }

  /** GitHub may be asked again: the hour is over. */
  function beginHour(): SQL {
    const { limit } = arena.github;
    if (limit) limit.remaining = limit.limit;
    return sql`delete from github_limits`;
  }

  /**
   * What these organisations wait for is due now, and the loops hear of it. What is parked stays so.
   *
   * @param leases those of replicas that may be dead run out, too
   */
  const passTime = (ids: readonly string[], leases: boolean) =>
    arena.database.transaction(each =>
      each.execute(sql`
        with limits as (${beginHour()}),
          -- Each by its own wait: in the order that they come in, none waits shorter than it has to.
          requests as (update sync_requests set due_at = now(), requested_at = requested_at - (due_at - now()),
              behind_since = behind_since - (due_at - now())
            where organisation_id = any(${sql.param(ids)}::uuid[]) and due_at > now()),
          turns as (update organisations set sync_leased_until = now()
            where id = any(${sql.param(ids)}::uuid[]) and sync_leased_until > now() and ${leases})
        select pg_notify('pullscore', 'sync'), pg_notify('pullscore', 'rescore')`),
    );

  async function makeDue({ id }: ModelOrganisation): Promise<void> {
    await arena.database.transaction(each =>
      each.execute(sql`
        with limits as (${beginHour()})
        update organisations set reconcile_due_at = now(),
          reconcile_again_at = reconcile_again_at - greatest(interval '0', reconcile_due_at - now())
        where id = ${id}`),
    );
  }

  /** Pull requests that the sweep has still to ask for, an hour after the last time. */
  async function unswept(id: string): Promise<number> {
    const { rows } = await executor.execute<{ count: number }>(sql`
      with hour as (update organisations set swept_at = now() - interval '1 hour' where id = ${id})
      select count(*)::int from pull_requests
      where organisation_id = ${id} and fetched_at < now() - interval '1 day'`);
    return rows[0]?.count ?? 0;
  }

  const settling: Settling = {
    persist,

    makeDue,

    async compareWhole(organisation) {
      const { id } = organisation;
      await arena.database.transaction(each =>
        each.execute(sql`
          with old as (update pull_requests set fetched_at = now() - interval '2 days' where organisation_id = ${id})
          update organisations set members_due_at = now() where id = ${id}`),
      );
      for (let left = await unswept(id), before = left + 1; left < before; ) {
        await makeDue(organisation);
        await settling.reconcile(organisation, 0);
        before = left;
        left = await unswept(id);
        if (left === 0) return;
      }
      differences.push(`${organisation.github.login}: the sweep does not go on`);
    },

    async pass(organisations, seconds) {
      const ids = organisations.map(({ id }) => id);
      await arena.database.transaction(each =>
        each.execute(sql`
          with requests as (update sync_requests set due_at = due_at - make_interval(secs => ${seconds}),
              requested_at = requested_at - make_interval(secs => ${seconds}),
              behind_since = behind_since - make_interval(secs => ${seconds})
            where organisation_id = any(${sql.param(ids)}::uuid[]))
          select pg_notify('pullscore', 'sync')`),
      );
    },

    async reconcile(organisation, via) {
      const { id, github } = organisation;
      for (const begin = performance.now(); ; ) {
        await attempt(arena, via, ({ deps }) => reconcileOrganisation(deps));
        const { rows } = await executor.execute<{ seconds: number }>(
          sql`select extract(epoch from reconcile_due_at - now())::float8 as seconds from organisations where id = ${id}`,
        );
        const seconds = rows[0]?.seconds ?? 0;
        // Next in its turn: it has been compared.
        if (seconds > nextComparison) return;
        if (performance.now() - begin > maxPatience) {
          differences.push(`${github.login} is not compared with GitHub: due in ${seconds} s`);
          return;
        }
        // Longer than a lease: it waits. Else another is at it, or was killed at it.
        if (seconds > 11 || (seconds > 0 && seconds < staleLease)) await makeDue(organisation);
        else if (seconds > 0) await delay(8);
      }
    },

    async settle(organisations, poisoned) {
      const ids = organisations.map(({ id }) => id);
      // A comparison makes work where it finds a renaming, and another organisation due where it takes its login away.
      for (let round = 0; round < maxRounds; round += 1) {
        if (!(await rest(ids, poisoned)) || differences.length > 0) return;
        const { rows } = await executor.execute<{ id: string }>(sql`
          select id from organisations where id = any(${sql.param(ids)}::uuid[]) and webhooks_enabled
            and reconcile_due_at < now() + make_interval(secs => ${nextComparison})`);
        if (rows.length === 0) return;
        const due = organisations.filter(({ id }) => rows.some(row => row.id === id));
        await Promise.all(due.map(organisation => settling.reconcile(organisation, 0)));
      }
      differences.push('nothing settles: comparisons keep making work');
    },
  };

  /** Until no pull request waits to be fetched or scored, but for the poisoned; false if that does not come. */
  async function rest(ids: readonly string[], poisoned: ReadonlySet<ModelPullRequest>): Promise<boolean> {
    const spared = [...poisoned].map(({ source }) => source.id);
    const begin = performance.now();
    let progressed = begin;
    for (let before = ''; ; ) {
      const { rows } = await executor.execute<{ requests: number; waiting: number; ranges: number; last: string }>(sql`
        select count(*)::int as requests, (count(*) filter (where due_at > now()))::int as waiting,
          (select count(*)::int from rescore_ranges where organisation_id = any(${sql.param(ids)}::uuid[])) as ranges,
          max(last_error) as last
        from sync_requests
        where organisation_id = any(${sql.param(ids)}::uuid[]) and github_id <> all(${sql.param(spared)}::bigint[])`);
      const [state] = rows;
      if (state === undefined || (state.requests === 0 && state.ranges === 0)) return true;
      const now = performance.now();
      if (now - begin > maxPatience) {
        differences.push(`nothing settles: ${JSON.stringify(state)}`);
        return false;
      }
      if (JSON.stringify(state) !== before) progressed = now;
      before = JSON.stringify(state);
      const isStuck = now - progressed > patience;
      if (state.waiting > 0 || isStuck) await passTime(ids, isStuck);
      if (isStuck) progressed = now;
      await delay(12);
    }
  }

  return settling;
}
