import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { listScoreChanges } from '../../database/explanations.ts';
import { badRequest } from '../../errors.ts';
import { createFairQueue } from '../../fair-queue.ts';
import { formatId } from '../../ids.ts';
import { parseTarget, readExplanation, representChange } from '../../reports/explanation.ts';
import { parsePeriod } from '../../reports/period.ts';
import { readStandings, readWeeks } from '../../reports/standings.ts';
import { errorResponses } from '../error-handlers.ts';
import { getMember, MemberParams } from '../members.ts';
import { notModified, sendTagged } from '../page-cache.ts';
import { dataOf } from '../pagination.ts';
import { getPullRequest, PullRequestParams } from '../pull-requests.ts';
import { whileConnected } from '../replies.ts';
import { closedObject, Nullable, namedObject, stringEnum } from '../validation.ts';
import { reviewerFields } from './pull-request.ts';

/** Each has a connection of its own. Standings of a million pull requests take seconds. */
const maxSnapshots = 4;

const Total = {
  pull_requests: Type.Integer({ description: 'How many pull requests count' }),
  score: Type.Integer({ description: 'The sum of their scores' }),
};

const ReviewTotal = {
  reviews: Type.Integer({ description: 'How many reviews by members count' }),
  review_score: Type.Integer({ description: 'What these reviews are worth' }),
  total: Type.Integer({ description: '`score` and `review_score`' }),
};

/** Rows with hundreds of rules can have a megabyte each. */
const maxRuleBytes = 4_000_000;

const RuleTotals = (description: string) =>
  Type.Optional(
    Type.Array(
      closedObject({
        name: Type.String({ description: 'Name of the rule' }),
        score: Type.Integer({ description: 'What it gave less what it took' }),
        share: Type.Number({ description: 'Its share of the net points of all rules, signs ignored' }),
      }),
      { description },
    ),
  );

const Standings = namedObject('Standings', {
  organisation: Type.String({ description: "The organisation's login" }),
  of: stringEnum(['members', 'repositories'], { description: 'Whose totals they are' }),
  by: stringEnum(['created', 'merged'], { description: 'Which date decides whether a pull request counts' }),
  since: Nullable(Type.String(), 'The first day, UTC'),
  until: Nullable(Type.String(), 'The last day, UTC'),
  ruleset_version: Type.Integer({ description: 'The version of the rules in force' }),
  outdated: Type.Integer({ description: 'How many stored scores have yet to be recalculated' }),
  ...Total,
  ...ReviewTotal,
  ranked: Type.Integer({ description: 'How many members or repositories have a rank' }),
  rules: RuleTotals('What each rule gave and took in all. With `by_rule`, but not with `member`'),
  standings: Type.Array(
    closedObject({
      rank: Type.Integer({ description: 'From 1; equal totals have the same' }),
      id: Type.String({ description: 'Identifier of the member or repository' }),
      name: Type.String({ description: 'Name' }),
      login: Type.Optional(Type.String({ description: "A member's login" })),
      left: Type.Optional(Type.Boolean({ description: 'Whether a member has left' })),
      ...Total,
      mean: Type.Number({ description: 'Score per pull request, in hundredths; 0 without one' }),
      ...ReviewTotal,
      rules: RuleTotals(
        'With `by_rule`. The last rows have none if there are very many rows and rules; ask for a row by `member`',
      ),
    }),
    { description: 'Highest total first' },
  ),
});

const ExplainedPart = namedObject('ExplainedPart', {
  source: Type.String({ description: 'As written in the rule; if it is long, its beginning' }),
  kind: stringEnum(['operation', 'fact', 'definition', 'constant'], { description: 'What it is' }),
  value: Type.Union([Type.Number(), Type.String(), Type.Boolean(), Type.Array(Type.String()), Type.Null()], {
    description: 'Null if it is absent or infinite',
  }),
  infinite: Type.Optional(Type.Boolean({ description: 'Whether the value is infinite' })),
  characters: Type.Optional(Type.Integer({ description: 'Of the whole text of which the value is the beginning' })),
  note: Type.String({ description: 'Why it has this value; may be empty' }),
  chosen: Type.Boolean({ description: 'False for the side of a `?` that was not chosen' }),
  parts: Type.Array(Type.Ref('ExplainedPart')),
});

