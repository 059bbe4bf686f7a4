import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import type { Database } from '../../database/client.ts';
import { type MemberRow, readMembers } from '../../database/members.ts';
import {
  beforeAllPullRequests,
  isWhole,
  readPullRequestPage,
  type SharedRow,
} from '../../database/pull-request-pages.ts';
import { formatId } from '../../ids.ts';
import { getMember, MemberParams, memberLinks, type RepresentMember, representMember } from '../members.ts';
import { isUnixTime, PageQuery, paginate, sendList } from '../pagination.ts';
import { type RepresentPullRequest, representFields, representMemberLink } from '../pull-requests.ts';
import { versionUrl } from '../version.ts';

export const representPullRequest: RepresentPullRequest<SharedRow> = (row, base) =>
  `{${representFields(row)},"links":{${representMemberLink(row, base)}}}`;

export const represent: RepresentMember = (row, base) => representMember(row, { links: memberLinks(row, base) });

function paginatePullRequests(
  database: Database,
  request: FastifyRequest<{ Querystring: PageQuery }>,
  list: { organisationId: string; memberId?: string },
): Promise<Buffer> {
  const base = versionUrl(request);
  const member = list.memberId === undefined ? undefined : formatId('mem', list.memberId);
  return paginate(request, {
    path: `/${member === undefined ? '' : `members/${member}/`}pull-requests`,
    prefix: 'pr',
    sortedBy: 'created_at',
    valueOf: ({ createdAt }) => Number(createdAt),
    place: (time, id) => ({ ...(member !== undefined && { member_id: member }), created_at: time, id }),
    locate: (time, id) => (isUnixTime(time) ? { time, id } : undefined),
    start: beforeAllPullRequests,
    read: (direction, from, size) => readPullRequestPage(database, list, direction, from, size),
    isForPage: isWhole,
    format: (row: SharedRow) => representPullRequest(row, base),
  });
}

/** The lists that later versions have in another way. */
export const listRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;

  app.get('/members', async (request, reply) => {
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
  });

  app.get(
    '/members/:member/pull-requests',
    { schema: { params: MemberParams, querystring: PageQuery } },
    (request, reply) =>
      app.sendPage(request, reply, async () => {
        const { organisationId } = request.caller;
        const { id: memberId } = await getMember(database, organisationId, request.params.member);
        return paginatePullRequests(database, request, { organisationId, memberId });
      }),
  );

  app.get('/pull-requests', { schema: { querystring: PageQuery } }, (request, reply) => {
    const { organisationId } = request.caller;
    return app.sendPage(request, reply, () => paginatePullRequests(database, request, { organisationId }));
  });

  app.get('/rules', async ({ caller }, reply) =>
    sendList(reply, (await app.readRuleList(caller.organisationId)).rules),
  );
};
