/**
 * How rules can be gamed: changes stored pull requests in small, cheap ways, scores them again, and tallies which ways
 * gain points. Memory grows with the number of rules only.
 */

import { type Facts, pullRequestFactNames, type SourceName } from '../facts.ts';
import { type CheckedEntry, compileEffects, scoredReviews, treesOf } from '../language/compile.ts';
import { clampScore } from '../language/rounding.ts';
import { type CheckedRuleset, factsReadBy, type RuleKind } from '../ruleset.ts';
import { type Change, changesOf, type Way } from './audit-ways.ts';
import { createDistribution } from './distribution.ts';
import { type ReviewWay, reviewChangesOf } from './review-ways.ts';

export type Audit = ReturnType<typeof createAudit>;
export type AuditedWay = ReturnType<Audit['result']>['ways'][number];

/** Texts of any length: read only if the rules do. */
const largeFacts: ReadonlySet<SourceName> = new Set<SourceName>(['body', 'files', 'file_changes']);

/** Adds the points of each rule to `points`. @returns their sum */
type Score = (facts: Facts, points: Float64Array) => number;

/** @param names of the rules: their places in `points` */
function createScore(entries: readonly CheckedEntry[], of: RuleKind, names: readonly string[]): Score {
  const evaluate = compileEffects(entries);
  const ruleOf = entries.map(({ name }) => names.indexOf(name));
  const scoreOne: Score = (facts, points) => {
    let sum = 0;
    for (const [index, effect] of evaluate(facts).entries()) {
      sum += effect;
      const rule = ruleOf[index] ?? 0;
      points[rule] = (points[rule] ?? 0) + effect;
    }
    return clampScore(sum);
  };
  if (of === 'rules') return scoreOne;
  return (facts, points) => scoredReviews(facts, entries).reduce((sum, review) => sum + scoreOne(review, points), 0);
}

/** How points of pull requests can be gained, or those of reviews: by those who review a pull request, all together. */
export function createAudit(ruleset: CheckedRuleset, of: RuleKind) {
  const entriesOf = (kind: RuleKind) => ruleset[kind].flatMap(rule => rule.entries);
  const entries = { rules: entriesOf('rules'), reviews: of === 'rules' ? [] : entriesOf('reviews') };
  const all = [...entries.rules, ...entries.reviews];
  const facts = new Set<SourceName>([
    ...factsReadBy(all),
    ...pullRequestFactNames.filter(name => !largeFacts.has(name)),
  ]);
  const names = [...new Set(all.map(({ name }) => name))];
  const rules = createScore(entries.rules, 'rules', names);
  const reviews = createScore(entries.reviews, 'reviews', names);
  const both: Score = (facts, points) => rules(facts, points) + reviews(facts, points);
  const trees = treesOf(entries[of]);
  const changes = Object.entries(of === 'rules' ? changesOf(trees) : reviewChangesOf(trees));
  const tallies = (changes as [Way | ReviewWay, readonly Change[]][]).map(([way, changes]) => ({
    way,
    changes,
    // Two who approve each other gain as authors, too.
    score: way === 'mutual_approval' ? both : { rules, reviews }[of],
    gains: createDistribution(),
    paid: new Float64Array(names.length),
    /** The one that gains most. `after` is the sum, if there are several pull requests afterwards. */
    example: undefined as { id: string; before: number; after: number } | undefined,
  }));
  let pullRequests = 0;
  const before = new Float64Array(names.length);

  function* tryWay(tally: (typeof tallies)[number], id: string, original: Facts, from: number): Generator<void> {
    let best: { after: number; points: Float64Array } | undefined;
    for (const change of tally.changes) {
      yield;
      const points = new Float64Array(names.length);
      const results = change(original);
      if (results === undefined) continue;
      const after = [results].flat().reduce((sum, result) => sum + tally.score(result, points), 0);
      if (after > (best?.after ?? from)) best = { after, points };
    }
    if (best === undefined) return;
    const gain = best.after - from;
    tally.gains.add(gain);
    for (const [rule, points] of best.points.entries()) {
      tally.paid[rule] = (tally.paid[rule] ?? 0) + Math.max(0, points - (before[rule] ?? 0));
    }
    const { example } = tally;
    if (example === undefined || gain > example.after - example.before) {
      tally.example = { id, before: from, after: best.after };
    }
  }

  return {
    /** Those that the rules read, and those that the ways change. */
    facts,
    /**
     * Adds a pull request, once. Yields before each change that is tried: rules can name thousands of titles and labels,
     * so all of them may take minutes.
     */
    *add(id: string, original: Facts): Generator<void> {
      pullRequests += 1;
      let [from, known] = [0, undefined as Score | undefined];
      for (const tally of tallies) {
        if (tally.score !== known) {
          known = tally.score;
          before.fill(0);
          from = known(original, before);
        }
        yield* tryWay(tally, id, original, from);
      }
    },
    /** The ways that gain on most pull requests first. */
    result() {
      const audited = tallies.map(({ way, gains, paid, example }) => {
        const total = paid.reduce((sum, points) => sum + points, 0);
        return {
          way,
          /** Of the pull requests, how many gain points, between 0 and 1. */
          share: pullRequests === 0 ? 0 : gains.count / pullRequests,
          /** Of those that gain; 0 if none does. */
          median_gain: gains.median() ?? 0,
          largest_gain: gains.quantile(1) ?? 0,
          /** Which rules pay, as shares of all points gained, the largest first. */
          rules: names
            .map((name, rule) => ({ name, share: total === 0 ? 0 : (paid[rule] ?? 0) / total }))
            .filter(({ share }) => share > 0)
            .sort((a, b) => b.share - a.share),
          example,
        };
      });
      return { pullRequests, ways: audited.sort((a, b) => b.share - a.share) };
    },
  };
}
