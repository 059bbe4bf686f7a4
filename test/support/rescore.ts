import { findOutdatedOrganisation } from '../../src/database/rescore-ranges.ts';
import type { Deps } from '../../src/deps.ts';

/** Scores some batches of pull requests: of the organisation, or as the loop does. @returns how many pull requests */
export async function rescoreBatch({ database, scorer }: Deps, organisationId?: string): Promise<number> {
  const id = organisationId ?? (await findOutdatedOrganisation(database.executor));
  return id === undefined ? 0 : scorer.run('rescore', { organisationId: id });
}

/** Scores all that is out of date: of the organisation, or of any. @returns how many pull requests */
export async function rescoreAll(deps: Deps, organisationId?: string): Promise<number> {
  let all = 0;
  for (let scored = -1; scored !== 0; all += scored) scored = await rescoreBatch(deps, organisationId);
  return all;
}
