import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { Caller } from '../database/access-tokens.ts';
import type { Executor } from '../database/client.ts';
import { beforeAllUsers, findUserRow, readUserPage, type UserPageRow } from '../database/users.ts';
import { formatId } from '../ids.ts';
import { invalidToken } from './authentication.ts';
import { errorResponses } from './error-handlers.ts';
import { notModified, sendTagged } from './page-cache.ts';
import { dataOf, PageQuery, pageOf, paginate } from './pagination.ts';
import { namedObject } from './validation.ts';

export const User = namedObject('User', {
  id: Type.String({ description: 'Identifier' }),
  name: Type.String({ description: 'Name' }),
  email: Type.String({ description: 'E-mail address' }),
  profile_photo_url: Type.String({ description: 'URL of the profile photo' }),
  created_at: Type.Integer({ description: 'Creation time, Unix seconds' }),
});

/** @param row its texts as texts, or as byte strings */
export const representUser = <Text>(row: {
  id: string;
  name: Text;
  email: Text;
  photoUrl: Text;
  createdAt: string;
}) => ({
  id: formatId('usr', row.id),
  name: row.name,
  email: row.email,
  profile_photo_url: row.photoUrl,
  created_at: Number(row.createdAt),
});

/** @param options `hasTag`: whether pages have an `ETag` */
export const userRoutes: FastifyPluginAsyncTypebox<{ hasTag: boolean }> = async (app, { hasTag }) => {
  const { database } = app.deps;

  app.get(
    '/users',
    {
      schema: {
        operationId: 'users.index',
        summary: 'List all users',
        description: 'Users of the current organisation, sorted by name.',
        tags: ['Users'],
        querystring: PageQuery,
        response: { 200: pageOf('User'), ...(hasTag && notModified), ...errorResponses('bad_request') },
      },
    },
    async (request, reply) => {
      const { organisationId } = request.caller;
      reply.type('application/json; charset=utf-8');
      const page = await paginate(request, {
        path: '/users',
        prefix: 'usr',
        sortedBy: 'name',
        valueOf: ({ name }) => name,
        place: (name, id) => ({ name, id }),
        // PostgreSQL's text can't hold NUL, so no name has one.
        locate: (name, id) => (typeof name === 'string' && !name.includes('\0') ? { name, id } : undefined),
        start: beforeAllUsers,
        read: (direction, from, { rows }) => readUserPage(database, organisationId, direction, from, rows),
        format: (row: UserPageRow) => JSON.stringify(representUser(row)),
      });
      return hasTag ? sendTagged(request, reply, page) : page;
    },
  );
};

/** What a version says of the token besides. */
interface Options {
  describeToken?: (executor: Executor, caller: Caller) => Promise<object>;
}

export const accountRoutes: FastifyPluginAsyncTypebox<Options> = async (app, { describeToken }) => {
  const { database } = app.deps;

  app.get(
    '/account',
    {
      schema: {
        operationId: 'account.show',
        summary: 'Get the current account',
        tags: ['Account'],
        response: {
          200: dataOf(Type.Unsafe<object>(Type.Ref('Account')), 'The account tied to the credential'),
          ...errorResponses(),
        },
      },
    },
    async ({ caller }) => {
      const row = await findUserRow(database, caller.organisationId, caller.userId);
      // The user was removed a moment ago, and the token with them.
      if (row === undefined) throw invalidToken();
      const { email: _, ...account } = representUser(row);
      return { data: { ...account, ...(await describeToken?.(database.executor, caller)) } };
    },
  );
};
