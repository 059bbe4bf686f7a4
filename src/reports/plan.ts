/** What a rules file would change. Nothing is saved. */
import { listMembers } from '../database/members.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests, findPullRequestReferences, type PullRequestReference } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { formatId } from '../ids.ts';
import type { ResultOf } from '../scorer/jobs.ts';
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

const nobody = { login: '', name: '' };

interface PlanDetails {
  organisation: string;
  file: string;
  /** The version in force, which the file is compared with; 0 if no rules have been applied yet. */
  version: number;
  /** How many stored scores are older than the version. */
  outdated: number;
  /** By id, at least those of the movers. */
  pullRequests: ReadonlyMap<string, Pick<PullRequestReference, 'repository' | 'number' | 'title' | 'url'>>;
  /** By public id. */
  members: ReadonlyMap<string, { login: string; name: string }>;
  /** Null if neither side has rules for them. */
  reviews: ResultOf<'plan'>['reviews'];
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
  { name, ruleset: { definitions, rules, reviews } }: { name: string; ruleset: Ruleset },
  { withAudit, signal, onProgress }: ReportOptions & { withAudit: boolean },
): Promise<PlanDocument> {
  const { executor } = database;
  const total = await countPullRequests(executor, organisationId);
  const {
    version,
    outdated,
    changes,
    result,
    audits,
    reviews: ofReviews,
  } = await scorer.run(
    'plan',
    { organisationId, ruleset: { definitions, rules, reviews }, withAudit },
    { signal, onProgress: done => onProgress?.(done, total) },
  );
  const movers = [...result.movers.raised, ...result.movers.lowered].map(mover => mover.id);
  const members = await listMembers(executor, organisationId, true);
  return planDocument(result, changes, {
    reviews: ofReviews,
    organisation: (await getOrganisation(executor, organisationId)).login,
    file: name,
    version,
    outdated,
    pullRequests: await findPullRequestReferences(executor, organisationId, movers),
    audit: audits === null ? null : compareAudits(audits),
    members: new Map(members.map(({ id, login, name }) => [formatId('mem', id), { login, name }])),
  });
}

/** What a plan says of pull requests, and of reviews. In the latter, `pull_requests` are reviews. */
function describeResult({ movers: _, ...result }: PlanResult, changes: RuleChanges, details: PlanDetails) {
  const { outdated, members } = details;
  return {
    rule_changes: {
      added: changes.added.length,
      removed: changes.removed.length,
      changed: changes.changed.length,
      unchanged: changes.unchanged,
      reordered: changes.reordered,
    },
    ...result,
    pull_requests: { ...result.pull_requests, outdated },
    rules: result.rules.map(rule => planRule(rule, changes)),
    // Reviewers are named by their public ids.
    members: result.members.map(({ id: known, ...totals }) => {
      const id = known.startsWith('mem_') ? known : formatId('mem', known);
      return { id, ...(members.get(id) ?? nobody), ...totals };
    }),
  };
}

export function planDocument(result: PlanResult, changes: RuleChanges, details: PlanDetails) {
  const { reviews } = details;
  const { rule_changes: ruleChanges, ...ofPullRequests } = describeResult(result, changes, details);
  const move = ({ id, member, from, to }: Mover) => {
    const known = details.pullRequests.get(id) ?? { repository: '', number: 0, title: '', url: '' };
    const { repository, number, title, url } = known;
    return {
      id: formatId('pr', id),
      repository,
      number,
      title,
      url,
      member: (details.members.get(formatId('mem', member)) ?? nobody).login,
      from,
      to,
    };
  };
  return {
    organisation: details.organisation,
    file: details.file,
    ruleset_version: details.version,
    // Whether the file would change a rule, and so perhaps scores.
    changes: hasChanges(changes) || (reviews !== null && hasChanges(reviews.changes)),
    rule_changes: ruleChanges,
    definition_changes: {
      added: changes.definitions.added.length,
      removed: changes.definitions.removed.length,
      changed: changes.definitions.changed.length,
    },
    ...ofPullRequests,
    movers: { raised: result.movers.raised.map(move), lowered: result.movers.lowered.map(move) },
    audit: details.audit,
    reviews: reviews && {
      ...describeResult(reviews.result, reviews.changes, details),
      audit: reviews.audits && compareAudits(reviews.audits),
    },
  };
}
