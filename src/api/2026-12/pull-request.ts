import { Type } from '@sinclair/typebox';
import { formatId } from '../../ids.ts';
import { type RepresentPullRequest, representFields, representMemberLink } from '../pull-requests.ts';
import { RuleEffectAction } from '../rules.ts';
import { closedObject, Nullable, namedObject, stringEnum } from '../validation.ts';

const Link = (description: string) => Type.String({ format: 'uri', description });

export const PullRequestScore = namedObject('PullRequestScore', {
  name: Type.String({ description: 'Name of the rule that produced the score entry' }),
  action: Type.Ref(RuleEffectAction),
  effect: Type.Integer({ description: 'Effect applied by the rule' }),
  expression: Type.String({ description: 'Expression evaluated by the rule' }),
});

export const PullRequestState = stringEnum(['closed', 'draft', 'merged', 'open'], {
  $id: 'PullRequestState',
  description: 'State of the pull request',
});

/** Bots have a login, but are no members. */
export const reviewerFields = {
  reviewer: Nullable(Type.String(), 'Login of the reviewer; null if it is nobody we know'),
  member: Nullable(Type.String(), 'Identifier of the reviewer; null if they are no member, present or former'),
};

export const ReviewScore = namedObject('ReviewScore', {
  ...reviewerFields,
  score: Type.Integer({ description: 'What the review is worth to the reviewer' }),
  breakdown: Type.Array(Type.Ref('PullRequestScore'), {
    description: 'Breakdown of this score, one entry per rule contribution',
  }),
});

export const PullRequest = namedObject('PullRequest', {
  id: Type.String({ description: 'Unique identifier of the object' }),
  external_id: Type.String({ description: 'Id of the pull request on GitHub' }),
  number: Type.Integer({ description: 'Pull-request number' }),
  url: Type.String({ description: 'URL of the pull request' }),
  state: Type.Ref(PullRequestState),
  title: Type.String({ description: 'Title' }),
  body: Type.String({ description: 'Body text' }),
  additions: Type.Integer({ description: 'Number of additions' }),
  deletions: Type.Integer({ description: 'Number of deletions' }),
  commits: Type.Integer({ description: 'Number of commits' }),
  changed_files: Type.Integer({ description: 'Number of changed files' }),
  score: Type.Integer({ description: 'Score of the pull request' }),
  score_breakdown: Type.Array(Type.Ref(PullRequestScore), {
    description: 'Breakdown of the score, one entry per rule contribution',
  }),
  created_at: Type.Integer({ description: 'Creation time on GitHub, Unix seconds' }),
  repository: Type.String({ description: 'The repository, `owner/name`' }),
  author: Type.String({ description: 'Login of the author; `ghost` if the account is gone' }),
  labels: Type.Array(Type.String(), { description: 'Names of the labels' }),
  base: Type.String({ description: 'The branch into which it is to be merged' }),
  updated_at: Type.Integer({ description: 'Time of its last update on GitHub, Unix seconds' }),
  merged_at: Nullable(Type.Integer(), 'When it was merged, Unix seconds; null if it is not'),
  closed_at: Nullable(Type.Integer(), 'When it was closed or merged, Unix seconds; null if it is not'),
  ruleset_version: Type.Integer({ description: 'The version of the rules that gave the score' }),
  reviews: Type.Array(Type.Ref('ReviewScore'), {
    description: 'Reviews that rules give points, one per reviewer; empty if no rules for reviews are in force',
  }),
  links: closedObject({
    self: Link('Reference to the pull request'),
    member: Link('Reference to the member who created the pull request'),
    explanation: Link('Reference to how the score was calculated'),
    scores: Link('Reference to how the score changed'),
  }),
});

/** Labels and reviews are JSON already. */
export const representPullRequest: RepresentPullRequest = (row, base) => {
  const self = `${base}/pull-requests/${formatId('pr', row.id)}`;
  return (
    `{${representFields(row)},"repository":${JSON.stringify(row.repository)},"author":${JSON.stringify(row.author)},` +
    `"labels":${row.labels},"base":${JSON.stringify(row.base)},"updated_at":${row.updatedAt},"merged_at":${row.mergedAt},` +
    `"closed_at":${row.closedAt},"ruleset_version":${row.rulesetVersion},"reviews":${row.reviewScores ?? '[]'},` +
    `"links":{"self":"${self}",${representMemberLink(row, base)},"explanation":"${self}/explanation","scores":"${self}/scores"}}`
  );
};
