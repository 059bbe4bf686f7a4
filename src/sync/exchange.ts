import { blockGithub, findLimits, type Limits, saveReply } from '../database/github-limits.ts';
import { type Organisation, saveGithubIdentity } from '../database/organisations.ts';
import { drawTicket } from '../database/tickets.ts';
import type { Deps } from '../deps.ts';
import { GithubError } from '../github/errors.ts';
import type { GithubIdentity } from '../github/organisation.ts';
import type { RateLimit } from '../github/transport.ts';

/** What GitHub's limits apply to: the key of `github_limits`. */
export const credentialOf = ({ github }: Deps['config'], { id }: Pick<Organisation, 'id'>): string =>
  github.app === undefined ? 'token' : `app:${id}`;

/** `background` leaves a reserve of the hour's points to `now`: to webhooks and PUT syncs, which somebody waits for. */
export type Urgency = 'now' | 'background';

/** @param limit points per hour */
export const reserveOf = (limit: number): number => limit / 10;

/** What GitHub is asked about: an organisation, which need not be stored yet. */
type Subject = Pick<Organisation, 'id' | 'login'>;

/**
 * One exchange with GitHub: draws a ticket, keeps to GitHub's limits, asks, and saves the organisation's new login.
 *
 * @param options `identityIn`: what a reply says about the organisation itself
 * @returns `ticket` was drawn before GitHub was asked: of two answers, the one with the higher ticket is newer
 * @throws GithubError as {@link keepToLimits} does
 */
export async function askGithub<Reply>(
  deps: Pick<Deps, 'config' | 'database' | 'github' | 'log'>,
  organisation: Subject,
  ask: () => Promise<Reply>,
  { urgency, identityIn }: { urgency?: Urgency; identityIn?: (reply: Reply) => GithubIdentity | undefined } = {},
): Promise<{ reply: Reply; ticket: number }> {
  const ticket = await drawTicket(deps.database.executor);
  const reply = await keepToLimits(deps, organisation, ask, urgency);
  const identity = identityIn?.(reply);
  if (identity !== undefined) await followIdentity(deps, organisation, ticket, identity);
  return { reply, ticket };
}

/** Saves the ids and the login that GitHub gave the organisation. */
export async function followIdentity(
  { database, log }: Pick<Deps, 'database' | 'log'>,
  { id, login: before }: Subject,
  ticket: number,
  identity: GithubIdentity,
): Promise<void> {
  const isRenamed = await database.transaction(executor => saveGithubIdentity(executor, id, ticket, identity));
  if (isRenamed) log.info({ organisation: identity.login, before }, 'the organisation has a new login');
}

/**
 * Asks GitHub, unless a limit forbids it or the points left are reserved for something more urgent. What GitHub says
 * about its limits is stored for all replicas.
 *
 * @throws GithubError `github_rate_limited` with the seconds to wait; until then GitHub is not asked
 */
export async function keepToLimits<Reply>(
  { config, database, github }: Pick<Deps, 'config' | 'database' | 'github'>,
  organisation: Subject,
  ask: () => Promise<Reply>,
  urgency: Urgency = 'now',
): Promise<Reply> {
  const credential = credentialOf(config, organisation);
  const { secondsBlocked, points } = await findLimits(database.executor, credential);
  if (secondsBlocked > 0) {
    throw new GithubError('github_rate_limited', "GitHub's rate limit is used up.", {
      action: `Try again in ${secondsBlocked} seconds.`,
      retryAfter: secondsBlocked,
    });
  }
  if (urgency === 'background') keepReserve(points);
  let limit: RateLimit | undefined;
  // This may be from another request for the organisation: it is about the same points.
  const stopListening = github.onRequest(request => {
    if (request.organisation === organisation.login) limit = request.rateLimit ?? limit;
  });
  try {
    const reply = await ask();
    await saveReply(database.executor, credential, limit);
    return reply;
  } catch (error) {
    if (error instanceof GithubError && error.code === 'github_rate_limited') {
      await blockGithub(database.executor, credential, error.retryAfterGuessed ? undefined : error.retryAfter);
    }
    throw error;
  } finally {
    stopListening();
  }
}

/** @throws GithubError `github_rate_limited` if only the reserve is left */
function keepReserve(points: Limits['points']): void {
  if (points === undefined || points.remaining > reserveOf(points.limit)) return;
  const [remaining, limit] = [points.remaining, points.limit].map(value => value.toLocaleString('en'));
  const until = new Date(points.resetAt * 1000).toISOString().slice(11, 16);
  throw new GithubError(
    'github_rate_limited',
    `${remaining} of GitHub's ${limit} points are left: they are kept for webhooks and PUT syncs until ${until} UTC.`,
    { retryAfter: points.secondsToReset },
  );
}
