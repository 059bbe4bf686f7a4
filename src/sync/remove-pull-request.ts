import { type Actor, recordAuditEvent } from '../database/audit-log.ts';
import type { Database } from '../database/client.ts';
import { renewContentVersion } from '../database/content-versions.ts';
import { lockOrganisation } from '../database/organisations.ts';
import { deletePullRequests } from '../database/pull-requests.ts';
import { drawTicket } from '../database/tickets.ts';
import { formatId } from '../ids.ts';

/**
 * Deletes a stored pull request. A fetch that began before this, or that finds nothing newer, does not bring it back.
 *
 * @returns false if it is not stored
 */
export async function removePullRequest(
  database: Database,
  organisationId: string,
  id: string,
  actor: Actor,
): Promise<boolean> {
  const ticket = await drawTicket(database.executor);
  return database.transaction(async executor => {
    // A save under way holds this lock shared and ends first: its result is deleted. The next save sees the tombstone.
    await lockOrganisation(executor, organisationId, 'exclusive');
    const [deleted] = await deletePullRequests(executor, organisationId, [id], ticket);
    if (deleted === undefined) return false;
    // With its page: nothing stored has the id any more.
    const subject = `${deleted.url} (${formatId('pr', id)})`;
    await recordAuditEvent(executor, organisationId, actor, 'pull_request.delete', subject);
    await renewContentVersion(executor, organisationId);
    return true;
  });
}
