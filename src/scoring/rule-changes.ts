/** What one list of rules changes in another. */
import { isDeepStrictEqual } from 'node:util';
import type { RuleDefinition, RuleLogic } from './ruleset.ts';

export interface RuleChange {
  name: string;
  /** What of it differs. */
  parts: ('description' | 'enabled' | 'logic')[];
  before: RuleDefinition;
  after: RuleDefinition;
}

export interface RuleChanges {
  added: RuleDefinition[];
  removed: RuleDefinition[];
  changed: RuleChange[];
  unchanged: number;
  /** Whether rules that are in both stand in another order, in which breakdowns list them. */
  reordered: boolean;
}

/** Rules are known by their names, as when they are applied. */
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

/** Whether anything differs at all. */
export const hasChanges = ({ added, removed, changed, reordered }: RuleChanges): boolean =>
  added.length + removed.length + changed.length > 0 || reordered;

/** Tells entries of one rule apart by all that they say. */
export const entryKey = ({ expression, effect }: RuleLogic): string =>
  JSON.stringify([expression, effect.action, effect.value]);
