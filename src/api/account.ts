import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import type { Caller } from '../database/access-tokens.ts';
import type { Executor } from '../database/client.ts';
import { findUserRow } from '../database/users.ts';
import { invalidToken } from './authentication.ts';
import { errorResponses } from './error-handlers.ts';
import { dataOf } from './pagination.ts';
import { representUser, User } from './users.ts';

export const Account = Type.Omit(User, ['email'], { $id: 'Account', description: 'The user who holds the token' });

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
          200: dataOf(Type.Unsafe<object>(Type.Ref(Account)), 'The account tied to the credential'),
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
