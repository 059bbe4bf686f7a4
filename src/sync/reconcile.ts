import { getOrganisation, type Organisation } from '../database/organisations.ts';
import {
  claimReconciliation,
  findReconciled,
  postponeReconciliation,
  saveReconciled,
} from '../database/reconciliation.ts';
import { confirmNames, saveRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { mostPullRequests } from '../github/client.ts';
import { createPageSize } from '../github/page-size.ts';
import { fullName } from './import-scope.ts';
import { whileRenewing } from './lease.ts';
import { identifyOrganisation, pageRepositories } from './organisation.ts';
import { createPages } from './pages.ts';

/** Seconds until the next try where GitHub or the database failed. */
const retrySeconds = 60;

/** Seconds by which GitHub's clock may be behind the database's. */
const mostClockDifference = 86_400;

/** Seconds after which GitHub shows all changes of a moment: within it there may be more, and answers may lag behind. */
const settlingSeconds = 60;

/**
 * Heals what webhooks missed: compares the repositories of one organisation, and its login, with GitHub. One request
 * tells of a hundred repositories when a pull request of theirs last changed; only those that changed since the last
 * comparison are read, latest change first, down to where it stopped.
 *
 * @returns whether an organisation was due
 */
export async function reconcileOrganisation(deps: Deps): Promise<boolean> {
  const { config, database, log } = deps;
  const comparison = await claimReconciliation(database.executor);
  if (comparison === undefined) return false;
  const organisation = await getOrganisation(database.executor, comparison.organisationId);
  // Jitter keeps organisations that were added together from being compared together.
  let seconds = config.reconcileInterval * (0.9 + 0.2 * Math.random());
  const renew = () => postponeReconciliation(database.executor, comparison);
  try {
    await whileRenewing(renew, log, async () => {
      const identified = await identifyOrganisation(deps, organisation);
      for (let after: string | null = null; ; ) {
        const page = await pageRepositories(deps, identified, after);
        await reconcileRepositories(deps, identified, page);
        if (!page.hasNextPage) break;
        after = page.endCursor;
      }
    });
  } catch (error) {
    seconds = (error instanceof ServiceError && error.retryAfter) || Math.min(retrySeconds, seconds);
    if (!(error instanceof ServiceError)) throw error;
    log.warn({ organisation: organisation.login, seconds, reason: error.message }, 'the comparison with GitHub waits');
  } finally {
    await postponeReconciliation(database.executor, comparison, seconds);
  }
  return true;
}

async function reconcileRepositories(
  deps: Deps,
  organisation: Organisation,
  { items: listed, ticket, repliedAt }: Awaited<ReturnType<typeof pageRepositories>>,
): Promise<void> {
  const { database } = deps;
  const { executor } = database;
  const known = await findReconciled(
    executor,
    organisation.id,
    listed.map(({ githubId }) => githubId),
  );
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
    const { pullRequestsUpdatedAt: changedAt } = repository;
    const since = known.get(repository.githubId) ?? beginningOf(organisation);
    if (changedAt === null || changedAt < since) continue;
    await database.transaction(transaction => saveRepositories(transaction, organisation.id, ticket, [repository]));
    const whole = await reconcileRepository(deps, organisation, repository, since);
    // GitHub's moments are whole seconds: more may happen within the last one, and the last ones are read once more.
    const settledUntil = Math.max(since, Math.min(changedAt + 1, repliedAt - settlingSeconds));
    if (whole) await saveReconciled(executor, organisation.id, repository.githubId, settledUntil);
  }
}

/** In GitHub's seconds, or some earlier. What is older than the organisation here is for `import` to bring in. */
const beginningOf = ({ createdAt }: Organisation) => Math.floor(createdAt.getTime() / 1000) - mostClockDifference;

/** @returns false where some of the pull requests were not even named, and must be asked for again */
async function reconcileRepository(
  deps: Deps,
  organisation: Organisation,
  repository: { nodeId: string },
  since: number,
): Promise<boolean> {
  const syncPage = createPages(deps, organisation, repository, {
    since,
    pageSize: createPageSize(mostPullRequests),
    mostPassedOver: Number.POSITIVE_INFINITY,
  });
  let whole = true;
  for (let after: string | null = null; ; ) {
    const { unnamed, ended, endCursor } = await syncPage(after);
    if (unnamed > 0) whole = false;
    if (ended) return whole;
    after = endCursor;
  }
}
