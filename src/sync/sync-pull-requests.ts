import { isDeepStrictEqual } from 'node:util';
import type { Executor } from '../database/client.ts';
import { renewContentVersion } from '../database/content-versions.ts';
import { isDatabaseUnavailable } from '../database/driver-errors.ts';
import { readErased } from '../database/erased-people.ts';
import {
  findTombstones,
  lockPullRequests,
  removeTombstones,
  savePullRequests,
} from '../database/fetched-pull-requests.ts';
import { findMembers, followLogins, type Member } from '../database/members.ts';
import { getUsableVersion, lockOrganisation, type Organisation } from '../database/organisations.ts';
import {
  findRepositories,
  needsExclusiveLock,
  type StoredRepository,
  savedRepository,
  saveRepositories,
  saveUntrackedRepositories,
} from '../database/repositories.ts';
import { settleSyncRequests } from '../database/sync-requests.ts';
import { forgetUntracked, rememberUntracked, requestUntrackedOfMembers } from '../database/untracked-pull-requests.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { GithubError, isTransientFailure } from '../github/github-error.ts';
import type { FetchedPullRequest } from '../github/pull-request.ts';
import type { FetchResult } from '../github/reply-entries.ts';
import { formatId } from '../ids.ts';
import type { PullRequestRecord, Reviewer } from '../pull-request.ts';
import { type Facts, factsOf } from '../scoring/facts.ts';
import type { Score } from '../scoring/language/compile.ts';
import { type Answer, catchUpSeconds, type Failure } from './decide-next-try.ts';
import { createIgnore } from './ignore-repositories.ts';
import { askGithub, type Urgency } from './share-github-points.ts';
import { saveAuthors } from './sync-members.ts';

/** What happened to a fetched pull request. */
export type SyncOutcome =
  | 'saved'
  /** A later fetch has been saved already. */
  | 'outdated'
  /** It was deleted here and has not changed on GitHub since, and nobody asks for it to come back. */
  | 'deleted'
  /** Its author is not a member, or its repository belongs to another owner. */
  | 'untracked'
  /** The organisation ignores its repository. */
  | 'ignored';

export type SyncAnswer = Answer & { outcome?: SyncOutcome | undefined };

/**
 * The one way in: fetches pull requests from GitHub in one request, scores them, saves them, and settles the sync
 * requests that they answer. In whatever order fetches end, the stored state is what the latest of them found.
 *
 * @param options `deadline`: for GitHub's replies, by `performance.now()`
 * @returns answers by node id; if the whole request fails, each of them has failed
 */
export async function syncByNodeIds(
  deps: Deps,
  organisation: Organisation,
  nodeIds: readonly string[],
  { urgency = 'now', deadline }: { urgency?: Urgency; deadline?: number } = {},
): Promise<Map<string, SyncAnswer>> {
  const failed = (error: Error, cause: Failure['cause'], hasShownOthers: boolean): Failure => ({
    status: 'failed',
    error,
    cause,
    batchSize: nodeIds.length,
    hasShownOthers,
  });
  const fetch = (github: Deps['github']) => github.fetchPullRequests(organisation, nodeIds, deadline);
  const identityIn = (results: ReadonlyMap<string, FetchResult>) => {
    const { login, nodeId, githubId } = organisation;
    const owners = foundIn(results).map(({ repositoryOwner }) => repositoryOwner);
    const owner = owners.find(one => one.githubId === githubId);
    // Confirming what is known would be a write for each fetch; comparisons do that.
    return owner?.login === login && owner.nodeId === nodeId ? undefined : owner;
  };
  try {
    const { reply: results, ticket } = await askGithub(deps, organisation, fetch, { urgency, identityIn });
    const found = foundIn(results);
    const outcomes = await save(deps, organisation, { organisationId: organisation.id, fetched: found, ticket });
    await settleSyncRequests(deps.database, organisation.id, ticket, found, catchUpSeconds);
    const answerOf = (result: FetchResult): SyncAnswer => {
      if (result.status === 'gone') return result;
      if (result.status === 'found') {
        const { githubId, sourceUpdatedAt } = result.pullRequest;
        return { status: result.status, githubId, sourceUpdatedAt, outcome: outcomes.get(githubId) };
      }
      const isTooMuch = result.error instanceof GithubError && result.error.tooMuch;
      return failed(result.error, isTooMuch ? 'batch' : 'entry', found.length > 0);
    };
    return new Map([...results].map(([nodeId, result]) => [nodeId, answerOf(result)]));
  } catch (error) {
    const failure = failed(error as Error, canBeOnePullRequest(error) ? 'batch' : 'service', false);
    return new Map(nodeIds.map(nodeId => [nodeId, failure]));
  }
}

