/**
 * How much of a pull request's texts an expression can read at most: the number of characters, weighted so that a small
 * pattern counts each of them once. That is where the time goes; numbers cost next to nothing. A million takes up to
 * 40 ms.
 */
import type { SourceName } from '../facts.ts';
import type { TypedExpression } from './tree.ts';

/**
 * The maximum cost of a whole ruleset. At the maximum, the slowest rules take 0.3 to 0.6 s for one pull request. They take
 * 0.9 s for a description that consists of `İ`, the slowest character to convert to lower case, and up to four times as
 * long if they are all globs and the pull request has 3,000 files with long paths.
 */
export const maxRulesetCost = 15_000_000;

/** Characters of a description, and of the paths of a thousand files. */
const longText = 65_536;

/**
 * GitHub's limits on texts; other texts are short. The paths of a pull request can have four times as many characters
 * (our limit: src/github/pull-request.ts), but hardly any has more than this, and a higher number would refuse useful rules.
 */
const maxCharacters: { readonly [Name in SourceName]?: number } = {
  body: longText,
  files: longText,
  file_changes: 0,
  labels: 100 * 50,
  assignees: 20 * 39,
};
const shortText = 256;

/** The cost of a character in a function or an operator; in a small pattern it is 1. */
const plainWeight = 0.25;

/** The `cost` of a small pattern: see `Pattern`. */
const smallPattern = 512;

const isTextual = ({ type }: TypedExpression) => type === 'text' || type === 'list';

/** The maximum length of a text, or of all texts of a list together. */
function lengthOf(tree: TypedExpression): number {
  if (!isTextual(tree)) return 0;
  if (tree.kind === 'constant') return String(tree.value).length;
  if (tree.kind === 'fact') return maxCharacters[tree.name] ?? shortText;
  return Math.max(0, ...tree.parts.map(lengthOf));
}

function ownCost(tree: TypedExpression): number {
  const lengths = tree.parts.filter(isTextual).map(lengthOf);
  const length = lengths.reduce((sum, each) => sum + each, 0);
  if (tree.kind === 'comparison') return lengths.length === 0 ? 0 : plainWeight * Math.min(...lengths);
  if (tree.kind === 'call' && tree.patternCost > 0) return (length * tree.patternCost) / smallPattern;
  // A text that a call returns is written first.
  if (tree.kind === 'call') return plainWeight * (length + lengthOf(tree));
  return tree.kind === 'oneOf' || tree.kind === 'itemOf' ? plainWeight * length : 0;
}

/** The maximum cost of an expression, in weighted characters of one pull request. */
export const costOf = (tree: TypedExpression): number =>
  tree.parts.reduce((sum, part) => sum + costOf(part), ownCost(tree));
