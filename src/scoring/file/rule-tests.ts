/** The tests of a rules file: facts of a pull request, and the score that they must give. */

import { type ExplainedEntry, type Explanation, explainScore } from '../explain/explain.ts';
import type { Facts } from '../facts.ts';
import { compileRuleset, type Ruleset } from '../ruleset.ts';
import { type Report, readMap, shownText } from './keys.ts';
import { readTestFacts } from './test-facts.ts';
import type { YamlNode } from './yaml-node.ts';

export interface RuleTest {
  /** In the file, from 1. */
  line: number;
  name: string;
  facts: Facts;
  /** The expected score. */
  score: number;
}

export interface RuleTestResult {
  test: RuleTest;
  actual: number;
  passed: boolean;
  /** How the score came about, of the first tests that fail. */
  explanation?: Explanation;
  /** Of the explanation, the entries that counted, or that may have been expected to. */
  relevant?: ReadonlySet<ExplainedEntry>;
}

/** Explanations are large: every part of every entry. */
const maxExplained = 20;

/** @param taken the names of the tests before @returns undefined if there was a problem, which is reported */
export function readTest(node: YamlNode, position: number, taken: Set<string>, report: Report): RuleTest | undefined {
  let isValid = true;
  const fail: Report = (...problem) => {
    isValid = false;
    report(...problem);
  };
  const map = readMap(node, ['name', 'pull_request', 'score'], `Test ${position}`, fail);
  if (map === undefined) return undefined;
  const name = map.readName();
  const place = name === '' ? `Test ${position}` : `Test ${JSON.stringify(name.slice(0, 80))}`;
  if (name !== '' && taken.has(name)) {
    fail(map.lineOf('name'), `${place} is in the file twice; give each test its own name`, { part: 'name' });
  }
  taken.add(name);
  const score = map.readText('score', place);
  if (score !== undefined && !/^[-+]?\d{1,10}$/.test(score)) {
    fail(map.lineOf('score'), `${place}, score: ${shownText(score)} is not a whole number`, { part: 'score' });
  }
  const given = map.nodeOf('pull_request');
  if (given === undefined) fail(node.line, `${place} has no \`pull_request\`; write the facts that matter, or {}`);
  const facts = given === undefined ? undefined : readTestFacts(given, `${place}, pull_request`, fail);
  return isValid && facts !== undefined ? { line: node.line, name, facts, score: Number(score) } : undefined;
}

/** Scores each test's pull request under the rules. */
export function runRuleTests(ruleset: Ruleset, tests: readonly RuleTest[]): RuleTestResult[] {
  const { score } = compileRuleset(ruleset);
  let failed = 0;
  return tests.map(test => {
    const { score: actual } = score(test.facts);
    if (actual === test.score) return { test, actual, passed: true };
    failed += 1;
    if (failed > maxExplained) return { test, actual, passed: false };
    const explanation = explainScore(ruleset, test.facts);
    return { test, actual, passed: false, explanation, relevant: findRelevant(ruleset, test, explanation) };
  });
}

/**
 * Entries whose condition is true, and those that would bring the score nearer to the expected one if theirs were. If each
 * of the latter would bring it too far, all of them. If there is nothing of all that, every entry.
 */
function findRelevant({ definitions, rules }: Ruleset, test: RuleTest, explanation: Explanation): Set<ExplainedEntry> {
  const unconditional = rules.map(({ when, logic, ...rule }) => ({
    ...rule,
    is_enabled: true,
    logic: logic.map(({ effect }) => ({ expression: 'true', effect })),
  }));
  const asIfTrue = explainScore({ definitions, rules: unconditional }, test.facts).rules;
  const missing = test.score - explanation.score;
  const entries = explanation.rules.flatMap((rule, place) =>
    rule.entries.map((entry, index) => {
      const { action, effect = 0 } = asIfTrue[place]?.entries[index] ?? {};
      return { entry, share: (action === 'ADD' ? effect : -effect) / missing };
    }),
  );
  const others = entries.filter(({ entry }) => ['condition_false', 'disabled'].includes(entry.outcome));
  const nearer = others.filter(({ share }) => share > 0);
  const fitting = nearer.filter(({ share }) => share <= 1);
  const expected = new Set(fitting.length > 0 ? fitting : nearer);
  const relevant = entries.filter(each => expected.has(each) || !others.includes(each));
  return new Set((relevant.length > 0 ? relevant : entries).map(({ entry }) => entry));
}
