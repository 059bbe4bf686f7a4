import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { Database } from '../database/client.ts';
import { findMemberRow, type MemberRow, memberExistsAnywhere } from '../database/members.ts';
import { formatId, parseId } from '../ids.ts';
import { unauthorized } from './authentication.ts';
import { errorResponses, unknownId } from './error-handlers.ts';
import { dataOf } from './pagination.ts';
import { versionUrl } from './version.ts';

/** A member as a version shows them. @param base the address with which the version's paths begin */
export type RepresentMember = (row: MemberRow, base: string) => object;

export const MemberParams = Type.Object({ member: Type.String({ description: 'Unique identifier of the member' }) });

/**
 * Assigned, not spread: Node 20 makes a hidden class for each object that begins with a spread and goes on, which took
 * 80 MB for lists of 50,000 members.
 *
 * @param others the version's own fields
 */
export const representMember = <Others extends object>({ id, name, photoUrl, createdAt }: MemberRow, others: Others) =>
  Object.assign({ id: formatId('mem', id), name, profile_photo_url: photoUrl, created_at: Number(createdAt) }, others);

export const memberLinks = ({ id }: MemberRow, base: string) => ({
  pull_requests: `${base}/members/${formatId('mem', id)}/pull-requests`,
});

/**
 * @param options names the parameter that has the id, if it is not in the path
 * @throws ServiceError `not_found`, or `forbidden` for a member of another organisation
 */
export async function getMember(
  database: Database,
  organisationId: string,
  text: string,
  options?: { parameter: string },
): Promise<MemberRow> {
  const id = parseId('mem', text);
  const row = id === undefined ? undefined : await findMemberRow(database, organisationId, id);
  if (row !== undefined) return row;
  if (id !== undefined && (await memberExistsAnywhere(database, id))) throw unauthorized(undefined, options);
  throw unknownId('member', options);
}

export const memberRoutes: FastifyPluginAsyncTypebox<{ represent: RepresentMember }> = async (app, { represent }) => {
  const { database } = app.deps;

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
      const row = await getMember(database, request.caller.organisationId, request.params.member);
      return { data: represent(row, versionUrl(request)) };
    },
  );
};
