import { hash } from 'node:crypto';
import {
  type CheckRunTry,
  claimCheckRuns,
  findCheckRunsToPublish,
  readShown,
  type Shown,
  saveCheckRuns,
} from '../database/check-runs.ts';
import { recordOf } from '../database/facts.ts';
import { moveLease } from '../database/lease.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import type { CheckRun } from '../github/check-runs.ts';
import { formatId } from '../ids.ts';
import { factsOf } from '../scoring/facts.ts';
import { nextTry, reasonOf } from './decide-next-try.ts';
import { leaseSeconds, whileRenewing } from './renew-lease.ts';
import { askGithub } from './share-github-points.ts';
import { checkRunSummary, checkRunTitle, maxShownEntries } from './write-check-run.ts';

/** Between two check runs of one pull request. */
const minSeconds = 60;

/** How soon to look again while scores wait for their next try: others may have changed. */
const maxPauseSeconds = 5;

/** Check runs in one request. */
const maxCheckRuns = 20;

/**
 * GitHub allows 80 requests a minute that create content:
 * https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
 */
const secondsForEach = 60 / 80;

/**
 * Shows the scores of one organisation's pull requests on GitHub, as far as they differ from what it shows: one request
 * for up to twenty.
 *
 * @param options `organisationId`: undefined: the one that has waited longest; `onFound` is called if one has a turn
 * @returns whether an organisation had a turn
 */
export async function publishCheckRuns(
  deps: Deps,
  { organisationId, onFound }: { organisationId?: string; onFound?: () => void } = {},
): Promise<boolean> {
  const { database, log } = deps;
  const claimed = await claimCheckRuns(database.executor, leaseSeconds, organisationId);
  if (claimed === undefined) return false;
  onFound?.();
  const { lease, storedVersion } = claimed;
  let outcome: { seconds: number; isDone: boolean } = { seconds: 1, isDone: false };
  try {
    await whileRenewing(database.executor, lease, log, async () => {
      outcome = await publish(deps, await getOrganisation(database.executor, lease.organisationId));
    });
  } finally {
    // If it was turned off meanwhile, the lease is gone, and it stays off.
    const changes = outcome.isDone ? { checksVersion: storedVersion } : {};
    await moveLease(database.executor, lease, outcome.seconds, changes).catch(() => undefined);
  }
  return true;
}

/** @returns the seconds until the organisation's next turn; `isDone` if GitHub shows everything */
async function publish(deps: Deps, organisation: Organisation): Promise<{ seconds: number; isDone: boolean }> {
  const { executor } = deps.database;
  const found = await findCheckRunsToPublish(executor, organisation.id, { minSeconds, limit: maxCheckRuns });
  const due = found.filter(({ seconds }) => seconds === 0);
  const [first] = due;
  if (first === undefined) {
    return { seconds: Math.min(found[0]?.seconds ?? 0, maxPauseSeconds), isDone: found.length === 0 };
  }
  const batch = first.attempts > 0 ? [first] : due.filter(({ attempts }) => attempts === 0);
  const ids = batch.map(({ id }) => id);
  const written = await write(deps, organisation, await readShown(executor, organisation.id, ids));
  const unchanged = written.filter(each => each.shownHash === each.formerHash);
  const changed = written.filter(each => !unchanged.includes(each));
  const save = (some: readonly Written[], resultOf: (each: Written, index: number) => CheckRunTry['result']) =>
    deps.database.transaction(transaction => {
      const tries = some.map((each, index) => ({ ...each.row, result: resultOf(each, index) }));
      return saveCheckRuns(transaction, organisation.id, tries);
    });
  if (unchanged.length > 0)
    await save(unchanged, ({ shownHash, isFinal }) => ({ shownHash, isFinal, isPublished: false }));
  if (changed.length === 0) return { seconds: 0, isDone: false };
  try {
    const runs = changed.map(({ run }) => run);
    const create = (github: Deps['github']) => github.createCheckRuns(organisation, runs);
    const { reply: errors } = await askGithub(deps, organisation, create, { urgency: 'background' });
    await save(changed, ({ shownHash, isFinal, attempts }, index) => {
      const error = errors[index];
      if (error === undefined) return { shownHash, isFinal, isPublished: true };
      logFailure(deps, organisation, error);
      // An owner of the organisation must give the permission on GitHub: trying again does not help.
      const isRefused = error.code === 'github_credentials';
      const next = isRefused
        ? { seconds: null, attempts: attempts + 1 }
        : nextTry({ attempts }, error, { isOwn: true }, Math.random());
      return { ...next, reason: reasonOf(error) };
    });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    // Nothing has failed: the points that are left are for others, or GitHub wants to be left alone.
    if (error.code === 'github_rate_limited') return { seconds: error.retryAfter ?? 60, isDone: false };
    logFailure(deps, organisation, error);
    const chance = Math.random();
    const reason = reasonOf(error);
    await save(changed, each => ({ ...nextTry(each, error, { isOwn: false }, chance), reason }));
  }
  return { seconds: changed.length * secondsForEach, isDone: false };
}

const logFailure = ({ log }: Deps, { login }: Organisation, error: Error) =>
  log.warn({ organisation: login, reason: reasonOf(error) }, 'a score could not be shown on GitHub');

interface Written {
  /** Of what it shows. */
  row: Omit<CheckRunTry, 'result'>;
  run: CheckRun;
  shownHash: string;
  /** Of what GitHub shows now. */
  formerHash: string | null;
  isFinal: boolean;
  attempts: number;
}

/** What GitHub is to show of the scores, by the rules in force. */
async function write(
  { scorer }: Deps,
  { id, rulesetVersion }: Organisation,
  all: readonly Shown[],
): Promise<Written[]> {
  // For rules that came into force since the organisation was read there is the next turn.
  const scored = all.filter(({ pullRequest }) => pullRequest.rulesetVersion <= rulesetVersion);
  const facts = scored.map(({ pullRequest, repository }) => factsOf(recordOf(pullRequest, repository)));
  const input = { organisationId: id, version: rulesetVersion, facts, limit: maxShownEntries };
  const waiting = await scorer.run('findWaiting', input);
  return scored.map(
    ({ pullRequest, repositoryNodeId, formerScore, rowVersion, attempts, ...shown }, index): Written => {
      const { state, score, headSha } = pullRequest;
      const run: CheckRun = {
        repositoryNodeId,
        headSha,
        externalId: formatId('pr', pullRequest.id),
        title: checkRunTitle(score, formerScore),
        summary: checkRunSummary(pullRequest, waiting[index] ?? { entries: [], count: 0 }),
      };
      const row = { pullRequestId: pullRequest.id, rowVersion, rulesetVersion };
      const shownHash = hash('sha256', JSON.stringify(run), 'hex');
      const isFinal = state === 'closed' || state === 'merged';
      return { row, run, shownHash, formerHash: shown.shownHash, isFinal, attempts };
    },
  );
}
