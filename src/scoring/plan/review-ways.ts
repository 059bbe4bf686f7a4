/** The cheap ways in which people can gain points for reviews: see `createReviewAudit`. */
import type { Facts, ReviewFacts } from '../facts.ts';
import type { TypedExpression } from '../language/tree.ts';
import { type Change, comparisonsWith, split } from './audit-ways.ts';

const trivialComments = 10;

/** Of one rule's list or comparison, any name that is left will do. */
const maxNameLists = 20;

/** A friend approves at once, without a comment. @param names the first of them that has no part in it yet */
const approve =
  (names: readonly string[], isRequested: boolean): Change =>
  facts => {
    const reviews = facts.given_reviews ?? [];
    const reviewer = names.find(name => name !== facts.author && reviews.every(review => review.reviewer !== name));
    if (reviewer === undefined) return undefined;
    const stamp: ReviewFacts = {
      reviewer,
      member: reviewer,
      verdict: 'approved',
      review_comments: 0,
      hours_to_review: 0,
      reviewer_is_member: true,
      reviewer_may_write: true,
      reviewer_is_bot: false,
      was_requested: isRequested,
    };
    return {
      ...facts,
      given_reviews: [stamp, ...reviews],
      reviews: facts.reviews + 1,
      approvals: facts.approvals + 1,
      writer_approvals: facts.writer_approvals + 1,
      distinct_reviewers: facts.distinct_reviewers === null ? null : facts.distinct_reviewers + 1,
      review_decision: facts.review_decision === 'REVIEW_REQUIRED' ? 'APPROVED' : facts.review_decision,
      hours_to_first_review: 0,
      hours_from_ready_to_first_review: facts.ready_at === null ? null : 0,
    };
  };

/** Each person, in place of one review, gives one for each comment, or a comment and a verdict. */
const reviewOften: Change = facts => {
  const people = peopleIn(facts);
  const more = people.reduce((sum, { review_comments: comments }) => sum + Math.max(1, comments - 1), 0);
  return people.length === 0 ? undefined : { ...facts, reviews: facts.reviews + more };
};

const commentMore: Change = facts => ({
  ...facts,
  given_reviews: (facts.given_reviews ?? []).map(review =>
    review.reviewer_is_bot ? review : { ...review, review_comments: review.review_comments + trivialComments },
  ),
});

const peopleIn = (facts: Facts) => (facts.given_reviews ?? []).filter(({ reviewer_is_bot: isBot }) => !isBot);

/** Who reviews, as the rules name them. */
function namesIn(trees: readonly TypedExpression[]): string[][] {
  const lists = new Map<string, string[]>();
  for (const { texts } of comparisonsWith(trees, 'reviewer')) {
    if (texts.length > 0) lists.set(texts.join('\n'), texts);
  }
  return [...lists.values()].slice(0, maxNameLists);
}

/** The changes to try for each way, of which the best counts. @param trees of the rules, for the names in them */
export function reviewChangesOf(trees: readonly TypedExpression[]) {
  const friends = [['a-friend'], ...namesIn(trees)];
  const approvals = friends.flatMap(names => [approve(names, false), approve(names, true)]);
  return {
    rubber_stamp: approvals,
    split_review: [reviewOften, split],
    trivial_comments: [commentMore],
    mutual_approval: approvals,
  } satisfies Record<string, readonly Change[]>;
}

export type ReviewWay = keyof ReturnType<typeof reviewChangesOf>;

/** In the order in which reports list them if they gain equally. */
export const reviewWays = Object.keys(reviewChangesOf([])) as ReviewWay[];
