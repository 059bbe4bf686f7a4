import { Type } from '@sinclair/typebox';
import { formatId } from '../../ids.ts';
import {
  MemberLink,
  pullRequestFields,
  type RepresentPullRequest,
  representFields,
  representMemberLink,
} from '../pull-requests.ts';
import { closedObject, Nullable, namedObject } from '../validation.ts';

const Link = (description: string) => Type.String({ format: 'uri', description });

export const PullRequest = namedObject('PullRequest', {
  ...pullRequestFields,
  repository: Type.String({ description: 'The repository, `owner/name`' }),
  author: Type.String({ description: 'Login of the author; empty if the account is gone' }),
  labels: Type.Array(Type.String(), { description: 'Names of the labels' }),
  base: Type.String({ description: 'The branch into which it is to be merged' }),
  updated_at: Type.Integer({ description: 'Time of its last update on GitHub, Unix seconds' }),
  merged_at: Nullable(Type.Integer(), 'When it was merged, Unix seconds; null if it is not'),
  closed_at: Nullable(Type.Integer(), 'When it was closed or merged, Unix seconds; null if it is not'),
  ruleset_version: Type.Integer({ description: 'The version of the rules that gave the score' }),
  links: closedObject({
    self: Link('Reference to the pull request'),
    member: MemberLink,
    explanation: Link('Reference to how the score was calculated'),
    scores: Link('Reference to how the score changed'),
  }),
});

/** Labels are JSON already. */
export const representPullRequest: RepresentPullRequest = (row, base) => {
  const self = `${base}/pull-requests/${formatId('pr', row.id)}`;
  return (
    `{${representFields(row)},"repository":${JSON.stringify(row.repository)},"author":${JSON.stringify(row.author)},` +
    `"labels":${row.labels},"base":${JSON.stringify(row.base)},"updated_at":${row.updatedAt},"merged_at":${row.mergedAt},` +
    `"closed_at":${row.closedAt},"ruleset_version":${row.rulesetVersion},"links":{"self":"${self}",` +
    `${representMemberLink(row, base)},"explanation":"${self}/explanation","scores":"${self}/scores"}}`
  );
};
