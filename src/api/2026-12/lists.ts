import { createHash } from 'node:crypto';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Database } from '../../database/client.ts';
import { beforeAllMembers, type MemberPageRow, readMemberPage } from '../../database/members.ts';
import { findRepositoryIds, readFilteredPage } from '../../database/pull-request-filters.ts';
import { beforeAllPullRequests, isWhole, type PullRequestRow, type Sort } from '../../database/pull-request-pages.ts';
import { formatId, parseId } from '../../ids.ts';
import { maxUnixSeconds } from '../../text/times.ts';
import { errorResponses } from '../error-handlers.ts';
import { getMember, MemberParams } from '../members.ts';
import { notModified, sendTagged } from '../page-cache.ts';
import { bytesOf, dataOf, jsonBytes, PageQuery, pageOf, paginate } from '../pagination.ts';
import { getPullRequest, PullRequestParams } from '../pull-requests.ts';
import { versionUrl } from '../version.ts';
import { type FilterQuery, MemberPullRequestsQuery, PullRequestsQuery, readFilter } from './filters.ts';
import { represent } from './member.ts';
import { representPullRequest } from './pull-request.ts';

const createCursorColumns = (sort: Sort) =>
  Type.Object({
    [`${sort}_at`]: Type.Integer({ minimum: 0, maximum: maxUnixSeconds }),
    id: Type.String(),
    /** Which list it is, with which filters. */
    list: Type.String(),
  });
const cursorColumns = {
  created: createCursorColumns('created'),
  updated: createCursorColumns('updated'),
  merged: createCursorColumns('merged'),
};

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
  const list = createHash('sha256')
    .update(JSON.stringify([path, memberId, repositories, filter]))
    .digest('base64url')
    .slice(0, 12);
  const repositoryIds = repositories && (await findRepositoryIds(database, organisationId, repositories));
  const base = versionUrl(request);
  const timeOf = ({ createdAt, updatedAt, mergedAt }: PullRequestRow) =>
    Number({ created: createdAt, updated: updatedAt, merged: mergedAt }[sort]);
  return paginate(request, {
    path,
    columns: cursorColumns[sort],
    locate: place => {
      const time = Number(place[`${sort}_at`]);
      const id = parseId('pr', String(place.id));
      return id === undefined || place.list !== list || time < since || time > until ? undefined : { time, id };
    },
    start: { ...beforeAllPullRequests, time: until },
    read: (direction, from, size) =>
      readFilteredPage(database, organisationId, { ...filter, repositoryIds, memberId }, direction, from, size),
    isForPage: (row: PullRequestRow) => isWhole(row),
    cursorValues: (row: PullRequestRow) => ({ [`${sort}_at`]: timeOf(row), id: formatId('pr', row.id), list }),
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

const memberCursor = Type.Object({
  created_at: Type.Integer({ minimum: 0, maximum: maxUnixSeconds * 1e6, description: 'In microseconds' }),
  id: Type.String(),
  login: Type.Optional(Type.String()),
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
        columns: memberCursor,
        locate: ({ created_at: microseconds, id: text, login: of }) => {
          const id = parseId('mem', text);
          return id === undefined || of !== login ? undefined : { microseconds, id };
        },
        start: beforeAllMembers,
        read: (direction, from, { rows }) => readMemberPage(database, { organisationId, login }, direction, from, rows),
        cursorValues: (row: MemberPageRow) => ({
          created_at: Number(row.microseconds),
          id: formatId('mem', row.id),
          ...(login !== undefined && { login }),
        }),
        // As byte strings.
        format: row => Buffer.from(JSON.stringify(represent(row, base))).toString('latin1'),
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
