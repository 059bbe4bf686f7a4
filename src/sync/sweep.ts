import { sweepPullRequests } from '../database/background-requests.ts';
import type { Deps } from '../deps.ts';
import { countOrganisationsOnCredential } from './share-github-points.ts';

/** 50 pull requests cost 3 points, so the sweep takes a twentieth of an hour's 5,000. */
export const maxRefetchesPerHour = 4_000;

/** What was fetched since then is left out. */
const minAgeSeconds = 86_400;

/** Sweeps are no closer together: most would find nothing. */
const minPauseSeconds = 60;

/**
 * Requests refetches of the stored pull requests that were fetched longest ago, for facts that change on GitHub without a
 * webhook. The caller holds the organisation's comparison.
 */
export async function sweep(deps: Deps, organisationId: string): Promise<void> {
  const perHour = maxRefetchesPerHour / (await countOrganisationsOnCredential(deps));
  const pace = { perHour, minAgeSeconds, minPauseSeconds };
  await deps.database.transaction(transaction => sweepPullRequests(transaction, organisationId, pace));
}
