import type { Database, Executor } from '../database/client.ts';
import { createFactsReader } from '../database/facts.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests } from '../database/pull-requests.ts';
import { countOutdated } from '../database/rescoring.ts';
import { getRuleset } from '../database/rules.ts';
import { isSampled, readFacts, readSnapshot } from '../database/snapshot.ts';
import type { Facts } from '../scoring/facts.ts';
import { type Audit, createAudit } from '../scoring/plan/audit.ts';
import { createPlan } from '../scoring/plan/plan.ts';
import { compareRules } from '../scoring/plan/rule-changes.ts';
import type { Ruleset } from '../scoring/ruleset.ts';

/** More are sampled: the shares are then off by about one percentage point at most. */
export const maxAudited = 10_000;

interface Options {
  signal?: AbortSignal | undefined;
  onProgress(done: number): void;
}

type StoredFacts = { id: string; memberId: string; facts: Facts };

async function visit(
  { signal, onProgress }: Options,
  batches: AsyncIterable<Iterable<StoredFacts>>,
  add: (pullRequest: StoredFacts) => void,
): Promise<void> {
  let done = 0;
  for await (const batch of batches) {
    signal?.throwIfAborted();
    for (const pullRequest of batch) {
      add(pullRequest);
      done += 1;
    }
    onProgress(done);
  }
}

/** Gives audits the same pull requests. @returns how many are stored */
async function runAudits(options: Options, executor: Executor, organisationId: string, audits: readonly Audit[]) {
  const stored = await countPullRequests(executor, organisationId);
  const share = Math.min(1, maxAudited / Math.max(1, stored));
  const facts = new Set(audits.flatMap(audit => [...audit.facts]));
  await visit(options, readFacts(executor, organisationId, createFactsReader(facts), isSampled(share)), pullRequest => {
    for (const audit of audits) audit.add(pullRequest.id, pullRequest.facts);
  });
  return stored;
}

export const audit = (
  database: Database,
  { organisationId, ruleset }: { organisationId: string; ruleset: Ruleset },
  options: Options,
) =>
  readSnapshot(database, async executor => {
    const audit = createAudit(ruleset);
    const stored = await runAudits(options, executor, organisationId, [audit]);
    return { stored, ...audit.result() };
  });

export type PlanWork = Awaited<ReturnType<typeof plan>>;

export const plan = (
  database: Database,
  { organisationId, ruleset, withAudit }: { organisationId: string; ruleset: Ruleset; withAudit: boolean },
  options: Options,
) =>
  readSnapshot(database, async executor => {
    const { rulesetVersion: version } = await getOrganisation(executor, organisationId);
    // Not the stored scores: they may still be those of an earlier version.
    const inForce = await getRuleset(executor, organisationId, version);
    const { outdated, total } = await countOutdated(executor, organisationId);
    const plan = createPlan(inForce, ruleset);
    const facts = createFactsReader(plan.facts);
    await visit(options, readFacts(executor, organisationId, facts), ({ id, memberId, facts }) =>
      plan.add(id, memberId, facts),
    );
    const audits = withAudit ? [createAudit(inForce), createAudit(ruleset)] : [];
    const stored = withAudit ? await runAudits(options, executor, organisationId, audits) : total;
    const [before, after] = audits.map(audit => audit.result());
    return {
      version,
      outdated,
      changes: compareRules(inForce, ruleset),
      result: plan.result(),
      audits: before === undefined || after === undefined ? null : { stored, before, after },
    };
  });
