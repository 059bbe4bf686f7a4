import { recordChanges } from '../database/change-log.ts';
import type { Executor } from '../database/client.ts';
import { renewContentVersion } from '../database/content-versions.ts';
import { createFactsReader } from '../database/facts.ts';
import { getUsableVersion, lockOrganisation } from '../database/organisations.ts';
import {
  finishRange,
  followRepositoryNames,
  isAsRead,
  leaseRanges,
  type NewScore,
  type RescoreRange,
  readRange,
  saveScores,
  splitRemainder,
} from '../database/rescore-ranges.ts';
import { loadRuleset } from './rulesets.ts';
import type { Work } from './work.ts';

/** Seconds that the other replicas leave a batch alone. A killed replica's work must resume within ten. */
const leaseSeconds = 8;

/** After this a batch ends early. One pull request may take as long again. */
const maxScoringMs = 500;

/** A batch with more to save ends early, too: a rule of many entries can write a megabyte for each pull request. */
const maxBreakdownCharacters = 8_000_000;

/**
 * Scores some batches of an organisation's pull requests under the ruleset in force. Several replicas share the work: each
 * leaves alone what another scores.
 *
 * @returns how many were scored; 0 if there was nothing to do
 */
export async function rescore(work: Work, { organisationId: id }: { organisationId: string }): Promise<number> {
  const { database } = work;
  const lease = () => database.transaction(executor => leaseRanges(executor, id, leaseSeconds), { durable: false });
  for (;;) {
    let ranges = await lease();
    if (ranges.length === 0) {
      // In a transaction of its own, so that other replicas find the batches at once.
      await database.transaction(executor => splitRemainder(executor, id));
      ranges = await lease();
    }
    if (ranges.length === 0) return 0;
    const scored = await rescoreRanges(work, id, ranges);
    if (scored > 0) return scored;
  }
}

interface ScoredRange {
  range: RescoreRange;
  scored: number;
  changed: NewScore[];
  /** The first pull request that was not scored. */
  restFromId: string | undefined;
}

/** Scores ranges, or the first of their pull requests. @returns how many were saved; others were discarded */
async function rescoreRanges(work: Work, organisationId: string, ranges: readonly RescoreRange[]): Promise<number> {
  const { database } = work;
  // Read after the lease began: whatever changes these scores from now on replaces the ranges.
  const rulesetVersion = await getUsableVersion(database.executor, organisationId);
  const ruleset = await loadRuleset(work, organisationId, rulesetVersion);
  const reader = createFactsReader(ruleset.facts);
  const deadline = performance.now() + maxScoringMs;
  let characters = 0;
  let isFirst = true;
  const isFull = () => !isFirst && (performance.now() > deadline || characters > maxBreakdownCharacters);
  const scoreRange = async (range: RescoreRange): Promise<ScoredRange> => {
    const result: ScoredRange = { range, scored: 0, changed: [], restFromId: undefined };
    if (isFull()) return { ...result, restFromId: range.fromId };
    for await (const step of readRange(database.executor, organisationId, range, reader, { startsSmall: isFirst })) {
      for (const { id, fetchTicket, facts, ...former } of step) {
        if (isFull()) return { ...result, restFromId: id };
        // Most have nothing to wait for, and a promise for each takes longer than its score.
        const turn = work.turn();
        if (turn !== undefined) await turn;
        const { score, breakdown, reviewScores } = ruleset.score(facts);
        isFirst = false;
        result.scored += 1;
        // The score is the sum of its entries.
        if (!isAsRead(breakdown, former.breakdown) || !isAsRead(reviewScores, former.reviewScores)) {
          result.changed.push({ id, fetchTicket, from: former.score, score, breakdown, reviewScores });
          characters += breakdown.length + (reviewScores?.length ?? 0);
        }
      }
    }
    return result;
  };
  const done: ScoredRange[] = [];
  for (const range of ranges) done.push(await scoreRange(range));
  const save = async (executor: Executor) => {
    // With the lock, new rules replace the ranges before or after this, not between its statements.
    await lockOrganisation(executor, organisationId, 'shared');
    let saved = 0;
    for (const { range, scored, changed, restFromId } of done) {
      if (!(await finishRange(executor, organisationId, range, restFromId))) continue;
      await saveScores(executor, organisationId, rulesetVersion, changed);
      const { fromId, untilId } = range;
      const scoredPart = { fromId, untilId: restFromId ?? untilId };
      const renamed = range.urlsStale ? await followRepositoryNames(executor, organisationId, scoredPart) : [];
      await recordChanges(executor, organisationId, [...changed.map(({ id }) => id), ...renamed], { isRange: true });
      saved += scored;
    }
    if (saved > 0) await renewContentVersion(executor, organisationId);
    return saved;
  };
  // Not durable: a crash may undo the last batches together with the removal of their ranges, so they are done again.
  return database.transaction(save, { durable: false });
}
