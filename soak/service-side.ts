import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { retrySyncRequests } from '../src/database/backlog.ts';
import { retryCheckRuns } from '../src/database/check-runs.ts';
import { eraseMembers } from '../src/database/erasure.ts';
import { isDatabaseUnavailable } from '../src/database/failures.ts';
import { listMembers } from '../src/database/members.ts';
import { getOrganisation, setWebhooksEnabled } from '../src/database/organisations.ts';
import { drawTicket } from '../src/database/tickets.ts';
import { importPullRequests } from '../src/sync/import.ts';
import { syncMembers } from '../src/sync/sync-members.ts';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Account } from '../test/support/github/world.ts';
import { applyRules } from '../test/support/tenants.ts';
import type { Arena, Replica } from './arena.ts';
import type { Announcement } from './github-side.ts';
import { type Model, type ModelOrganisation, type ModelPullRequest, standingOf } from './model.ts';
import { type Choice, rulesetOf } from './rules.ts';
import { attempt, type Settling } from './settling.ts';

const maxImportMs = 20_000;

export interface Webhook {
  guid: string;
  event: WebhookEvent;
  /** Undefined if the organisation is not tracked. */
  organisation: ModelOrganisation | undefined;
  pullRequest: ModelPullRequest | undefined;
  tries: number;
}

export function webhookOf({ event, pullRequest }: Announcement, organisations: readonly ModelOrganisation[]): Webhook {
  const { organization } = event.payload as { organization?: { id: number } };
  const organisation = organisations.find(({ github }) => github.id === organization?.id);
  return { guid: randomUUID(), event, organisation, pullRequest, tries: 0 };
}

/** Events that the service acts on; it ignores comments on unknown pull requests. */
const interesting =
  /^(pull_request(_review|_review_comment|_review_thread)? \w+|issue_comment (created|deleted)|(label|milestone) (edited|deleted)|organization (member_added|member_removed|renamed)|repository (renamed|transferred|deleted))$/;

/** What operators and GitHub do to the service. Wrong answers are added to `differences`. */
export function createServiceSide(arena: Arena, model: Model, settling: Settling, differences: string[]) {
  /** Retries, as an operator would, if a replica was killed. @throws what no outage explains */
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

  const side = {
    async deliver(webhook: Webhook, via: number): Promise<void> {
      const { event, guid, organisation, pullRequest } = webhook;
      const name = `${event.event} ${event.action}`;
      const wasTried = webhook.tries > 0;
      webhook.tries += 1;
      const { status, body } = await arena.deliver(via, event, guid);
      arena.count(`deliveries answered ${status}`);
      // From a replica that was killed: as good as no answer.
      if (status === 503) return;
      const isStored =
        organisation !== undefined &&
        pullRequest !== undefined &&
        standingOf(pullRequest, organisation).seen !== undefined;
      const expected =
        organisation === undefined
          ? 'is not tracked here|pullscore does not use'
          : !interesting.test(name)
            ? 'pullscore does not use'
            : event.event === 'issue_comment' && !isStored
              ? 'Accepted|already been applied|not stored here|webhooks are disabled'
              : !organisation.webhooksEnabled
                ? 'webhooks are disabled'
                : wasTried
                  ? 'Accepted|already been applied'
                  : 'Accepted';
      if (!new RegExp(expected).test(body) || (status === 202) !== body.includes('Accepted')) {
        differences.push(`a delivery of ${name} was answered ${status} ${body}, not “${expected}”`);
      }
      if (status !== 202 || organisation === undefined) return;
      organisation.acknowledged.add(guid);
      model.acknowledge(organisation, event, pullRequest);
    },

    async applyRules(organisation: ModelOrganisation, rules: Choice, via: number): Promise<void> {
      const given = rulesetOf(rules);
      await insist(via, ({ deps }) => applyRules(deps, organisation.id, given));
      const same = JSON.stringify(given) === JSON.stringify(rulesetOf(organisation.rules));
      if (!same || organisation.rulesetVersion === 0) organisation.rulesetVersion += 1;
      organisation.rules = rules;
    },

    async setWebhooks(organisation: ModelOrganisation, enabled: boolean, via: number): Promise<void> {
      await insist(via, ({ deps }) => setWebhooksEnabled(deps.database.executor, organisation.id, enabled));
      organisation.webhooksEnabled = enabled;
    },

    /** If they are stored. */
    erase: (organisation: ModelOrganisation, { id }: Account, via: number): Promise<void> =>
      insist(via, async ({ deps: { database } }) => {
        const people = await listMembers(database.executor, organisation.id, true);
        const person = people.find(({ githubId }) => githubId === id);
        if (person === undefined) return;
        organisation.erased.set(id, Number.POSITIVE_INFINITY);
        await eraseMembers(database, organisation.id, [person]);
        organisation.erased.set(id, await drawTicket(database.executor));
      }),

    /** Tries once; false if GitHub or the replica failed. @param since in GitHub's seconds; undefined: everything */
    importAll: (organisation: ModelOrganisation, via: number, since?: number): Promise<boolean> =>
      attempt(arena, via, async ({ deps }) => {
        const interrupt = new AbortController();
        // An operator who won't wait stops it and continues later: for GitHub, or for requests that GitHub's limit has put
        // off, which another history may have ended early since.
        const patience = setTimeout(() => interrupt.abort(), maxImportMs);
        try {
          await importPullRequests(deps, await getOrganisation(deps.database.executor, organisation.id), {
            since,
            signal: interrupt.signal,
            onProgress: ({ waitingSeconds }) => waitingSeconds !== undefined && interrupt.abort(),
          });
        } finally {
          clearTimeout(patience);
        }
      }),

    /** Tries once; false if GitHub or the replica failed. */
    syncMembers: (organisation: ModelOrganisation, via: number): Promise<boolean> =>
      attempt(arena, via, async ({ deps }) =>
        syncMembers(deps, await getOrganisation(deps.database.executor, organisation.id)),
      ),

    /** Completes an import, then another if the first continued an interrupted one, which skips what it has read. */
    async importWhole(organisation: ModelOrganisation, wasInterrupted: boolean): Promise<void> {
      for (let times = wasInterrupted ? 2 : 1; times > 0; times -= 1) {
        await settling.persist(organisation, 'an import', () => side.importAll(organisation, 0));
      }
    },

    /** Retries what was parked. */
    async retry({ id }: ModelOrganisation, via: number): Promise<void> {
      await insist(via, ({ deps }) =>
        deps.database.transaction(async executor => {
          await retrySyncRequests(executor, id);
          await retryCheckRuns(executor, id);
        }),
      );
    },
  };
  return side;
}
