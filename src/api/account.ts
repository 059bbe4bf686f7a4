import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { findUserRow } from '../database/users.ts';
import { formatId } from '../ids.ts';
import { unauthenticated } from './authentication.ts';
import { errorResponses } from './errors.ts';
import { dataOf } from './pagination.ts';

const Account = Type.Object(
  {
    id: Type.String({ description: 'Identifier' }),
    name: Type.String({ description: 'Name' }),
    profile_photo_url: Type.String({ description: 'URL of the profile photo' }),
    created_at: Type.Integer({ description: 'Creation time, Unix seconds' }),
  },
  { additionalProperties: false, $id: 'Account', description: 'The user who holds the token' },
);

export const accountRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;
  app.addSchema(Account);

  app.get(
    '/account',
    {
      schema: {
        operationId: 'v202504.account.show',
        summary: 'Get the current account',
        tags: ['Account'],
        response: {
          200: dataOf(Type.Ref(Account), 'The account tied to the credential'),
          ...errorResponses(),
        },
      },
    },
    async ({ caller }) => {
      const row = await findUserRow(database, caller.organisationId, caller.userId);
      // The user was removed a moment ago, and the token with them.
      if (row === undefined) throw unauthenticated();
      const { id, name, photoUrl, createdAt } = row;
      return {
        data: { id: formatId('usr', id), name, profile_photo_url: photoUrl, created_at: Number(createdAt) },
      };
    },
  );
};
