/** The tests of a rules file: facts of a pull request and of its reviews, and the scores that they must give. */

import { formatInteger, signed } from '../../text/number-formats.ts';
import { brief } from '../../text/terminal.ts';
import {
  countFitting,
  createExplainer,
  type ExplainedEntry,
  type ExplainedRule,
  type ExplainedRules,
} from '../explain/explain.ts';
import type { Facts } from '../facts.ts';
import { compileEffects } from '../language/compile.ts';
import { checkDefinitions } from '../language/definitions.ts';
import { nameInQuotes } from '../language/text-operations.ts';
import { checkRule, compileRuleset, type RuleKind, type Ruleset } from '../ruleset.ts';
import { runToEnd, type Steps } from '../steps.ts';
import { type Report, readMap, readScore } from './keys.ts';
import { readTestFacts } from './test-facts.ts';
import { readTestReviews, type TestReview } from './test-reviews.ts';
import type { FileProblem, YamlNode } from './yaml-node.ts';

export interface RuleTest {
  /** In the file, from 1. */
  line: number;
  name: string;
  facts: Facts;
  /** The expected score; undefined if only those of reviews are expected. */
  score: number | undefined;
  reviews: TestReview[];
}

/** Of a file. The first tests that fail have an explanation of their score. */
export interface Problem extends FileProblem {
  explanation?: ExplainedRules;
  /** The entries that counted, or that may have been expected to: their places among all of the explanation, from 0. */
  relevant?: readonly number[];
}

/** Explanations are large: every part of every entry. */
const maxExplained = 20;

/** Of all of them together. */
const maxExplainedParts = 200_000;

/** Reports problems: what is read is then not used. @param taken the names of the tests before */
export function readTest(node: YamlNode, position: number, taken: Set<string>, report: Report): RuleTest | undefined {
  const map = readMap(node, ['name', 'pull_request', 'reviews', 'score'], `Test ${position}`, report);
  if (map === undefined) return undefined;
  const name = map.readName();
  const place = name === '' ? `Test ${position}` : `Test ${nameInQuotes(name)}`;
  if (name !== '' && taken.has(name)) {
    report(map.lineOf('name'), `${place} is in the file twice; give each test its own name`, { part: 'name' });
  }
  taken.add(name);
  const reviews = readTestReviews(map.nodeOf('reviews'), place, report);
  const isForReviews = reviews.length > 0 && map.nodeOf('score') === undefined;
  const score = isForReviews ? undefined : readScore(map, place, report);
  const given = map.nodeOf('pull_request');
  if (given === undefined) report(node.line, `${place} has no \`pull_request\`; write the facts that matter, or {}`);
  const reviewFacts = reviews.map(review => review.facts);
  const facts = given && readTestFacts(given, `${place}, pull_request`, reviewFacts, report);
  return facts && { line: node.line, name, facts, score, reviews };
}

/** What is expected of one score. */
interface Case {
  line: number;
  name: string;
  score: number;
  of: RuleKind;
  /** With no other review. */
  facts: Facts;
}

function casesOf({ line, name, facts, score, reviews }: RuleTest): Case[] {
  const own: Case[] = score === undefined ? [] : [{ line, name, score, of: 'rules', facts }];
  const others = reviews.map(
    ({ line, facts: review, score }, index): Case => ({
      line,
      name: `${name}, review ${index + 1}`,
      score,
      of: 'reviews',
      facts: { ...facts, given_reviews: [review] },
    }),
  );
  return [...own, ...others];
}

/**
 * Scores each test's pull request and reviews under the rules. Yields before each: a file can have thousands of tests.
 *
 * @param onStep called again and again meanwhile
 * @returns those that fail
 */
