import { requestListed } from '../database/background-requests.ts';
import { areMembersDue, claimComparison, endComparison, saveMembersListed } from '../database/comparisons.ts';
import { getOrganisation, type IdentifiedOrganisation, type Organisation } from '../database/organisations.ts';
import {
  confirmNames,
  findRepositories,
  findUnlistedRepositories,
  markRepositoriesLeft,
  saveProgress,
  saveRepositories,
  saveUntrackedRepositories,
} from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { maxPageSize } from '../github/github.ts';
import { isTransientFailure } from '../github/github-error.ts';
import { reasonOf, settlingSeconds } from './decide-next-try.ts';
import { identifyOrganisation, reasonOfRepository } from './identify-organisation.ts';
import { separateIgnored } from './ignore-repositories.ts';
import { listPage, pageRepositories, readPages } from './list-page.ts';
import { leaseSeconds, whileRenewing } from './renew-lease.ts';
import { askGithub } from './share-github-points.ts';
import { sweep } from './sweep.ts';
import { syncMembers } from './sync-members.ts';

/** How long until the next try after a failure of GitHub or the database. */
const retrySeconds = 60;

/** How long until the next try of what GitHub refuses or does not show, while RECONCILE_INTERVAL is 0. */
const defaultIntervalSeconds = 900;

/** How far GitHub's clock may be behind the database's. */
const maxClockDifferenceSeconds = 86_400;

/**
 * Finds what webhooks missed: compares the repositories of one organisation, its login and its members with GitHub. One
 * request shows for a hundred repositories when a pull request last changed. What changed since the last comparison is
 * listed, and requested if it is not stored as listed.
 *
 * @param signal ends the comparison after the page under way; the next one starts again
 * @param onFound called if an organisation is due
 * @returns whether an organisation was due
 */
export async function compareOrganisation(deps: Deps, signal?: AbortSignal, onFound?: () => void): Promise<boolean> {
  const { config, log } = deps;
  const { executor } = deps.database;
  const comparison = await claimComparison(executor, leaseSeconds, { periodic: config.comparisonInterval > 0 });
  if (comparison === undefined) return false;
  onFound?.();
  const organisation = await getOrganisation(executor, comparison.organisationId);
  // Jitter: organisations that were added together are not compared together. Never later than promised.
  const interval = (config.comparisonInterval || defaultIntervalSeconds) * (0.9 + 0.1 * Math.random());
  let wait = Math.min(retrySeconds, interval);
  let isFinished = false;
  let failure: string | undefined;
  let listed = 0;
  const note = (reason: string) => {
    failure ??= reason;
  };
  const count = (repositories: number) => {
    listed += repositories;
  };
  try {
    await whileRenewing(executor, comparison, log, async () => {
      const identified = await identifyOrganisation(deps, organisation);
      const run: Run = { deps, organisation: identified, signal, note, count };
      await compareRepositories(run);
      await tryOrLog(run, 'the members were not compared', () => compareMembers(run));
      await sweep(deps, identified.id);
      isFinished = true;
    });
  } catch (error) {
    if (signal?.aborted) wait = 0;
    else {
      failure = reasonOf(error);
      if (!(error instanceof ServiceError)) throw error;
      wait = error.retryAfter ?? (isTransientFailure(error) ? wait : interval);
      const { login } = organisation;
      log.warn(
        { organisation: login, seconds: Math.round(wait), reason: error.text },
        'the comparison with GitHub waits',
      );
    }
  } finally {
    const next = isFinished ? interval : wait;
    await endComparison(executor, comparison, { next, pace: paceSeconds(listed), isFinished, failure });
  }
  return true;
}

/** A comparison under way. */
interface Run {
  deps: Deps;
  organisation: IdentifiedOrganisation;
  signal: AbortSignal | undefined;
  /** Notes for operators why a part of the comparison failed. */
  note: (reason: string) => void;
  /** Counts repositories that were listed. */
  count: (repositories: number) => void;
}

async function compareRepositories(run: Run): Promise<void> {
  const { deps, organisation } = run;
  let oldest = Number.POSITIVE_INFINITY;
  for await (const page of readPages(after => pageRepositories(deps, organisation, after))) {
    oldest = Math.min(oldest, page.ticket);
    run.count(page.items.length);
    await comparePage(run, page);
  }
  await tryOrLog(run, 'repositories that have left were not looked for', () => markLeft(run, oldest));
}

