/** What a rules file would change. Nothing is saved. */
import { listMembers } from '../database/members.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests, findPullRequestReferences, type PullRequestReference } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { formatId } from '../ids.ts';
import type { ResultOf } from '../scorer/jobs.ts';
import type { Mover, RuleResult } from '../scoring/plan/plan.ts';
import { hasChanges, type RuleChanges } from '../scoring/plan/rule-changes.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import { compareAudits } from './audit.ts';
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
  /** By id, at least those of the movers. */
  pullRequests: ReadonlyMap<string, Pick<PullRequestReference, 'repository' | 'number' | 'title' | 'url'>>;
  /** By public id. */
  members: ReadonlyMap<string, { login: string; name: string }>;
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
  const plan = await scorer.run(
    'plan',
    { organisationId, ruleset: { definitions, rules, reviews }, withAudit },
    { signal, onProgress: done => onProgress?.(done, total) },
  );
  const { raised, lowered } = plan.result.movers;
  const movers = [...raised, ...lowered].map(mover => mover.id);
  const members = await listMembers(executor, organisationId, true);
  return planDocument(plan, {
    organisation: (await getOrganisation(executor, organisationId)).login,
    file: name,
    pullRequests: await findPullRequestReferences(executor, organisationId, movers),
    members: new Map(members.map(({ id, login, name }) => [formatId('mem', id), { login, name }])),
  });
}

type Plan = ResultOf<'plan'>;

/** What a plan says of pull requests, or of reviews. In the latter, `pull_requests` are reviews. */
function describeComparison(
  { result: { movers: _, ...result }, changes, audits }: Pick<Plan, 'result' | 'changes' | 'audits'>,
  outdated: number,
  members: PlanDetails['members'],
) {
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
    audit: audits && compareAudits(audits),
  };
}

export function planDocument(plan: Plan, { organisation, file, pullRequests, members }: PlanDetails) {
  const { version, outdated, changes, reviews } = plan;
  const { movers } = plan.result;
  const { rule_changes: ruleChanges, audit, ...ofPullRequests } = describeComparison(plan, outdated, members);
  const move = ({ id, member, from, to }: Mover) => {
    const known = pullRequests.get(id) ?? { repository: '', number: 0, title: '', url: '' };
    const { repository, number, title, url } = known;
    return {
      id: formatId('pr', id),
      repository,
      number,
      title,
      url,
      member: (members.get(formatId('mem', member)) ?? nobody).login,
      from,
      to,
    };
  };
  return {
    organisation,
    file,
    ruleset_version: version,
    // Whether the file would change a rule, and so perhaps scores.
    changes: hasChanges(changes) || (reviews !== null && hasChanges(reviews.changes)),
    rule_changes: ruleChanges,
    definition_changes: {
      added: changes.definitions.added.length,
      removed: changes.definitions.removed.length,
      changed: changes.definitions.changed.length,
    },
    ...ofPullRequests,
    movers: { raised: movers.raised.map(move), lowered: movers.lowered.map(move) },
    audit,
    reviews: reviews && describeComparison(reviews, outdated, members),
  };
}
