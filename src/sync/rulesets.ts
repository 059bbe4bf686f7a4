import { LRUCache } from 'lru-cache';
import type { Executor } from '../database/client.ts';
import { getRuleset } from '../database/rules.ts';
import type { Deps } from '../deps.ts';
import { runWithPauses } from '../event-loop.ts';
import { type CompiledRuleset, compileInSteps } from '../scoring/ruleset.ts';

/** Bytes of all rulesets that a process keeps compiled. One has 7 MB at most. */
const maxBytes = 128_000_000;

interface Loaded {
  version: number;
  ruleset: CompiledRuleset;
}

/** By organisation: each has its latest version only. A version never changes, so a compiled one stays valid. */
const compiled = new LRUCache<string, Loaded>({
  maxSize: maxBytes,
  sizeCalculation: ({ ruleset }) => 1 + ruleset.bytes,
});

/** Those that are compiled now, by organisation and version: who asks meanwhile waits for the same one. */
const loading = new Map<string, Promise<CompiledRuleset>>();

/** The compiled ruleset. Rules that this release refuses contribute nothing and are logged once. */
export async function loadRuleset(
  log: Deps['log'],
  executor: Executor,
  organisationId: string,
  version: number,
): Promise<CompiledRuleset> {
  const known = compiled.get(organisationId);
  if (known?.version === version) return known.ruleset;
  const key = `${organisationId} ${version}`;
  const shared = loading.get(key) ?? load(log, executor, organisationId, version).finally(() => loading.delete(key));
  loading.set(key, shared);
  return shared;
}

async function load(
  log: Deps['log'],
  executor: Executor,
  organisationId: string,
  version: number,
): Promise<CompiledRuleset> {
  const ruleset = await runWithPauses(compileInSteps(await getRuleset(executor, organisationId, version)));
  for (const { message } of ruleset.problems) {
    log.warn({ organisationId, rulesetVersion: version }, `a stored rule is no longer valid: ${message}`);
  }
  if (version >= (compiled.get(organisationId)?.version ?? 0)) compiled.set(organisationId, { version, ruleset });
  return ruleset;
}
