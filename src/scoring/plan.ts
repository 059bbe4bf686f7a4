/**
 * What other rules would do to stored pull requests. Both rulesets score every one of them; what is kept does not grow
 * with their number, only with that of rules and members.
 */
import { type CheckedEntry, clampScore, compileEffects } from './compile.ts';
import { type Bucket, bucketsOf, createDistribution, type Distribution } from './distribution.ts';
import type { FactName, Facts } from './facts.ts';
import { entryKey } from './rule-changes.ts';
import { checkRule, factsOfEntries, type RuleDefinition, type RuleLogic } from './ruleset.ts';

/** How many pull requests something counted for, and what it gave them together. */
export interface Share {
  pullRequests: number;
  points: number;
}

/** An entry of a rule; null on the side that doesn't have it, or has its rule switched off. */
export interface EntryResult {
  logic: RuleLogic;
  before: Share | null;
  after: Share | null;
}

export interface RuleSide extends Share {
  isEnabled: boolean;
  /** False for a stored rule that this release refuses: it contributes nothing. */
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
  /** From 1; members with the same total share a rank. */
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
  /** Null if there is no pull request. */
  mean: number | null;
  /** Exact up to 4,095 on either side of zero, beyond that to 1 in 2,048. */
  median: number | null;
  minimum: number | null;
  maximum: number | null;
}

export interface PlanResult {
  pullRequests: number;
  raised: number;
  lowered: number;
  /** Keep their score, but for other reasons. */
  otherBreakdown: number;
  before: Summary;
  after: Summary;
  buckets: Bucket[];
  /** In the new order; those that it lacks follow. */
  rules: RuleResult[];
  /** Highest new total first. */
  members: MemberResult[];
  /** The largest changes first, the later pull request first of equal ones. */
  movers: { raised: Mover[]; lowered: Mover[] };
}

export interface Plan {
  /** What it needs to know of each pull request. */
  facts: ReadonlySet<FactName>;
  /** @param member the id of the pull request's member */
  add(id: string, member: string, facts: Facts): void;
  result(): PlanResult;
}

/** How many movers are kept in each direction. */
const moverLimit = 25;

interface Tally {
  logic: RuleLogic;
  checked: CheckedEntry;
  /** Place of its rule in the result. */
  rule: number;
  isBefore: boolean;
  isAfter: boolean;
  count: number;
  points: number;
}

interface CheckedRule {
  definition: RuleDefinition;
  isValid: boolean;
  /** Those that count: none of a rule that is switched off or not valid. */
  entries: readonly CheckedEntry[];
}

function checkAll(rules: readonly RuleDefinition[]): Map<string, CheckedRule> {
  return new Map(
    rules.map(definition => {
      const { entries, problems } = checkRule(definition);
      const isValid = problems.length === 0;
      return [definition.name, { definition, isValid, entries: isValid && definition.is_enabled ? entries : [] }];
    }),
  );
}

/** The entries of a rule on both sides; one that both have stands once, so that it is evaluated once. */
function tally(rule: number, before: CheckedRule | undefined, after: CheckedRule | undefined): Tally[] {
  const listOf = (side: CheckedRule | undefined, isBefore: boolean): Tally[] =>
    (side?.entries ?? []).flatMap((checked, index) => {
      const logic = side?.definition.logic[index];
      return logic === undefined
        ? []
        : [{ logic, checked, rule, isBefore, isAfter: !isBefore, count: 0, points: 0 } satisfies Tally];
    });
  const former = listOf(before, true);
  const latter = listOf(after, false);
  for (const entry of latter) {
    const index = former.findIndex(({ logic }) => entryKey(logic) === entryKey(entry.logic));
    if (index === -1) continue;
    former.splice(index, 1);
    entry.isBefore = true;
  }
  return [...latter, ...former];
}

/** Keeps the `moverLimit` largest changes in one direction. */
function createRanking() {
  const movers: (Mover & { distance: number })[] = [];
  return {
    add(id: string, member: string, from: number, to: number): void {
      const distance = Math.abs(to - from);
      const isBehind = (other: Mover & { distance: number }) =>
        other.distance < distance || (other.distance === distance && other.id < id);
      const smallest = movers.at(-1);
      if (movers.length === moverLimit && smallest !== undefined && !isBehind(smallest)) return;
      const place = movers.findIndex(isBehind);
      movers.splice(place === -1 ? movers.length : place, 0, { id, member, from, to, distance });
      if (movers.length > moverLimit) movers.pop();
    },
    list: (): Mover[] => movers.map(({ id, member, from, to }) => ({ id, member, from, to })),
  };
}

