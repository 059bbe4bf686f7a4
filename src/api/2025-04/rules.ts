import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { errorResponses } from '../error-handlers.ts';
import { dataOf, sendList } from '../pagination.ts';

export const ruleRoutes: FastifyPluginAsyncTypebox = async app => {
  app.get(
    '/rules',
    {
      schema: {
        operationId: 'rules.index',
        summary: 'List all rules',
        description: 'Rules that the account has access to, sorted by creation date, most recent first.',
        tags: ['Rules'],
        response: {
          200: Type.Unsafe<Readable>(dataOf(Type.Array(Type.Ref('Rule')), 'The rules')),
          ...errorResponses(),
        },
      },
    },
    async ({ caller }, reply) => sendList(reply, (await app.readRuleList(caller.organisationId)).rules),
  );
};
