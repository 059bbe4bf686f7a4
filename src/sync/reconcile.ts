import { moveLease, whileRenewing } from '../database/lease.ts';
import {
  getOrganisation,
  type IdentifiedOrganisation,
  type Organisation,
  updateOrganisation,
} from '../database/organisations.ts';
import {
  areMembersDue,
  claimReconciliation,
  endReconciliation,
  saveComparisonResult,
  saveMembersListed,
} from '../database/reconciliation.ts';
import { maxRefetchesPerHour, sweepPullRequests } from '../database/refetches.ts';
import {
  confirmNames,
  findRepositories,
  findUnlistedRepositories,
  markRepositoriesLeft,
  type RepositoryProgress,
  type StoredRepository,
  saveProgress,
  saveRepositories,
} from '../database/repositories.ts';
import { secondsFromNow } from '../database/statement.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { maxRepositories } from '../github/client.ts';
import { isTransientFailure } from '../github/errors.ts';
import { reasonOf } from './deferral.ts';
import { askGithub, countSharers } from './exchange.ts';
import { fullName } from './import-scope.ts';
import { syncMembers } from './members.ts';
import { identifyOrganisation, pageRepositories, reasonOfRepository } from './organisation.ts';
import { createPageSync, fromCursor } from './pages.ts';

/** After this, the next organisation that is due gets its turn. */
const defaultTurnMs = 20_000;

/** How long until the next try if GitHub or the database failed. What GitHub refuses or does not show waits longer. */
const retrySeconds = 60;

/** How long until the next try of what GitHub refuses or does not show, while RECONCILE_INTERVAL is 0. */
const defaultIntervalSeconds = 900;

/** How far GitHub's clock may be behind the database's. */
const maxClockDifferenceSeconds = 86_400;

/** How long until GitHub surely shows every change of a moment: its answers may lag behind. */
const settlingSeconds = 60;

/**
 * Heals what webhooks missed: compares the repositories of one organisation, its login and its members with GitHub. One
 * request shows for a hundred repositories when a pull request last changed; only what changed since the last
 * comparison is read. A long comparison takes several turns; its place is stored after each page.
 *
 * @param options `turnMs`: at least one page is read. `signal` ends the turn after the page under way.
 * @returns whether an organisation was due
 */
export async function reconcileOrganisation(
  deps: Deps,
  { turnMs = defaultTurnMs, signal }: { turnMs?: number; signal?: AbortSignal } = {},
): Promise<boolean> {
  const { config, log } = deps;
  const { executor } = deps.database;
  const comparison = await claimReconciliation(executor, { periodic: config.reconcileInterval > 0 });
  if (comparison === undefined) return false;
  const organisation = await getOrganisation(executor, comparison.organisationId);
  // Jitter: organisations that were added together are not compared together.
  const interval = (config.reconcileInterval || defaultIntervalSeconds) * (0.9 + 0.2 * Math.random());
  const turnEnd = performance.now() + turnMs;
  const isOver = () => signal?.aborted === true || performance.now() >= turnEnd;
  let wait = Math.min(retrySeconds, interval);
  let isFinished = false;
  let failure: string | undefined;
  const note: Note = reason => {
    failure ??= reason;
  };
  try {
    await whileRenewing(executor, comparison, log, async () => {
      const identified = await identifyOrganisation(deps, organisation);
      const isCompared = await compareRepositories(deps, identified, note, isOver);
      if (isCompared) {
        await tryOrLog(deps, identified, note, 'the members were not compared', () => compareMembers(deps, identified));
        const perHour = maxRefetchesPerHour / (await countSharers(deps));
        await deps.database.transaction(transaction => sweepPullRequests(transaction, identified.id, perHour));
      }
      // Due at once, behind those that are due already.
      else wait = 0;
      isFinished = isCompared;
    });
  } catch (error) {
    failure = reasonOf(error);
    if (!(error instanceof ServiceError)) throw error;
    wait = error.retryAfter ?? (isTransientFailure(error) ? wait : interval);
    const { login } = organisation;
    log.warn(
      { organisation: login, seconds: Math.round(wait), reason: error.text },
      'the comparison with GitHub waits',
    );
  } finally {
    await saveComparisonResult(executor, organisation.id, { isFinished, failure });
    if (isFinished) await endReconciliation(executor, comparison, interval);
    else await moveLease(executor, comparison, secondsFromNow(wait));
  }
  return true;
}

/** Takes down, for operators, why a part of the comparison failed. */
type Note = (reason: string) => void;

/** @returns false if the turn was over before the last repository */
async function compareRepositories(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  note: Note,
  isOver: () => boolean,
): Promise<boolean> {
  const { executor } = deps.database;
  let page = await fromCursor(organisation.reconcileCursor, after => pageRepositories(deps, organisation, after));
  const { ticket } = page;
  for (;;) {
    if (!(await comparePage(deps, organisation, page, note, isOver))) return false;
    const after = page.hasNextPage ? page.endCursor : null;
    await updateOrganisation(executor, organisation.id, { reconcileCursor: after });
    if (after === null) {
      const what = 'repositories that have left were not looked for';
      await tryOrLog(deps, organisation, note, what, () => markLeft(deps, organisation, ticket));
      return true;
    }
    if (isOver()) return false;
    page = await pageRepositories(deps, organisation, after);
  }
}

