import type { FailingRequest, SyncRequestCounts } from '../database/backlog.ts';
import type { Organisation } from '../database/organisations.ts';
import { unixSeconds } from '../text/times.ts';

export type Failure = Pick<FailingRequest, 'name' | 'attempts' | 'dueAt' | 'reason'> & { url: string | null };

export const representFailure = ({ name, url, attempts, reason, dueAt }: Failure) => ({
  pull_request: name,
  url,
  attempts,
  reason,
  parked: dueAt === null,
  due_at: unixSeconds(dueAt),
});

/** What keeps the pull requests of an organisation from being up to date. @param suspension the entry of a rule */
export const representHealth = (
  organisation: Organisation,
  suspension: string | null,
  { total, behind, failed, parked }: Pick<SyncRequestCounts, 'total' | 'behind' | 'failed' | 'parked'>,
) => ({
  organisation: organisation.login,
  webhooks_enabled: organisation.webhooksEnabled,
  rules_suspended_by: suspension,
  compared_at: unixSeconds(organisation.comparedAt),
  comparison_failed_at: unixSeconds(organisation.comparisonFailedAt),
  comparison_failure: organisation.comparisonFailure,
  waiting: total,
  behind,
  failing: failed,
  parked,
});
