/** The differences between two rulesets. */

import { isDeepStrictEqual } from 'node:util';
import { treesOf } from '../language/compile.ts';
import { checkDefinitions, type Definition } from '../language/definitions.ts';
import { type CheckedDefinitions, definitionsUsed } from '../language/tree.ts';
import type { RuleDefinition } from '../rule.ts';
import { checkRule, type OnStep, type RuleKind, type Ruleset } from '../ruleset.ts';

export type RuleChanges = ReturnType<typeof compareRules>;
export type DefinitionChanges = RuleChanges['definitions'];

interface RuleChange {
  name: string;
  /** What differs; `definitions` if the rule uses one whose expression does. */
  parts: ('description' | 'enabled' | 'when' | 'logic' | 'definitions')[];
  before: RuleDefinition;
  after: RuleDefinition;
}

/** The order of definitions means nothing, so it does not count. */
function compareDefinitions(before: readonly Definition[], after: readonly Definition[]) {
  const expressionsBefore = new Map(before.map(({ name, expression }) => [name, expression]));
  const namesAfter = new Set(after.map(({ name }) => name));
  return {
    added: after.filter(({ name }) => !expressionsBefore.has(name)),
    removed: before.filter(({ name }) => !namesAfter.has(name)),
    changed: after.flatMap(({ name, expression }) => {
      const known = expressionsBefore.get(name);
      return known === undefined || known === expression ? [] : [{ name, before: known, after: expression }];
    }),
  };
}

/** Tells whether a definition that a rule uses on both sides differs. A rule that is not valid uses none. */
function createDefinitionComparison(before: Ruleset, after: Ruleset, of: RuleKind, onStep?: OnStep) {
  const { checked: checkedBefore } = checkDefinitions(before.definitions, onStep);
  const { checked: checkedAfter } = checkDefinitions(after.definitions, onStep);
  const usedBy = (rule: RuleDefinition, checked: CheckedDefinitions) =>
    definitionsUsed(treesOf(checkRule(rule, checked, of, onStep).entries));
  return (known: RuleDefinition, rule: RuleDefinition): boolean => {
    const used = usedBy(rule, checkedAfter);
    return [...usedBy(known, checkedBefore)].some(
      ([name, expression]) => (used.get(name) ?? expression) !== expression,
    );
  };
}

/** Identifies rules by name, as `rules apply` does. */
export function compareRules(before: Ruleset, after: Ruleset, of: RuleKind = 'rules', onStep?: OnStep) {
  const definitions = compareDefinitions(before.definitions, after.definitions);
  const usesOther =
    definitions.changed.length === 0 ? () => false : createDefinitionComparison(before, after, of, onStep);
  const rulesBefore = new Map(before[of].map(rule => [rule.name, rule]));
  const rulesAfter = new Map(after[of].map(rule => [rule.name, rule]));
  const changed: RuleChange[] = [];
  for (const rule of rulesAfter.values()) {
    const known = rulesBefore.get(rule.name);
    if (known === undefined) continue;
    const parts: RuleChange['parts'] = [];
    if (known.description !== rule.description) parts.push('description');
    if (known.is_enabled !== rule.is_enabled) parts.push('enabled');
    if (known.when !== rule.when) parts.push('when');
    if (!isDeepStrictEqual(known.logic, rule.logic)) parts.push('logic');
    if (usesOther(known, rule)) parts.push('definitions');
    if (parts.length > 0) changed.push({ name: rule.name, parts, before: known, after: rule });
  }
  const kept = [...rulesBefore.keys()].filter(name => rulesAfter.has(name));
  const keptAfter = [...rulesAfter.keys()].filter(name => rulesBefore.has(name));
  return {
    added: after[of].filter(({ name }) => !rulesBefore.has(name)),
    removed: before[of].filter(({ name }) => !rulesAfter.has(name)),
    changed,
    unchanged: kept.length - changed.length,
    /** Whether rules that are in both changed their order, which is also that of breakdowns. */
    reordered: kept.some((name, index) => name !== keptAfter[index]),
    definitions,
  };
}

const isAny = ({ added, removed, changed }: Record<'added' | 'removed' | 'changed', readonly unknown[]>) =>
  added.length + removed.length + changed.length > 0;

/** Whether anything differs. */
export const hasChanges = ({ reordered, definitions, ...rules }: RuleChanges): boolean =>
  reordered || isAny(rules) || isAny(definitions);

/** Whether two rulesets differ. Reads no expressions: without other definitions, a comparison of rules does not. */
export const differ = (before: Ruleset, after: Ruleset): boolean =>
  isAny(compareDefinitions(before.definitions, after.definitions)) ||
  (['rules', 'reviews'] as const).some(of => hasChanges(compareRules(before, after, of)));
