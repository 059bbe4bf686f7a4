import type { PullRequestRecord } from '../src/pull-request.ts';
import { factsOf } from '../src/scoring/facts.ts';
import { compileRuleset, type Ruleset } from '../src/scoring/ruleset.ts';
import { entry, rule } from '../test/scoring/support.ts';

const rules = [
  rule('Merged', entry('merged', '10')),
  rule('Size', entry('size > 0', 'min(50, per(size, 3))')),
  rule('Halves', entry('commits > 1', 'commits / 2', 'SUBTRACT')),
  rule('Approved', entry('approvals > 0', '3 * approvals')),
  rule('Bug', entry('has_label("BUG")', '5')),
  rule('Text', entry('true', 'length(body)')),
  rule('First review', entry('true', 'hours_to_first_review * 3600')),
  rule('Moved', entry('contains(repository, "-moved") || starts_with(repository, "other")', '7')),
  rule('Milestone', entry('milestone != "bug"', '2')),
  rule('Files', entry('any_file("src/**")', '2 * count_files("src/**")')),
  rule('Lines', entry('lines_except("docs/**") > 0', 'added("src/**") / 10', 'SUBTRACT')),
  rule('Rework', entry('merged_by != "ghost"', 'times_changes_requested + bot_reviews', 'SUBTRACT')),
];

const reviews = [
  rule('Review by a member', entry('reviewer_is_member', '5')),
  rule('Approval', entry('verdict == "approved"', '1 + 2 * review_comments')),
  rule('Soon', entry('true', 'hours_to_review * 3600')),
  rule('Asked', entry('was_requested && !reviewer_may_write', '3', 'SUBTRACT')),
  rule('By a bot', entry('reviewer_is_bot', '1')),
  rule('Rita', entry('contains(reviewer, "rita")', '4')),
  rule('Review of what moved', entry('contains(repository, "-moved")', 'additions')),
];

/** Rules that together read every type of fact, one that changes without the pull request, and each side of a file's lines. */
const pool = [...rules, ...reviews];

export const poolSize = pool.length;
export const movedPlace = pool.findIndex(({ name }) => name === 'Moved');

/** Some rules of the pool, in this order. */
export type Choice = readonly { place: number; enabled: boolean }[];

export function rulesetOf(choice: Choice): Ruleset {
  const of = (some: typeof pool) =>
    choice.flatMap(({ place, enabled }) => {
      const found = some.find(each => each === pool[place]);
      return found === undefined ? [] : [{ ...found, is_enabled: enabled }];
    });
  return { definitions: [], rules: of(rules), reviews: of(reviews) };
}

/**
 * What the service must make of a stored pull request, whatever order its changes came in. That the language gives the
 * right numbers is held by test/scoring, with an interpreter of its own.
 */
export function createScoring(ruleset: Ruleset) {
  const { score } = compileRuleset(ruleset);
  return (record: PullRequestRecord) => score(factsOf(record));
}
