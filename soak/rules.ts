import type { StoredPullRequest } from '../src/database/pull-requests.ts';
import type { Reviewer } from '../src/pull-request.ts';
import type { RuleAction, RuleDefinition } from '../src/scoring/rule.ts';
import type { Ruleset as WholeRuleset } from '../src/scoring/ruleset.ts';
import type { BreakdownEntry } from '../test/scoring/support.ts';

/** A stored pull request with its repository's name. */
export type ScoredFacts = StoredPullRequest & { repository: string };

/** The effect of a rule, written independently; undefined if its condition is false. */
type Effect = (facts: ScoredFacts, review: Reviewer) => number | undefined;

const rule = (
  name: string,
  action: RuleAction,
  expression: string,
  value: string,
  effect: Effect,
  isOfReviews = false,
) => ({
  name,
  action,
  expression,
  value,
  effect,
  isOfReviews,
});

const reviewRule = (...[name, action, expression, value, effect]: Parameters<typeof rule>) =>
  rule(name, action, expression, value, effect, true);

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
  reviewRule('Review by a member', 'ADD', 'reviewer_is_member', '5', (_, { member }) => (member === null ? 0 : 5)),
  reviewRule('Approval', 'ADD', 'verdict == "approved"', '1 + 2 * review_comments', (_, { verdict, comments }) =>
    verdict === 'approved' ? 1 + 2 * comments : 0,
  ),
  reviewRule(
    'Soon',
    'ADD',
    'true',
    'hours_to_review * 3600',
    ({ readyAt, createdAt }, { firstReviewAt, requestedAt }) =>
      Math.max(0, firstReviewAt - Math.max(readyAt ?? createdAt, requestedAt ?? 0)),
  ),
  reviewRule('Asked', 'SUBTRACT', 'was_requested && !reviewer_may_write', '3', (_, { requestedAt, mayWrite }) =>
    requestedAt !== null && !mayWrite ? 3 : 0,
  ),
  reviewRule('By a bot', 'ADD', 'reviewer_is_bot', '1', (_, { isBot }) => (isBot ? 1 : 0)),
  reviewRule('Rita', 'ADD', 'contains(reviewer, "rita")', '4', (_, { login }) => (login?.includes('rita') ? 4 : 0)),
  reviewRule(
    'Review of what moved',
    'ADD',
    'contains(repository, "-moved")',
    'additions',
    ({ repository, additions }) => (repository.includes('-moved') ? additions : 0),
  ),
] as const;

export const movedPlace = rulePool.findIndex(({ name }) => name === 'Moved');

/** Some rules of the pool, in this order. */
export type Ruleset = readonly { place: number; enabled: boolean }[];

const pooled = (ruleset: Ruleset, isOfReviews: boolean) =>
  ruleset.flatMap(({ place, enabled }) => {
    const found = rulePool[place];
    return found?.isOfReviews === isOfReviews ? [{ ...found, enabled }] : [];
  });

export function definitionsOf(ruleset: Ruleset): WholeRuleset {
  const of = (isOfReviews: boolean): RuleDefinition[] =>
    pooled(ruleset, isOfReviews).map(({ name, expression, action, value, enabled }) => ({
      name,
      description: '',
      is_enabled: enabled,
      logic: [{ expression, effect: { action, value } }],
    }));
  return { definitions: [], rules: of(false), reviews: of(true) };
}

function sumOf(rules: ReturnType<typeof pooled>, effectOf: (effect: Effect) => number | undefined) {
  const breakdown: BreakdownEntry[] = rules.flatMap(({ name, action, expression, effect, enabled }) => {
    const points = enabled ? (effectOf(effect) ?? 0) : 0;
    return points === 0 ? [] : [{ name, action, effect: points, expression }];
  });
  const score = breakdown.reduce((sum, { action, effect }) => sum + (action === 'ADD' ? effect : -effect), 0);
  return { score, breakdown };
}

/** What the rules give, computed without the service's rule language. */
export function scoreOf(ruleset: Ruleset, facts: ScoredFacts) {
  const enabled = pooled(ruleset, true).filter(rule => rule.enabled);
  // Those that do not name bots give them nothing.
  const own = (isBot: boolean) => enabled.filter(({ expression }) => !isBot || expression.includes('reviewer_is_bot'));
  const reviews = (facts.reviewers ?? []).flatMap(review => {
    const rules = own(review.isBot);
    if (rules.length === 0) return [];
    const { login: reviewer, member } = review;
    return [{ reviewer, member, ...sumOf(rules, effect => effect(facts, review)) }];
  });
  const nobody = { member: null, login: null } as Reviewer;
  return {
    ...sumOf(pooled(ruleset, false), effect => effect(facts, nobody)),
    reviews: reviews.length === 0 ? null : reviews,
  };
}
