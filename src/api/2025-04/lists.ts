import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Database } from '../../database/client.ts';
import { type MemberRow, readMembers } from '../../database/members.ts';
import {
  beforeAllPullRequests,
  isWhole,
  readPullRequestPage,
  type SharedRow,
} from '../../database/pull-request-pages.ts';
import { formatId, parseId } from '../../ids.ts';
import { errorResponses } from '../error-handlers.ts';
import { getMember, MemberParams, type RepresentMember } from '../members.ts';
import { notModified } from '../page-cache.ts';
import { dataOf, PageQuery, pageOf, paginate, sendList } from '../pagination.ts';
import type { RepresentPullRequest } from '../pull-requests.ts';
import { versionUrl } from '../version.ts';

export const memberListRoutes: FastifyPluginAsyncTypebox<{ represent: RepresentMember }> = async (
  app,
  { represent },
) => {
  const { database } = app.deps;

  app.get(
    '/members',
    {
      schema: {
        operationId: 'members.index',
        summary: 'List all members',
        description: 'Members of the organisation, sorted by creation date, most recent first.',
        tags: ['Members'],
        response: {
          200: Type.Unsafe<Readable>(dataOf(Type.Array(Type.Ref('Member')), 'The members')),
          ...errorResponses(),
        },
      },
    },
    async (request, reply) => {
      const base = versionUrl(request);
      const steps = readMembers(database, request.caller.organisationId);
      // The first step is awaited here: until the reply has begun, a failure is an error like any other.
      const { value: first } = await steps.next();
      const textOf = (rows: readonly MemberRow[]) => rows.map(row => JSON.stringify(represent(row, base))).join(',');
      const pieces = async function* () {
        yield textOf(first ?? []);
        for await (const rows of steps) yield textOf(rows);
      };
      return sendList(reply, pieces());
    },
  );
};

const cursorColumns = Type.Object({
  // Up to the end of the year 9999, which PostgreSQL and ISO 8601 can hold.
  created_at: Type.Integer({ minimum: 0, maximum: 253_402_300_799 }),
  id: Type.String(),
  /** In a member's list: a cursor is for its own list only. */
  member_id: Type.Optional(Type.String()),
});

function paginatePullRequests(
  database: Database,
  request: FastifyRequest<{ Querystring: PageQuery }>,
  list: { organisationId: string; memberId?: string },
  represent: RepresentPullRequest<SharedRow>,
): Promise<Buffer> {
  const base = versionUrl(request);
  const member = list.memberId === undefined ? undefined : formatId('mem', list.memberId);
  return paginate(request, {
    path: `/${member === undefined ? '' : `members/${member}/`}pull-requests`,
    columns: cursorColumns,
    locate: ({ created_at: createdAt, id: text, member_id: memberId }) => {
      const id = parseId('pr', text);
      return id === undefined || memberId !== member ? undefined : { time: createdAt, id };
    },
    start: beforeAllPullRequests,
    read: (direction, from, limit) => readPullRequestPage(database, list, direction, from, limit),
    isForPage: isWhole,
    cursorValues: (row: SharedRow) => ({
      ...(member !== undefined && { member_id: member }),
      created_at: Number(row.createdAt),
      id: formatId('pr', row.id),
    }),
    format: row => represent(row, base),
  });
}

export const pullRequestListRoutes: FastifyPluginAsyncTypebox<{ represent: RepresentPullRequest<SharedRow> }> = async (
  app,
  { represent },
) => {
  const { database } = app.deps;

  app.get(
    '/members/:member/pull-requests',
    {
      schema: {
        operationId: 'members.pull-requests.index',
        summary: 'List member pull requests',
        description: 'Pull requests of one member, sorted by creation date, most recent first.',
        tags: ['Members'],
        params: MemberParams,
        querystring: PageQuery,
        response: {
          200: pageOf('PullRequest'),
          ...notModified,
          ...errorResponses('bad_request', ['not_found', 'There is no member with this id']),
        },
      },
    },
    (request, reply) =>
      app.sendPage(request, reply, async () => {
        const { organisationId } = request.caller;
        const { id: memberId } = await getMember(database, organisationId, request.params.member);
        return paginatePullRequests(database, request, { organisationId, memberId }, represent);
      }),
  );

  app.get(
    '/pull-requests',
    {
      schema: {
        operationId: 'pull-requests.index',
        summary: 'List all pull requests',
        description: 'Pull requests that the account has access to, sorted by creation date, most recent first.',
        tags: ['Pull requests'],
        querystring: PageQuery,
        response: { 200: pageOf('PullRequest'), ...notModified, ...errorResponses('bad_request') },
      },
    },
    (request, reply) =>
      app.sendPage(request, reply, () =>
        paginatePullRequests(database, request, { organisationId: request.caller.organisationId }, represent),
      ),
  );
};
