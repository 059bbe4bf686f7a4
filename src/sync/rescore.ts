import { findOutdatedOrganisation } from '../database/rescore-ranges.ts';
import type { Deps } from '../deps.ts';

/**
 * Scores some batches of pull requests under the rules in force.
 *
 * @param organisationId undefined: any organisation with stale scores
 * @param onFound called if there is something to score
 * @returns how many were scored; 0 if there was nothing to do
 */
export async function rescoreBatch(
  { database, scorer }: Deps,
  organisationId?: string,
  onFound?: () => void,
): Promise<number> {
  const id = organisationId ?? (await findOutdatedOrganisation(database.executor));
  if (id === undefined) return 0;
  onFound?.();
  return scorer.run('rescore', { organisationId: id });
}
