import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { isDatabaseUnavailable } from '../src/database/failures.ts';
import { getOrganisation, setWebhooksEnabled } from '../src/database/organisations.ts';
import { applyRuleset } from '../src/database/rules.ts';
import { type ErrorCode, ServiceError } from '../src/errors.ts';
import { importPullRequests } from '../src/sync/import.ts';
import { syncMembers } from '../src/sync/members.ts';
import { reconcileOrganisation } from '../src/sync/reconcile.ts';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Arena, Replica } from './arena.ts';
import { isHere, type ModelOrganisation, type ModelPullRequest, standingOf } from './model.ts';
import { definitionsOf, type Ruleset } from './rules.ts';
import { count, type Tally } from './tally.ts';
import { isMember } from './versions.ts';

export interface Webhook {
  guid: string;
  event: WebhookEvent;
  /** Whose webhook it is; undefined where they are not tracked. */
  organisation: ModelOrganisation | undefined;
  pullRequest: ModelPullRequest | undefined;
  tries: number;
}

/** What operators and GitHub do to the service. What it may not answer is written to `differences`. */
export interface ServiceSide {
  deliver(webhook: Webhook, via: number): Promise<void>;
  applyRules(organisation: ModelOrganisation, ruleset: Ruleset, via: number): Promise<void>;
  setWebhooks(organisation: ModelOrganisation, enabled: boolean, via: number): Promise<void>;
  /** Once; false where GitHub or the replica failed on the way. @param since of GitHub's seconds; undefined is all */
  importAll(organisation: ModelOrganisation, via: number, since?: number): Promise<boolean>;
  /** Once; false where GitHub or the replica failed on the way. */
  syncMembers(organisation: ModelOrganisation, via: number): Promise<boolean>;
  /** Sees a reading of the member list through, and so many imports. */
  readAll(organisation: ModelOrganisation, imports: number): Promise<void>;
  /** Sees a comparison of the organisation through, which is due. */
  reconcile(organisation: ModelOrganisation, via: number): Promise<void>;
  makeDue(organisation: ModelOrganisation): Promise<void>;
  /**
   * Until no pull request waits to be fetched or scored, and no organisation to be compared. Leases and waits run out,
   * as if time went by.
   */
  settle(organisations: readonly ModelOrganisation[]): Promise<void>;
}

/** Milliseconds without progress after which leases of replicas that may be dead are let run out. */
const patience = 100;

/** Milliseconds after which it is given up that anything settles. */
const mostPatience = 15_000;

/** Rounds after which comparisons that keep making each other due are taken to do so for good. */
const mostRounds = 50;

/** What faults of GitHub's come to. */
const githubFailures: readonly ErrorCode[] = ['github_failed', 'github_timeout', 'github_rate_limited'];

/** Those that the service acts on. */
const interesting =
  /^(pull_request(_review|_review_comment|_review_thread)?\b|organization (member_added|member_removed|renamed)$|repository (renamed|transferred)$)/;

export const isRenaming = ({ event, action }: WebhookEvent) => event === 'organization' && action === 'renamed';

