import {
  type Fault,
  type GithubStandInRequest,
  htmlError,
  naming,
  ofRepository,
  pointsUsedUp,
  secondaryLimit,
} from '../test/support/github/faults.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import type { Model, ModelPullRequest } from './model.ts';

type Condition = (request: GithubStandInRequest) => boolean;

/** How GitHub fails on one pull request, whoever asks for it. */
const poisons = {
  '502': () => htmlError(502),
  'too much': nodeIds => ({ kind: 'broken', nodeIds, type: 'RESOURCE_LIMITS_EXCEEDED' }),
  forbidden: nodeIds => ({ kind: 'broken', nodeIds, type: 'FORBIDDEN' }),
} satisfies Record<string, (nodeIds: string[]) => Fault>;
type Poison = keyof typeof poisons;
export const poisonNames = Object.keys(poisons) as Poison[];

/** How GitHub fails for some requests. */
const faults = {
  '500': () => ({ kind: 'reply', status: 500, body: '' }),
  '502': () => htmlError(502),
  'html 503': () => htmlError(503),
  'rate limit': () => secondaryLimit('1'),
  'points used up': () => pointsUsedUp(Math.floor(Date.now() / 1000) + 600),
  reset: () => ({ kind: 'reset' }),
  truncate: () => ({ kind: 'truncate' }),
  delay: () => ({ kind: 'delay', milliseconds: 15 }),
  broken: nodeIds => ({ kind: 'broken', nodeIds }),
  'broken field': nodeIds => ({ kind: 'broken', nodeIds, field: 'files' }),
} satisfies Record<string, (nodeIds: string[]) => Fault>;
type FaultName = keyof typeof faults;
export const faultNames = Object.keys(faults) as FaultName[];

/** How GitHub fails in one history. */
export function createTroubles(github: GithubStandIn, model: Model, repositories: readonly Repository[]) {
  const { organisations, pullRequests } = model;
  const isOwn: Condition = ({ variables: { id, repository, ids } }) =>
    organisations.some(({ github: { nodeId } }) => nodeId === id) ||
    repositories.some(({ nodeId }) => nodeId === repository) ||
    (Array.isArray(ids) &&
      (pullRequests.some(({ source }) => ids.includes(source.nodeId)) ||
        repositories.some(({ nodeId }) => ids.includes(nodeId))));
  const poisoned = new Map<ModelPullRequest, { isHit: Condition; end(): void }>();
  let broken: (() => void)[] = [];
  const others: (() => void)[] = [];
  const always = Number.POSITIVE_INFINITY;
  const isPoisoned: Condition = request => [...poisoned.values()].some(({ isHit }) => isHit(request));

  // Overtaken answers: some come late, and show an older state.
  for (const milliseconds of [10, 40, 120]) {
    const when: Condition = request => Math.random() < 0.13 && isOwn(request) && !isPoisoned(request);
    others.push(github.fault({ kind: 'late', milliseconds }, { times: always, when }));
  }

  const troubles = {
    /** Pull requests on which GitHub fails until they are healed. */
    get poisoned(): ReadonlySet<ModelPullRequest> {
      return new Set(poisoned.keys());
    },
    poison(pullRequest: ModelPullRequest, poison: Poison): void {
      if (poisoned.has(pullRequest)) return;
      const { source } = pullRequest;
      if (poison === 'forbidden') model.forbid(pullRequest);
      const isHit = naming(source);
      const end = github.fault(poisons[poison]([source.nodeId]), { times: always, when: isHit });
      poisoned.set(pullRequest, { isHit, end });
    },
    /** GitHub no longer fails on any pull request. */
    heal(): void {
      for (const [pullRequest, { end }] of poisoned) {
        end();
        pullRequest.isForbidden = false;
      }
      poisoned.clear();
    },
    /** GitHub fails on all pages of the pull request's repository. */
    breakRepository({ source }: ModelPullRequest): void {
      model.distrust();
      broken.push(github.fault(htmlError(502), { times: always, when: ofRepository(source.repository) }));
    },
    /** Fails the next `times` requests. */
    fail(name: FaultName, times: number): void {
      model.distrust();
      const nodeIds = pullRequests.map(({ source }) => source.nodeId);
      others.push(github.fault(faults[name](nodeIds), { times, when: isOwn }));
    },
    usePointsUp(remaining: number): void {
      model.distrust();
      if (github.limit) github.limit.remaining = Math.min(github.limit.remaining, remaining);
    },
    /** Starts an hour with all points, and repairs repositories. */
    settle(): void {
      if (github.limit) github.limit.remaining = github.limit.limit;
      for (const end of broken) end();
      broken = [];
    },
    /** Ends all troubles, late answers included. */
    end(): void {
      troubles.settle();
      troubles.heal();
      for (const end of others.splice(0)) end();
    },
  };
  return troubles;
}
