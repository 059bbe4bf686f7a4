/** The tests of a rules file: facts of a pull request and of its reviews, and the scores that they must give. */

import { countFitting, createExplainer, type ExplainedRules } from '../explain/explain.ts';
import type { Facts } from '../facts.ts';
import { compileEffects } from '../language/compile.ts';
import { checkDefinitions } from '../language/definitions.ts';
import { nameInQuotes } from '../language/text-operations.ts';
import { checkRule, compileRuleset, type RuleKind, type Ruleset } from '../ruleset.ts';
import { runToEnd, type Steps } from '../steps.ts';
import { type Report, readMap, readScore } from './keys.ts';
import { readTestFacts } from './test-facts.ts';
import { readTestReviews, type TestReview } from './test-reviews.ts';
import type { YamlNode } from './yaml-node.ts';

export interface RuleTest {
  /** In the file, from 1. */
  line: number;
  name: string;
  facts: Facts;
  /** The expected score; undefined if only those of reviews are expected. */
  score: number | undefined;
  reviews: TestReview[];
}

/** Of a test's pull request, or of one of its reviews. */
export interface RuleTestResult {
  test: { line: number; name: string; score: number };
  actual: number;
  passed: boolean;
  /** How the score came about, of the first tests that fail. */
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
  test: RuleTestResult['test'];
  of: RuleKind;
  /** With no other review. */
  facts: Facts;
}

function casesOf({ line, name, facts, score, reviews }: RuleTest): Case[] {
  const own: Case[] = score === undefined ? [] : [{ test: { line, name, score }, of: 'rules', facts }];
  const others = reviews.map((review, index): Case => {
    const test = { line: review.line, name: `${name}, review ${index + 1}`, score: review.score };
    return { test, of: 'reviews', facts: { ...facts, given_reviews: [review.facts] } };
  });
  return [...own, ...others];
}

/**
 * Scores each test's pull request and reviews under the rules. Yields before each: a file can have thousands of tests.
 *
 * @param onStep called again and again meanwhile
 */
export function* testRules(ruleset: Ruleset, tests: readonly RuleTest[], onStep?: () => void): Steps<RuleTestResult[]> {
  const { score, entries } = compileRuleset(ruleset, onStep);
  const maxShown = Math.min(maxExplained, countFitting(entries, maxExplainedParts));
  // One for all: its explanations have room together.
  let explainer: ReturnType<typeof createExplainer> | undefined;
  let failed = 0;
  const run = ({ test, of, facts }: Case): RuleTestResult => {
    const scored = score(facts);
    const [review] = JSON.parse(scored.reviewScores ?? '[]') as { score: number }[];
    const actual = of === 'rules' ? scored.score : (review?.score ?? 0);
    if (actual === test.score) return { test, actual, passed: true };
    failed += 1;
    const failure = { test, actual, passed: false };
    if (failed > maxShown) return failure;
    explainer ??= createExplainer(ruleset, onStep);
    const { reviews, ...ofPullRequest } = runToEnd(explainer(facts));
    const explanation = of === 'rules' ? ofPullRequest : reviews[0];
    // Rules of reviews need not have any for this one.
    if (explanation === undefined) return failure;
    return { ...failure, explanation, relevant: findRelevant(ruleset, { test, of, facts }, explanation, onStep) };
  };
  const results: RuleTestResult[] = [];
  for (const each of tests.flatMap(casesOf)) {
    onStep?.();
    yield;
    results.push(run(each));
  }
  return results;
}

/**
 * Entries whose condition is true, and those that would bring the score nearer to the expected one if theirs were. If each
 * of the latter would bring it too far, all of them. If there is nothing of all that, every entry.
 */
function findRelevant(
  ruleset: Ruleset,
  { test, of, facts }: Case,
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
  const missing = test.score - explanation.score;
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
