import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { findMemberRow, type MemberRow, memberExistsAnywhere, readMembers } from '../database/members.ts';
import { formatId, parseId } from '../ids.ts';
import { unauthorized } from './authentication.ts';
import { errorResponses, unknownId } from './error-replies.ts';
import { notModified } from './page-cache.ts';
import { dataOf, PageQuery, pageOf, sendList } from './pagination.ts';
import { paginatePullRequests, type RepresentPullRequest } from './pull-requests.ts';
import { closedObject } from './validation.ts';
import { versionUrl } from './version.ts';

/** The fields of a member that every version has. */
export const memberFields = {
  id: Type.String({ description: 'Identifier of the member' }),
  name: Type.String({ description: 'Name' }),
  profile_photo_url: Type.String({ description: 'URL of the profile photo' }),
  created_at: Type.Integer({ description: 'When this service first knew the member, Unix seconds' }),
};

export const MemberLinks = closedObject({
  pull_requests: Type.String({ format: 'uri', description: "Reference to the member's pull requests" }),
});

/** A member as a version shows them. @param base the address with which the version's paths begin */
export type RepresentMember = (row: MemberRow, base: string) => object;

const MemberParams = Type.Object({ member: Type.String({ description: 'Unique identifier of the member' }) });

export const representMember = ({ id, name, photoUrl, createdAt }: MemberRow) => ({
  id: formatId('mem', id),
  name,
  profile_photo_url: photoUrl,
  created_at: Number(createdAt),
});

export const memberLinks = ({ id }: MemberRow, base: string) => ({
  pull_requests: `${base}/members/${formatId('mem', id)}/pull-requests`,
});

export const memberRoutes: FastifyPluginAsyncTypebox<{
  represent: RepresentMember;
  representPullRequest: RepresentPullRequest;
}> = async (app, { represent, representPullRequest }) => {
  const { database } = app.deps;

  const getMember = async (organisationId: string, text: string): Promise<MemberRow> => {
    const id = parseId('mem', text);
    const row = id === undefined ? undefined : await findMemberRow(database, organisationId, id);
    if (row !== undefined) return row;
    if (id !== undefined && (await memberExistsAnywhere(database, id))) throw unauthorized();
    throw unknownId('member');
  };

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

  app.get(
    '/members/:member',
    {
      schema: {
        operationId: 'members.show',
        summary: 'Retrieve a member',
        tags: ['Members'],
        params: MemberParams,
        response: {
          200: dataOf(Type.Ref('Member'), 'The member'),
          ...errorResponses(['not_found', 'There is no member with this id']),
        },
      },
    },
    async request => {
      const row = await getMember(request.caller.organisationId, request.params.member);
      return { data: represent(row, versionUrl(request)) };
    },
  );

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
        const { id: memberId } = await getMember(organisationId, request.params.member);
        return paginatePullRequests(database, request, { organisationId, memberId }, representPullRequest);
      }),
  );
};
