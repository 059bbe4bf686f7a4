/** The differences between two rulesets. */
import { isDeepStrictEqual } from 'node:util';
import { checkDefinitions, type Definition } from './definitions.ts';
import { checkRule, type RuleDefinition, type Ruleset } from './ruleset.ts';
import { type CheckedDefinitions, definitionsUsed } from './tree.ts';

export interface RuleChange {
  name: string;
  /** What differs; `definitions` if the rule uses one whose expression does. */
  parts: ('description' | 'enabled' | 'when' | 'logic' | 'definitions')[];
  before: RuleDefinition;
  after: RuleDefinition;
}

/** The order of definitions means nothing, so it does not count. */
export interface DefinitionChanges {
  added: Definition[];
  removed: Definition[];
  changed: { name: string; before: string; after: string }[];
}

export interface RuleChanges {
  added: RuleDefinition[];
  removed: RuleDefinition[];
  changed: RuleChange[];
  unchanged: number;
  /** Whether rules that are in both changed their order, which is also that of breakdowns. */
  reordered: boolean;
  definitions: DefinitionChanges;
}

function compareDefinitions(before: readonly Definition[], after: readonly Definition[]): DefinitionChanges {
  const former = new Map(before.map(({ name, expression }) => [name, expression]));
  const latter = new Set(after.map(({ name }) => name));
  return {
    added: after.filter(({ name }) => !former.has(name)),
    removed: before.filter(({ name }) => !latter.has(name)),
    changed: after.flatMap(({ name, expression }) => {
      const known = former.get(name);
      return known === undefined || known === expression ? [] : [{ name, before: known, after: expression }];
    }),
  };
}

/** Tells whether a definition that a rule uses on both sides differs. A rule that is not valid uses none. */
function createDefinitionComparison(before: Ruleset, after: Ruleset) {
  const [former, latter] = [before, after].map(({ definitions }) => checkDefinitions(definitions).checked);
  const usedBy = (rule: RuleDefinition, checked: CheckedDefinitions = new Map()) =>
    definitionsUsed(checkRule(rule, checked).entries.flatMap(({ condition, value }) => [condition, value]));
  return (known: RuleDefinition, rule: RuleDefinition): boolean => {
    const used = usedBy(rule, latter);
    return [...usedBy(known, former)].some(([name, expression]) => (used.get(name) ?? expression) !== expression);
  };
}

/** Identifies rules by name, as `rules apply` does. */
export function compareRules(before: Ruleset, after: Ruleset): RuleChanges {
  const definitions = compareDefinitions(before.definitions, after.definitions);
  const usesOther = definitions.changed.length === 0 ? () => false : createDefinitionComparison(before, after);
  const former = new Map(before.rules.map(rule => [rule.name, rule]));
  const latter = new Map(after.rules.map(rule => [rule.name, rule]));
  const changed: RuleChange[] = [];
  for (const rule of latter.values()) {
    const known = former.get(rule.name);
    if (known === undefined) continue;
    const parts: RuleChange['parts'] = [];
    if (known.description !== rule.description) parts.push('description');
    if (known.is_enabled !== rule.is_enabled) parts.push('enabled');
    if (known.when !== rule.when) parts.push('when');
    if (!isDeepStrictEqual(known.logic, rule.logic)) parts.push('logic');
    if (usesOther(known, rule)) parts.push('definitions');
    if (parts.length > 0) changed.push({ name: rule.name, parts, before: known, after: rule });
  }
  const kept = [...former.keys()].filter(name => latter.has(name));
  const keptAfter = [...latter.keys()].filter(name => former.has(name));
  return {
    added: after.rules.filter(({ name }) => !former.has(name)),
    removed: before.rules.filter(({ name }) => !latter.has(name)),
    changed,
    unchanged: kept.length - changed.length,
    reordered: kept.some((name, index) => name !== keptAfter[index]),
    definitions,
  };
}

/** Whether anything differs. */
export const hasChanges = ({ reordered, definitions, ...rules }: RuleChanges): boolean =>
  reordered ||
  [rules, definitions].some(({ added, removed, changed }) => added.length + removed.length + changed.length > 0);
