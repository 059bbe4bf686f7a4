/**
 * What other rules would change for the stored pull requests, or for their reviews. Both rulesets score each of them;
 * memory grows with the number of rules, members and different scores only.
 */

import { rank } from '../../rank.ts';
import type { Facts } from '../facts.ts';
import { type CheckedEntry, compileEffects, scoredReviews, treesOf } from '../language/compile.ts';
import { clampScore } from '../language/rounding.ts';
import { definitionsUsed } from '../language/tree.ts';
import { type CheckedRule, type CheckedRuleset, factsReadBy, type RuleKind } from '../ruleset.ts';
import { bucketsOf, createDistribution, type Distribution } from './distribution.ts';

export type PlanResult = ReturnType<ReturnType<typeof createPlan>['result']>;
export type RuleResult = PlanResult['rules'][number];
export type EntryResult = RuleResult['entries'][number];
/** How many pull requests something counted for, and the sum of its points. */
export type Share = NonNullable<EntryResult['before']>;
export type Summary = PlanResult['scores']['before'];

export interface Mover {
  id: string;
  member: string;
  from: number;
  to: number;
}

/** How many movers are kept in each direction. */
const moverLimit = 25;

/** The larger change first, of equal ones the later pull request. */
const byDistance = (a: Mover, b: Mover): number =>
  Math.abs(b.to - b.from) - Math.abs(a.to - a.from) || (a.id < b.id ? 1 : -1);

/** Adds a mover, and keeps the `moverLimit` largest changes. */
function addMover(movers: Mover[], mover: Mover): void {
  const smallest = movers.at(-1);
  if (movers.length === moverLimit && smallest !== undefined && byDistance(smallest, mover) < 0) return;
  movers.push(mover);
  movers.sort(byDistance);
  movers.splice(moverLimit);
}

/** All but the sum are null if there are no pull requests. */
function summarise(scores: Distribution) {
  const { count, sum, quantile, median } = scores;
  return {
    sum,
    mean: count === 0 ? null : sum / count,
    median: median(),
    minimum: quantile(0),
    maximum: quantile(1),
  };
}

/** What an entry counted for so far. */
interface Tally {
  entry: CheckedEntry;
  /** Equal for entries with the same text and the same definitions. */
  key: string;
  /** The index of its rule in the result. */
  rule: number;
  isBefore: boolean;
  isAfter: boolean;
  count: number;
  points: number;
}

function keyOf(entry: CheckedEntry): string {
  const { expression, effect } = entry.logic;
  return JSON.stringify([expression, effect.action, effect.value, [...definitionsUsed(treesOf([entry]))]]);
}

/** The entries of a rule on both sides. One that both sides have is evaluated once. */
function talliesOf(rule: number, before: CheckedRule | undefined, after: CheckedRule | undefined): Tally[] {
  const listOf = (side: CheckedRule | undefined, isAfter: boolean): Tally[] =>
    (side?.entries ?? []).map(entry => {
      return { entry, key: keyOf(entry), rule, isBefore: !isAfter, isAfter, count: 0, points: 0 };
    });
  const entriesBefore = listOf(before, false);
  const entriesAfter = listOf(after, true);
  for (const tally of entriesAfter) {
    const index = entriesBefore.findIndex(({ key }) => key === tally.key);
    if (index === -1) continue;
    entriesBefore.splice(index, 1);
    tally.isBefore = true;
  }
  return [...entriesAfter, ...entriesBefore];
}

/**
 * Compares the rules in force with others. For rules of reviews, `pull_requests` are reviews in all of the result: each
 * counts by itself, and its member is the reviewer.
 */
