/** Explains a score: each rule and entry in order, its value, and why it counted or did not. */

import type { Facts, ReviewFacts } from '../facts.ts';
import { constantOf } from '../file/constancy.ts';
import { type CheckedEntry, scoredReviews, treesOf } from '../language/compile.ts';
import { clampScore, roundHalfAway, scoreLimits } from '../language/rounding.ts';
import { allParts, factsRead, type TypedExpression } from '../language/tree.ts';
import type { RuleAction } from '../rule.ts';
import { type CheckedRule, checkRuleset, evaluatedLogic, isEnabled, type OnStep, type Ruleset } from '../ruleset.ts';
import { runToEnd, type Steps } from '../steps.ts';
import { type ExplainedPart, explainExpression, missingParts, type Room, representPart } from './parts.ts';

export type EntryOutcome =
  | 'counted'
  | 'condition_false'
  /** The rounded value is 0. */
  | 'zero'
  | 'absent'
  | 'not_finite'
  /** The rounded value does not fit into 32 bits. */
  | 'out_of_range'
  | 'disabled'
  /** The rule was saved by another release and is no longer valid. */
  | 'invalid';

export interface ExplainedEntry {
  /** Its place in the rule, from 1. */
  entry: number;
  action: RuleAction;
  /** The whole condition. */
  expression: string;
  value: string;
  outcome: EntryOutcome;
  /** What is added or subtracted: 0 if it did not count. */
  effect: number;
  /** Why, in words that follow "because": lower case, without a full stop. */
  reason: string;
  /** Null if it was not evaluated. */
  condition: ExplainedPart | null;
  /** Null if the condition is not true. */
  amount: ExplainedPart | null;
}

/** An entry that does not count yet. */
export interface WaitingEntry {
  rule: string;
  entry: number;
  /** Whether its rule has no other one. */
  isOnly: boolean;
  /** What would be added, negative if it would be subtracted, if the condition were true; 0 if it depends. */
  potential: number;
  /** The parts of its condition that are false. */
  missing: string[];
}

export interface ExplainedRule {
  name: string;
  enabled: boolean;
  /** Whole sentences; if there is one, no entry of the rule counts. */
  problems: string[];
  entries: ExplainedEntry[];
}

export type ExplainedRules = ReturnType<typeof total>;

type ExplainedReview = Pick<ReviewFacts, 'reviewer' | 'member'> & ExplainedRules;

export interface Explanation extends ExplainedRules {
  waiting: WaitingEntry[];
  reviews: ExplainedReview[];
}

/** The innermost part that made a value absent or infinite. */
function originOf(part: ExplainedPart, isWanted: (part: ExplainedPart) => boolean): ExplainedPart {
  const next = part.parts.find(inner => inner.chosen && isWanted(inner));
  return next === undefined ? part : originOf(next, isWanted);
}

type Judgement = Pick<ExplainedEntry, 'outcome' | 'effect' | 'reason'>;

function judge(amount: ExplainedPart, action: RuleAction): Judgement {
  const ignored = (outcome: EntryOutcome, reason: string): Judgement => ({ outcome, effect: 0, reason });
  const { value } = amount;
  const reasonOf = (adjective: string, isSo: (part: ExplainedPart) => boolean) => {
    const origin = originOf(amount, isSo);
    const cause = origin === amount ? '' : `, as \`${origin.source}\` is ${adjective}`;
    return `its value is ${adjective}${cause}${origin.note === '' ? '' : `: ${origin.note}`}`;
  };
  if (typeof value !== 'number') {
    return ignored(
      'absent',
      reasonOf('absent', part => part.value === null),
    );
  }
  if (!Number.isFinite(value)) {
    const isInfinite = ({ value }: ExplainedPart) => typeof value === 'number' && !Number.isFinite(value);
    return ignored('not_finite', reasonOf('infinite', isInfinite));
  }
  const effect = roundHalfAway(value);
  // Two decimals, unless these would round to something else.
  const short = Number(value.toFixed(2));
  const exact = short !== effect && roundHalfAway(short) === effect ? short : value;
  const rounded = effect === value ? '' : `, rounded from ${exact}`;
  if (effect === 0) return ignored('zero', `its value is 0${rounded}`);
  const { minimum, maximum } = scoreLimits;
  if (effect < minimum || effect > maximum) {
    return ignored('out_of_range', `its value ${effect} is outside ${minimum} to ${maximum}`);
  }
  return { outcome: 'counted', effect, reason: `it ${action === 'ADD' ? 'adds' : 'subtracts'} ${effect}${rounded}` };
}

/** Whether a condition is false for every pull request, such as by a definition that is a switch. */
const isOff = (tree: TypedExpression): boolean =>
  constantOf(tree) === false ||
  ((tree.kind === 'defined' || (tree.kind === 'logical' && tree.operator === '&&')) && tree.parts.some(isOff));

