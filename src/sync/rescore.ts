import { sql } from 'drizzle-orm';
import { createFactsReader } from '../database/facts.ts';
import { lockRulesetVersion } from '../database/organisations.ts';
import { findOutdatedOrganisation, readRange, saveScores, takeRange } from '../database/rescoring.ts';
import type { Deps } from '../deps.ts';
import { loadRuleset } from './rulesets.ts';

/**
 * Scores one batch of pull requests under the ruleset in force. Several replicas share the work: each passes over the
 * ranges that another holds.
 *
 * @param organisationId undefined: of any organisation that has some
 * @returns how many were looked at; 0 where none is left, or others are at the last of them
 */
export async function rescoreBatch({ database, log }: Deps, organisationId?: string): Promise<number> {
  const id = organisationId ?? (await findOutdatedOrganisation(database.executor));
  if (id === undefined) return 0;
  return database.transaction(async executor => {
    // A crash may undo the last batches, each together with the word that it was done: they are done again then.
    await executor.execute(sql`set local synchronous_commit to off`);
    // Held until the end: all scores of the batch are of the version in force.
    const version = await lockRulesetVersion(executor, id, 'share');
    const ruleset = await loadRuleset(log, executor, id, version);
    const reader = createFactsReader(ruleset.facts);
    let pullRequests: Awaited<ReturnType<typeof readRange>> = [];
    while (pullRequests.length === 0) {
      const range = await takeRange(executor, id);
      if (range === undefined) return 0;
      pullRequests = await readRange(executor, id, range, reader);
    }
    const changed = pullRequests.flatMap(pullRequest => {
      const { score, breakdown } = ruleset.score(pullRequest.facts);
      const same = score === pullRequest.score && breakdown === pullRequest.breakdown;
      return same ? [] : [{ ...pullRequest, from: pullRequest.score, score, breakdown }];
    });
    await saveScores(executor, id, version, changed);
    return pullRequests.length;
  });
}
