/** The words of a plan. */

import type { PlanDocument, PlannedRule } from '../../reports/plan.ts';
import { counted } from '../../text/number-formats.ts';

/** If no rule counts yet, every score, total and rank is the same: there is no "before" to show. */
export const isFirst = ({ rules }: PlanDocument): boolean =>
  rules.every(({ before }) => before === null || !before.enabled || !before.valid);

/** The same plan, of reviews: its pull requests are reviews. Undefined if neither side has rules for them. */
export const reviewsOf = (plan: PlanDocument): PlanDocument | undefined =>
  plan.reviews
    ? { ...plan, ...plan.reviews, definition_changes: noChanges, movers: { raised: [], lowered: [] }, reviews: null }
    : undefined;

const noChanges = { added: 0, removed: 0, changed: 0 };

export const comparedWith = ({ ruleset_version: version }: PlanDocument): string =>
  `compared with ${version === 0 ? 'no rules: none are in force yet' : `version ${version}, which is in force`}`;

const kindsOfChange = ['added', 'changed', 'removed', 'unchanged'] as const;

export const listChanges = (counts: { [Kind in (typeof kindsOfChange)[number]]?: number }): string[] =>
  kindsOfChange.filter(kind => counts[kind]).map(kind => `${counts[kind]} ${kind}`);

/** `1 added, 2 unchanged; definitions: 1 changed`; `none` if there are no rules at all. */
export function describeRuleChanges({ rule_changes: rules, definition_changes: definitions }: PlanDocument): string {
  const parts = [...listChanges(rules), ...(rules.reordered ? ['reordered'] : [])];
  const defined = listChanges(definitions).join(', ');
  return `${parts.join(', ') || 'none'}${defined === '' ? '' : `; definitions: ${defined}`}`;
}

/** What else the counts of a plan need to be understood. */
export function describeScores({ pull_requests: pulls, ruleset_version: version }: PlanDocument): string[] {
  const { breakdown_only: same, outdated } = pulls;
  const kept = counted(
    same,
    'pull request keeps its score, but from other entries',
    'pull requests keep their scores, but from other entries',
  );
  const stored = counted(outdated, 'stored score has', 'stored scores have');
  return [
    ...(same > 0 ? [`${kept}.`] : []),
    ...(outdated > 0
      ? [`${stored} yet to be recalculated; the plan compares with the scores of version ${version}.`]
      : []),
  ];
}

export function ruleNotes({ before, after, changes }: PlannedRule, total: number) {
  const edited = changes.filter(part => part !== 'enabled');
  const isSwitched = changes.includes('enabled');
  const isOff = after !== null && !after.enabled;
  const notes: [kind: 'changed' | 'never' | '', text: string | false][] = [
    ['changed', edited.length > 0 && `${edited.join(' and ')} changed`],
    ['changed', isSwitched && (isOff ? 'switched off' : 'switched on')],
    ['', isOff && !isSwitched && 'off'],
    ['never', total > 0 && after !== null && !isOff && after.pull_requests === 0 && 'never counts'],
    ['never', before !== null && !before.valid && 'the version in force is not valid'],
  ];
  return notes.flatMap(([kind, text]) => (text === false ? [] : [{ kind, text }]));
}
