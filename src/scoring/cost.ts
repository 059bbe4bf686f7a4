/**
 * How much of a pull request's texts an expression can read at most: the number of characters, weighted so that a small
 * pattern counts each of them once. That is where the time goes; numbers cost next to nothing. A million takes up to
 * 40 ms.
 */
import type { SourceName } from './facts.ts';
import { partsOf, type TypedExpression } from './tree.ts';

/**
 * What a whole ruleset may cost. The slowest one then takes 0.3 to 0.6 s for one pull request, and 0.9 s if its
 * description is of nothing but `İ`, which is the slowest to write in lower case. If
 * globs are all that it costs, 3,000 files with long paths take up to four times as long.
 */
export const maxRulesetCost = 15_000_000;

/** Characters of a description, and of the paths of a thousand files. */
const longText = 65_536;

/**
 * GitHub's limits on texts; other texts are short. The paths of a pull request can have four times as much, which is our
 * limit (src/github/pull-request.ts), but hardly any has; rules files that were accepted before stay so.
 */
const maxCharacters: { readonly [Name in SourceName]?: number } = {
  body: longText,
  files: longText,
  file_changes: 0,
  labels: 100 * 50,
  assignees: 20 * 39,
};
const shortText = 256;

/** What a function or an operator that reads a text costs, against a small pattern. */
const plainWeight = 0.25;

/** The cost of a character in patterns that weighs 1: see `Pattern`. */
const smallPattern = 512;

const isTextual = ({ type }: TypedExpression) => type === 'text' || type === 'list';

/** The maximum length of a text, or of all texts of a list together. */
function lengthOf(tree: TypedExpression): number {
  if (!isTextual(tree)) return 0;
  if (tree.kind === 'constant') return String(tree.value).length;
  if (tree.kind === 'fact') return maxCharacters[tree.name] ?? shortText;
  if (tree.kind === 'choice') return Math.max(lengthOf(tree.consequent), lengthOf(tree.alternate));
  return Math.max(0, ...partsOf(tree).map(lengthOf));
}

function ownCost(tree: TypedExpression): number {
  const lengths = partsOf(tree).filter(isTextual).map(lengthOf);
  const length = lengths.reduce((sum, each) => sum + each, 0);
  if (tree.kind === 'comparison') return lengths.length === 0 ? 0 : plainWeight * Math.min(...lengths);
  if (tree.kind === 'call' && tree.patternCost > 0) return (length * tree.patternCost) / smallPattern;
  // A text that a call returns is written first.
  if (tree.kind === 'call') return plainWeight * (length + lengthOf(tree));
  return tree.kind === 'oneOf' || tree.kind === 'itemOf' ? plainWeight * length : 0;
}

/** The maximum cost of an expression, in weighted characters of one pull request. */
export const costOf = (tree: TypedExpression): number =>
  partsOf(tree).reduce((sum, part) => sum + costOf(part), ownCost(tree));
