import { blockGithub, findPoints, saveReply, secondsBlocked } from '../database/github-limits.ts';
import type { Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { GithubError } from '../github/errors.ts';
import type { RateLimit } from '../github/transport.ts';

/** What GitHub counts requests by: as `github_limits` has it. */
export const credentialOf = ({ github }: Deps['config'], { id }: Pick<Organisation, 'id'>): string =>
  github.app === undefined ? 'token' : `app:${id}`;

/** `background` leaves {@link reserveOf} the hour's points to `now`: to webhooks and PUT syncs, which somebody waits for. */
export type Urgency = 'now' | 'background';

/** @param limit points of an hour */
export const reserveOf = (limit: number): number => limit / 10;

/**
 * Calls GitHub unless it has asked for patience, or the points that are left are kept for what is more urgent. What GitHub
 * says of its points and patience is remembered for all replicas.
 *
 * @throws GithubError `github_rate_limited` with the seconds to wait, without a call as long as they last
 */
export async function callGithub<Reply>(
  { config, database, github }: Pick<Deps, 'config' | 'database' | 'github'>,
  organisation: Pick<Organisation, 'id' | 'login'>,
  call: () => Promise<Reply>,
  urgency: Urgency = 'now',
): Promise<Reply> {
  const credential = credentialOf(config, organisation);
  const seconds = await secondsBlocked(database, credential);
  if (seconds > 0) {
    throw new GithubError(
      'github_rate_limited',
      `GitHub's rate limit is used up: it may be asked again in ${seconds} seconds.`,
      { retryAfter: seconds },
    );
  }
  if (urgency === 'background') await keepReserve(database, credential);
  let told: RateLimit | undefined;
  // A reply to another call of the organisation at the same moment may come in between: it is about the same points.
  const end = github.onRequest(request => {
    if (request.organisation === organisation.login) told = request.rateLimit ?? told;
  });
  try {
    const reply = await call();
    await saveReply(database.executor, credential, told);
    return reply;
  } catch (error) {
    if (error instanceof GithubError && error.code === 'github_rate_limited') {
      await blockGithub(database.executor, credential, error.retryAfterGuessed ? undefined : error.retryAfter);
    }
    throw error;
  } finally {
    end();
  }
}

/** @throws GithubError `github_rate_limited` if no more points are left than the reserve */
async function keepReserve(database: Deps['database'], credential: string): Promise<void> {
  const points = await findPoints(database, credential);
  if (points === undefined || points.remaining > reserveOf(points.limit)) return;
  const [remaining, limit] = [points.remaining, points.limit].map(value => value.toLocaleString('en'));
  const until = new Date(points.resetAt * 1000).toISOString().slice(11, 16);
  throw new GithubError(
    'github_rate_limited',
    `${remaining} of GitHub's ${limit} points are left: they are kept for webhooks and PUT syncs until ${until} UTC.`,
    { retryAfter: points.secondsToReset },
  );
}
