import type { Executor } from '../database/client.ts';
import { createFactsReader } from '../database/facts.ts';
import { lockRulesetVersion } from '../database/organisations.ts';
import {
  cutRest,
  findOutdatedOrganisation,
  followRepositoryNames,
  type NewScore,
  readRange,
  saveScores,
  takeRanges,
} from '../database/rescoring.ts';
import type { Deps } from '../deps.ts';
import { loadRuleset } from './rulesets.ts';

/**
 * Scores some batches of pull requests under the ruleset in force. Several replicas share the work: each passes over
 * the ranges that another holds.
 *
 * @param organisationId undefined: of any organisation that has some
 * @returns how many were looked at; 0 where there was nothing in what was taken, or nothing to be taken
 */
export async function rescoreBatch({ database, log }: Deps, organisationId?: string): Promise<number> {
  const id = organisationId ?? (await findOutdatedOrganisation(database.executor));
  if (id === undefined) return 0;
  // A crash may undo the last batches, each together with the word that it was done: they are done again then.
  const rescore = () => database.transaction(executor => rescoreRanges(log, executor, id), { durable: false });
  const scored = await rescore();
  if (scored > 0) return scored;
  // By itself, so that others find batches as soon as they are cut.
  await database.transaction(executor => cutRest(executor, id));
  return rescore();
}

async function rescoreRanges(log: Deps['log'], executor: Executor, organisationId: string): Promise<number> {
  // Held until the end: all scores of the batches are of the version in force.
  const version = await lockRulesetVersion(executor, organisationId, 'share');
  const ruleset = await loadRuleset(log, executor, organisationId, version);
  const reader = createFactsReader(ruleset.facts);
  let scored = 0;
  for (const range of await takeRanges(executor, organisationId)) {
    const { count, pullRequests } = await readRange(executor, organisationId, range, reader);
    scored += count;
    const changed: NewScore[] = [];
    for (const { id, fetchTicket, facts, ...former } of pullRequests) {
      const { score, breakdown } = ruleset.score(facts);
      // The score follows from it.
      if (breakdown === former.breakdown) continue;
      changed.push({ id, fetchTicket, from: former.score, score, breakdown });
    }
    await saveScores(executor, organisationId, version, changed);
    if (range.urlsInDoubt) await followRepositoryNames(executor, organisationId, range);
  }
  return scored;
}
