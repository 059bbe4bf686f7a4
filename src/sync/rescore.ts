import type { Executor } from '../database/client.ts';
import { renewContentVersion } from '../database/content-versions.ts';
import { createFactsReader } from '../database/facts.ts';
import { lockOrganisation } from '../database/organisations.ts';
import {
  findOutdatedOrganisation,
  followRepositoryNames,
  type NewScore,
  readRange,
  saveScores,
  splitRemainder,
  takeRanges,
} from '../database/rescoring.ts';
import type { Deps } from '../deps.ts';
import { loadRuleset } from './rulesets.ts';

/**
 * Scores some batches of pull requests under the ruleset in force. Several replicas share the work: each skips the
 * ranges that another holds.
 *
 * @param organisationId undefined: any organisation with stale scores
 * @returns how many were scored; 0 if there was nothing to do
 */
export async function rescoreBatch({ database, log }: Deps, organisationId?: string): Promise<number> {
  const id = organisationId ?? (await findOutdatedOrganisation(database.executor));
  if (id === undefined) return 0;
  // Not durable: a crash may undo the last batches together with the removal of their ranges, so they are done again.
  const rescore = () => database.transaction(executor => rescoreRanges(log, executor, id), { durable: false });
  const scored = await rescore();
  if (scored > 0) return scored;
  // In a transaction of its own, so that other replicas find the batches at once.
  await database.transaction(executor => splitRemainder(executor, id));
  return rescore();
}

async function rescoreRanges(log: Deps['log'], executor: Executor, organisationId: string): Promise<number> {
  // Held until the end: all scores of the batches belong to the version in force.
  const version = await lockOrganisation(executor, organisationId, 'shared');
  const ruleset = await loadRuleset(log, executor, organisationId, version);
  const reader = createFactsReader(ruleset.facts);
  let scored = 0;
  for (const range of await takeRanges(executor, organisationId)) {
    const { count, pullRequests } = await readRange(executor, organisationId, range, reader);
    scored += count;
    const changed: NewScore[] = [];
    for (const { id, fetchTicket, facts, ...former } of pullRequests) {
      const { score, breakdown } = ruleset.score(facts);
      // The score is the sum of its entries.
      if (breakdown === former.breakdown) continue;
      changed.push({ id, fetchTicket, from: former.score, score, breakdown });
    }
    await saveScores(executor, organisationId, version, changed);
    if (range.urlsStale) await followRepositoryNames(executor, organisationId, range);
  }
  if (scored > 0) await renewContentVersion(executor, organisationId);
  return scored;
}