export function* testRules(ruleset: Ruleset, tests: readonly RuleTest[], onStep?: () => void): Steps<Problem[]> {
  const { score, entries } = compileRuleset(ruleset, onStep);
  const maxShown = Math.min(maxExplained, countFitting(entries, maxExplainedParts));
  // One for all: its explanations have room together.
  let explainer: ReturnType<typeof createExplainer> | undefined;
  const explain = ({ of, facts }: Case) => {
    explainer ??= createExplainer(ruleset, onStep);
    const { reviews, ...ofPullRequest } = runToEnd(explainer(facts));
    // Rules of reviews need not have any for this one.
    return of === 'rules' ? ofPullRequest : reviews[0];
  };
  const problems: Problem[] = [];
  for (const each of tests.flatMap(casesOf)) {
    onStep?.();
    yield;
    const scored = score(each.facts);
    const [review] = JSON.parse(scored.reviewScores ?? '[]') as { score: number }[];
    const actual = each.of === 'rules' ? scored.score : (review?.score ?? 0);
    if (actual === each.score) continue;
    const explanation = problems.length < maxShown ? explain(each) : undefined;
    const counted = explanation === undefined ? '' : ` (${showCounted(explanation)})`;
    const message = `test ${JSON.stringify(each.name)} expected ${formatInteger(each.score)}, but the score is ${formatInteger(actual)}${counted}; correct the rules or the test`;
    problems.push({
      line: each.line,
      message,
      rule: null,
      entry: null,
      part: null,
      ...(explanation && { explanation, relevant: findRelevant(ruleset, each, explanation, onStep) }),
    });
  }
  return problems;
}

export const placeOf = ({ name, entries }: ExplainedRule, { entry }: ExplainedEntry): string =>
  entries.length === 1 ? brief(name) : `${brief(name)}, entry ${entry}`;

export const points = ({ action, effect }: ExplainedEntry) => signed(action === 'ADD' ? effect : -effect);

const maxCounted = 10;

function showCounted({ rules }: ExplainedRules): string {
  const all = rules.flatMap(rule =>
    rule.entries.flatMap(entry => (entry.outcome === 'counted' ? [`${points(entry)} ${placeOf(rule, entry)}`] : [])),
  );
  const others = all.length > maxCounted ? [`${all.length - maxCounted} more`] : [];
  return [...all.slice(0, maxCounted), ...others].join('; ') || 'nothing counted';
}

/**
 * Entries whose condition is true, and those that would bring the score nearer to the expected one if theirs were. If each
 * of the latter would bring it too far, all of them. If there is nothing of all that, every entry.
 */
function findRelevant(
  ruleset: Ruleset,
  { score, of, facts }: Case,
  explanation: ExplainedRules,
  onStep?: () => void,
): number[] {
  // Entries that do not read this give bots nothing.
  const always = of === 'rules' ? 'true' : 'reviewer_is_bot || true';
  const { checked } = checkDefinitions(ruleset.definitions, onStep);
  const unconditional = ruleset[of].flatMap(({ when, logic, ...rule }) => {
    const ifTrue = logic.map(({ effect }) => ({ expression: always, effect }));
    return checkRule({ ...rule, logic: ifTrue }, checked, of, onStep).entries;
  });
  const effects = compileEffects(unconditional)({ ...facts, ...facts.given_reviews?.[0] });
  const missing = score - explanation.score;
  const entries = explanation.rules
    .flatMap(rule => rule.entries)
    .map((entry, place) => ({ entry, share: (effects[place] ?? 0) / missing }));
  const others = entries.filter(({ entry }) => ['condition_false', 'disabled'].includes(entry.outcome));
  const nearer = others.filter(({ share }) => share > 0);
  const fitting = nearer.filter(({ share }) => share <= 1);
  const expected = new Set(fitting.length > 0 ? fitting : nearer);
  const isRelevant = (each: (typeof entries)[number]) => expected.has(each) || !others.includes(each);
  const showsAll = !entries.some(isRelevant);
  return entries.flatMap((each, place) => (showsAll || isRelevant(each) ? place : []));
}
