import { lockRulesetVersion } from '../database/organisations.ts';
import { findOutdatedOrganisation, lockOutdated, saveScores } from '../database/rescoring.ts';
import type { Deps } from '../deps.ts';
import { loadRuleset } from './rulesets.ts';

const batchSize = 500;

/**
 * Scores one batch of pull requests under the ruleset in force whose score is an older one's. Several replicas share
 * the work: each passes over the rows that another holds.
 *
 * @param organisationId undefined: of any organisation that has some
 * @returns how many were scored; 0 where none is left, or others are at the last of them
 */
export async function rescoreBatch({ database, log }: Deps, organisationId?: string): Promise<number> {
  const id = organisationId ?? (await findOutdatedOrganisation(database.executor));
  if (id === undefined) return 0;
  return database.transaction(async executor => {
    // Held until the end: all scores of the batch are of the version in force.
    const version = await lockRulesetVersion(executor, id, 'share');
    const ruleset = await loadRuleset(log, executor, id, version);
    const outdated = await lockOutdated(executor, id, version, batchSize);
    if (outdated.length === 0) return 0;
    const scores = outdated.map(pullRequest => ({ id: pullRequest.id, ...ruleset.score(pullRequest.facts) }));
    await saveScores(executor, id, version, scores);
    return outdated.length;
  });
}
