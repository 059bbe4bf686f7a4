/**
 * What other rules would change for the stored pull requests. Both rulesets score each of them; memory grows with the
 * number of rules, members and different scores only.
 */
import { clampScore, compileEffects } from './compile.ts';
import { type Bucket, bucketsOf, createDistribution, type Distribution } from './distribution.ts';
import type { Facts } from './facts.ts';
import { type CheckedRule, checkRules, tally } from './planned-entries.ts';
import { factsOfEntries, type RuleLogic, type Ruleset } from './ruleset.ts';

/** How many pull requests something counted for, and the sum of its points. */
export interface Share {
  pullRequests: number;
  points: number;
}

/** An entry of a rule; null on a side that lacks it, or has the rule disabled. */
export interface EntryResult {
  /** With the whole condition. */
  logic: RuleLogic;
  before: Share | null;
  after: Share | null;
}

export interface RuleSide extends Share {
  isEnabled: boolean;
  /** False for a stored rule that this release no longer accepts: it contributes nothing. */
  isValid: boolean;
}

export interface RuleResult {
  name: string;
  before: RuleSide | null;
  after: RuleSide | null;
  entries: EntryResult[];
}

export interface MemberResult {
  member: string;
  pullRequests: number;
  changed: number;
  before: number;
  after: number;
  /** From 1. Members with the same total share a rank. */
  rankBefore: number;
  rankAfter: number;
}

export interface Mover {
  id: string;
  member: string;
  from: number;
  to: number;
}

export interface Summary {
  sum: number;
  /** Null if there are no pull requests. */
  mean: number | null;
  median: number | null;
  minimum: number | null;
  maximum: number | null;
}

export interface PlanResult {
  pullRequests: number;
  raised: number;
  lowered: number;
  /** Those with the same score from other entries. */
  otherBreakdown: number;
  before: Summary;
  after: Summary;
  buckets: Bucket[];
  /** In the new order, then the removed ones. */
  rules: RuleResult[];
  /** Highest new total first. */
  members: MemberResult[];
  /** The largest changes first, of equal ones the later pull request. */
  movers: { raised: Mover[]; lowered: Mover[] };
}

/** How many movers are kept in each direction. */
const moverLimit = 25;

/** The larger change first, of equal ones the later pull request. */
const byDistance = (one: Mover, two: Mover): number =>
  Math.abs(two.to - two.from) - Math.abs(one.to - one.from) || (one.id < two.id ? 1 : -1);

/** Adds a mover, and keeps the `moverLimit` largest changes. */
function addMover(movers: Mover[], mover: Mover): void {
  const smallest = movers.at(-1);
  if (movers.length === moverLimit && smallest !== undefined && byDistance(smallest, mover) < 0) return;
  movers.push(mover);
  movers.sort(byDistance);
  movers.splice(moverLimit);
}

function summarise(scores: Distribution): Summary {
  const { count, sum, quantile, median } = scores;
  return {
    sum,
    mean: count === 0 ? null : sum / count,
    median: median(),
    minimum: quantile(0),
    maximum: quantile(1),
  };
}

/** Ranks by total, highest first; equal totals share the highest of their ranks. */
export function rank(totals: readonly number[]): number[] {
  const order = [...totals].sort((one, two) => two - one);
  const ranks = new Map<number, number>();
  for (const [index, total] of order.entries()) if (!ranks.has(total)) ranks.set(total, index + 1);
  return totals.map(total => ranks.get(total) ?? 0);
}