async function comparePage(
  run: Run,
  { items: listed, failed, ticket, repliedAt }: Awaited<ReturnType<typeof pageRepositories>>,
): Promise<void> {
  const { deps, organisation, signal, note } = run;
  const { database, log } = deps;
  for (const error of failed) note(`A repository was not compared: ${error.text}`);
  const githubIds = listed.map(({ githubId }) => githubId);
  const known = await findRepositories(database.executor, organisation.id, githubIds);
  const sinceOf = ({ githubId }: { githubId: number }) => known.get(githubId)?.comparedAt ?? trackedSince(organisation);
  // Read anew: the settings may have changed since the comparison began.
  const { tracked, ignored } = separateIgnored(await getOrganisation(database.executor, organisation.id), listed);
  const changed = tracked.filter(each => (each.pullRequestsUpdatedAt ?? Number.NEGATIVE_INFINITY) >= sinceOf(each));
  await database.transaction(async transaction => {
    const saved = tracked.filter(each => known.has(each.githubId) || changed.includes(each));
    await saveRepositories(transaction, organisation.id, ticket, saved);
    // An ignored one is confirmed, too, but keeps its name.
    const kept = ignored.map(repository => known.get(repository.githubId) ?? repository);
    await confirmNames(transaction, organisation.id, ticket, [...tracked, ...kept]);
    await saveUntrackedRepositories(transaction, organisation.id, ticket, ignored);
  });
  for (const repository of changed) {
    const { name, pullRequestsUpdatedAt: changedAt } = repository;
    const since = sinceOf(repository);
    try {
      // GitHub's times are whole seconds: more may happen within the last one, so the last ones are read again.
      const until = Math.max(since, Math.min((changedAt ?? since) + 1, repliedAt - settlingSeconds));
      await compareRepository(run, repository, { since, until });
    } catch (error) {
      signal?.throwIfAborted();
      const reason = await reasonOfRepository(deps, organisation, name, error);
      note(`${name} was not compared: ${reason}`);
      log.warn({ repository: name, reason }, 'a repository was not compared; the next comparison tries again');
    }
  }
}

/** `import` finds changes from before the organisation was added here. */
const trackedSince = ({ createdAt }: Organisation) =>
  Math.floor(createdAt.getTime() / 1000) - maxClockDifferenceSeconds;

/**
 * Requests what changed in a repository and is not stored so.
 *
 * @param range in Unix seconds: changes from `since` are listed, and up to `until` nothing is missing then
 */
async function compareRepository(
  { deps, organisation, signal }: Run,
  repository: { githubId: number; nodeId: string; name: string },
  { since, until }: { since: number; until: number },
): Promise<void> {
  const { executor } = deps.database;
  let isComplete = true;
  const readPage = (after: string | null) => {
    signal?.throwIfAborted();
    return listPage(deps, organisation, repository, { since, after });
  };
  for await (const { items, failed } of readPages(readPage)) {
    await requestListed(executor, organisation.id, items, { unlessStored: true });
    isComplete &&= failed.length === 0;
  }
  // What GitHub did not list is looked for again next time.
  const comparedAt = isComplete ? until : since;
  await saveProgress(executor, organisation.id, repository.githubId, { comparedAt });
}

/** @param ticket of the first page of the list */
async function markLeft({ deps, organisation }: Run, ticket: number): Promise<void> {
  const { database, log } = deps;
  const unlisted = await findUnlistedRepositories(database.executor, organisation.id, ticket, maxPageSize);
  if (unlisted.length === 0) return;
  const nodeIds = unlisted.map(({ nodeId }) => nodeId);
  const ask = (github: Deps['github']) => github.findLostRepositories(organisation, nodeIds);
  const { reply: lost, ticket: askedAt } = await askGithub(deps, organisation, ask, { urgency: 'background' });
  const githubIds = unlisted.flatMap(({ nodeId, githubId }) => (lost.has(nodeId) ? [githubId] : []));
  for (const repository of await markRepositoriesLeft(database.executor, organisation.id, askedAt, githubIds)) {
    log.info({ organisation: organisation.login, repository }, 'a repository has left the organisation');
  }
}

/** Each request, for a hundred members or repositories, delays the next list: lists take a small share of the points. */
const paceSeconds = (listed: number) => Math.floor(listed / 100) * 6;

async function compareMembers({ deps, organisation }: Run): Promise<void> {
  const { executor } = deps.database;
  if (!(await areMembersDue(executor, organisation.id))) return;
  const { members } = await syncMembers(deps, organisation);
  await saveMembersListed(executor, organisation.id, paceSeconds(members));
}

/** Does a part that may fail: the rest of the comparison stays valid. @param what for the log, if it fails */
async function tryOrLog({ deps, organisation, note }: Run, what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code === 'github_rate_limited') throw error;
    note(`${what.charAt(0).toUpperCase()}${what.slice(1)}: ${error.text}`);
    deps.log.warn({ organisation: organisation.login, reason: error.text }, `${what}; the next comparison tries again`);
  }
}