const foundIn = (results: ReadonlyMap<string, FetchResult>): FetchedPullRequest[] =>
  [...results.values()].flatMap(result => (result.status === 'found' ? [result.pullRequest] : []));

/** Whether one pull request may have made a whole request fail. Others: a limit, a refusal, a database that is gone. */
const canBeOnePullRequest = (error: unknown): boolean =>
  error instanceof ServiceError ? isTransientFailure(error) : error instanceof Error && !isDatabaseUnavailable(error);

/** What one request to GitHub brought. */
interface Fetch {
  organisationId: string;
  fetched: readonly FetchedPullRequest[];
  /** Drawn before it. */
  ticket: number;
}

async function save(deps: Deps, organisation: Organisation, fetch: Fetch): Promise<Map<number, SyncOutcome>> {
  const { database } = deps;
  const { fetched } = fetch;
  const outcomes = new Map<number, SyncOutcome>(fetched.map(({ githubId }) => [githubId, 'untracked']));
  // Each once: an upsert can't touch the same row twice.
  const distinct = [...new Map(fetched.map(pullRequest => [pullRequest.githubId, pullRequest])).values()];
  let own = distinct;
  if (findUntracked(organisation, distinct).length > 0) {
    const untracked = await database.transaction(executor => saveUntracked(executor, { ...fetch, fetched: distinct }));
    for (const { githubId, ignoredBecause } of untracked) {
      if (ignoredBecause !== null) outcomes.set(githubId, 'ignored');
    }
    const setAside = new Set(untracked.map(({ githubId }) => githubId));
    own = distinct.filter(({ githubId }) => !setAside.has(githubId));
  }
  const ofOwn: Fetch = { ...fetch, fetched: own };
  while (own.length > 0) {
    const draft = await drawUp(deps, ofOwn);
    const result = await database.transaction(executor => saveDraft(executor, ofOwn, draft));
    if (result !== undefined) return new Map([...outcomes, ...result]);
  }
  return outcomes;
}

type UntrackedPullRequest = FetchedPullRequest & Pick<StoredRepository, 'ignoredBecause'>;

/** Those whose repository the organisation does not track: it belongs to another owner, or is ignored. */
function findUntracked(organisation: Organisation, fetched: readonly FetchedPullRequest[]): UntrackedPullRequest[] {
  const whyIgnored = createIgnore(organisation);
  return fetched.flatMap((each): UntrackedPullRequest[] => {
    if (!belongsTo(each.repositoryOwner, organisation)) return [{ ...each, ignoredBecause: null }];
    const { repository: name, repositoryIsArchived: isArchived, repositoryIsFork: isFork } = each;
    const ignoredBecause = whyIgnored({ name, isArchived: isArchived ?? false, isFork });
    return ignoredBecause === undefined ? [] : [{ ...each, ignoredBecause }];
  });
}

/**
 * Remembers pull requests whose repository is not tracked: it may come back. Runs in a transaction.
 *
 * @returns those, by the settings under the lock, and by newer answers: both may have changed while GitHub answered
 */
async function saveUntracked(
  executor: Executor,
  { organisationId, fetched, ticket }: Fetch,
): Promise<UntrackedPullRequest[]> {
  const organisation = await lockOrganisation(executor, organisationId, 'shared');
  const stored = await findRepositories(executor, organisationId, repositoryIdsOf(fetched));
  const isTrackedSince = ({ repositoryGithubId }: FetchedPullRequest) => {
    const repository = stored.get(repositoryGithubId);
    return repository !== undefined && repository.leftAt === null && repository.fetchTicket > ticket;
  };
  const untracked = findUntracked(organisation, fetched).filter(each => !isTrackedSince(each));
  // Until the organisation's id is known, its login may be that of another one.
  const known = organisation.githubId === null ? untracked.filter(each => each.ignoredBecause !== null) : untracked;
  const repositories = known.map(each => ({ ...repositoryOf(each), ignoredBecause: each.ignoredBecause }));
  await saveUntrackedRepositories(executor, organisationId, ticket, repositories);
  const isErased = await readErased(executor, organisationId);
  const remembered = known.filter(({ authorGithubId }) => !isErased(authorGithubId));
  await rememberUntracked(executor, organisationId, remembered, { awaitsRepository: true });
  return untracked;
}

/** What is to be saved, and all that it depends on: it is scored before its transaction begins, which may take seconds. */
interface Draft {
  rulesetVersion: number;
  lock: 'shared' | 'exclusive';
  /** Without those of erased people. */
  final: readonly FinalPullRequest[];
  /** In the order of `final`. */
  scores: readonly Score[];
}

/** As it is saved. */
type FinalPullRequest = Omit<FetchedPullRequest, 'reviewers'> & PullRequestRecord;

