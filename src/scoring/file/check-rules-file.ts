import { type RuleTestResult, runRuleTests } from './rule-tests.ts';
import { parseRulesFile, type RulesFile } from './rules-file.ts';

export interface CheckedFile extends RulesFile {
  /** Its text. */
  source: string;
  /** Of its tests; empty if there are problems. */
  results: RuleTestResult[];
}

/**
 * Checks a rules file and runs its tests.
 *
 * @param options `onEntry`: called before each entry, since a file at its limits takes a while
 */
export function checkRulesFile(bytes: Buffer, _options: { onEntry?: () => void } = {}): CheckedFile {
  const source = bytes.toString('utf8');
  const file = parseRulesFile(source);
  return { ...file, source, results: file.problems.length > 0 ? [] : runRuleTests(file, file.tests) };
}