/** @returns false if the turn was over before the last repository */
async function comparePage(
  deps: Deps,
  organisation: IdentifiedOrganisation,
  { items: listed, failed, ticket, repliedAt }: Awaited<ReturnType<typeof pageRepositories>>,
  note: Note,
  isOver: () => boolean,
): Promise<boolean> {
  const { database, log } = deps;
  const { executor } = database;
  for (const error of failed) note(`A repository was not compared: ${error.text}`);
  const known = await findRepositories(executor, organisation.id, listed);
  const named = listed.map(repository => ({ ...repository, name: fullName(repository) }));
  await database.transaction(async transaction => {
    await confirmNames(transaction, organisation.id, ticket, named);
    await saveRepositories(
      transaction,
      organisation.id,
      ticket,
      named.filter(({ githubId }) => known.has(githubId)),
    );
  });
  for (const repository of named) {
    const { githubId, name, pullRequestsUpdatedAt: changedAt } = repository;
    const stored = known.get(githubId);
    const since = stored?.reconciledAt ?? trackedSince(organisation);
    if (changedAt === null || changedAt < since) continue;
    try {
      await database.transaction(transaction => saveRepositories(transaction, organisation.id, ticket, [repository]));
      // GitHub's times are whole seconds: more may happen within the last one, so the last ones are read again.
      const until = Math.max(since, Math.min(changedAt + 1, repliedAt - settlingSeconds));
      const isDone = await compareRepository(deps, organisation, repository, { since, until }, stored, isOver);
      if (!isDone) return false;
    } catch (error) {
      const reason = await reasonOfRepository(deps, organisation, name, error);
      note(`${name} was not compared: ${reason}`);
      log.warn({ repository: name, reason }, 'a repository was not compared; the next comparison tries again');
      await saveProgress(executor, organisation.id, githubId, { reconcileCursor: null, reconcileUntil: null });
    }
    await updateOrganisation(executor, organisation.id, { reconcileCursor: repository.cursor });
    if (isOver()) return false;
  }
  return true;
}

/** Older changes than the organisation here are for `import`. */
const trackedSince = ({ createdAt }: Organisation) =>
  Math.floor(createdAt.getTime() / 1000) - maxClockDifferenceSeconds;

/**
 * Reads what changed in a repository, latest change first, from where it was interrupted. Changes since the
 * interruption are later than the stored `reconcileUntil`: the next comparison reads them.
 *
 * @param range in Unix seconds: changes from `since` are read, and up to `until` nothing is missing then
 * @returns false if the turn was over before the last page
 */
async function compareRepository(
  deps: Deps,
  organisation: Organisation,
  repository: { githubId: number; nodeId: string; name: string },
  range: { since: number; until: number },
  stored: StoredRepository | undefined,
  isOver: () => boolean,
): Promise<boolean> {
  const { since } = range;
  const save = (progress: RepositoryProgress) =>
    saveProgress(deps.database.executor, organisation.id, repository.githubId, progress);
  const syncPage = createPageSync(deps, organisation, repository, { since, maxSkipped: Number.POSITIVE_INFINITY });
  const start = stored?.reconcileCursor ?? null;
  let until = start === null ? range.until : (stored?.reconcileUntil ?? since);
  let page = await fromCursor(start, syncPage);
  for (;;) {
    // Unnamed pull requests were missed: read this range again next time.
    if (page.unnamed > 0) until = since;
    if (page.ended) {
      await save({ reconciledAt: until, reconcileCursor: null, reconcileUntil: null });
      return true;
    }
    await save({ reconcileCursor: page.endCursor, reconcileUntil: until });
    if (isOver()) return false;
    page = await syncPage(page.endCursor);
  }
}

/** @param ticket of the first page that this turn has read: what an earlier turn listed is asked about last */
async function markLeft(deps: Deps, organisation: IdentifiedOrganisation, ticket: number): Promise<void> {
  const { database, github, log } = deps;
  const unlisted = await findUnlistedRepositories(database.executor, organisation.id, ticket, maxRepositories);
  if (unlisted.length === 0) return;
  const nodeIds = unlisted.map(({ nodeId }) => nodeId);
  const ask = () => github.findRepositoryOwners(organisation, nodeIds);
  const { reply: owners, ticket: askedAt } = await askGithub(deps, organisation, ask, { urgency: 'background' });
  const left = unlisted.filter(({ nodeId }) => owners.has(nodeId) && owners.get(nodeId) !== organisation.githubId);
  const githubIds = left.map(({ githubId }) => githubId);
  for (const repository of await markRepositoriesLeft(database.executor, organisation.id, askedAt, githubIds)) {
    log.info({ organisation: organisation.login, repository }, 'a repository has left the organisation');
  }
}

async function compareMembers(deps: Deps, organisation: IdentifiedOrganisation): Promise<void> {
  const { executor } = deps.database;
  if (!(await areMembersDue(executor, organisation.id))) return;
  const { members } = await syncMembers(deps, organisation);
  await saveMembersListed(executor, organisation.id, members);
}

/** Does a part whose failure leaves the rest of the comparison valid. @param what for the log, if it fails */
async function tryOrLog(
  { log }: Deps,
  { login }: Organisation,
  note: Note,
  what: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code === 'github_rate_limited') throw error;
    note(`${what.charAt(0).toUpperCase()}${what.slice(1)}: ${error.text}`);
    log.warn({ organisation: login, reason: error.text }, `${what}; the next comparison tries again`);
  }
}
