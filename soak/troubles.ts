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
  /** Pull requests on which GitHub fails until they are healed. */
  const poisoned = new Map<ModelPullRequest, () => void>();
  const broken: (() => void)[] = [];
  const others: (() => void)[] = [];

  const isOwn = ({ variables: { id, repository, ids } }: GithubStandInRequest) => {
    const asked = new Set([id, repository, ...(Array.isArray(ids) ? ids : [])]);
    const sources = pullRequests.map(({ source }) => source);
    return [...organisations.map(each => each.github), ...repositories, ...sources].some(each =>
      asked.has(each.nodeId),
    );
  };
  const isPoisoned = (request: GithubStandInRequest) => [...poisoned.keys()].some(each => naming(each.source)(request));
  const always = (fault: Fault, when: (request: GithubStandInRequest) => boolean) =>
    github.fault(fault, { times: Number.POSITIVE_INFINITY, when });

  // Overtaken answers: some come late, and show an older state.
  for (const milliseconds of [10, 40, 120]) {
    const isLate = (request: GithubStandInRequest) => Math.random() < 0.13 && isOwn(request) && !isPoisoned(request);
    others.push(always({ kind: 'late', milliseconds }, isLate));
  }

  const troubles = {
    poisoned: poisoned as ReadonlyMap<ModelPullRequest, unknown>,
    poison(pullRequest: ModelPullRequest, poison: Poison): void {
      if (poisoned.has(pullRequest)) return;
      const { source } = pullRequest;
      if (poison === 'forbidden') model.forbid(pullRequest);
      poisoned.set(pullRequest, always(poisons[poison]([source.nodeId]), naming(source)));
    },
    /** GitHub no longer fails on any pull request. */
    heal(): void {
      for (const [pullRequest, end] of poisoned) {
        end();
        pullRequest.isForbidden = false;
      }
      poisoned.clear();
    },
    /** GitHub fails on all pages of the pull request's repository. */
    breakRepository({ source }: ModelPullRequest): void {
      model.distrust();
      broken.push(always(htmlError(502), ofRepository(source.repository)));
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
      for (const end of broken.splice(0)) end();
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
