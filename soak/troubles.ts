import {
  type Fault,
  type GithubStandInRequest,
  htmlError,
  pointsUsedUp,
  secondaryLimit,
} from '../test/support/github/faults.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import type { GithubSide } from './github-side.ts';
import type { Model } from './model.ts';

/** How GitHub fails for some requests. */
const faults = {
  '500': () => ({ kind: 'reply', status: 500, body: '' }),
  'html 503': () => htmlError(503),
  'rate limit': () => secondaryLimit('1'),
  'points used up': () => pointsUsedUp(Math.floor(Date.now() / 1000) + 600),
  reset: () => ({ kind: 'reset' }),
  truncate: () => ({ kind: 'truncate' }),
  broken: nodeIds => ({ kind: 'broken', nodeIds }),
  'broken field': nodeIds => ({ kind: 'broken', nodeIds, field: 'files' }),
  'too much': nodeIds => ({ kind: 'broken', nodeIds, type: 'RESOURCE_LIMITS_EXCEEDED' }),
} satisfies Record<string, (nodeIds: string[]) => Fault>;
type FaultName = keyof typeof faults;
export const faultNames = Object.keys(faults) as FaultName[];

/** How GitHub fails in one history. From the beginning, some answers come late, and show an older state. */
export function createTroubles(github: GithubStandIn, { pullRequests }: Model, { acme, repositories }: GithubSide) {
  const ends: (() => void)[] = [];
  const isOwn = ({ variables: { id, repository, ids } }: GithubStandInRequest) => {
    const asked = new Set([id, repository, ...(Array.isArray(ids) ? ids : [])]);
    const sources = pullRequests.map(({ source }) => source);
    return [acme, ...repositories, ...sources].some(each => asked.has(each.nodeId));
  };
  const isLate = (request: GithubStandInRequest) => Math.random() < 0.13 && isOwn(request);
  for (const milliseconds of [10, 40, 120]) {
    ends.push(github.fault({ kind: 'late', milliseconds }, { times: Number.POSITIVE_INFINITY, when: isLate }));
  }
  return {
    /** Fails the next `times` requests. */
    fail(name: FaultName, times: number): void {
      const nodeIds = pullRequests.map(({ source }) => source.nodeId);
      ends.push(github.fault(faults[name](nodeIds), { times, when: isOwn }));
    },
    /** Ends all troubles, late answers included. */
    end(): void {
      for (const end of ends.splice(0)) end();
    },
  };
}
