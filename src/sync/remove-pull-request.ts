import { type Actor, recordAuditEvent } from '../database/audit-log.ts';
import type { Database } from '../database/client.ts';
import { renewContentVersion } from '../database/content-versions.ts';
import { deletePullRequest } from '../database/pull-requests.ts';
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
    const url = await deletePullRequest(executor, organisationId, id, ticket);
    if (url === undefined) return false;
    // With its page: nothing stored has the id any more.
    const subject = `${url} (${formatId('pr', id)})`;
    await recordAuditEvent(executor, organisationId, actor, 'pull_request.delete', subject);
    await renewContentVersion(executor, organisationId);
    return true;
  });
}
