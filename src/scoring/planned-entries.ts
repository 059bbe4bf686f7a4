/** The entries that a plan evaluates for each pull request, of the rules on both sides. */
import type { CheckedEntry } from './compile.ts';
import { checkDefinitions } from './definitions.ts';
import { checkRule, evaluatedLogic, type RuleLogic, type Ruleset } from './ruleset.ts';
import { definitionsUsed } from './tree.ts';

interface PlannedEntry {
  logic: RuleLogic;
  checked: CheckedEntry;
  /** The same for entries that say the same. */
  key: string;
}

/** What an entry counted for so far. */
export interface Tally extends PlannedEntry {
  /** The index of its rule in the result. */
  rule: number;
  isBefore: boolean;
  isAfter: boolean;
  count: number;
  points: number;
}

export interface CheckedRule {
  isEnabled: boolean;
  isValid: boolean;
  /** Empty if the rule is disabled or not valid. */
  entries: PlannedEntry[];
}

const keyOf = ({ expression, effect }: RuleLogic, { condition, value }: CheckedEntry): string =>
  JSON.stringify([expression, effect.action, effect.value, [...definitionsUsed([condition, value])]]);

/** By name. */
export function checkRules({ definitions, rules }: Ruleset): Map<string, CheckedRule> {
  const { checked: known } = checkDefinitions(definitions);
  return new Map(
    rules.map(rule => {
      const { entries, problems } = checkRule(rule, known);
      const isEnabled = rule.is_enabled;
      const isValid = problems.length === 0;
      const pairs = evaluatedLogic(rule).flatMap((logic, index) => {
        const checked = entries[index];
        return checked === undefined ? [] : [{ logic, checked, key: keyOf(logic, checked) }];
      });
      return [rule.name, { isEnabled, isValid, entries: isEnabled && isValid ? pairs : [] }];
    }),
  );
}

/** The entries of a rule. One that both sides have is evaluated once. */
export function tally(rule: number, before: CheckedRule | undefined, after: CheckedRule | undefined): Tally[] {
  const listOf = (side: CheckedRule | undefined, isAfter: boolean): Tally[] =>
    (side?.entries ?? []).map(entry => ({ ...entry, rule, isBefore: !isAfter, isAfter, count: 0, points: 0 }));
  const former = listOf(before, false);
  const latter = listOf(after, true);
  for (const entry of latter) {
    const index = former.findIndex(({ key }) => key === entry.key);
    if (index === -1) continue;
    former.splice(index, 1);
    entry.isBefore = true;
  }
  return [...latter, ...former];
}
