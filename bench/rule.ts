import type { RuleAction, RuleDefinition } from '../src/scoring/rule.ts';

/** A rule of one entry. */
export const rule = (name: string, expression: string, value: string, action: RuleAction = 'ADD'): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic: [{ expression, effect: { action, value } }],
});