const ExplainedRules = Type.Array(
  closedObject({
    name: Type.String({ description: 'Name of the rule' }),
    enabled: Type.Boolean({ description: 'Whether it is enabled' }),
    problems: Type.Array(Type.String(), { description: 'Why it does not count, if it is no longer valid' }),
    entries: Type.Array(
      closedObject({
        entry: Type.Integer({ description: 'Its place in the rule, from 1' }),
        action: Type.Ref('RuleEffectAction'),
        expression: Type.String({ description: 'The whole condition' }),
        value: Type.String({ description: 'Expression for how much to add or subtract' }),
        outcome: Type.String({ description: '`counted`, or why it did not count' }),
        effect: Type.Integer({ description: 'What is added or subtracted; 0 if it did not count' }),
        reason: Type.String({ description: 'Why, in words' }),
        condition: Type.Union([Type.Ref('ExplainedPart'), Type.Null()]),
        amount: Type.Union([Type.Ref('ExplainedPart'), Type.Null()]),
      }),
    ),
  }),
);

const Explanation = namedObject('Explanation', {
  id: Type.String({ description: 'Identifier of the pull request' }),
  url: Type.String({ description: 'Its page' }),
  organisation: Type.String({ description: "The organisation's login" }),
  repository: Type.String({ description: 'Its repository, `owner/name`' }),
  repository_left_at: Nullable(Type.Integer(), 'When the repository was seen to have left, Unix seconds'),
  repository_ignored_because: Nullable(Type.String(), 'Why the organisation ignores the repository'),
  number: Type.Integer({ description: 'Pull-request number' }),
  title: Type.String({ description: 'Title' }),
  author: Type.String({ description: "The author's login" }),
  state: Type.Ref('PullRequestState'),
  score: Type.Integer({ description: 'The stored score' }),
  ruleset_version: Type.Integer({ description: 'The version that is explained' }),
  ruleset_version_in_force: Type.Integer({ description: 'The version in force' }),
  outdated: Type.Boolean({ description: 'Whether the score has yet to be recalculated' }),
  score_in_force: Type.Integer({ description: 'The score that the version in force gives' }),
  explained_score: Type.Integer({ description: 'The score that the rules below give' }),
  sum: Type.Integer({ description: 'The sum of all effects; the score is limited to 32 bits' }),
  rules: ExplainedRules,
  reviews: Type.Array(
    closedObject({
      ...reviewerFields,
      score: Type.Integer({ description: 'What the rules below give the reviewer' }),
      sum: Type.Integer({ description: 'The sum of all effects; the score is limited to 32 bits' }),
      rules: ExplainedRules,
    }),
    { description: 'The first 50 reviews that rules score, or fewer if the rules are very long' },
  ),
  would_change: Type.Array(
    closedObject({
      rule: Type.String({ description: 'Name of the rule' }),
      entry: Type.Integer({ description: 'Its entry, from 1' }),
      effect: Nullable(Type.Integer(), 'What it would add, negative if it would subtract; null if that depends'),
      once: Type.Array(Type.String(), { description: 'The parts of its condition that are false' }),
    }),
    { description: 'What would still change the score: entries whose condition is false. Empty if it is closed' },
  ),
});

const ScoreChange = namedObject('ScoreChange', {
  changed_at: Type.Integer({ description: 'When, Unix seconds' }),
  from: Nullable(Type.Integer(), 'The score before; null when the pull request was first seen'),
  to: Type.Integer({ description: 'The score after' }),
  cause: stringEnum(['pull_request', 'ruleset'], {
    description:
      'Why: a fetch found the pull request changed, or it was scored again: by other rules, ' +
      'after a renaming, or after somebody was erased',
  }),
  ruleset_version: Type.Integer({ description: 'The version of the rules that gave the score' }),
  changes: Type.Integer({ description: 'How many changes these are: old ones are kept by month' }),
});

const Week = namedObject('Week', {
  week: Type.String({ description: 'Its Monday, such as 2026-11-23; weeks are UTC' }),
  ...Total,
  ...ReviewTotal,
});

export const reportSchemas = [Standings, Week, ExplainedPart, Explanation, ScoreChange];

