import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { createClock } from '../test/support/github/world.ts';
import { at } from './kinds.ts';

export const people = ['ada', 'bert', 'carl', 'robot', 'rita'] as const;

export type GithubSide = ReturnType<typeof createGithubSide>;

/**
 * GitHub as one history sees it: three organisations of different sizes and a stranger, five accounts that change, and
 * its own clock. Most steps are about the middle one.
 */
export function createGithubSide(github: GithubStandIn, name: string, startsAt: number) {
  const clock = createClock();
  clock.set(startsAt);
  const middle = github.organisation(`acme-${name}`);
  const small = github.organisation(`other-${name}`);
  const large = github.organisation(`giant-${name}`);
  // The service tracks nothing of the stranger, whatever its login is.
  const stranger = github.organisation(`stranger-${name}`);
  const accounts = {
    ada: middle.member(`ada-${name}`, { name: 'Ada' }),
    bert: middle.member(`bert-${name}`),
    carl: github.account(`carl-${name}`, { name: 'Carl' }),
    robot: github.account(`robot-${name}`, { type: 'Bot' }),
    /** Only reviews. */
    rita: middle.member(`rita-${name}`),
  };
  for (const each of [small, large, stranger]) each.join(accounts.ada);
  const outsider = stranger.member(`eve-${name}`);
  for (const author of [accounts.ada, outsider]) stranger.repository('web').openPullRequest({ author });
  const tracked = [middle, small, large];
  const owners = [...tracked, stranger];
  for (const owner of owners) owner.clock = clock;
  const repositories = [
    middle.repository('web'),
    middle.repository('lib'),
    small.repository('ext'),
    large.repository('mono'),
  ];
  let lags: { end(): void; until: number }[] = [];

  return {
    name,
    accounts,
    middle,
    small,
    large,
    tracked,
    owners,
    /** All that an organisation can have. */
    logins: [...owners.map(({ login }) => login), `free-${name}`],
    repositories,
    /** The number of steps on GitHub until now. */
    turn: 0,
    repositoryAt(place: number) {
      return at(
        repositories.filter(({ removed }) => !removed),
        place,
      );
    },
    now: clock.now,
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
