/** An organisation's rules: their form, their checks, and how they score a pull request. */

import { factOf, type SourceName } from './facts.ts';
import { type CheckedEntry, compileScore, treesOf } from './language/compile.ts';
import { checkDefinitions, type Definition } from './language/definitions.ts';
import { parseExpression } from './language/expression.ts';
import { ExpressionError } from './language/syntax.ts';
import { nameInQuotes } from './language/text-operations.ts';
import { type CheckedDefinitions, factsRead, type TypedExpression } from './language/tree.ts';
import { isRuleAction, type RuleDefinition, type RuleLogic } from './rule.ts';

/** All that a rules file says about scores, as it is written there. */
export interface Ruleset {
  definitions: Definition[];
  /** What a pull request is worth to its author. */
  rules: RuleDefinition[];
  /** What a review is worth to the person who gave it. */
  reviews: RuleDefinition[];
}

/** Which of a ruleset's rules. Whatever is done with the rules of pull requests is done with those of reviews, too. */
export type RuleKind = 'rules' | 'reviews';

export interface RuleProblem {
  rule: string;
  /** From 1; null if the problem concerns the whole rule. */
  entry: number | null;
  part: 'name' | 'when' | 'logic' | 'expression' | 'action' | 'value';
  /** Names the rule, the entry and the part. */
  message: string;
}

export const ruleLimits = {
  rules: 200,
  entries: 50,
  /** Of all rules together. */
  allEntries: 1_000,
  /** Of the breakdown of a pull request for which every entry of the enabled rules counts. */
  breakdownBytes: 262_144,
  /** Of one review: a pull request may have 500. */
  reviewBreakdownBytes: 8_192,
  nameCharacters: 200,
  descriptionCharacters: 2000,
} as const;

/** The whole condition of an entry, as it is evaluated and shown to clients. */
const conditionOf = ({ when }: RuleDefinition, expression: string): string =>
  when === undefined ? expression : `(${when}) && (${expression})`;

/** A rule's entries with their whole conditions. */
export const evaluatedLogic = (rule: RuleDefinition): RuleLogic[] =>
  rule.logic.map(({ expression, effect }) => ({ expression: conditionOf(rule, expression), effect }));

export function describeProblem(
  rule: string,
  entry: number | null,
  part: RuleProblem['part'],
  reason: string,
): RuleProblem {
  const place = entry === null ? part : `entry ${entry}, ${part}`;
  return { rule, entry, part, message: `Rule ${nameInQuotes(rule)}, ${place}: ${reason}` };
}

/** Bytes that the rule's entries have in a breakdown at most. */
const breakdownBytesOf = (rule: RuleDefinition): number =>
  evaluatedLogic(rule).reduce((sum, { expression, effect: { action } }) => {
    const entry = { name: rule.name, action, effect: -(2 ** 31), expression };
    return sum + Buffer.byteLength(JSON.stringify(entry)) + 1;
  }, 0);

/** Why the rules are too many or too long together; undefined if they are not. */
export function problemOfSize(rules: readonly RuleDefinition[], of: RuleKind): RuleProblem | undefined {
  const { allEntries } = ruleLimits;
  const [what, breakdownBytes] =
    of === 'rules' ? ['pull request', ruleLimits.breakdownBytes] : ['review', ruleLimits.reviewBreakdownBytes];
  const problem = (sizes: readonly number[], reason: string) =>
    describeProblem(rules[sizes.indexOf(Math.max(...sizes))]?.name ?? '', null, 'logic', reason);
  const sum = (sizes: readonly number[]) => sizes.reduce((total, size) => total + size, 0);
  const entries = rules.map(({ logic }) => logic.length);
  if (sum(entries) > allEntries) {
    return problem(entries, `all rules together have ${sum(entries)} entries, more than ${allEntries}; merge some`);
  }
  const bytes = rules.map(rule => (rule.is_enabled ? breakdownBytesOf(rule) : 0));
  if (sum(bytes) <= breakdownBytes) return undefined;
  const [largest, max] = [sum(bytes), breakdownBytes].map(size => `${Math.ceil(size / 1024)} KB`);
  return problem(
    bytes,
    `the breakdown of one ${what} could have ${largest}, more than ${max}: each entry has its whole condition, ` +
      "with the rule's `when`; shorten them, or give long parts a name in `define`",
  );
}

/** Called before each definition and each entry: rules at their limits take a while. @param next the entry, from 1 */
export type OnStep = (next?: { rule: string; entry: number }) => void;

