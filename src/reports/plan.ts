/** What a rules file would change. Nothing is saved. */
import { listMembers } from '../database/members.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests, describePullRequests, type PullRequestDetails } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { formatId } from '../ids.ts';
import type { Mover, PlanResult, RuleResult } from '../scoring/plan/plan.ts';
import { hasChanges, type RuleChanges } from '../scoring/plan/rule-changes.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import { type AuditComparison, compareAudits } from './audit.ts';
import type { ReportOptions } from './standings.ts';

export type PlanDocument = ReturnType<typeof planDocument>;
export type PlannedRule = ReturnType<typeof planRule>;
export type PlannedMember = PlanDocument['members'][number];
export type PlannedMove = PlanDocument['movers']['raised'][number];

type RuleStatus = 'added' | 'removed' | 'changed' | 'unchanged';

/** `before` or `after` is null if the rule or the entry is not on that side, or its rule is off there. */
function planRule({ name, ...result }: RuleResult, changes: RuleChanges) {
  const parts = changes.changed.find(change => change.name === name)?.parts ?? [];
  const status: RuleStatus =
    result.before === null ? 'added' : result.after === null ? 'removed' : parts.length > 0 ? 'changed' : 'unchanged';
  return { name, status, changes: parts, ...result };
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

/**
 * Scores all stored pull requests by the rules in force and by a file's.
 *
 * @param options `withAudit`: also searches both for ways to game them
 */
export async function readPlan(
  { database, scorer }: Pick<Deps, 'database' | 'scorer'>,
  organisationId: string,
  { name, ruleset: { definitions, rules } }: { name: string; ruleset: Ruleset },
  { withAudit, signal, onProgress }: ReportOptions & { withAudit: boolean },
): Promise<PlanDocument> {
  const { executor } = database;
  const total = await countPullRequests(executor, organisationId);
  const { version, outdated, changes, result, audits } = await scorer.run(
    'plan',
    { organisationId, ruleset: { definitions, rules }, withAudit },
    { signal, onProgress: done => onProgress?.(done, total) },
  );
  const movers = [...result.movers.raised, ...result.movers.lowered].map(mover => mover.id);
  const members = await listMembers(executor, organisationId, true);
  return planDocument(result, changes, {
    organisation: (await getOrganisation(executor, organisationId)).login,
    file: name,
    version,
    outdated,
    pullRequests: await describePullRequests(executor, organisationId, movers),
    audit: audits === null ? null : compareAudits(audits),
    members: new Map(members.map(({ id, login, name }) => [id, { login, name }])),
  });
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
    members: result.members.map(({ id, ...totals }) => ({ id: formatId('mem', id), ...memberOf(id), ...totals })),
    movers: { raised: result.movers.raised.map(move), lowered: result.movers.lowered.map(move) },
    audit: details.audit,
  };
}