/** What a pull request to be saved depends on besides GitHub. */
interface Known {
  repositories: ReadonlyMap<number, StoredRepository>;
  /** Of the reviewers, by GitHub id. */
  members: ReadonlyMap<number, Member>;
  isErased: Awaited<ReturnType<typeof readErased>>;
}

async function readKnown(executor: Executor, { organisationId, fetched }: Fetch): Promise<Known> {
  const reviewers = fetched.flatMap(each => each.reviewers.flatMap(({ githubId }) => githubId ?? []));
  return {
    repositories: await findRepositories(executor, organisationId, repositoryIdsOf(fetched)),
    members: await findMembers(executor, organisationId, [...new Set(reviewers)]),
    isErased: await readErased(executor, organisationId),
  };
}

async function drawUp({ database: { executor }, scorer }: Deps, fetch: Fetch): Promise<Draft> {
  const { organisationId, fetched, ticket } = fetch;
  const version = await getUsableVersion(executor, organisationId);
  const known = await readKnown(executor, fetch);
  const final = finalise(fetch, known);
  const facts = final.map(each => factsOf(each));
  const scores: Score[] = [];
  for (const some of splitByReviews(facts)) {
    scores.push(...(await scorer.run('score', { organisationId, version, facts: some })));
  }
  return {
    rulesetVersion: version,
    lock: needsExclusiveLock(known.repositories, ticket, repositoriesOf(fetched)) ? 'exclusive' : 'shared',
    final,
    scores,
  };
}

/** Reviews that one job scores: each may have 8 KB of breakdown. */
const maxReviewsInJob = 2_000;

/** One list, unless they have very many reviews. */
function splitByReviews(facts: readonly Facts[]): Facts[][] {
  const lists: Facts[][] = [];
  let reviews = Number.POSITIVE_INFINITY;
  for (const each of facts) {
    reviews += each.given_reviews?.length ?? 0;
    if (reviews > maxReviewsInJob) {
      lists.push([]);
      reviews = each.given_reviews?.length ?? 0;
    }
    lists.at(-1)?.push(each);
  }
  return lists;
}

/** As they are saved: without people whose data was erased, and with the name that the repository will have. */
const finalise = ({ fetched, ticket }: Fetch, known: Known): FinalPullRequest[] =>
  fetched
    .filter(({ authorGithubId }) => !known.isErased(authorGithubId))
    .map(pullRequest => {
      // A fetch from before a renaming may be saved after it.
      const { name } = savedRepository(known.repositories, ticket, repositoryOf(pullRequest));
      return {
        ...withoutErased(pullRequest, known.isErased),
        reviewers: reviewersOf(pullRequest, known),
        repository: name,
        url: urlOf(pullRequest, name),
      };
    });

/** Members by their id, others without a name: nothing that identifies people is stored unless they are members. */
const reviewersOf = ({ reviewers }: FetchedPullRequest, { members, isErased }: Known): Reviewer[] =>
  reviewers
    .filter(({ githubId }) => !isErased(githubId))
    .map(({ githubId, login, ...reviewer }) => {
      const member = members.get(githubId ?? 0);
      return {
        member: member === undefined ? null : formatId('mem', member.id),
        login: member !== undefined || reviewer.isBot ? login : null,
        ...reviewer,
      };
    });

/**
 * Runs in a transaction.
 *
 * @returns outcomes by GitHub id; undefined if nothing was written, because the rules, a name or the list of erased people
 * have changed since the draft
 */