function summarise(scores: Distribution): Summary {
  const { count, sum, minimum, maximum } = scores;
  return { sum, mean: count === 0 ? null : sum / count, median: scores.median(), minimum, maximum };
}

/** Ranks by total, highest first; equal totals share the rank of the first of them. */
function rank(totals: readonly number[]): number[] {
  const order = [...totals].sort((one, two) => two - one);
  const ranks = new Map<number, number>();
  for (const [index, total] of order.entries()) if (!ranks.has(total)) ranks.set(total, index + 1);
  return totals.map(total => ranks.get(total) ?? 0);
}

/** Begins a comparison of the rules in force with others, to be given each pull request once. */
export function createPlan(before: readonly RuleDefinition[], after: readonly RuleDefinition[]): Plan {
  const former = checkAll(before);
  const latter = checkAll(after);
  const names = [...new Set([...latter.keys(), ...former.keys()])];
  const tallies = names.flatMap((name, index) => tally(index, former.get(name), latter.get(name)));
  const entries = tallies.map(({ checked }) => checked);
  const evaluate = compileEffects(entries);
  const effects = new Float64Array(entries.length);

  // For each rule on each side, how many pull requests it counted for, and the last one: a rule with two entries that
  // count still counts for one pull request.
  const ruleCounts = { before: new Uint32Array(names.length), after: new Uint32Array(names.length) };
  const ruleLast = { before: new Uint32Array(names.length), after: new Uint32Array(names.length) };
  const members = new Map<string, { pullRequests: number; changed: number; before: number; after: number }>();
  const scores = { before: createDistribution(), after: createDistribution() };
  const raisedMost = createRanking();
  const loweredMost = createRanking();
  let [count, raised, lowered, otherBreakdown] = [0, 0, 0, 0];

  function seeRule(side: 'before' | 'after', rule: number): void {
    if (ruleLast[side][rule] === count) return;
    ruleLast[side][rule] = count;
    ruleCounts[side][rule] = (ruleCounts[side][rule] ?? 0) + 1;
  }

  function memberOf(id: string) {
    const known = members.get(id);
    if (known !== undefined) return known;
    const added = { pullRequests: 0, changed: 0, before: 0, after: 0 };
    members.set(id, added);
    return added;
  }

  function add(id: string, memberId: string, facts: Facts): void {
    count += 1;
    evaluate(facts, effects);
    let [from, to, isSame] = [0, 0, true];
    for (let index = 0; index < effects.length; index += 1) {
      const effect = effects[index] ?? 0;
      const entry = tallies[index];
      if (effect === 0 || entry === undefined) continue;
      entry.count += 1;
      entry.points += effect;
      if (entry.isBefore) {
        from += effect;
        seeRule('before', entry.rule);
      }
      if (entry.isAfter) {
        to += effect;
        seeRule('after', entry.rule);
      }
      if (entry.isBefore !== entry.isAfter) isSame = false;
    }
    from = clampScore(from);
    to = clampScore(to);
    scores.before.add(from);
    scores.after.add(to);
    const member = memberOf(memberId);
    member.pullRequests += 1;
    member.before += from;
    member.after += to;
    if (from === to) {
      if (!isSame) otherBreakdown += 1;
      return;
    }
    member.changed += 1;
    if (to > from) {
      raised += 1;
      raisedMost.add(id, memberId, from, to);
    } else {
      lowered += 1;
      loweredMost.add(id, memberId, from, to);
    }
  }

  function sideOf(side: 'before' | 'after', rule: number, checked: CheckedRule | undefined): RuleSide | null {
    if (checked === undefined) return null;
    const own = tallies.filter(entry => entry.rule === rule && (side === 'before' ? entry.isBefore : entry.isAfter));
    return {
      isEnabled: checked.definition.is_enabled,
      isValid: checked.isValid,
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
    facts: factsOfEntries(entries),
    add,
    result: () => ({
      pullRequests: count,
      raised,
      lowered,
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
      movers: { raised: raisedMost.list(), lowered: loweredMost.list() },
    }),
  };
}
