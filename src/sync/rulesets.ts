import { LRUCache } from 'lru-cache';
import type { Executor } from '../database/client.ts';
import { getRuleset } from '../database/rules.ts';
import type { Deps } from '../deps.ts';
import { runWithPauses } from '../pauses.ts';
import { type CompiledRuleset, compileInSteps } from '../scoring/ruleset.ts';

// A version of a ruleset never changes, so a compiled one stays valid.
const compiled = new LRUCache<string, CompiledRuleset>({ max: 200 });

/** The compiled ruleset. Rules that this release refuses contribute nothing and are logged once. */
export async function loadRuleset(
  log: Deps['log'],
  executor: Executor,
  organisationId: string,
  version: number,
): Promise<CompiledRuleset> {
  const key = `${organisationId} ${version}`;
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const ruleset = await runWithPauses(compileInSteps(await getRuleset(executor, organisationId, version)));
  for (const { message } of ruleset.problems) {
    log.warn({ organisationId, rulesetVersion: version }, `a stored rule is no longer valid: ${message}`);
  }
  compiled.set(key, ruleset);
  return ruleset;
}
