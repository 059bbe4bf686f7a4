/** The differences between two lists of rules. */
import { isDeepStrictEqual } from 'node:util';
import type { RuleDefinition, RuleLogic } from './ruleset.ts';

export interface RuleChange {
  name: string;
  /** What differs. */
  parts: ('description' | 'enabled' | 'logic')[];
  before: RuleDefinition;
  after: RuleDefinition;
}

export interface RuleChanges {
  added: RuleDefinition[];
  removed: RuleDefinition[];
  changed: RuleChange[];
  unchanged: number;
  /** Whether rules that are in both changed their order, which is also that of breakdowns. */
  reordered: boolean;
}

/** Identifies rules by name, as `rules apply` does. */
export function compareRules(before: readonly RuleDefinition[], after: readonly RuleDefinition[]): RuleChanges {
  const former = new Map(before.map(rule => [rule.name, rule]));
  const latter = new Map(after.map(rule => [rule.name, rule]));
  const changed: RuleChange[] = [];
  for (const rule of latter.values()) {
    const known = former.get(rule.name);
    if (known === undefined) continue;
    const parts: RuleChange['parts'] = [];
    if (known.description !== rule.description) parts.push('description');
    if (known.is_enabled !== rule.is_enabled) parts.push('enabled');
    if (!isDeepStrictEqual(known.logic, rule.logic)) parts.push('logic');
    if (parts.length > 0) changed.push({ name: rule.name, parts, before: known, after: rule });
  }
  const kept = [...former.keys()].filter(name => latter.has(name));
  const keptAfter = [...latter.keys()].filter(name => former.has(name));
  return {
    added: after.filter(({ name }) => !former.has(name)),
    removed: before.filter(({ name }) => !latter.has(name)),
    changed,
    unchanged: kept.length - changed.length,
    reordered: kept.some((name, index) => name !== keptAfter[index]),
  };
}

/** Whether anything differs. */
export const hasChanges = ({ added, removed, changed, reordered }: RuleChanges): boolean =>
  added.length + removed.length + changed.length > 0 || reordered;

/** The same for entries that say the same. */
export const entryKey = ({ expression, effect }: RuleLogic): string =>
  JSON.stringify([expression, effect.action, effect.value]);
