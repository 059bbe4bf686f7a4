import type { Ruleset } from '../src/scoring/ruleset.ts';
import { entry, rule } from '../test/scoring/support.ts';

/** The repository's name is the one fact that changes without the pull request. */
const rules = [
  rule('Moved', entry('contains(repository, "-moved") || starts_with(repository, "other")', '7')),
  rule('Merged', entry('merged', '10')),
  rule('Size', entry('size > 0', 'min(50, per(size, 3))')),
  rule('Halves', entry('commits > 1', 'commits / 2', 'SUBTRACT')),
  rule('Approved', entry('approvals > 0', '3 * approvals')),
  rule('Bug', entry('has_label("BUG")', '5')),
  rule('Text', entry('true', 'length(body)')),
  rule('First review', entry('true', 'hours_to_first_review * 3600')),
  rule('Lines', entry('lines_except("docs/**") > 0', 'added("src/**") / 10', 'SUBTRACT')),
];

const reviews = [
  rule('Review of what moved', entry('contains(repository, "-moved")', 'additions')),
  rule('Review by a member', entry('reviewer_is_member', '5')),
  rule('Approval', entry('verdict == "approved"', '1 + 2 * review_comments')),
];

/** Rules that together read every type of fact. */
export const ruleNames = [...rules, ...reviews].map(({ name }) => name);

export function rulesetOf(names: readonly string[]): Ruleset {
  const of = (some: typeof rules) => names.flatMap(name => some.find(each => each.name === name) ?? []);
  return { definitions: [], rules: of(rules), reviews: of(reviews) };
}
