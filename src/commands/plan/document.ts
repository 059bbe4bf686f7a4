/** The result of `rules plan`: what `--json` prints, and what the text and the page are made from. */
import type { PullRequestDetails } from '../../database/plan-details.ts';
import { formatId } from '../../ids.ts';
import type { Bucket } from '../../scoring/distribution.ts';
import type { Mover, PlanResult, RuleResult, RuleSide, Share, Summary } from '../../scoring/plan.ts';
import { hasChanges, type RuleChanges } from '../../scoring/rule-changes.ts';
import type { RuleAction } from '../../scoring/ruleset.ts';

export interface PlannedShare {
  /** How many pull requests it counts for. */
  pull_requests: number;
  /** The points that it gives them in all. */
  points: number;
}

export interface PlannedEntry {
  expression: string;
  action: RuleAction;
  value: string;
  /** Null if the entry is not on that side. */
  before: PlannedShare | null;
  after: PlannedShare | null;
}

export interface PlannedRule {
  name: string;
  status: 'added' | 'removed' | 'changed' | 'unchanged';
  /** The parts that change. */
  changes: ('description' | 'enabled' | 'logic')[];
  /** Null if the rule is not on that side. A rule that is not `valid` in this release does not count. */
  before: (PlannedShare & { enabled: boolean; valid: boolean }) | null;
  after: (PlannedShare & { enabled: boolean; valid: boolean }) | null;
  /** Without those of a side on which the rule is off. */
  entries: PlannedEntry[];
}

export interface PlannedMember {
  id: string;
  login: string;
  name: string;
  pull_requests: number;
  /** How many of them change. */
  changed: number;
  before: number;
  after: number;
  rank_before: number;
  rank_after: number;
}

export interface PlannedMove {
  id: string;
  repository: string;
  number: number;
  title: string;
  url: string;
  /** Login. */
  member: string;
  from: number;
  to: number;
}

export interface PlanDocument {
  organisation: string;
  file: string;
  /** The version in force, which the file is compared with; 0 if no rules have been applied yet. */
  ruleset_version: number;
  /** Whether the file would change a rule. */
  changes: boolean;
  rule_changes: { added: number; removed: number; changed: number; unchanged: number; reordered: boolean };
  pull_requests: {
    total: number;
    changed: number;
    raised: number;
    lowered: number;
    /** Keep their score, with another breakdown. */
    breakdown_only: number;
    /** Stored scores that are older than the version in force. */
    outdated: number;
  };
  scores: { before: Summary; after: Summary };
  histogram: Bucket[];
  rules: PlannedRule[];
  members: PlannedMember[];
  movers: { raised: PlannedMove[]; lowered: PlannedMove[] };
}

const share = (given: Share | null): PlannedShare | null =>
  given === null ? null : { pull_requests: given.pullRequests, points: given.points };

const side = (given: RuleSide | null) =>
  given === null
    ? null
    : {
        enabled: given.isEnabled,
        valid: given.isValid,
        pull_requests: given.pullRequests,
        points: given.points,
      };

function planRule({ name, before, after, entries }: RuleResult, changes: RuleChanges): PlannedRule {
  const parts = changes.changed.find(change => change.name === name)?.parts ?? [];
  return {
    name,
    status: before === null ? 'added' : after === null ? 'removed' : parts.length > 0 ? 'changed' : 'unchanged',
    changes: parts,
    before: side(before),
    after: side(after),
    entries: entries.map(entry => ({
      expression: entry.logic.expression,
      action: entry.logic.effect.action,
      value: entry.logic.effect.value,
      before: share(entry.before),
      after: share(entry.after),
    })),
  };
}

export interface PlanDetails {
  organisation: string;
  file: string;
  version: number;
  /** How many stored scores are older than the version. */
  outdated: number;
  pullRequests: ReadonlyMap<string, PullRequestDetails>;
  members: ReadonlyMap<string, { login: string; name: string }>;
}

export function planDocument(result: PlanResult, changes: RuleChanges, details: PlanDetails): PlanDocument {
  const { pullRequests: total, raised, lowered } = result;
  const memberOf = (id: string) => details.members.get(id) ?? { login: '', name: '' };
  const move = ({ id, member, from, to }: Mover): PlannedMove => {
    const known = details.pullRequests.get(id) ?? { repository: '', number: 0, title: '', url: '' };
    const { repository, number, title, url } = known;
    return { id: formatId('pr', id), repository, number, title, url, member: memberOf(member).login, from, to };
  };
  return {
    organisation: details.organisation,
    file: details.file,
    ruleset_version: details.version,
    changes: hasChanges(changes),
    rule_changes: {
      added: changes.added.length,
      removed: changes.removed.length,
      changed: changes.changed.length,
      unchanged: changes.unchanged,
      reordered: changes.reordered,
    },
    pull_requests: {
      total,
      changed: raised + lowered,
      raised,
      lowered,
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
  };
}
