import { LRUCache } from 'lru-cache';
import { getRuleset } from '../database/rules.ts';
import { rulesSuspended } from '../errors.ts';
import type { Facts } from '../scoring/facts.ts';
import { compileScore, type Score } from '../scoring/language/compile.ts';
import { type CompiledRuleset, compileRuleset, type Ruleset } from '../scoring/ruleset.ts';
import { BoundBroken, maxPullRequestMs, type RuleEntry } from './bounds.ts';
import type { Work } from './work.ts';

/** Organisations whose rulesets a process keeps compiled, as long as its heap has room for more. */
const maxKept = 1_000;
const maxHeapBytes = 128_000_000;

/** By organisation: each has its latest version only. A version never changes, so a compiled one stays valid. */
const compiled = new LRUCache<string, { version: number; ruleset: CompiledRuleset }>({ max: maxKept });

/** @throws ServiceError `rules_suspended` */
export async function readRuleset({ database }: Work, organisationId: string, version: number): Promise<Ruleset> {
  const { suspension, ...ruleset } = await getRuleset(database.executor, organisationId, version);
  if (suspension !== null) throw rulesSuspended();
  return ruleset;
}

/**
 * Compiled rules. Those that this release refuses contribute nothing and are logged once. `facts`: all that they read.
 *
 * @throws ServiceError `rules_suspended`
 */
export async function loadRuleset(work: Work, organisationId: string, version: number) {
  let kept = compiled.get(organisationId);
  if (kept?.version !== version) {
    const stored = await readRuleset(work, organisationId, version);
    await work.turn();
    kept = { version, ruleset: compileRuleset(stored, next => work.alive(next && { version, ...next })) };
    for (const { message } of kept.ruleset.problems) {
      work.log.warn({ organisationId, rulesetVersion: version }, `a stored rule is no longer valid: ${message}`);
    }
    // A pattern can take two kilobytes for each of its characters, so memory is measured rather than estimated.
    if (process.memoryUsage().heapUsed > maxHeapBytes) compiled.clear();
    if (version >= (compiled.get(organisationId)?.version ?? 0)) compiled.set(organisationId, kept);
  }
  const { score, facts } = kept.ruleset;
  return { facts, score: work.isCareful ? scoreCarefully(work, version, kept.ruleset) : score };
}

/** Evaluates each entry alone first, and says which comes next: if the process ends in it, it is known. */
function scoreCarefully({ alive }: Work, version: number, { entries, score }: CompiledRuleset) {
  const evaluators = entries.map(each => {
    const name: RuleEntry = { version, rule: each.name, entry: each.entry };
    return { name, evaluate: compileScore([each]) };
  });
  return (facts: Facts): Score => {
    let totalMs = 0;
    let slowest: { name: RuleEntry; ms: number } | undefined;
    for (const { name, evaluate } of evaluators) {
      alive(name);
      const { user } = process.cpuUsage();
      evaluate(facts);
      const ms = (process.cpuUsage().user - user) / 1000;
      totalMs += ms;
      if (ms >= (slowest?.ms ?? 0)) slowest = { name, ms };
    }
    if (totalMs > maxPullRequestMs && slowest !== undefined) throw new BoundBroken(slowest.name);
    // All entries together may take more memory than each of them alone.
    if (slowest !== undefined) alive(slowest.name);
    return score(facts);
  };
}