/** Compares the rules in force with others. */
export function createPlan(before: Ruleset, after: Ruleset) {
  const former = checkRules(before);
  const latter = checkRules(after);
  const names = [...new Set([...latter.keys(), ...former.keys()])];
  const tallies = names.flatMap((name, index) => tally(index, former.get(name), latter.get(name)));
  const entries = tallies.map(({ checked }) => checked);
  const evaluate = compileEffects(entries);
  const effects = new Float64Array(entries.length);

  // For how many pull requests each rule counted, and for which last: two entries of a rule count as one.
  const ruleCounts = { before: new Uint32Array(names.length), after: new Uint32Array(names.length) };
  const ruleLast = { before: new Uint32Array(names.length), after: new Uint32Array(names.length) };
  const members = new Map<string, { pullRequests: number; changed: number; before: number; after: number }>();
  const scores = { before: createDistribution(), after: createDistribution() };
  const movers: PlanResult['movers'] = { raised: [], lowered: [] };
  const moved = { raised: 0, lowered: 0 };
  let [count, otherBreakdown] = [0, 0];

  function countRule(side: 'before' | 'after', rule: number): void {
    if (ruleLast[side][rule] === count) return;
    ruleLast[side][rule] = count;
    ruleCounts[side][rule] = (ruleCounts[side][rule] ?? 0) + 1;
  }

  /** Adds a pull request, once. @param memberId its author's */
  function add(id: string, memberId: string, facts: Facts): void {
    count += 1;
    evaluate(facts, effects);
    let [from, to, hasSameEntries] = [0, 0, true];
    for (let index = 0; index < effects.length; index += 1) {
      const effect = effects[index] ?? 0;
      const entry = tallies[index];
      if (effect === 0 || entry === undefined) continue;
      entry.count += 1;
      entry.points += effect;
      if (entry.isBefore) {
        from += effect;
        countRule('before', entry.rule);
      }
      if (entry.isAfter) {
        to += effect;
        countRule('after', entry.rule);
      }
      if (entry.isBefore !== entry.isAfter) hasSameEntries = false;
    }
    from = clampScore(from);
    to = clampScore(to);
    scores.before.add(from);
    scores.after.add(to);
    const member = members.get(memberId) ?? { pullRequests: 0, changed: 0, before: 0, after: 0 };
    members.set(memberId, member);
    member.pullRequests += 1;
    member.before += from;
    member.after += to;
    if (from === to) {
      if (!hasSameEntries) otherBreakdown += 1;
      return;
    }
    member.changed += 1;
    const direction = to > from ? 'raised' : 'lowered';
    moved[direction] += 1;
    addMover(movers[direction], { id, member: memberId, from, to });
  }

  function sideOf(side: 'before' | 'after', rule: number, checked: CheckedRule | undefined): RuleSide | null {
    if (checked === undefined) return null;
    const own = tallies.filter(entry => entry.rule === rule && (side === 'before' ? entry.isBefore : entry.isAfter));
    const { isEnabled, isValid } = checked;
    return {
      isEnabled,
      isValid,
      pullRequests: ruleCounts[side][rule] ?? 0,
      points: own.reduce((sum, { points }) => sum + points, 0),
    };
  }

  function listMembers(): MemberResult[] {
    const all = [...members];
    const before = rank(all.map(([, totals]) => totals.before));
    const after = rank(all.map(([, totals]) => totals.after));
    return all
      .map(([member, totals], index) => ({
        member,
        ...totals,
        rankBefore: before[index] ?? 0,
        rankAfter: after[index] ?? 0,
      }))
      .sort((one, two) => two.after - one.after || two.before - one.before || (one.member < two.member ? -1 : 1));
  }

  return {
    /** Those that either ruleset reads. */
    facts: factsOfEntries(entries),
    add,
    result: (): PlanResult => ({
      pullRequests: count,
      ...moved,
      otherBreakdown,
      before: summarise(scores.before),
      after: summarise(scores.after),
      buckets: bucketsOf(scores.before, scores.after),
      rules: names.map((name, index) => ({
        name,
        before: sideOf('before', index, former.get(name)),
        after: sideOf('after', index, latter.get(name)),
        entries: tallies
          .filter(({ rule }) => rule === index)
          .map(({ logic, isBefore, isAfter, count: pullRequests, points }) => ({
            logic,
            before: isBefore ? { pullRequests, points } : null,
            after: isAfter ? { pullRequests, points } : null,
          })),
      })),
      members: listMembers(),
      movers,
    }),
  };
}
