/**
 * How rules can be gamed: changes stored pull requests in small, cheap ways, scores them again, and tallies which ways
 * gain points. Memory grows with the number of rules only.
 */

import { type Facts, factNames, type SourceName } from '../facts.ts';
import { compileEffects, treesOf } from '../language/compile.ts';
import { clampScore } from '../language/rounding.ts';
import { factsRead } from '../language/tree.ts';
import { checkRules, type Ruleset } from '../ruleset.ts';
import { type Change, changesOf, type Way, ways } from './audit-ways.ts';
import { createDistribution, type Distribution } from './distribution.ts';

export type Audit = ReturnType<typeof createAudit>;
export type AuditedWay = ReturnType<Audit['result']>['ways'][number];

/** Texts of any length: read only if the rules do. */
const largeFacts: ReadonlySet<SourceName> = new Set<SourceName>(['body', 'files', 'file_changes']);

interface Tally {
  way: Way;
  changes: readonly Change[];
  gains: Distribution;
  paid: Float64Array;
  /** The one that gains most. `after` is the sum, if there are several pull requests afterwards. */
  example: { id: string; before: number; after: number } | undefined;
}

export function createAudit(ruleset: Ruleset) {
  const entries = checkRules(ruleset).flatMap(rule => rule.entries);
  const trees = treesOf(entries);
  const facts = factsRead(trees);
  for (const name of factNames) if (!largeFacts.has(name)) facts.add(name);
  const names = [...new Set(entries.map(({ name }) => name))];
  const ruleOf = entries.map(({ name }) => names.indexOf(name));
  const evaluate = compileEffects(entries);
  const changes = changesOf(trees);
  const tallies = ways.map((way): Tally => {
    const paid = new Float64Array(names.length);
    return { way, changes: changes[way], gains: createDistribution(), paid, example: undefined };
  });
  let pullRequests = 0;

  /** Adds the points of each rule to `points`. @returns the score */
  function score(facts: Facts, points: Float64Array): number {
    let sum = 0;
    for (const [index, effect] of evaluate(facts).entries()) {
      sum += effect;
      const rule = ruleOf[index] ?? 0;
      points[rule] = (points[rule] ?? 0) + effect;
    }
    return clampScore(sum);
  }

  const before = new Float64Array(names.length);

  function tryWay(tally: Tally, id: string, original: Facts, from: number): void {
    let best: { after: number; points: Float64Array } | undefined;
    for (const change of tally.changes) {
      const points = new Float64Array(names.length);
      const results = change(original);
      if (results === undefined) continue;
      const after = [results].flat().reduce((sum, result) => sum + score(result, points), 0);
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
    /** Adds a pull request, once. */
    add(id: string, original: Facts): void {
      pullRequests += 1;
      before.fill(0);
      const from = score(original, before);
      for (const tally of tallies) tryWay(tally, id, original, from);
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
