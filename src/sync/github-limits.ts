import { blockGithub, secondsBlocked, unblockGithub } from '../database/github-limits.ts';
import type { Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { GithubError } from '../github/errors.ts';

/** What GitHub counts requests by: as `github_limits` has it. */
export const credentialOf = ({ github }: Deps['config'], { id }: Pick<Organisation, 'id'>): string =>
  github.app === undefined ? 'token' : `app:${id}`;

/** `background` leaves a reserve of the hour's points to those whom somebody waits for: webhooks and PUT syncs. */
export type Urgency = 'now' | 'background';

/**
 * Calls GitHub unless it has asked for patience, and remembers for all replicas when it does.
 *
 * @throws GithubError `github_rate_limited` with the seconds to wait, without a call while the block lasts
 */
export async function callGithub<Reply>(
  { config, database }: Pick<Deps, 'config' | 'database'>,
  organisation: Pick<Organisation, 'id'>,
  call: () => Promise<Reply>,
  _urgency: Urgency = 'now',
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
  try {
    const reply = await call();
    await unblockGithub(database.executor, credential);
    return reply;
  } catch (error) {
    if (error instanceof GithubError && error.code === 'github_rate_limited') {
      await blockGithub(database.executor, credential, error.retryAfterGuessed ? undefined : error.retryAfter);
    }
    throw error;
  }
}
