import { and, asc, eq, type SQL, sql } from 'drizzle-orm';
import type { Caller } from './access-tokens.ts';
import type { Executor } from './client.ts';
import { auditEvents, organisations, users } from './schema.ts';

export type AuditAction =
  | 'member.erase'
  | 'organisation.add'
  | 'organisation.remove'
  | 'pull_request.delete'
  | 'pull_request.sync'
  | 'rules.apply'
  | 'token.create'
  | 'token.revoke'
  | 'token.rotate'
  | 'user.add'
  | 'user.remove'
  | 'webhooks.disable'
  | 'webhooks.enable';

/** Who does something. */
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
 * @param subject an id, a login or an e-mail address
 */
export async function recordAuditEvent(
  executor: Executor,
  organisationId: string,
  { name, requestId }: Actor,
  action: AuditAction,
  subject: string,
): Promise<void> {
  const [names] = await executor
    .select({
      organisation: organisations.login,
      // The user may have been removed a moment ago, and the token with them.
      actor: sql<string>`coalesce(${name}, 'a removed user')`,
    })
    .from(organisations)
    .where(eq(organisations.id, organisationId));
  if (names === undefined) throw new Error(`organisation ${organisationId} is gone`);
  await executor.insert(auditEvents).values({ organisationId, ...names, action, subject, requestId });
}

export type AuditEvent = typeof auditEvents.$inferSelect;

/** Earliest first. `since` is in Unix seconds. */
export function listAuditEvents(
  executor: Executor,
  { organisation, since }: { organisation?: string | undefined; since?: number | undefined },
): Promise<AuditEvent[]> {
  return executor
    .select()
    .from(auditEvents)
    .where(
      and(
        organisation === undefined
          ? undefined
          : eq(sql`lower(${auditEvents.organisation})`, organisation.toLowerCase()),
        since === undefined ? undefined : sql`${auditEvents.happenedAt} >= to_timestamp(${since})`,
      ),
    )
    .orderBy(asc(auditEvents.happenedAt), asc(auditEvents.id));
}
