import {
  type Fault,
  type GithubStandInRequest,
  htmlError,
  naming,
  ofRepository,
  pagesWith,
  pointsUsedUp,
  secondaryLimit,
} from '../test/support/github/faults.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { isSteady } from './github-side.ts';
import type { Model, ModelOrganisation, ModelPullRequest } from './model.ts';
import type { FaultName, Poison } from './steps.ts';

type Condition = (request: GithubStandInRequest) => boolean;

/** What GitHub does badly in one history. */
export interface Troubles {
  /** Pull requests on which GitHub fails until they are healed. */
  readonly poisoned: ReadonlySet<ModelPullRequest>;
  poison(pullRequest: ModelPullRequest, poison: Poison): void;
  /** GitHub fails on no pull request any more. */
  heal(): void;
  /** GitHub gives no pages of the pull request's repository. */
  breakRepository(pullRequest: ModelPullRequest): void;
  /** For so many requests. */
  fail(name: FaultName, times: number): void;
  usePointsUp(remaining: number): void;
  /** A new hour's points; repositories have pages again. */
  settle(): void;
  /** All is over, late answers too. */
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
    (Array.isArray(ids) && pullRequests.some(({ source }) => ids.includes(source.nodeId)));
  /** What a flood costs is counted. */
  const isOfFlood: Condition = ({ variables: { ids } }) =>
    Array.isArray(ids) && pullRequests.some(({ source }) => isSteady(source) && ids.includes(source.nodeId));
  const poisoned = new Map<ModelPullRequest, { isHit: Condition; end(): void }>();
  let broken: (() => void)[] = [];
  const others: (() => void)[] = [];
  const forGood = Number.POSITIVE_INFINITY;
  const isPoisoned: Condition = request => [...poisoned.values()].some(({ isHit }) => isHit(request));

  // Answers that are overtaken: of every three, one comes late, and tells of what was.
  for (const milliseconds of [10, 40, 120]) {
    const when: Condition = request => Math.random() < 0.13 && isOwn(request) && !isPoisoned(request);
    others.push(github.fault({ kind: 'late', milliseconds }, { times: forGood, when }));
  }

  const troubles: Troubles = {
    get poisoned() {
      return new Set(poisoned.keys());
    },
    poison(pullRequest, poison) {
      if (poisoned.has(pullRequest)) return;
      const { source } = pullRequest;
      if (poison === 'forbidden') model.forbid(pullRequest);
      const isHit: Condition = request => naming(source)(request) || pagesWith(source)(request);
      const end = github.fault(poisonOf(poison, source.nodeId), { times: forGood, when: isHit });
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
      broken.push(github.fault(htmlError(502), { times: forGood, when: ofRepository(source.repository) }));
    },
    fail(name, times) {
      model.distrust();
      const nodeIds = pullRequests.map(({ source }) => source.nodeId);
      const when: Condition = request => isOwn(request) && !isOfFlood(request);
      others.push(github.fault(faultOf(name, nodeIds), { times, when }));
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