async function saveDraft(
  executor: Executor,
  fetch: Fetch,
  { rulesetVersion, lock, final, scores }: Draft,
): Promise<Map<number, SyncOutcome> | undefined> {
  const { organisationId, fetched, ticket } = fetch;
  if ((await lockOrganisation(executor, organisationId, lock)).rulesetVersion !== rulesetVersion) return undefined;
  const dependencies = await readKnown(executor, fetch);
  const stored = dependencies.repositories;
  if (lock === 'shared' && needsExclusiveLock(stored, ticket, repositoriesOf(fetched))) return undefined;
  if (!isDeepStrictEqual(finalise(fetch, dependencies), final)) return undefined;
  const githubIds = fetched.map(({ githubId }) => githubId);
  const known = await lockPullRequests(executor, organisationId, githubIds);
  const tombstones = await findTombstones(executor, organisationId, githubIds);
  const isDeleted = ({ githubId, sourceUpdatedAt }: Pick<FetchedPullRequest, 'githubId' | 'sourceUpdatedAt'>) => {
    const tombstone = tombstones.get(githubId);
    return tombstone !== undefined && !(tombstone.ticket < ticket && tombstone.sourceUpdatedAt < sourceUpdatedAt);
  };
  const outcomes = new Map<number, SyncOutcome>(fetched.filter(isDeleted).map(({ githubId }) => [githubId, 'deleted']));
  const kept = fetched.filter(each => !isDeleted(each) && !dependencies.isErased(each.authorGithubId));

  const { ids: authorIds, joined } = await saveAuthors(executor, organisationId, ticket, kept);
  await followLogins(executor, organisationId, ticket, kept.flatMap(namedIn));
  // A stored pull request stays, even if its author has left or their account is gone.
  const memberIdOf = ({ githubId, authorGithubId }: Pick<FetchedPullRequest, 'githubId' | 'authorGithubId'>) =>
    authorIds.get(authorGithubId ?? 0) ?? known.get(githubId)?.memberId;
  const isInTracked = (each: FetchedPullRequest) =>
    (kept.includes(each) && memberIdOf(each) !== undefined) || stored.has(each.repositoryGithubId);
  const inTracked = repositoriesOf(fetched.filter(isInTracked));
  const repositories = await saveRepositories(executor, organisationId, ticket, inTracked, stored);
  const values = final.flatMap((pullRequest, index) => {
    const memberId = memberIdOf(pullRequest);
    const repositoryId = repositories.get(pullRequest.repositoryGithubId)?.id;
    const score = scores[index];
    if (isDeleted(pullRequest) || !memberId || !repositoryId || !score) return [];
    const { breakdown: scoreBreakdown, ...others } = score;
    return [{ ...pullRequest, ...others, scoreBreakdown, repositoryId, memberId, rulesetVersion, fetchTicket: ticket }];
  });
  const { saved, isVisible } = await savePullRequests(executor, organisationId, values, known);
  for (const { githubId } of values) outcomes.set(githubId, saved.has(githubId) ? 'saved' : 'outdated');
  const restored = [...tombstones.keys()].filter(githubId => saved.has(githubId));
  await removeTombstones(executor, organisationId, restored);
  const added = [...saved].filter(githubId => !known.has(githubId));
  await forgetUntracked(executor, organisationId, added);
  const untracked = kept.filter(each => each.authorGithubId !== null && memberIdOf(each) === undefined);
  await rememberUntracked(executor, organisationId, untracked);
  while (await requestUntrackedOfMembers(executor, organisationId, joined));
  // Check runs may be out of date in a repository that is tracked again.
  const mayBeBack = inTracked.some(({ githubId }) => (stored.get(githubId)?.leftAt ?? null) !== null);
  if (saved.size > 0 || mayBeBack) await renewContentVersion(executor, organisationId, { isVisible });
  return outcomes;
}

/** People whose logins are stored with the pull request, besides its author's if that is a member. */
const namedIn = (each: FetchedPullRequest): { githubId: number; login: string }[] =>
  [
    { githubId: each.authorGithubId, login: each.author },
    { githubId: each.mergerGithubId, login: each.mergedBy },
    ...each.assignees.map((login, index) => ({ githubId: each.assigneeGithubIds[index] ?? null, login })),
  ].flatMap(({ githubId, login }) => (githubId === null || login === null ? [] : [{ githubId, login }]));

const repositoryOf = ({ repositoryGithubId, repositoryNodeId, repository }: FetchedPullRequest) => ({
  githubId: repositoryGithubId,
  nodeId: repositoryNodeId,
  name: repository,
});
const repositoriesOf = (fetched: readonly FetchedPullRequest[]) => fetched.map(repositoryOf);
const repositoryIdsOf = (fetched: readonly FetchedPullRequest[]) => fetched.map(each => each.repositoryGithubId);

/** The pull request without other people whose data was erased. */
function withoutErased(
  pullRequest: FetchedPullRequest,
  isErased: Awaited<ReturnType<typeof readErased>>,
): FetchedPullRequest {
  const { assignees, assigneeGithubIds, mergedBy, mergerGithubId } = pullRequest;
  if (![mergerGithubId, ...assigneeGithubIds].some(isErased)) return pullRequest;
  return {
    ...pullRequest,
    assignees: assignees.filter((_, index) => !isErased(assigneeGithubIds[index])),
    mergedBy: isErased(mergerGithubId) ? 'ghost' : mergedBy,
  };
}

/** The pull request's address, with the repository's stored name. */
function urlOf({ url, repository, number }: FetchedPullRequest, name: string): string {
  const end = `/${repository}/pull/${number}`;
  return url.endsWith(end) ? `${url.slice(0, -end.length)}/${name}/pull/${number}` : url;
}

/** By id if it is known, since a login can be given up and taken by others. */
const belongsTo = (owner: FetchedPullRequest['repositoryOwner'], organisation: Organisation): boolean =>
  organisation.githubId === null
    ? owner.login.toLowerCase() === organisation.login.toLowerCase()
    : owner.githubId === organisation.githubId;