export const reportRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;
  const inTurn = createFairQueue(maxSnapshots);
  const Day = (description: string) => Type.Optional(Type.String({ description }));
  const Period = {
    since: Day('The first day that counts, UTC, such as 2026-10-01'),
    until: Day('The last day that counts, UTC, such as 2026-10-31'),
    by: Type.Optional(
      stringEnum(['created', 'merged'], {
        default: 'created',
        description: 'Which date decides whether a pull request counts',
      }),
    ),
  };

  app.get(
    '/standings',
    {
      schema: {
        operationId: 'standings.show',
        summary: 'Total the scores of members or repositories',
        description:
          'Pull requests of repositories that have left do not count; those of members who have left do. A review counts ' +
          'for the member who gave it, or for the repository, if its pull request does.',
        tags: ['Standings'],
        querystring: closedObject({
          ...Period,
          of: Type.Optional(
            stringEnum(['members', 'repositories'], { default: 'members', description: 'Whose totals to give' }),
          ),
          by_rule: Type.Optional(Type.Boolean({ description: 'Whether to show what each rule gave and took, too' })),
          member: Type.Optional(
            Type.String({ description: 'Only the row of the member with this id. Its rank is the one among all' }),
          ),
        }),
        response: {
          200: dataOf(Type.Unsafe<object>(Type.Ref('Standings')), 'The standings'),
          ...errorResponses('bad_request', ['not_found', 'There is no member with this id']),
        },
      },
    },
    async ({ caller: { organisationId }, query }, reply) => {
      const { by = 'created', of = 'members', by_rule: withRules = false, member, ...days } = query;
      const parameter = 'member';
      if (member !== undefined && of !== 'members') {
        throw badRequest('member is for standings of members.', undefined, { parameter });
      }
      const row = member === undefined ? undefined : await getMember(database, organisationId, member, { parameter });
      const signal = whileConnected(reply);
      const { file: _, ...data } = await inTurn(organisationId, signal, () =>
        readStandings(
          database,
          organisationId,
          { by, of, ...days },
          { withRules, maxRuleBytes, only: row?.id, signal },
        ),
      );
      return { data };
    },
  );

  app.get(
    '/members/:member/weeks',
    {
      schema: {
        operationId: 'members.weeks.index',
        summary: "Total a member's scores by week",
        description:
          'The first week first. A review is in the week of its pull request. Weeks in which nothing counts are left out.',
        tags: ['Members'],
        params: MemberParams,
        querystring: closedObject(Period),
        response: {
          200: dataOf(Type.Unsafe<object[]>(Type.Array(Type.Ref('Week'))), 'The weeks'),
          ...notModified,
          ...errorResponses('bad_request', ['not_found', 'There is no member with this id']),
        },
      },
    },
    async (request, reply) => {
      const { organisationId } = request.caller;
      const { by = 'created', ...days } = request.query;
      const period = parsePeriod({ by, ...days });
      const { id } = await getMember(database, organisationId, request.params.member);
      const signal = whileConnected(reply);
      const data = await inTurn(organisationId, signal, () => readWeeks(database, organisationId, id, period, signal));
      return sendTagged(request, reply, Buffer.from(JSON.stringify({ data }))) as never;
    },
  );

  const ofPullRequest = { tags: ['Pull requests'], params: PullRequestParams };
  const unknown = ['not_found', 'There is no pull request with this id'] as const;

  app.get(
    '/pull-requests/:pullRequest/explanation',
    {
      schema: {
        ...ofPullRequest,
        operationId: 'pull-requests.explanation.show',
        summary: 'Explain a score',
        description: 'Each entry of each rule with the values of its parts, and what would still change the score.',
        response: {
          200: dataOf(Type.Unsafe<object>(Type.Ref('Explanation')), 'How the score was calculated'),
          ...errorResponses(unknown, 'rules_suspended'),
        },
      },
    },
    async ({ caller: { organisationId }, params }, reply) => {
      const signal = whileConnected(reply);
      const { id } = await getPullRequest(database, organisationId, params.pullRequest);
      const {
        file: _,
        history: __,
        ...explanation
      } = await inTurn(organisationId, signal, () =>
        readExplanation(app.deps, parseTarget(formatId('pr', id)), { organisationId, signal }),
      );
      return { data: explanation };
    },
  );

  app.get(
    '/pull-requests/:pullRequest/scores',
    {
      schema: {
        ...ofPullRequest,
        operationId: 'pull-requests.scores.index',
        summary: 'List how a score changed',
        description: 'The latest 1,000 changes, most recent first.',
        response: {
          200: dataOf(Type.Unsafe<object[]>(Type.Array(Type.Ref('ScoreChange'))), 'The changes'),
          ...notModified,
          ...errorResponses(unknown),
        },
      },
    },
    async (request, reply) => {
      const { organisationId } = request.caller;
      const { id } = await getPullRequest(database, organisationId, request.params.pullRequest);
      const data = (await listScoreChanges(database.executor, organisationId, id)).map(representChange);
      return sendTagged(request, reply, Buffer.from(JSON.stringify({ data }))) as never;
    },
  );
};
