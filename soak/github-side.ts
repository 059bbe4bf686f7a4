import {
  type Fault,
  type GithubStandInRequest,
  htmlError,
  pointsUsedUp,
  secondaryLimit,
} from '../test/support/github/faults.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { createClock } from '../test/support/github/world.ts';
import type { Model } from './model.ts';

export const people = ['ada', 'bert', 'carl', 'robot'] as const;

export type GithubSide = ReturnType<typeof createGithubSide>;

/**
 * GitHub as one history sees it: the organisation that the service tracks and a stranger, of which it tracks nothing,
 * whatever its login is; four accounts; and its own clock.
 */
export function createGithubSide(github: GithubStandIn, name: string, startsAt: number) {
  const clock = createClock();
  clock.set(startsAt);
  const acme = github.organisation(`acme-${name}`);
  const stranger = github.organisation(`stranger-${name}`);
  const accounts = {
    ada: acme.member(`ada-${name}`, { name: 'Ada' }),
    bert: acme.member(`bert-${name}`),
    carl: github.account(`carl-${name}`, { name: 'Carl' }),
    robot: github.account(`robot-${name}`, { type: 'Bot' }),
  };
  stranger.join(accounts.ada);
  const owners = [acme, stranger];
  for (const owner of owners) owner.clock = clock;
  const repositories = [acme.repository('web'), acme.repository('lib'), stranger.repository('ext')];
  let lags: { end(): void; until: number }[] = [];

  return {
    acme,
    accounts,
    owners,
    /** All that an organisation can have. */
    logins: [...owners.map(({ login }) => login), `free-${name}`],
    /** The number of steps on GitHub until now. */
    turn: 0,
    repositories,
    presentRepositories: () => repositories.filter(({ removed }) => !removed),
    tick(seconds: number): void {
      clock.advance(seconds);
      for (const { end, until } of lags) if (until <= clock.now()) end();
      lags = lags.filter(({ until }) => until > clock.now());
    },
    /** For that many seconds, GraphQL keeps showing the pull request, or its whole repository, as it is now. */
    lag(source: PullRequest, whole: boolean, seconds: number): void {
      const lagging = whole ? source.repository : source;
      lagging.lag();
      lags.push({ end: () => lagging.catchUp(), until: clock.now() + seconds });
    },
    catchUp(): void {
      for (const { end } of lags.splice(0)) end();
    },
  };
}

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
