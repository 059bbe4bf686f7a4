import { getOrganisation, type Organisation } from '../database/organisations.ts';
import {
  type Comparison,
  claimReconciliation,
  findReconciled,
  postponeReconciliation,
  saveReconciled,
} from '../database/reconciliation.ts';
import { saveRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { mostPullRequests } from '../github/client.ts';
import type { GithubRepository } from '../github/organisation.ts';
import { createPageSize } from '../github/page-size.ts';
import { fullName } from './import-scope.ts';
import { identifyOrganisation, pageRepositories } from './organisation.ts';
import { createPages } from './pages.ts';

/** Seconds until the next try where GitHub or the database failed. */
const retrySeconds = 60;

/** Seconds by which GitHub's clock may be behind the database's. */
const mostClockDifference = 86_400;

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
  try {
    const identified = await identifyOrganisation(deps, organisation);
    for (let after: string | null = null; ; ) {
      await postponeReconciliation(database.executor, comparison);
      const page = await pageRepositories(deps, identified, after);
      await reconcileRepositories(deps, identified, comparison, page.items, page.ticket);
      if (!page.hasNextPage) break;
      after = page.endCursor;
    }
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
  comparison: Comparison,
  listed: readonly GithubRepository[],
  ticket: number,
): Promise<void> {
  const { database } = deps;
  const { executor } = database;
  const known = await findReconciled(
    executor,
    organisation.id,
    listed.map(({ githubId }) => githubId),
  );
  const save = (repositories: readonly GithubRepository[]) =>
    database.transaction(transaction =>
      saveRepositories(
        transaction,
        organisation.id,
        ticket,
        repositories.map(repository => ({ ...repository, name: fullName(repository) })),
      ),
    );
  const renamed = listed.filter(repository => {
    const name = known.get(repository.githubId)?.name;
    return name !== undefined && name !== fullName(repository);
  });
  if (renamed.length > 0) await save(renamed);
  for (const repository of listed) {
    const { pullRequestsUpdatedAt: changedAt } = repository;
    const since = known.get(repository.githubId)?.reconciledAt ?? beginningOf(organisation);
    if (changedAt === null || changedAt < since) continue;
    await save([repository]);
    const whole = await reconcileRepository(deps, organisation, comparison, repository, since);
    // GitHub's moments are whole seconds, and more may happen within the last one of them: it is read once more the
    // next time, and is over only then.
    if (whole) {
      await saveReconciled(executor, organisation.id, repository.githubId, changedAt + (changedAt === since ? 1 : 0));
    }
  }
}

/** In GitHub's seconds, or some earlier. What is older than the organisation here is for `import` to bring in. */
const beginningOf = ({ createdAt }: Organisation) => Math.floor(createdAt.getTime() / 1000) - mostClockDifference;

/** @returns false where some of the pull requests were not even named, and must be asked for again */
async function reconcileRepository(
  deps: Deps,
  organisation: Organisation,
  comparison: Comparison,
  repository: GithubRepository,
  since: number,
): Promise<boolean> {
  const syncPage = createPages(deps, organisation, repository, {
    since,
    pageSize: createPageSize(mostPullRequests),
    mostPassedOver: Number.POSITIVE_INFINITY,
    onRequest: () => postponeReconciliation(deps.database.executor, comparison),
  });
  let whole = true;
  for (let after: string | null = null; ; ) {
    const { unnamed, ended, endCursor } = await syncPage(after);
    if (unnamed > 0) whole = false;
    if (ended) return whole;
    after = endCursor;
  }
}