export function createPlan(before: CheckedRuleset, after: CheckedRuleset, of: RuleKind) {
  const checkedByName = (ruleset: CheckedRuleset) => new Map(ruleset[of].map(checked => [checked.rule.name, checked]));
  const rulesBefore = checkedByName(before);
  const rulesAfter = checkedByName(after);
  const names = [...new Set([...rulesAfter.keys(), ...rulesBefore.keys()])];
  const tallies = names.flatMap((name, index) => talliesOf(index, rulesBefore.get(name), rulesAfter.get(name)));
  const entries = tallies.map(({ entry }) => entry);
  const evaluate = compileEffects(entries);

  // How many pull requests each rule counted for, and the last of them, so that two entries of a rule count once.
  const ruleCounts = { before: new Uint32Array(names.length), after: new Uint32Array(names.length) };
  const ruleLast = { before: new Uint32Array(names.length), after: new Uint32Array(names.length) };
  const members = new Map<string, { pull_requests: number; changed: number; before: number; after: number }>();
  const scores = { before: createDistribution(), after: createDistribution() };
  const movers: Record<'raised' | 'lowered', Mover[]> = { raised: [], lowered: [] };
  const moved = { raised: 0, lowered: 0 };
  let [count, otherBreakdown] = [0, 0];

  function countRule(side: 'before' | 'after', rule: number): void {
    if (ruleLast[side][rule] === count) return;
    ruleLast[side][rule] = count;
    ruleCounts[side][rule] = (ruleCounts[side][rule] ?? 0) + 1;
  }

  /** Adds a pull request, once. @param memberId its author's */
  function add(id: string, memberId: string, facts: Facts): void {
    if (of === 'rules') addOne(id, memberId, facts);
    else for (const review of scoredReviews(facts, entries)) addOne(id, review.member, review);
  }

  /** @param memberId null for nobody: rules pay for the review, and nobody gets it */
  function addOne(id: string, memberId: string | null, facts: Facts): void {
    count += 1;
    let [from, to, hasSameEntries] = [0, 0, true];
    for (const [index, effect] of evaluate(facts).entries()) {
      const tally = tallies[index];
      if (effect === 0 || tally === undefined) continue;
      tally.count += 1;
      tally.points += effect;
      if (tally.isBefore) {
        from += effect;
        countRule('before', tally.rule);
      }
      if (tally.isAfter) {
        to += effect;
        countRule('after', tally.rule);
      }
      if (tally.isBefore !== tally.isAfter) hasSameEntries = false;
    }
    from = clampScore(from);
    to = clampScore(to);
    scores.before.add(from);
    scores.after.add(to);
    if (from === to && !hasSameEntries) otherBreakdown += 1;
    const direction = to > from ? 'raised' : 'lowered';
    if (from !== to) moved[direction] += 1;
    if (memberId === null) return;
    const member = members.get(memberId) ?? { pull_requests: 0, changed: 0, before: 0, after: 0 };
    members.set(memberId, member);
    member.pull_requests += 1;
    member.before += from;
    member.after += to;
    if (from === to) return;
    member.changed += 1;
    addMover(movers[direction], { id, member: memberId, from, to });
  }

  function sideOf(side: 'before' | 'after', rule: number, checked: CheckedRule | undefined) {
    if (checked === undefined) return null;
    const own = tallies.filter(tally => tally.rule === rule && (side === 'before' ? tally.isBefore : tally.isAfter));
    return {
      enabled: checked.rule.is_enabled,
      /** False for a stored rule that this release no longer accepts: it contributes nothing. */
      valid: checked.problems.length === 0,
      pull_requests: ruleCounts[side][rule] ?? 0,
      points: own.reduce((sum, { points }) => sum + points, 0),
    };
  }

  function listMembers() {
    const all = [...members];
    const before = rank(all.map(([, totals]) => totals.before));
    const after = rank(all.map(([, totals]) => totals.after));
    return all
      .map(([id, totals], index) => ({
        id,
        ...totals,
        /** From 1. Members with the same total share a rank. */
        rank_before: before[index] ?? 0,
        rank_after: after[index] ?? 0,
      }))
      .sort((a, b) => b.after - a.after || b.before - a.before || (a.id < b.id ? -1 : 1));
  }

  return {
    /** Those that either ruleset reads. */
    facts: factsReadBy(entries),
    add,
    result: () => ({
      pull_requests: {
        total: count,
        changed: moved.raised + moved.lowered,
        ...moved,
        /** Those with the same score from other entries. */
        breakdown_only: otherBreakdown,
      },
      scores: { before: summarise(scores.before), after: summarise(scores.after) },
      histogram: bucketsOf(scores.before, scores.after),
      /** In the new order, then the removed ones. */
      rules: names.map((name, index) => ({
        name,
        before: sideOf('before', index, rulesBefore.get(name)),
        after: sideOf('after', index, rulesAfter.get(name)),
        /** Null on a side that lacks the entry, or has its rule disabled. */
        entries: tallies
          .filter(({ rule }) => rule === index)
          .map(({ entry: { logic }, isBefore, isAfter, count: pulls, points }) => ({
            /** The whole condition. */
            expression: logic.expression,
            action: logic.effect.action,
            value: logic.effect.value,
            before: isBefore ? { pull_requests: pulls, points } : null,
            after: isAfter ? { pull_requests: pulls, points } : null,
          })),
      })),
      /** Highest new total first. */
      members: listMembers(),
      /** The largest changes first, of equal ones the later pull request. */
      movers,
    }),
  };
}
