/** The result of `rules plan`: what `--json` prints, and what the text and the page are made from. */
import type { PullRequestDetails } from '../../database/pull-requests.ts';
import { formatId } from '../../ids.ts';
import type { Mover, PlanResult, RuleResult, RuleSide, Share } from '../../scoring/plan/plan.ts';
import { hasChanges, type RuleChanges } from '../../scoring/plan/rule-changes.ts';
import type { AuditComparison } from '../rules-audit.ts';

export type PlanDocument = ReturnType<typeof planDocument>;
export type PlannedRule = ReturnType<typeof planRule>;
export type PlannedEntry = PlannedRule['entries'][number];
export type PlannedShare = ReturnType<typeof planShare>;
export type PlannedMember = PlanDocument['members'][number];
export type PlannedMove = PlanDocument['movers']['raised'][number];

/** How many pull requests something counts for, and the points that it gives them in all. */
const planShare = ({ pullRequests, points }: Share) => ({ pull_requests: pullRequests, points });

const planSide = ({ isEnabled, isValid, ...share }: RuleSide) => ({
  enabled: isEnabled,
  // A rule that is not valid in this release does not count.
  valid: isValid,
  ...planShare(share),
});

type RuleStatus = 'added' | 'removed' | 'changed' | 'unchanged';

/** `before` or `after` is null if the rule or the entry is not on that side, or its rule is off there. */
function planRule({ name, before, after, entries }: RuleResult, changes: RuleChanges) {
  const parts = changes.changed.find(change => change.name === name)?.parts ?? [];
  const status: RuleStatus =
    before === null ? 'added' : after === null ? 'removed' : parts.length > 0 ? 'changed' : 'unchanged';
  return {
    name,
    status,
    changes: parts,
    before: before && planSide(before),
    after: after && planSide(after),
    entries: entries.map(entry => ({
      expression: entry.logic.expression,
      action: entry.logic.effect.action,
      value: entry.logic.effect.value,
      before: entry.before && planShare(entry.before),
      after: entry.after && planShare(entry.after),
    })),
  };
}

interface PlanDetails {
  organisation: string;
  file: string;
  /** The version in force, which the file is compared with; 0 if no rules have been applied yet. */
  version: number;
  /** How many stored scores are older than the version. */
  outdated: number;
  /** By id, at least those of the movers. */
  pullRequests: ReadonlyMap<string, PullRequestDetails>;
  /** By id. */
  members: ReadonlyMap<string, { login: string; name: string }>;
  /** Null if it was not asked for. */
  audit: AuditComparison | null;
}

export function planDocument(result: PlanResult, changes: RuleChanges, details: PlanDetails) {
  const { pullRequests: total, raised, lowered } = result;
  const memberOf = (id: string) => details.members.get(id) ?? { login: '', name: '' };
  const move = ({ id, member, from, to }: Mover) => {
    const known = details.pullRequests.get(id) ?? { repository: '', number: 0, title: '', url: '' };
    const { repository, number, title, url } = known;
    return { id: formatId('pr', id), repository, number, title, url, member: memberOf(member).login, from, to };
  };
  return {
    organisation: details.organisation,
    file: details.file,
    ruleset_version: details.version,
    // Whether the file would change a rule, and so perhaps scores.
    changes: hasChanges(changes),
    rule_changes: {
      added: changes.added.length,
      removed: changes.removed.length,
      changed: changes.changed.length,
      unchanged: changes.unchanged,
      reordered: changes.reordered,
    },
    definition_changes: {
      added: changes.definitions.added.length,
      removed: changes.definitions.removed.length,
      changed: changes.definitions.changed.length,
    },
    pull_requests: {
      total,
      changed: raised + lowered,
      raised,
      lowered,
      // These keep their score, with another breakdown.
      breakdown_only: result.otherBreakdown,
      outdated: details.outdated,
    },
    scores: { before: result.before, after: result.after },
    histogram: result.buckets,
    rules: result.rules.map(rule => planRule(rule, changes)),
    members: result.members.map(({ member, pullRequests, changed, before, after, rankBefore, rankAfter }) => ({
      id: formatId('mem', member),
      ...memberOf(member),
      pull_requests: pullRequests,
      changed,
      before,
      after,
      rank_before: rankBefore,
      rank_after: rankAfter,
    })),
    movers: { raised: result.movers.raised.map(move), lowered: result.movers.lowered.map(move) },
    audit: details.audit,
  };
}
