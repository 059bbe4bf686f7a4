import type { StoredPullRequest } from '../src/database/pull-requests.ts';
import type { RuleAction, RuleDefinition } from '../src/scoring/rule.ts';
import type { BreakdownEntry } from '../test/scoring/support.ts';

/** A stored pull request with its repository's name. */
export type ScoredFacts = StoredPullRequest & { repository: string };

/** The effect of a rule, written independently; undefined if its condition is false. */
type Effect = (facts: ScoredFacts) => number | undefined;

const rule = (name: string, action: RuleAction, expression: string, value: string, effect: Effect) => ({
  name,
  action,
  expression,
  value,
  effect,
});

/** Lines of the files that match: those added (`column` 0), or also those removed. */
const linesOf = ({ files, fileChanges }: ScoredFacts, matches: (path: string) => boolean, column?: 0): number =>
  files.reduce((sum, path, index) => {
    const [added = 0, removed = 0] = (fileChanges ?? []).slice(2 * index);
    return matches(path) ? sum + added + (column === 0 ? 0 : removed) : sum;
  }, 0);

/** Rules that together read every type of fact, one that changes without the pull request, and each side of a file's lines. */
export const rulePool = [
  rule('Merged', 'ADD', 'merged', '10', f => (f.state === 'merged' ? 10 : undefined)),
  rule('Size', 'ADD', 'size > 0', 'min(50, per(size, 3))', f =>
    Math.min(50, Math.floor((f.additions + f.deletions) / 3)),
  ),
  rule('Halves', 'SUBTRACT', 'commits > 1', 'commits / 2', f =>
    f.commits > 1 ? Math.round(f.commits / 2) : undefined,
  ),
  rule('Approved', 'ADD', 'approvals > 0', '3 * approvals', f => 3 * f.approvals),
  rule('Bug', 'ADD', 'has_label("BUG")', '5', f => (f.labels.includes('bug') ? 5 : undefined)),
  rule('Text', 'ADD', 'true', 'length(body)', f => [...f.body].length),
  rule('First review', 'ADD', 'true', 'hours_to_first_review * 3600', f =>
    f.firstReviewAt === null ? undefined : f.firstReviewAt - f.createdAt,
  ),
  rule('Moved', 'ADD', 'contains(repository, "-moved") || starts_with(repository, "other")', '7', f =>
    f.repository.includes('-moved') || f.repository.startsWith('other') ? 7 : undefined,
  ),
  rule('Milestone', 'ADD', 'milestone != "bug"', '2', f =>
    f.milestone !== null && f.milestone !== 'bug' ? 2 : undefined,
  ),
  rule(
    'Files',
    'ADD',
    'any_file("src/**")',
    '2 * count_files("src/**")',
    f => 2 * f.files.filter(path => path.startsWith('src/')).length,
  ),
  rule('Lines', 'SUBTRACT', 'lines_except("docs/**") > 0', 'added("src/**") / 10', f =>
    linesOf(f, path => !path.startsWith('docs/')) > 0
      ? Math.round(linesOf(f, path => path.startsWith('src/'), 0) / 10)
      : undefined,
  ),
  rule('Rework', 'SUBTRACT', 'merged_by != "ghost"', 'times_changes_requested + bot_reviews', f =>
    f.mergedBy === null || f.mergedBy === 'ghost' ? undefined : (f.timesChangesRequested ?? 0) + (f.botReviews ?? 0),
  ),
] as const;

export const movedPlace = rulePool.findIndex(({ name }) => name === 'Moved');

/** Some rules of the pool, in this order. */
export type Ruleset = readonly { place: number; enabled: boolean }[];

const pooled = (ruleset: Ruleset) =>
  ruleset.flatMap(({ place, enabled }) => {
    const found = rulePool[place];
    return found === undefined ? [] : [{ ...found, enabled }];
  });

export const definitionsOf = (ruleset: Ruleset): RuleDefinition[] =>
  pooled(ruleset).map(({ name, expression, action, value, enabled }) => ({
    name,
    description: '',
    is_enabled: enabled,
    logic: [{ expression, effect: { action, value } }],
  }));

/** What the rules give, computed without the service's rule language. */
export function scoreOf(ruleset: Ruleset, facts: ScoredFacts): { score: number; breakdown: BreakdownEntry[] } {
  const breakdown = pooled(ruleset).flatMap(({ name, action, expression, effect, enabled }) => {
    const points = enabled ? (effect(facts) ?? 0) : 0;
    return points === 0 ? [] : [{ name, action, effect: points, expression }];
  });
  const score = breakdown.reduce((sum, { action, effect }) => sum + (action === 'ADD' ? effect : -effect), 0);
  return { score, breakdown };
}