/** @param addWaiting called if its condition is false, and another pull request could make it true */
function explainEntry(
  { condition, value, logic, skipsBots }: CheckedEntry,
  facts: Facts,
  room: Room,
  addWaiting: (found: Pick<WaitingEntry, 'potential' | 'missing'>) => void,
) {
  const explained = explainExpression(logic.expression, condition, facts);
  const { action } = logic.effect;
  const amount = explainExpression(logic.effect.value, value, facts);
  const judgement = judge(amount, action);
  const shown = representPart(explained, room);
  const isForBots = !skipsBots || facts.reviewer_is_bot !== true;
  if (explained.value === true && isForBots) {
    return { ...judgement, condition: shown, amount: representPart(amount, room) };
  }
  // What would make the condition true may change other values, too.
  const isFixed = factsRead([value]).size === 0;
  const fixed = isFixed ? judgement.effect : 0;
  const canCount = !isOff(condition) && !(isFixed && fixed === 0);
  if (canCount) addWaiting({ potential: action === 'ADD' ? fixed : -fixed, missing: missingParts(explained) });
  const reason = isForBots ? 'its condition is false' : 'it does not read `reviewer_is_bot`, so bots get no points';
  const isFalse: Judgement = { outcome: 'condition_false', effect: 0, reason };
  return { ...isFalse, condition: shown, amount: null };
}

/** @param waiting gets the entries that do not count yet */
function* explainRule(
  { rule, entries: checked, problems }: CheckedRule,
  facts: Facts,
  room: Room,
  waiting: WaitingEntry[],
  onStep?: OnStep,
): Steps<ExplainedRule> {
  const skipped: Judgement = rule.is_enabled
    ? { outcome: 'invalid', effect: 0, reason: 'its rule is no longer valid' }
    : { outcome: 'disabled', effect: 0, reason: 'its rule is disabled' };
  const entries: ExplainedEntry[] = [];
  for (const [index, logic] of evaluatedLogic(rule).entries()) {
    yield;
    onStep?.({ rule: rule.name, entry: index + 1 });
    const entry = checked[index];
    const place = { rule: rule.name, entry: index + 1, isOnly: rule.logic.length === 1 };
    entries.push({
      entry: index + 1,
      action: logic.effect.action,
      expression: logic.expression,
      value: logic.effect.value,
      ...(entry === undefined
        ? { ...skipped, condition: null, amount: null }
        : explainEntry(entry, facts, room, found => waiting.push({ ...place, ...found }))),
    });
  }
  return {
    name: rule.name,
    enabled: rule.is_enabled,
    problems: problems.map(({ message }) => message),
    entries,
  };
}

/**
 * Gives the same scores as the compiled rules, rule by rule. Never throws. Yields before each entry. All of its explanations
 * together have room for the parts of expressions.
 *
 * @param onStep also called before each entry is explained
 */
export function createExplainer(ruleset: Ruleset, onStep?: OnStep) {
  const { rules, reviews: rulesOfReviews } = checkRuleset(ruleset, onStep, isEnabled);
  const reviewEntries = rulesOfReviews.flatMap(({ entries }) => entries);
  const room = { characters: maxExplainedCharacters };
  const maxReviews = Math.min(maxExplainedReviews, countFitting(reviewEntries, maxExplainedParts));
  function* explain(checked: readonly CheckedRule[], facts: Facts, waiting: WaitingEntry[] = []) {
    const explained: ExplainedRule[] = [];
    for (const rule of checked) explained.push(yield* explainRule(rule, facts, room, waiting, onStep));
    return total(explained);
  }
  return function* (facts: Facts): Steps<Explanation> {
    const waiting: WaitingEntry[] = [];
    const ofPullRequest = yield* explain(rules, facts, waiting);
    const reviews: ExplainedReview[] = [];
    for (const review of reviewEntries.length === 0 ? [] : scoredReviews(facts, reviewEntries).slice(0, maxReviews)) {
      const { reviewer, member } = review;
      reviews.push({ reviewer, member, ...(yield* explain(rulesOfReviews, review)) });
    }
    return { ...ofPullRequest, waiting, reviews };
  };
}

/** A pull request can have 500 reviews. */
const maxExplainedReviews = 50;

/** Of all reviews together. */
const maxExplainedParts = 100_000;

/** Of all parts together: a scorer writes them as JSON, in its heap, beside other rules; then the service reads them. */
const maxExplainedCharacters = 10_000_000;

/** How many explanations by the entries have so many parts together, each of about 100 bytes; at least one. */
export const countFitting = (entries: readonly CheckedEntry[], maxParts: number): number =>
  Math.max(1, Math.floor(maxParts / [...allParts(treesOf(entries))].length));

/** Explains one pull request. */
export const explainScore = (ruleset: Ruleset, facts: Facts): Explanation => runToEnd(createExplainer(ruleset)(facts));

function total(explained: ExplainedRule[]) {
  let sum = 0;
  for (const { entries } of explained) {
    for (const { action, effect } of entries) sum += action === 'ADD' ? effect : -effect;
  }
  return {
    rules: explained,
    /** The sum of all effects; the score is limited to 32 bits. */
    sum,
    score: clampScore(sum),
  };
}
