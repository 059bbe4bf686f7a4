import { badRequest } from '../errors.ts';
import type { Scorer } from '../scorer/jobs.ts';
import type { ExplainedEntry, ExplainedRule, ExplainedRules } from '../scoring/explain/explain.ts';
import type { CheckedFile } from '../scoring/file/check-rules-file.ts';
import type { FileProblem } from '../scoring/file/yaml-node.ts';
import { formatInteger, signed } from '../text/number-formats.ts';
import { brief } from '../text/terminal.ts';

/** More than 200 rules of maximum size need. */
export const maxFileBytes = 2_000_000;

/** The first tests that fail have an explanation of their score. */
export type Problem = FileProblem & {
  explanation?: ExplainedRules | undefined;
  relevant?: readonly number[] | undefined;
};

/** Mistakes, or else tests that fail. */
export function problemsOf({ problems, results }: CheckedFile): Problem[] {
  if (problems.length > 0) return problems;
  return results.flatMap(({ test, actual, passed, explanation, relevant }) => {
    if (passed) return [];
    const counted = explanation === undefined ? '' : ` (${showCounted(explanation)})`;
    const message = `test ${JSON.stringify(test.name)} expected ${formatInteger(test.score)}, but the score is ${formatInteger(actual)}${counted}; correct the rules or the test`;
    return [{ line: test.line, message, rule: null, entry: null, part: null, explanation, relevant }];
  });
}

/**
 * Checks a file where it can disturb nobody.
 *
 * @throws ServiceError `bad_request` that says the first problem, and has all
 */
export async function checkFile(
  scorer: Scorer,
  organisationId: string,
  file: Buffer,
  signal: AbortSignal,
): Promise<CheckedFile> {
  const checked = await scorer.run('check', { organisationId, file: file.toString('latin1') }, { signal });
  const problems = problemsOf(checked);
  const [first] = problems;
  if (first === undefined) return checked;
  throw badRequest(
    `Line ${first.line}: ${first.message.replace(/[^.?]$/, '$&.')}`,
    problems.length > 1 ? `The file has ${problems.length} problems.` : undefined,
    { problems: problems.map(({ line, message }) => ({ line, message })) },
  );
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
