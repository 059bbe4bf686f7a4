import { hash } from 'node:crypto';
import {
  blockGithub,
  countPoints,
  findLimits,
  type Limits,
  type Points,
  saveReply,
} from '../database/github-rate-limits.ts';
import {
  countOrganisations,
  type GithubIdentity,
  type Organisation,
  saveGithubIdentity,
} from '../database/organisations.ts';
import { drawTicket } from '../database/tickets.ts';
import type { Deps } from '../deps.ts';
import type { Github } from '../github/github.ts';
import { GithubError } from '../github/github-error.ts';
import type { RateLimit } from '../github/transport.ts';

/** A hash of the token or of the App's id. Limits belong to it: a new token does not inherit those of the old one. */
export const fingerprintOf = ({ github: { app, token = '' } }: Deps['config']): string =>
  hash('sha256', app?.id ?? token, 'hex');

/** What GitHub's limits apply to: the key of `github_limits`. */
export const credentialOf = (config: Deps['config'], { id }: Pick<Organisation, 'id'>): string =>
  config.github.app === undefined ? fingerprintOf(config) : `${fingerprintOf(config)}:${id}`;

/** How many organisations use the same points: all share those of a token; with an App, each has its own. */
export const countOrganisationsOnCredential = async ({
  config,
  database,
}: Pick<Deps, 'config' | 'database'>): Promise<number> =>
  config.github.app === undefined ? countOrganisations(database.executor) : 1;

/** What points are used for: webhooks and operators' commands (`now`), PUT syncs, or work for which no caller waits. */
export type Urgency = 'now' | 'put' | 'background';

/** The longest wait if GitHub keeps refusing and names no time. */
const maxGuessSeconds = 3_600;

/** The parts of an hour's points that each leaves to what is more urgent. */
const reserves = { now: 0, put: 1 / 20, background: 1 / 10 } satisfies Record<Urgency, number>;

/** Points of this hour that are left for work of the urgency. */
export const pointsLeft = (urgency: Urgency, { limit, remaining }: Pick<Points, 'limit' | 'remaining'>): number =>
  Math.max(0, remaining - limit * reserves[urgency]);

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
  ask: (github: Github) => Promise<Reply>,
  { urgency, identityIn }: { urgency?: Urgency; identityIn?: (reply: Reply) => GithubIdentity | undefined } = {},
): Promise<{ reply: Reply; ticket: number }> {
  const { database, log } = deps;
  // The ticket comes first: what the reply says is at least as new.
  const askWithTicket = async (github: Github) => ({
    ticket: await drawTicket(database.executor),
    reply: await ask(github),
  });
  const answer = await keepToLimits(deps, organisation, askWithTicket, urgency);
  const { ticket, reply } = answer;
  const identity = identityIn?.(reply);
  if (identity !== undefined) {
    const { id, login: before } = organisation;
    const isRenamed = await database.transaction(executor => saveGithubIdentity(executor, id, ticket, identity));
    if (isRenamed) log.info({ organisation: identity.login, before }, 'the organisation has a new login');
  }
  return answer;
}

/**
 * Leaves a reserve to what is more urgent. If organisations share the points, PUT syncs also keep to a share: an
 * organisation gets as many points as it leaves to the others. So one alone can't use them up, however many there are.
 *
 * @returns the limits; their `points` are undefined if those of this hour are not known
 * @throws GithubError `github_rate_limited` if GitHub must not be asked now
 */
export async function requireLimits(
  deps: Pick<Deps, 'config' | 'database'>,
  { id }: Pick<Organisation, 'id'>,
  urgency: Urgency,
): Promise<Limits> {
  const limits = await findLimits(deps.database.executor, credentialOf(deps.config, { id }), id);
  const { secondsBlocked, points } = limits;
  if (secondsBlocked > 0) {
    throw new GithubError('github_rate_limited', "GitHub's rate limit is used up.", {
      action: `Try again in ${secondsBlocked} seconds.`,
      retryAfter: secondsBlocked,
    });
  }
  if (urgency === 'now' || points === undefined) return limits;
  const [remaining, limit, used] = [points.remaining, points.limit, points.used].map(each => each.toLocaleString('en'));
  const refusal = (message: string) => {
    const until = new Date(points.resetAt * 1000).toISOString().slice(11, 16);
    const options = { retryAfter: points.secondsToReset };
    return new GithubError('github_rate_limited', `${message} until ${until} UTC.`, options);
  };
  const left = pointsLeft(urgency, points);
  if (left === 0) {
    const others = urgency === 'put' ? 'webhooks' : 'webhooks and PUT syncs';
    throw refusal(`${remaining} of GitHub's ${limit} points are left: they are kept for ${others}`);
  }
  if (urgency === 'put' && points.used > left && (await countOrganisationsOnCredential(deps)) > 1) {
    throw refusal(
      `This organisation has used ${used} of GitHub's ${limit} points: what is left is kept for webhooks and for PUT syncs of others`,
    );
  }
  return limits;
}

/**
 * Asks GitHub, unless a limit forbids it or the points left are reserved for something more urgent. What GitHub says
 * about its limits is stored for all replicas, and what webhooks and PUT syncs use is counted for their organisation.
 *
 * @throws GithubError `github_rate_limited` with the seconds to wait; until then GitHub is not asked
 */
export async function keepToLimits<Reply>(
  deps: Pick<Deps, 'config' | 'database' | 'github'>,
  organisation: Subject,
  ask: (github: Github) => Promise<Reply>,
  urgency: Urgency = 'now',
): Promise<Reply> {
  const { executor } = deps.database;
  const credential = credentialOf(deps.config, organisation);
  const { points, refusals } = await requireLimits(deps, organisation, urgency);
  let spent = 0;
  let latest: RateLimit | undefined;
  const github = deps.github.metered(({ rateLimit }) => {
    // GitHub counts failed requests, too.
    spent += rateLimit?.cost ?? 1;
    latest = rateLimit ?? latest;
  });
  try {
    const reply = await ask(github);
    await saveReply(executor, credential, latest);
    return reply;
  } catch (error) {
    if (error instanceof GithubError && error.code === 'github_rate_limited') {
      const { retryAfter = 60, retryAfterGuessed: isGuess } = error;
      const seconds = isGuess ? Math.min(maxGuessSeconds, retryAfter * 2 ** refusals) : retryAfter;
      // Requests that are refused at once have read the same number: they count once.
      await blockGithub(executor, credential, seconds, isGuess ? refusals + 1 : 0);
    }
    throw error;
  } finally {
    const hour = latest ?? points;
    if (urgency !== 'background' && hour !== undefined && spent > 0) {
      await countPoints(executor, organisation.id, spent, hour.resetAt);
    }
  }
}
