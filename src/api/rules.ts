import { Type } from '@sinclair/typebox';
import { LRUCache } from 'lru-cache';
import type { Database } from '../database/client.ts';
import { findRulesetVersion, type RuleRow, readRules } from '../database/rules.ts';
import { formatId } from '../ids.ts';
import { bytesOf } from './pagination.ts';
import { closedObject, namedObject, stringEnum } from './validation.ts';

export const RuleEffectAction = stringEnum(['ADD', 'SUBTRACT'], {
  $id: 'RuleEffectAction',
  description: 'Action taken by the rule',
});

export const ruleFields = {
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
};

export const Rule = namedObject('Rule', {
  id: Type.String({ description: 'Identifier' }),
  ...ruleFields,
  created_at: Type.Integer({ description: 'Creation time, Unix seconds' }),
});

/** @returns a function that gives the rules in force, each as the bytes of its JSON, and their version */
export function createRuleLists(database: Database) {
  /** By organisation and version. Requests that come together share one: it may have 20 MB. */
  const lists = new LRUCache<string, readonly Buffer[], string>({
    maxSize: 32 * 1024 * 1024,
    sizeCalculation: rules => rules.reduce((size, rule) => size + rule.length, 1),
    fetchMethod: async (_key, _stale, { context: organisationId }) =>
      (await readRules(database, organisationId)).map(represent),
    ignoreFetchAbort: true,
  });
  return async (organisationId: string) => {
    for (let version = await findRulesetVersion(database, organisationId); ; ) {
      const key = `${organisationId} ${version}`;
      const isKnown = lists.has(key);
      const rules = (await lists.fetch(key, { context: organisationId })) ?? [];
      const latest = isKnown ? version : await findRulesetVersion(database, organisationId);
      if (latest === version) return { version: Number(version), rules };
      // Others were applied while these were read. The version before is not asked for again.
      version = latest;
    }
  };
}

/** The logic is JSON already. */
const represent = ({ id, name, description, isEnabled, logic, createdAt }: RuleRow) =>
  bytesOf(
    `{"id":"${formatId('rul', id)}","name":${JSON.stringify(name)},"description":${JSON.stringify(description)},` +
      `"is_enabled":${isEnabled === 't'},"logic":${logic},"created_at":${createdAt}}`,
  );
