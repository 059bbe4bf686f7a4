import { LRUCache } from 'lru-cache';
import { createBatcher } from '../batching.ts';
import { getOrganisation } from '../database/organisations.ts';
import { findPullRequestReferences, type PullRequestReference } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { notFound } from '../errors.ts';
import { maxPullRequests } from '../github/github.ts';
import { isShared } from './decide-next-try.ts';
import { type SyncAnswer, syncByNodeIds } from './sync-pull-requests.ts';

/** The wait is longer than GitHub takes for most requests, and leaves time for the next one. */
const limits = { maxUnderWay: 1, maxBatchSize: maxPullRequests, maxWaitMs: 2_000 };

/** For GitHub's replies, within the ten seconds in which a caller is promised an answer. */
const timeoutMs = 9_000;

interface Call {
  id: string;
  /** By `performance.now()`. */
  deadline: number;
}

/**
 * @returns a function that fetches one stored pull request again, with a request to GitHub that starts after the call.
 * Simultaneous calls for one organisation share requests. Throws a ServiceError if it is not stored, GitHub does not
 * show it, or the fetch failed.
 */
export function createSyncOnRequest(deps: Deps): (organisationId: string, id: string) => Promise<void> {
  const organisations = new LRUCache<string, (id: string) => Promise<void>>({
    max: 1_000,
    memoMethod: organisationId => createOrganisationSync(deps, organisationId),
  });
  return (organisationId, id) => organisations.memo(organisationId)(id);
}

function createOrganisationSync(deps: Deps, organisationId: string): (id: string) => Promise<void> {
  /** Calls whose fetch has not started: others for the same pull request join them. */
  const waiting = new Map<string, Promise<void>>();
  const sync = createBatcher<Call, void>(limits, calls => {
    const ids = calls.map(({ id }) => id);
    for (const id of ids) waiting.delete(id);
    return syncTogether(deps, organisationId, ids, Math.min(...calls.map(({ deadline }) => deadline)));
  });
  return id => {
    const syncing = waiting.get(id) ?? sync({ id, deadline: performance.now() + timeoutMs });
    waiting.set(id, syncing);
    return syncing;
  };
}

async function syncTogether(
  deps: Deps,
  organisationId: string,
  ids: readonly string[],
  deadline: number,
): Promise<(Error | undefined)[]> {
  const { executor } = deps.database;
  const [organisation, found] = await Promise.all([
    getOrganisation(executor, organisationId),
    findPullRequestReferences(executor, organisationId, ids),
  ]);
  const tracked = [...found.values()].filter(({ ignoredBecause }) => ignoredBecause === null);
  const sync = (some: readonly PullRequestReference[], until: number) => {
    const nodeIds = some.map(({ nodeId }) => nodeId);
    return syncByNodeIds(deps, organisation, nodeIds, { urgency: 'put', deadline: until });
  };
  // Requests for each alone, which may follow a shared one, get the other half of the time.
  const sharedDeadline = tracked.length === 1 ? deadline : (performance.now() + deadline) / 2;
  const answers = tracked.length === 0 ? new Map<string, SyncAnswer>() : await sync(tracked, sharedDeadline);
  const failureTo = async (id: string): Promise<Error | undefined> => {
    const reference = found.get(id);
    if (reference === undefined) return notFound('There is no pull request with this id.');
    if (reference.ignoredBecause !== null) return ignored();
    const answer = answers.get(reference.nodeId);
    // Fetch each alone, all at once: there is no time to search for the one that makes the others fail.
    const isLast = !isShared(answer);
    return failureOf(isLast ? answer : (await sync([reference], deadline)).get(reference.nodeId));
  };
  return Promise.all(ids.map(failureTo));
}

const ignored = () =>
  notFound('The organisation ignores the repository of this pull request; the stored copy is unchanged.');

function failureOf(answer: SyncAnswer | undefined): Error | undefined {
  if (answer?.status === 'failed') return answer.error;
  if (answer?.status !== 'found') {
    return notFound(
      'GitHub no longer shows this pull request to the configured credentials; the stored copy is unchanged.',
      'If the pull request still exists on GitHub, give the credentials access to its repository.',
    );
  }
  const { outcome } = answer;
  if (outcome === 'deleted') return notFound('The pull request was deleted during the sync.');
  if (outcome === 'ignored') return ignored();
  if (outcome === 'untracked') {
    return notFound(
      'The repository of this pull request no longer belongs to the organisation; the stored copy is unchanged.',
    );
  }
  return undefined;
}
