import { hash } from 'node:crypto';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Database } from '../../database/client.ts';
import { beforeAllMembers, type MemberPageRow, readMemberPage } from '../../database/members.ts';
import { findRepositoryIds, readFilteredPage } from '../../database/pull-request-filters.ts';
import { beforeAllPullRequests, isWhole, type PullRequestRow } from '../../database/pull-request-pages.ts';
import { formatId } from '../../ids.ts';
import { errorResponses } from '../error-handlers.ts';
import { getMember, MemberParams } from '../members.ts';
import { notModified, sendTagged } from '../page-cache.ts';
import { bytesOf, dataOf, isUnixTime, jsonBytes, PageQuery, pageOf, paginate } from '../pagination.ts';
import { getPullRequest, PullRequestParams } from '../pull-requests.ts';
import { versionUrl } from '../version.ts';
import { type FilterQuery, MemberPullRequestsQuery, PullRequestsQuery, readFilter } from './filters.ts';
import { represent } from './member.ts';
import { representPullRequest } from './pull-request.ts';

/** Latest first, as the query wants them. */
async function paginatePullRequests(
  database: Database,
  request: FastifyRequest<{ Querystring: FilterQuery }>,
  path: string,
  memberId: string | undefined,
): Promise<Buffer> {
  const { organisationId } = request.caller;
  const { repositories, ...filter } = readFilter(request.query);
  const { sort, since, until } = filter;
  /** Which list it is, with which filters. */
  const list = hash('sha256', JSON.stringify([path, memberId, repositories, filter]), 'base64url').slice(0, 12);
  const repositoryIds = repositories && (await findRepositoryIds(database, organisationId, repositories));
  const base = versionUrl(request);
  return paginate(request, {
    path,
    prefix: 'pr',
    sortedBy: `${sort}_at`,
    valueOf: ({ createdAt, updatedAt, mergedAt }: PullRequestRow) =>
      Number({ created: createdAt, updated: updatedAt, merged: mergedAt }[sort]),
    place: (time, id) => ({ [`${sort}_at`]: time, id, list }),
    locate: (time, id) => (isUnixTime(time) && time >= since && time <= until ? { time, id } : undefined),
    start: { ...beforeAllPullRequests, time: until },
    read: (direction, from, size) =>
      readFilteredPage(database, organisationId, { ...filter, repositoryIds, memberId }, direction, from, size),
    isForPage: (row: PullRequestRow) => isWhole(row),
    format: row => representPullRequest(row, base),
  });
}

const MembersQuery = Type.Object({
  ...PageQuery.properties,
  login: Type.Optional(
    Type.String({
      minLength: 1,
      pattern: '^[^\\u0000]*$',
      description: 'The person with this login on GitHub, also if they have left; case does not matter',
    }),
  ),
});

export const memberListRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;

  app.get(
    '/members',
    {
      schema: {
        operationId: 'members.index',
        summary: 'List members',
        description: 'Members of the organisation, sorted by creation date, most recent first.',
        tags: ['Members'],
        querystring: MembersQuery,
        response: { 200: pageOf('Member'), ...notModified, ...errorResponses('bad_request') },
      },
    },
    async (request, reply) => {
      const { organisationId } = request.caller;
      const login = request.query.login?.toLowerCase();
      const base = versionUrl(request);
      const page = await paginate(request, {
        path: '/members',
        prefix: 'mem',
        sortedBy: 'created_at',
        valueOf: ({ microseconds }) => Number(microseconds),
        place: (microseconds, id) => ({ created_at: microseconds, id, ...(login !== undefined && { login }) }),
        locate: (microseconds, id) => (isUnixTime(microseconds, 1e6) ? { microseconds, id } : undefined),
        start: beforeAllMembers,
        read: (direction, from, { rows }) => readMemberPage(database, { organisationId, login }, direction, from, rows),
        // As byte strings.
        format: (row: MemberPageRow) => Buffer.from(JSON.stringify(represent(row, base))).toString('latin1'),
      });
      return sendTagged(request, reply, page);
    },
  );
};

export const pullRequestListRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;

  app.get(
    '/members/:member/pull-requests',
    {
      schema: {
        operationId: 'members.pull-requests.index',
        summary: 'List member pull requests',
        description: 'Pull requests of one member, latest first.',
        tags: ['Members'],
        params: MemberParams,
        querystring: MemberPullRequestsQuery,
        response: {
          200: pageOf('PullRequest'),
          ...notModified,
          ...errorResponses('bad_request', ['not_found', 'There is no member with this id']),
        },
      },
    },
    (request, reply) =>
      app.sendPage(request, reply, async () => {
        const { id } = await getMember(database, request.caller.organisationId, request.params.member);
        return paginatePullRequests(database, request, `/members/${formatId('mem', id)}/pull-requests`, id);
      }),
  );

  app.get(
    '/pull-requests',
    {
      schema: {
        operationId: 'pull-requests.index',
        summary: 'List pull requests',
        description:
          'Pull requests that the account has access to, latest first: all of them, or those that you filter.',
        tags: ['Pull requests'],
        querystring: PullRequestsQuery,
        response: {
          200: pageOf('PullRequest'),
          ...notModified,
          ...errorResponses('bad_request', ['not_found', 'There is no member with the id in `member`']),
        },
      },
    },
    (request, reply) =>
      app.sendPage(request, reply, async () => {
        const { member } = request.query;
        const { organisationId } = request.caller;
        const options = { parameter: 'member' };
        const found = member === undefined ? undefined : await getMember(database, organisationId, member, options);
        return paginatePullRequests(database, request, '/pull-requests', found?.id);
      }),
  );

  app.get(
    '/pull-requests/:pullRequest',
    {
      schema: {
        operationId: 'pull-requests.show',
        summary: 'Retrieve a pull request',
        tags: ['Pull requests'],
        params: PullRequestParams,
        response: {
          200: jsonBytes(dataOf(Type.Ref('PullRequest'), 'The pull request')),
          ...errorResponses(['not_found', 'There is no pull request with this id, or it was deleted']),
        },
      },
    },
    async (request, reply) => {
      const row = await getPullRequest(database, request.caller.organisationId, request.params.pullRequest);
      reply.type('application/json; charset=utf-8');
      return bytesOf(`{"data":${representPullRequest(row, versionUrl(request))}}`);
    },
  );
};
