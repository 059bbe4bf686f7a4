import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { LRUCache } from 'lru-cache';
import { findRulesetVersion, type RuleRow, readRules } from '../database/rules.ts';
import { formatId } from '../ids.ts';
import { errorResponses } from './error-replies.ts';
import { dataOf, sendList } from './pagination.ts';
import { RuleEffectAction } from './pull-requests.ts';
import { closedObject, namedObject } from './validation.ts';

export const Rule = namedObject('Rule', {
  id: Type.String({ description: 'Identifier' }),
  name: Type.String({ description: 'Name' }),
  description: Type.String({ description: 'Description' }),
  is_enabled: Type.Boolean({ description: 'Whether the rule is enabled' }),
  logic: Type.Array(
    closedObject({
      expression: Type.String({ description: 'The effect applies if this is true' }),
      effect: closedObject({
        action: Type.Ref(RuleEffectAction),
        value: Type.String({ description: 'Expression for how much to add or subtract' }),
      }),
    }),
  ),
  created_at: Type.Integer({ description: 'Creation time, Unix seconds' }),
});

export const ruleRoutes: FastifyPluginAsyncTypebox = async app => {
  const { database } = app.deps;
  /** By organisation and version. Requests that come together share one: it may have 20 MB. */
  const lists = new LRUCache<string, readonly string[], string>({
    maxSize: 32 * 1024 * 1024,
    sizeCalculation: rules => rules.reduce((size, rule) => size + rule.length, 1),
    fetchMethod: async (_key, _stale, { context: organisationId }) =>
      (await readRules(database, organisationId)).map(represent),
    ignoreFetchAbort: true,
  });

  app.get(
    '/rules',
    {
      schema: {
        operationId: 'rules.index',
        summary: 'List all rules',
        description: 'Rules that the account has access to, sorted by creation date, most recent first.',
        tags: ['Rules'],
        response: {
          200: Type.Unsafe<Readable>(dataOf(Type.Array(Type.Ref(Rule)), 'The rules')),
          ...errorResponses(),
        },
      },
    },
    async ({ caller }, reply) => {
      const { organisationId } = caller;
      // Rules that are applied meanwhile come under the version before: it is not asked for again.
      const version = await findRulesetVersion(database, organisationId);
      const rules = await lists.fetch(`${organisationId} ${version}`, { context: organisationId });
      return sendList(reply, rules ?? []);
    },
  );
};

/** The logic is JSON already. */
const represent = ({ id, name, description, isEnabled, logic, createdAt }: RuleRow) =>
  `{"id":"${formatId('rul', id)}","name":${JSON.stringify(name)},"description":${JSON.stringify(description)},` +
  `"is_enabled":${isEnabled === 't'},"logic":${logic},"created_at":${createdAt}}`;
