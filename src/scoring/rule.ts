/** The form of a rule, as it is written and stored. */

export type RuleAction = 'ADD' | 'SUBTRACT';

export interface RuleLogic {
  /** The condition of the effect. */
  expression: string;
  /** `value` is an expression too; its result is rounded to the nearest integer, halves away from zero. */
  effect: { action: RuleAction; value: string };
}

export interface RuleDefinition {
  name: string;
  description: string;
  is_enabled: boolean;
  /** A condition for all entries. */
  when?: string;
  logic: RuleLogic[];
}

export const isRuleAction = (text: string): text is RuleAction => text === 'ADD' || text === 'SUBTRACT';
