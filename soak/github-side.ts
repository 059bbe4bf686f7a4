import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { createClock } from '../test/support/github/world.ts';
import { at } from './kinds.ts';

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
    repositoryAt(place: number) {
      const present = repositories.filter(({ removed }) => !removed);
      return at(present, place);
    },
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
    /** Ends all lags. */
    catchUp(): void {
      for (const { end } of lags.splice(0)) end();
    },
  };
}
