import { countOutdated } from '../database/backlog.ts';
import type { Executor } from '../database/client.ts';
import { createFactsReader } from '../database/facts.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests } from '../database/pull-requests.ts';
import { getRuleset } from '../database/rules.ts';
import { isSampled, readFacts, readSnapshot, type StoredFacts } from '../database/snapshot.ts';
import { type Audit, createAudit } from '../scoring/plan/audit.ts';
import { createPlan } from '../scoring/plan/plan.ts';
import { compareRules } from '../scoring/plan/rule-changes.ts';
import type { RuleDefinition } from '../scoring/rule.ts';
import { type CheckedRuleset, checkRuleset, describeProblem, type RuleKind, type Ruleset } from '../scoring/ruleset.ts';
import type { Work } from './work.ts';

/** An audit of more pull requests reads a sample: its shares are off by about one percentage point at most. */
export const maxAudited = 10_000;

/** Visits pull requests, each in its turn. */
async function visit(
  work: Work,
  batches: AsyncIterable<Iterable<StoredFacts>>,
  add: (pullRequest: StoredFacts) => Promise<void> | undefined,
): Promise<void> {
  let done = 0;
  for await (const batch of batches) {
    for (const pullRequest of batch) {
      const turn = work.turn();
      if (turn !== undefined) await turn;
      const added = add(pullRequest);
      if (added !== undefined) await added;
      done += 1;
    }
    work.progress(done);
  }
}

/** Gives audits the same pull requests. @returns how many are stored */
async function runAudits(work: Work, executor: Executor, organisationId: string, audits: readonly Audit[]) {
  const stored = await countPullRequests(executor, organisationId);
  const share = Math.min(1, maxAudited / Math.max(1, stored));
  const facts = new Set(audits.flatMap(audit => [...audit.facts]));
  const add = async ({ id, facts }: StoredFacts) => {
    for (const audit of audits) {
      for (const _ of audit.add(id, facts)) {
        const turn = work.turn();
        if (turn !== undefined) await turn;
      }
    }
  };
  await visit(work, readFacts(executor, organisationId, createFactsReader(facts), isSampled(share)), add);
  return stored;
}

const hasReviews = ({ reviews }: CheckedRuleset) => reviews.length > 0;

/** Searches rules for ways to game them. Writes nothing. @returns `reviews`: null if no rules are for them */
export function audit(work: Work, { organisationId, ruleset }: { organisationId: string; ruleset: Ruleset }) {
  return readSnapshot(
    work.database,
    async executor => {
      const checked = checkRuleset(ruleset, () => work.alive());
      const audit = createAudit(checked, 'rules');
      const reviews = hasReviews(checked) ? createAudit(checked, 'reviews') : null;
      const stored = await runAudits(work, executor, organisationId, reviews === null ? [audit] : [audit, reviews]);
      return { stored, ...audit.result(), reviews: reviews?.result() ?? null };
    },
    work.signal,
  );
}

/** Suspended rules count for nothing. To run them would end the process of a plan, too. */
function withoutEntries({ rules, reviews }: Ruleset): CheckedRuleset {
  const check = (rule: RuleDefinition) => {
    return { rule, entries: [], problems: [describeProblem(rule.name, null, 'logic', 'it is suspended')] };
  };
  return { rules: rules.map(check), reviews: reviews.map(check) };
}

/**
 * Scores all stored pull requests by the rules in force and by others, in one snapshot. Writes nothing.
 *
 * @returns `version`: the one in force, 0 if no rules have been applied yet; `outdated`: how many stored scores are older;
 * `reviews`: the same of them, null if neither side has rules for them
 */
export function plan(
  work: Work,
  { organisationId, ruleset, withAudit }: { organisationId: string; ruleset: Ruleset; withAudit: boolean },
) {
  const alive = () => work.alive();
  return readSnapshot(
    work.database,
    async executor => {
      const { rulesetVersion: version } = await getOrganisation(executor, organisationId);
      // Not the stored scores: they may still be those of an earlier version.
      const inForce = await getRuleset(executor, organisationId, version);
      const outdated = await countOutdated(executor, organisationId);
      await work.turn();
      // Patterns take most of the time, so plans and audits share what is checked.
      const before = inForce.suspension === null ? checkRuleset(inForce, alive) : withoutEntries(inForce);
      const sides = [before, checkRuleset(ruleset, alive)] as const;
      const compare = (of: RuleKind) => {
        const plan = createPlan(...sides, of);
        const audits = (withAudit ? sides : []).map(side => {
          alive();
          return createAudit(side, of);
        });
        const result = (stored: number) => {
          const [before, after] = audits.map(audit => audit.result());
          return {
            changes: compareRules(inForce, ruleset, of, alive),
            result: plan.result(),
            audits: before && after ? { stored, before, after } : null,
          };
        };
        return { plan, audits, result };
      };
      const rules = compare('rules');
      const reviews = sides.some(hasReviews) ? compare('reviews') : undefined;
      const both = reviews === undefined ? [rules] : [rules, reviews];
      const reader = createFactsReader(new Set(both.flatMap(({ plan }) => [...plan.facts])));
      await visit(work, readFacts(executor, organisationId, reader), ({ id, memberId, facts }) => {
        for (const { plan } of both) plan.add(id, memberId, facts);
        return undefined;
      });
      const audits = both.flatMap(comparison => comparison.audits);
      const stored = withAudit ? await runAudits(work, executor, organisationId, audits) : 0;
      return { version, outdated, ...rules.result(stored), reviews: reviews?.result(stored) ?? null };
    },
    work.signal,
  );
}