export function createServiceSide(arena: Arena, tally: Tally, differences: string[]): ServiceSide {
  const { executor } = arena.database;

  /** Tries on, as an operator would, where a replica was killed at it. @throws what no outage explains */
  async function insist<Result>(via: number, work: (replica: Replica) => Promise<Result>): Promise<Result> {
    for (let tried = 0; ; tried += 1) {
      try {
        return await work(await arena.replica(via + tried));
      } catch (error) {
        if (!isDatabaseUnavailable(error) || tried === 50) throw error;
        await delay(20);
      }
    }
  }

  /** False where GitHub or the replica failed. @throws what neither explains */
  async function attempt(via: number, work: (replica: Replica) => Promise<unknown>): Promise<boolean> {
    try {
      await work(await arena.replica(via));
      return true;
    } catch (error) {
      const isGithubs = error instanceof ServiceError && githubFailures.includes(error.code);
      if (!isGithubs && !isDatabaseUnavailable(error) && (error as Error).name !== 'AbortError') throw error;
      return false;
    }
  }

  /** Tries on until it succeeds, while waits run out. */
  async function persist({ id, github }: ModelOrganisation, what: string, once: () => Promise<boolean>): Promise<void> {
    for (const begin = performance.now(); !(await once()); await passTime([id])) {
      if (performance.now() - begin > mostPatience) {
        differences.push(`${github.login}: ${what} fails for good`);
        return;
      }
      await delay(10);
    }
  }

  /** Waits, blocks and leases of these organisations end now, and the loops hear of it. */
  const passTime = (ids: readonly string[]) =>
    arena.database.transaction(each =>
      each.execute(sql`
        with limits as (delete from github_limits),
          requests as (update sync_requests set due_at = now() where organisation_id = any(${sql.param(ids)}::uuid[])
            and due_at > now())
        select pg_notify('pullscore', 'sync'), pg_notify('pullscore', 'rescore')`),
    );

  async function makeDue({ id }: ModelOrganisation): Promise<void> {
    await arena.database.transaction(each =>
      each.execute(sql`
        with limits as (delete from github_limits)
        update organisations set reconcile_due_at = now() where id = ${id}`),
    );
  }

  const side: ServiceSide = {
    async deliver(webhook, via) {
      const { event, guid, organisation, pullRequest } = webhook;
      const name = `${event.event} ${event.action}`;
      const wasTried = webhook.tries > 0;
      webhook.tries += 1;
      const { status, body } = await arena.deliver(via, event, guid);
      count(tally, `deliveries answered ${status}`);
      // A replica that was killed at it, which is as good as no answer.
      if (status === 503) return organisation?.notices.take(event, false);
      const expected =
        organisation === undefined
          ? 'not one that is tracked|nothing depends'
          : !interesting.test(name)
            ? 'nothing depends'
            : !organisation.webhooksEnabled
              ? 'webhooks are disabled'
              : wasTried
                ? 'Taken|applied already'
                : 'Taken';
      if (!new RegExp(expected).test(body) || (status === 202) !== body.includes('Taken')) {
        differences.push(`a delivery of ${name} was answered ${status} ${body}, not “${expected}”`);
      }
      if (status !== 202 || organisation === undefined) return;
      organisation.acknowledged.add(guid);
      organisation.notices.take(event, true);
      if (isRenaming(event)) organisation.isRenamingTold = true;
      if (pullRequest === undefined || !isHere(pullRequest, organisation)) return;
      const standing = standingOf(pullRequest, organisation);
      if (isMember(pullRequest.source) || standing.seen !== undefined) {
        standing.acknowledged = pullRequest.versions.length - 1;
      }
    },

    async applyRules(organisation, ruleset, via) {
      const rules = definitionsOf(ruleset);
      await insist(via, ({ deps }) => deps.database.transaction(each => applyRuleset(each, organisation.id, rules)));
      const same = JSON.stringify(rules) === JSON.stringify(definitionsOf(organisation.ruleset));
      if (!same || organisation.rulesetVersion === 0) organisation.rulesetVersion += 1;
      organisation.ruleset = ruleset;
    },

    async setWebhooks(organisation, enabled, via) {
      await insist(via, ({ deps }) => setWebhooksEnabled(deps.database.executor, organisation.id, enabled));
      organisation.webhooksEnabled = enabled;
    },

    importAll: (organisation, via, since) =>
      attempt(via, async ({ deps }) => {
        const interrupt = new AbortController();
        await importPullRequests(deps, await getOrganisation(deps.database.executor, organisation.id), {
          since,
          signal: interrupt.signal,
          // An operator who won't wait for GitHub stops it, and goes on with it later.
          onProgress: ({ waitingSeconds }) => waitingSeconds !== undefined && interrupt.abort(),
        });
      }),

    syncMembers: (organisation, via) =>
      attempt(via, async ({ deps }) =>
        syncMembers(deps, await getOrganisation(deps.database.executor, organisation.id)),
      ),

    async readAll(organisation, imports) {
      await persist(organisation, 'reading the member list', () => side.syncMembers(organisation, 0));
      for (let done = 0; done < imports; done += 1) {
        await persist(organisation, 'an import', () => side.importAll(organisation, 0));
      }
    },

    makeDue,

    async reconcile(organisation, via) {
      const { id, github } = organisation;
      let waited = performance.now();
      for (const begin = waited; ; ) {
        await attempt(via, ({ deps }) => reconcileOrganisation(deps));
        const { rows } = await executor.execute<{ seconds: number }>(
          sql`select extract(epoch from reconcile_due_at - now())::float8 as seconds from organisations where id = ${id}`,
        );
        const seconds = rows[0]?.seconds ?? 0;
        // Next in its turn: it has been compared.
        if (seconds > 3_600) return;
        const now = performance.now();
        if (now - begin > mostPatience) {
          differences.push(`${github.login} is not compared with GitHub: due in ${seconds} s`);
          return;
        }
        // Longer than a lease: it failed, and waits. Else another is at it, or was killed at it.
        if (seconds > 11 || (seconds > 0 && now - waited > patience)) {
          await makeDue(organisation);
          waited = now;
        } else if (seconds > 0) await delay(8);
      }
    },

    async settle(organisations) {
      const ids = organisations.map(({ id }) => id);
      // A comparison makes work where it finds a renaming, and another organisation due where it takes its login away.
      for (let round = 0; round < mostRounds; round += 1) {
        if (!(await rest(ids)) || differences.length > 0) return;
        for (const organisation of organisations) {
          if (organisation.webhooksEnabled) await side.reconcile(organisation, 0);
        }
        const { rows } = await executor.execute<{ at_rest: boolean }>(sql`
          select not exists (select from sync_requests where organisation_id = any(${sql.param(ids)}::uuid[]))
            and not exists (select from rescore_ranges where organisation_id = any(${sql.param(ids)}::uuid[]))
            and not exists (select from organisations where id = any(${sql.param(ids)}::uuid[]) and webhooks_enabled
              and reconcile_due_at < now() + interval '1 hour') as at_rest`);
        if (rows[0]?.at_rest ?? true) return;
      }
      differences.push('nothing settles: comparisons keep making work');
    },
  };

  /** Until no pull request waits to be fetched or scored; false where that does not come. */
  async function rest(ids: readonly string[]): Promise<boolean> {
    const begin = performance.now();
    let progressed = begin;
    for (let before = ''; ; ) {
      const { rows } = await executor.execute<{ requests: number; failed: number; ranges: number; last: string }>(sql`
        select count(*)::int as requests,
          count(*) filter (where last_error is not null and due_at > now())::int as failed,
          (select count(*)::int from rescore_ranges where organisation_id = any(${sql.param(ids)}::uuid[])) as ranges,
          max(last_error) as last
        from sync_requests where organisation_id = any(${sql.param(ids)}::uuid[])`);
      const [state] = rows;
      if (state === undefined || (state.requests === 0 && state.ranges === 0)) return true;
      const now = performance.now();
      if (now - begin > mostPatience) {
        differences.push(`nothing settles: ${JSON.stringify(state)}`);
        return false;
      }
      if (JSON.stringify(state) !== before) progressed = now;
      before = JSON.stringify(state);
      if (state.failed > 0 || now - progressed > patience) {
        await passTime(ids);
        progressed = now;
      }
      await delay(12);
    }
  }

  return side;
}