/** Checks a rule's conditions and values. The entries are complete only if there are no problems. */
export function checkRule(
  rule: RuleDefinition,
  definitions: CheckedDefinitions,
  of: RuleKind,
  onStep: OnStep = () => undefined,
): Omit<CheckedRule, 'rule'> {
  const { name, when, logic } = rule;
  const entries: CheckedEntry[] = [];
  const problems: RuleProblem[] = [];
  if (logic.length === 0) problems.push(describeProblem(name, null, 'logic', 'it has no entries; write at least one'));
  if (logic.length > ruleLimits.entries) {
    const reason = `it has ${logic.length} entries, more than ${ruleLimits.entries}; split the rule`;
    return { entries, problems: [describeProblem(name, null, 'logic', reason)] };
  }
  const read = (source: string, entry: number | null, part: 'when' | 'expression' | 'value', prefix = '') => {
    onStep({ rule: name, entry: entry ?? 1 });
    try {
      const tree = parseExpression(source, part === 'value' ? 'number' : 'boolean', definitions);
      if (of === 'rules') refuseReviewFacts(tree);
      return tree;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      problems.push(describeProblem(name, entry, part, prefix + error.message));
      return undefined;
    }
  };
  const isWhenValid = when === undefined || read(when, null, 'when') !== undefined;
  /** Checks the expression alone first: it must be valid by itself, and errors then quote only it. */
  const readCondition = (expression: string, entry: number): TypedExpression | undefined => {
    const own = read(expression, entry, 'expression');
    if (own === undefined || when === undefined || !isWhenValid) return own;
    return read(conditionOf(rule, expression), entry, 'expression', "together with the rule's `when`, ");
  };
  for (const [index, { expression, effect }] of logic.entries()) {
    const condition = readCondition(expression, index + 1);
    const value = read(effect.value, index + 1, 'value');
    const { action } = effect;
    if (!isRuleAction(action)) {
      const reason = `${JSON.stringify(action)} is neither ADD nor SUBTRACT`;
      problems.push(describeProblem(name, index + 1, 'action', reason));
    } else if (condition !== undefined && value !== undefined) {
      const evaluated = { expression: conditionOf(rule, expression), effect };
      // Whether bots get points is decided by those that read this.
      const isOfReview = of === 'reviews';
      const skipsBots = isOfReview && !factsRead([condition, value]).has('reviewer_is_bot');
      entries.push({ name, entry: index + 1, logic: evaluated, condition, value, isOfReview, skipsBots });
    }
  }
  return { entries, problems };
}

function refuseReviewFacts(tree: TypedExpression): void {
  const name = [...factsRead([tree])].find(each => factOf(each)?.isOfReview);
  if (name === undefined) return;
  throw new ExpressionError(`\`${name}\` is a fact of reviews; rules that read it stand below \`reviews:\``);
}

export interface CheckedRule {
  rule: RuleDefinition;
  problems: RuleProblem[];
  /** Empty if the rule is disabled or not valid. */
  entries: CheckedEntry[];
}

/** Checked rules of a ruleset. */
export type CheckedRuleset = Readonly<Record<RuleKind, readonly CheckedRule[]>>;

/**
 * Checks stored rules, which share definitions and patterns. If those of a kind are over a limit together, none of them
 * counts, and all have the same problem.
 *
 * @param isChecked the others have no problems
 */
export function checkRuleset(
  { definitions, ...lists }: Ruleset,
  onStep?: OnStep,
  isChecked: (rule: RuleDefinition) => boolean = () => true,
): CheckedRuleset {
  const { checked } = checkDefinitions(definitions, onStep);
  const check = (of: RuleKind) => {
    const oversize = problemOfSize(lists[of], of);
    return lists[of].map((rule): CheckedRule => {
      if (!isChecked(rule)) return { rule, problems: [], entries: [] };
      if (oversize !== undefined) return { rule, problems: [oversize], entries: [] };
      const { problems, entries } = checkRule(rule, checked, of, onStep);
      return { rule, problems, entries: rule.is_enabled && problems.length === 0 ? entries : [] };
    });
  };
  return { rules: check('rules'), reviews: check('reviews') };
}

export const isEnabled = (rule: RuleDefinition) => rule.is_enabled;

/** What these entries read. Entries of reviews read all reviews of a pull request. */
export function factsReadBy(entries: readonly CheckedEntry[]): Set<SourceName> {
  const names = factsRead(treesOf(entries));
  if (!entries.some(entry => entry.isOfReview)) return names;
  return new Set([...[...names].filter(name => !factOf(name)?.isOfReview), 'given_reviews']);
}

/**
 * Compiles the enabled rules. Reports rules that this release refuses; they contribute nothing, and the others score.
 */
export function compileRuleset(ruleset: Ruleset, onStep?: OnStep) {
  const { rules, reviews } = checkRuleset(ruleset, onStep, isEnabled);
  const all = [...rules, ...reviews];
  const entries = all.flatMap(rule => rule.entries);
  return {
    score: compileScore(entries),
    entries,
    /** All that it reads. */
    facts: factsReadBy(entries),
    problems: [...new Set(all.flatMap(({ problems }) => problems))],
  };
}

export type CompiledRuleset = ReturnType<typeof compileRuleset>;
