import { type TSchema, Type } from '@sinclair/typebox';
import { ways } from '../../scoring/plan/audit-ways.ts';
import { reviewWays } from '../../scoring/plan/review-ways.ts';
import { RuleEffectAction } from '../rules.ts';
import { closedObject, Nullable, namedObject, stringEnum } from '../validation.ts';

const Count = (description: string) => Type.Integer({ description });

const Way = stringEnum(ways, { description: 'A cheap way to change a pull request' });
const ReviewWay = stringEnum(reviewWays, { description: 'A cheap way to review, or to be reviewed' });

const Figures = {
  share: Type.Number({ description: 'Of the pull requests, how many gain points, from 0 to 1' }),
  median_gain: Type.Number({ description: 'Of those that gain; 0 if none does' }),
  largest_gain: Count('What the best of them gains'),
  rules: Type.Array(
    closedObject({
      name: Type.String({ description: 'Name of the rule' }),
      share: Type.Number({ description: 'Of all points gained, from 0 to 1' }),
    }),
    { description: 'Which rules pay, the largest share first' },
  ),
};

const Audited = {
  pull_requests: Count('How many pull requests were changed: all that are stored, or a sample'),
  stored_pull_requests: Count('How many pull requests are stored, also those that standings leave out'),
};

const AuditedWays = (way: TSchema, points: string) =>
  Type.Array(
    closedObject({
      way,
      ...Figures,
      example: Nullable(
        closedObject({
          id: Type.String({ description: 'Identifier of the pull request' }),
          url: Type.String({ description: 'Its page' }),
          before: Count(`${points} as it is`),
          after: Count(`${points} if it is changed; the sum if it becomes several`),
        }),
        'The pull request that gains most; null if none gains',
      ),
    }),
    { description: 'The ways that gain on most pull requests first' },
  );

export const Audit = namedObject('Audit', {
  organisation: Type.String({ description: "The organisation's login" }),
  ...Audited,
  ways: AuditedWays(Way, 'Its score'),
  reviews: Nullable(
    closedObject({ ways: AuditedWays(ReviewWay, 'The points for its reviews, plus its score for `mutual_approval`,') }),
    'How points for reviews can be gained; null if no rules are for them',
  ),
});

const Scores = closedObject({
  sum: Count('The sum of all scores'),
  mean: Nullable(Type.Number(), 'Null without pull requests'),
  median: Nullable(Type.Number(), 'Null without pull requests'),
  minimum: Nullable(Type.Integer(), 'Null without pull requests'),
  maximum: Nullable(Type.Integer(), 'Null without pull requests'),
});

const EntrySide = closedObject({
  pull_requests: Count('For how many pull requests it counts'),
  points: Count('What it gives or takes in all'),
});

const RuleSide = closedObject({
  enabled: Type.Boolean({ description: 'Whether the rule is enabled' }),
  valid: Type.Boolean({ description: 'False for a stored rule that this release no longer accepts' }),
  ...EntrySide.properties,
});

const PlannedMoves = Type.Array(
  closedObject({
    id: Type.String({ description: 'Identifier of the pull request' }),
    repository: Type.String({ description: 'Its repository, `owner/name`' }),
    number: Count('Pull-request number'),
    title: Type.String({ description: 'Title' }),
    url: Type.String({ description: 'Its page' }),
    member: Type.String({ description: "The member's login" }),
    from: Count('The score by the rules in force'),
    to: Count('The score by the file'),
  }),
  { description: 'The largest changes first, up to 25' },
);

const Compared = {
  rule_changes: closedObject({
    added: Count('Rules that are new'),
    removed: Count('Rules that go'),
    changed: Count('Rules that differ'),
    unchanged: Count('Rules that stay as they are'),
    reordered: Type.Boolean({ description: 'Whether rules that stay change their order' }),
  }),
  pull_requests: closedObject({
    total: Count('All that are stored, also those that standings leave out'),
    changed: Count('Those whose score would change'),
    raised: Count('Those whose score would rise'),
    lowered: Count('Those whose score would fall'),
    breakdown_only: Count('Those that would keep their score, from other entries'),
    outdated: Count('Pull requests whose stored score has yet to be recalculated'),
  }),
  scores: closedObject({ before: Scores, after: Scores }),
  histogram: Type.Array(
    closedObject({
      from: Nullable(Type.Integer(), 'Lowest score that counts here; null if there is none'),
      to: Nullable(Type.Integer(), 'Lowest score that is too high to count here; null if there is none'),
      before: Count('How many pull requests have such a score'),
      after: Count('How many would have such a score'),
    }),
  ),
  rules: Type.Array(
    closedObject({
      name: Type.String({ description: 'Name of the rule' }),
      status: stringEnum(['added', 'removed', 'changed', 'unchanged'], { description: 'What becomes of the rule' }),
      changes: Type.Array(
        stringEnum(['description', 'enabled', 'when', 'logic', 'definitions'], { description: 'What differs' }),
      ),
      before: Nullable(RuleSide, 'Null if the rule is new'),
      after: Nullable(RuleSide, 'Null if the rule goes'),
      entries: Type.Array(
        closedObject({
          expression: Type.String({ description: 'The whole condition' }),
          action: Type.Ref(RuleEffectAction),
          value: Type.String({ description: 'Expression for how much to add or subtract' }),
          before: Nullable(EntrySide, 'Null if the rules in force lack the entry, or have its rule disabled'),
          after: Nullable(EntrySide, 'Null if the file lacks the entry, or has its rule disabled'),
        }),
      ),
    }),
    { description: 'In the order of the file, then those that go' },
  ),
  members: Type.Array(
    closedObject({
      id: Type.String({ description: 'Identifier of the member' }),
      login: Type.String({ description: 'Login on GitHub' }),
      name: Type.String({ description: 'Name' }),
      pull_requests: Count('How many pull requests they have'),
      changed: Count('How many of them would change their score'),
      before: Count('The sum of their scores'),
      after: Count('The sum that they would have'),
      rank_before: Count('Their rank, from 1; equal sums share it'),
      rank_after: Count('The rank that they would have'),
    }),
    { description: 'Highest new sum first' },
  ),
};

const AuditComparison = (way: TSchema) =>
  Nullable(
    closedObject({
      ...Audited,
      ways: Type.Array(
        closedObject({
          way,
          status: stringEnum(['none', 'new', 'gone', 'worse', 'better', 'same'], {
            description: 'How the file differs: `none` if nobody gains on either side',
          }),
          before: closedObject(Figures),
          after: closedObject(Figures),
        }),
        { description: 'The ways that gain most by the file first' },
      ),
    }),
    'How both can be gamed; null without `audit`',
  );

/** What `readPlan` gives; on each side, `before` is by the rules in force and `after` by the file. */
export const Plan = namedObject('Plan', {
  organisation: Type.String({ description: "The organisation's login" }),
  ruleset_version: Count('The version in force; 0 before any rules were applied'),
  changes: Type.Boolean({ description: 'Whether the file would change a rule' }),
  definition_changes: closedObject({
    added: Count('Definitions that are new'),
    removed: Count('Definitions that go'),
    changed: Count('Definitions that differ'),
  }),
  ...Compared,
  movers: closedObject({ raised: PlannedMoves, lowered: PlannedMoves }),
  audit: AuditComparison(Way),
  reviews: Nullable(
    closedObject({ ...Compared, audit: AuditComparison(ReviewWay) }),
    'The same of reviews, where `pull_requests`, but for `outdated`, are reviews; null if neither side has rules for them. ' +
      'On both sides all reviews count that either side scores.',
  ),
});
