import { sweepPullRequests } from '../database/background-requests.ts';
import type { Deps } from '../deps.ts';
import { countOrganisationsOnCredential } from './share-github-points.ts';

/** 50 pull requests cost 3 points, so the sweep takes a twentieth of an hour's 5,000. */
export const maxRefetchesPerHour = 4_000;

/** What was fetched within a day is left out, and so are sweeps within a minute: most would find nothing. */
const limits = { minAgeSeconds: 86_400, minPauseSeconds: 60 };

/**
 * Requests refetches of the stored pull requests that were fetched longest ago, for facts that change on GitHub without a
 * webhook. The caller holds the organisation's comparison.
 */
export async function sweep(deps: Deps, organisationId: string): Promise<void> {
  const perHour = maxRefetchesPerHour / (await countOrganisationsOnCredential(deps));
  await deps.database.transaction(each => sweepPullRequests(each, organisationId, { perHour, ...limits }));
}
