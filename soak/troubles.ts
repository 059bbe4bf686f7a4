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
import type { Model, ModelOrganisation, ModelPullRequest } from './model.ts';
import type { FaultName, Poison } from './steps.ts';

type Condition = (request: GithubStandInRequest) => boolean;

/** How GitHub fails in one history. */
export interface Troubles {
  /** Pull requests on which GitHub fails until they are healed. */
  readonly poisoned: ReadonlySet<ModelPullRequest>;
  poison(pullRequest: ModelPullRequest, poison: Poison): void;
  /** GitHub no longer fails on any pull request. */
  heal(): void;
  /** GitHub fails on all pages of the pull request's repository. */
  breakRepository(pullRequest: ModelPullRequest): void;
  /** Fails the next `times` requests. */
  fail(name: FaultName, times: number): void;
  usePointsUp(remaining: number): void;
  /** Starts an hour with all points, and repairs repositories. */
  settle(): void;
  /** Ends all troubles, late answers included. */
  end(): void;
}

export function createTroubles(
  github: GithubStandIn,
  model: Model,
  organisations: readonly ModelOrganisation[],
  repositories: readonly Repository[],
): Troubles {
  const { pullRequests } = model;
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

  const troubles: Troubles = {
    get poisoned() {
      return new Set(poisoned.keys());
    },
    poison(pullRequest, poison) {
      if (poisoned.has(pullRequest)) return;
      const { source } = pullRequest;
      if (poison === 'forbidden') model.forbid(pullRequest);
      const isHit = naming(source);
      const end = github.fault(poisonOf(poison, source.nodeId), { times: always, when: isHit });
      poisoned.set(pullRequest, { isHit, end });
    },
    heal() {
      for (const [pullRequest, { end }] of poisoned) {
        end();
        pullRequest.isForbidden = false;
      }
      poisoned.clear();
    },
    breakRepository({ source }) {
      model.distrust();
      broken.push(github.fault(htmlError(502), { times: always, when: ofRepository(source.repository) }));
    },
    fail(name, times) {
      model.distrust();
      const nodeIds = pullRequests.map(({ source }) => source.nodeId);
      others.push(github.fault(faultOf(name, nodeIds), { times, when: isOwn }));
    },
    usePointsUp(remaining) {
      model.distrust();
      if (github.limit) github.limit.remaining = Math.min(github.limit.remaining, remaining);
    },
    settle() {
      if (github.limit) github.limit.remaining = github.limit.limit;
      for (const end of broken) end();
      broken = [];
    },
    end() {
      troubles.settle();
      troubles.heal();
      for (const end of others.splice(0)) end();
    },
  };
  return troubles;
}

function poisonOf(poison: Poison, nodeId: string): Fault {
  switch (poison) {
    case '502':
      return htmlError(502);
    case 'too much':
      return { kind: 'broken', nodeIds: [nodeId], type: 'RESOURCE_LIMITS_EXCEEDED' };
    case 'forbidden':
      return { kind: 'broken', nodeIds: [nodeId], type: 'FORBIDDEN' };
  }
}

function faultOf(name: FaultName, nodeIds: string[]): Fault {
  switch (name) {
    case '500':
      return { kind: 'reply', status: 500, body: '' };
    case '502':
      return htmlError(502);
    case 'html 503':
      return htmlError(503);
    case 'rate limit':
      return secondaryLimit('1');
    case 'points used up':
      return pointsUsedUp(Math.floor(Date.now() / 1000) + 600);
    case 'reset':
      return { kind: 'reset' };
    case 'truncate':
      return { kind: 'truncate' };
    case 'delay':
      return { kind: 'delay', milliseconds: 15 };
    case 'broken':
      return { kind: 'broken', nodeIds };
    case 'broken field':
      return { kind: 'broken', nodeIds, field: 'files' };
  }
}
