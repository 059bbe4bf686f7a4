import { and, desc, eq, inArray, isNull, type SQL, sql } from 'drizzle-orm';
import type { Caller } from './access-tokens.ts';
import type { Executor } from './client.ts';
import { findOrganisation, organisationGone } from './organisations.ts';
import { auditEvents, organisations, users } from './schema.ts';

export type AuditAction =
  | 'checks.disable'
  | 'checks.enable'
  | 'import'
  | 'member.allow'
  | 'member.erase'
  | 'member.export'
  | 'members.sync'
  | 'organisation.add'
  | 'organisation.remove'
  | 'organisation.settings'
  | 'pull_request.delete'
  | 'pull_request.sync'
  | 'rules.apply'
  | 'rules.suspend'
  | 'token.create'
  | 'token.revoke'
  | 'token.rotate'
  | 'user.add'
  | 'user.remove'
  | 'webhooks.disable'
  | 'webhooks.enable'
  | 'webhooks.retry';

/** The author of a change. */
export interface Actor {
  readonly name: string | SQL;
  /** `x-request-id`; null for a command. */
  readonly requestId: string | null;
}

/** The user who holds the token of the request. */
export const callerOf = ({ organisationId, userId }: Caller, requestId: string): Actor => ({
  name: sql`(select ${users.email} from ${users}
    where ${users.organisationId} = ${organisationId} and ${users.id} = ${userId})`,
  requestId,
});

/**
 * Records a change. Call it in the transaction of the change, while the organisation exists.
 *
 * @param subject what it changes, such as an id, a login or an e-mail address
 * @param id of an event that counts all that are recorded with it; undefined for an event of its own
 */
export async function recordAuditEvent(
  executor: Executor,
  organisationId: string,
  { name, requestId }: Actor,
  action: AuditAction,
  subject: string,
  id?: SQL<number>,
): Promise<void> {
  const [names] = await executor
    .select({
      organisation: organisations.login,
      // The user may have been removed a moment ago, and the token with them.
      actor: sql<string>`coalesce(${name}, 'a removed user')`,
    })
    .from(organisations)
    .where(and(eq(organisations.id, organisationId), isNull(organisations.removedAt)));
  if (names === undefined) throw organisationGone();
  await executor
    .insert(auditEvents)
    .values({ organisationId, ...(id && { id }), ...names, action, subject, requestId })
    .onConflictDoUpdate({
      target: [auditEvents.organisationId, auditEvents.id],
      set: { count: sql`${auditEvents.count} + 1` },
    });
}

/**
 * Records a client's sync. Those of a pull request with one token within a minute are one event with a count: clients
 * can request them without end.
 *
 * @param subject the pull request's id
 */
export async function recordSync(
  executor: Executor,
  caller: Caller,
  requestId: string,
  subject: string,
): Promise<void> {
  // Negative, unlike those of the sequence.
  const id = sql<number>`(-1)::bigint << 63 | hashtextextended(${`${caller.tokenId} ${subject} `} ||
    date_trunc('minute', now()), 0)`;
  const actor = callerOf(caller, requestId);
  await recordAuditEvent(executor, caller.organisationId, actor, 'pull_request.sync', subject, id);
}

/**
 * Earliest first.
 *
 * @param options `login`: only of organisations that have it now, or had it at some event. `since` is in Unix seconds.
 * `limit`: only the latest
 * @returns undefined if no organisation has or had the login
 */
export async function listAuditEvents(
  executor: Executor,
  { login, since, limit }: { login?: string | undefined; since?: number | undefined; limit?: number | undefined },
) {
  const ids = login === undefined ? undefined : await findOrganisationIds(executor, login);
  if (ids?.length === 0) return undefined;
  const latestFirst = executor
    .select()
    .from(auditEvents)
    .where(
      and(
        ids && inArray(auditEvents.organisationId, ids),
        since === undefined ? undefined : sql`${auditEvents.happenedAt} >= to_timestamp(${since})`,
      ),
    )
    .orderBy(desc(auditEvents.happenedAt), desc(auditEvents.id));
  return (await (limit === undefined ? latestFirst : latestFirst.limit(limit))).reverse();
}

async function findOrganisationIds(executor: Executor, login: string): Promise<string[]> {
  const present = await findOrganisation(executor, login);
  const past = await executor
    .selectDistinct({ id: auditEvents.organisationId })
    .from(auditEvents)
    .where(eq(sql`lower(${auditEvents.organisation})`, login.toLowerCase()));
  return [...(present === undefined ? [] : [present.id]), ...past.map(({ id }) => id)];
}
